"""channels_last: what stands between convolutions has its channels last, all else stays, and so does what it means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopir as lp
from schedules.cuda.channels_last import channels_last

BF = "bfloat16"


def given(name: str, *shape: int) -> Any:
    return lp.placeholder(shape, BF, name=name)


def convolved(x: Any, name: str, channels: int, **options: Any) -> Any:
    return lp.relu(lp.conv2d(x, given(name, channels, x.shape[1], 3, 3), padding=1, **options)).named(f"{name}_relu")


def two(*, pool: bool = False, stride: int = 1) -> lp.Schedule:
    """Two convolutions of 16 channels, a pool between them, perhaps, and what the first one gives added at the end."""
    h = convolved(given("x", 1, 16, 8, 8), "v", 16)
    h = lp.max_pool2d(h, 2) if pool else h
    return lp.Schedule(convolved(h, "w", 16, stride=stride) + (h if stride == 1 else 1.0))


def dims_of(s: lp.Schedule) -> dict[str, tuple[int, ...]]:
    given = {a.buffer.name for a in s.func.args}
    return {b.name: tuple(int(lp.text(n)) for n in b.shape) for b in map(s.buffer, s.buffers) if b.name not in given}


@pytest.mark.parametrize("options", [{}, {"pool": True}, {"stride": 2}])
def test_arrays_between_convolutions_have_their_channels_last_and_mean_the_same(options: dict[str, Any]) -> None:
    s = two(**options)
    made = channels_last(s)
    assert made.stages == s.stages
    held = dims_of(made)
    for name in ("padded", "conv", "v_relu", "padded_1"):
        assert held[name][-1] == 16
        assert held[name] != dims_of(s)[name]
    rng = np.random.default_rng(0)
    arrays = {a.buffer.name: rng.integers(-2, 3, [int(lp.text(n)) for n in a.buffer.shape]).astype("float32")
              for a in s.func.args if a.access == "in"}  # fmt: skip
    want, got = (lp.interpret(x.func, {k: v.copy() for k, v in arrays.items()}, {}) for x in (s, made))
    np.testing.assert_array_equal(want["out"], got["out"])


def test_loops_run_along_what_is_written() -> None:
    made = channels_last(two())
    for stage in made.stages:
        (written,) = (t for t in made.accesses(stage) if t.write)
        free = [x for x in made.loops(stage) if x not in made.reduced(stage)]
        if written.buffer != "out":
            assert [x for d in written.subscripts for x in free if x in d.variables] == free


def test_one_convolution_is_its_recipes_concern() -> None:
    s = lp.Schedule(convolved(given("x", 2, 16, 4, 4), "w", 16))
    assert channels_last(s) is s


def test_channels_that_are_last_stay() -> None:
    made = channels_last(two())
    again = lp.Schedule(made.func)
    assert channels_last(again) is again


def test_products_without_windows_stay() -> None:
    x = given("x", 16, 16)
    s = lp.Schedule(lp.relu(x @ given("v", 16, 16)) @ given("w", 16, 16))
    assert channels_last(s) is s
