"""normal_form: what is read rounded is stored rounded, merged heads lie side by side, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np

import loopir as lp
import schedules
from schedules.normal_form import normal_form

BF = "bfloat16"


def given(name: str, *shape: int) -> Any:
    return lp.placeholder(shape, BF, name=name)


def heads(x: Any) -> Any:
    return lp.transpose(lp.reshape(x, (8, 2, 4)), (1, 0, 2))


def attention(weights: Any = lp.softmax) -> lp.Schedule:
    x = given("x", 8, 8)
    q, k, v = (heads(x @ given(name, 8, 8)) for name in "qkv")
    out = weights((q @ lp.transpose(k, (0, 2, 1))).astype("float32")).astype(BF) @ v
    return lp.Schedule(lp.reshape(lp.transpose(out, (1, 0, 2)), (8, 8)) @ given("o", 8, 8))


def test_what_is_read_rounded_is_stored_rounded_and_heads_lie_side_by_side() -> None:
    s = normal_form(attention())
    held = {b.name: (b.dtype.name, [lp.text(d) for d in b.shape]) for b in map(s.buffer, s.buffers)}
    rounded = [shape for name, (dtype, shape) in held.items() if name.startswith("rounded") and dtype == BF]
    assert len(rounded) == 5
    (merged,) = {t.text for t in s.accesses(s.stages[-2]) if t.buffer.startswith("rounded") and not t.write}
    assert "//" not in merged


def test_it_means_the_same() -> None:
    s = attention()
    rng = np.random.default_rng(0)
    arrays = {a.buffer.name: rng.integers(-2, 3, (8, 8)).astype("float32") for a in s.func.args if a.access == "in"}
    want, got = (lp.interpret(x.func, {k: v.copy() for k, v in arrays.items()}, {}) for x in (s, normal_form(s)))
    np.testing.assert_array_equal(want["out"], got["out"])


def test_a_program_with_nothing_to_narrow_stays() -> None:
    x = lp.placeholder((8, 8), "float32", name="x")
    s = lp.Schedule(lp.relu(x @ x))
    assert normal_form(s) is s


def test_alike_layers_take_the_same_steps() -> None:
    x = given("x", 8, 8)
    for n in range(3):
        h = x @ given(f"w{n}", 8, 8)
        x = (h * lp.sum(h, axis=1, keepdims=True)).named(f"layer{n}")
    s = normal_form(lp.Schedule(x))
    assert sum(name.startswith("rounded") for name in s.buffers) == 3


def test_a_plan_of_it_is_loaded_and_means_the_same() -> None:
    """With relu for softmax and small integers no sum is rounded, so that its order makes no difference."""
    s = attention(lp.relu)
    p = schedules.plan(s, "cuda", arch="sm_90a", fuel=2)
    made = schedules.load(s, p.json()).apply()
    assert made == p.apply()
    rng = np.random.default_rng(1)
    arrays = {a.buffer.name: rng.integers(-1, 2, (8, 8)).astype("float32") for a in s.func.args if a.access == "in"}
    want, got = (lp.interpret(x.func, {k: v.copy() for k, v in arrays.items()}, {}) for x in (s, made))
    np.testing.assert_array_equal(got["out"], want["out"])


def test_what_is_stored_in_16_bits_is_copied_no_second_time() -> None:
    pooled = lp.max_pool2d(given("x", 2, 4, 8, 8), 2).named("pooled")
    s = lp.Schedule([lp.relu(pooled).named("a"), (pooled * pooled).named("b")])
    assert normal_form(s) is s
