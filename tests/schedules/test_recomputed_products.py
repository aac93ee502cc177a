"""Gradients of attention, written out: a kernel for each set of rows, right in the interpreter, no scores in memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Alloc, Kernel
from loopir.ir.traverse.walk import statements
from schedules.cuda.recomputed_products import recomputed_products

F32, BF16 = "float32", "bfloat16"
SCALE = 0.125


def gradients(shape: tuple[int, ...], rows: int, keys: int, depth: int, *, causal: bool = False) -> lp.Schedule:
    """Of queries, keys and values, from the logarithm of the sum of each row's powers, and the results' gradients.
    If `causal`, powers are a stage by themselves, masked, and of scores with a bias in 16 bits."""
    q, k, v, d, o = (
        lp.placeholder((*shape, n, depth), BF16, name=x) for x, n in zip("QKVDO", (rows, keys, keys, rows, rows))
    )
    of_row = lp.placeholder((*shape, rows, 1), F32, name="L")
    scores = (q @ turned(k)).astype(F32) * SCALE
    if causal:
        scores = scores + lp.placeholder((rows, keys), BF16, name="B").astype(F32)
    p = lp.exp(scores - of_row)
    if causal:
        raw = p
        p = lp.compute(raw.shape, lambda *at: lp.where(at[-1] <= at[-2], raw[*at], 0.0), name="P")
    return lp.Schedule(of_powers(p, q, k, v, d, o))


def of_powers(p: Any, q: Any, k: Any, v: Any, d: Any, o: Any) -> tuple[Any, ...]:
    s = difference(p, v, d, o)
    return s @ k, turned(s) @ q, turned(p.astype(BF16)) @ d


def difference(p: Any, v: Any, d: Any, o: Any) -> Any:
    """The gradient of the scores."""
    mean = lp.sum(o.astype(F32) * d.astype(F32), axis=-1, keepdims=True)
    return (p * ((d @ turned(v)).astype(F32) - mean) * SCALE).astype(BF16)


def turned(x: Any) -> Any:
    return x.transpose(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)


def data(
    shape: tuple[int, ...], rows: int, keys: int, depth: int, *, causal: bool = False
) -> tuple[dict[str, Any], list[Any]]:
    """Arrays by name, and the gradients in float64."""
    rng = np.random.default_rng(0)
    q, k, v, d = (
        (rng.standard_normal((*shape, n, depth)) / 2).astype(ml_dtypes.bfloat16) for n in (rows, keys, keys, rows)
    )
    x, y, z, w = (a.astype(np.float64) for a in (q, k, v, d))
    s = x @ np.swapaxes(y, -1, -2) * SCALE
    bias = rng.standard_normal((rows, keys)).astype(ml_dtypes.bfloat16)
    s = np.where(np.tril(np.ones((rows, keys), bool)), s + bias.astype(np.float64), -np.inf) if causal else s
    total = np.log(np.exp(s).sum(-1, keepdims=True))
    p = np.exp(s - total)
    o = p @ z
    s = p * (w @ np.swapaxes(z, -1, -2) - (o * w).sum(-1, keepdims=True)) * SCALE
    want = [s @ y, np.swapaxes(s, -1, -2) @ x, np.swapaxes(p, -1, -2) @ w]
    of_rows = {"O": o.astype(ml_dtypes.bfloat16), "L": total.astype(np.float32)}
    return {"Q": q, "K": k, "V": v, "D": d, "B": bias, **of_rows}, want


def others(s: lp.Schedule) -> lp.Schedule:
    return schedules.auto(s, "cuda", arch="sm_90a")


@pytest.mark.parametrize(
    ("rows", "keys", "depth", "causal"),
    [(128, 128, 64, False), (130, 70, 24, True)],  # tiles with zeros after rows of 24, after the last row and key
)
def test_the_lowered_nests_are_right(rows: int, keys: int, depth: int, causal: bool) -> None:
    with lp.scheduling_for(lp.machine("sm_90a")):
        s = recomputed_products(gradients((), rows, keys, depth, causal=causal), others)
    assert ("trim" in s.script()) == causal
    some, want = data((), rows, keys, depth, causal=causal)
    got = interpret(lp.lower(s, "cuda")[0], [some[a.buffer.name] for a in s.func.args if a.access != "out"])
    for x, y in zip(got.values(), want, strict=True):
        assert float(np.abs(x.astype(np.float64) - y).max()) < 0.01 * float(np.abs(y).max()) + 0.01


def test_three_kernels_have_no_scores_in_memory() -> None:
    with lp.scheduling_for(lp.machine("sm_90a")):
        s = recomputed_products(gradients((2, 16), 1024, 2048, 96), others)
    found = [*statements(lp.lower(s, "cuda")[0].body)]
    assert sum(isinstance(x, Kernel) for x in found) == 3
    stored = [x.buffer.shape for x in found if isinstance(x, Alloc) and x.buffer.scope == "global"]
    assert [[getattr(n, "value", 0) for n in shape] for shape in stored] == [[2, 16, 1024]]


@pytest.mark.parametrize("written", ["repeated", "a dimension of heads", "summed with the rows"])
def test_heads_that_share_keys_are_summed_after_three_kernels(written: str) -> None:
    b, heads, shared, rows, keys, depth = 2, 4, 2, 136, 72, 64
    q, d, o = (lp.placeholder((b, heads, rows, depth), BF16, name=x) for x in "QDO")
    k, v = (lp.placeholder((b, heads // shared, keys, depth), BF16, name=x) for x in "KV")
    of_row = lp.placeholder((b, heads, rows, 1), F32, name="L")
    if written == "repeated":
        k, v = (lp.repeat(x, shared, axis=1) for x in (k, v))
    else:
        q, d, o, of_row = (x.reshape(b, heads // shared, shared, *x.shape[2:]) for x in (q, d, o, of_row))
        k, v = (x[:, :, None] for x in (k, v))
    p = lp.exp((q @ turned(k)).astype(F32) * SCALE - of_row)
    if written == "summed with the rows":
        s = difference(p, v, d, o)
        of_keys = [lp.einsum("bhgnm,bhgnd->bhmd", x, y) for x, y in ((s, q), (p.astype(BF16), d))]
        made = lp.Schedule((s @ k, *of_keys))
    else:
        of_queries, *of_keys = of_powers(p, q, k, v, d, o)
        shape = (b, heads // shared, shared, keys, depth)
        made = lp.Schedule((of_queries, *(lp.sum(x.reshape(*shape), axis=2) for x in of_keys)))
    with lp.scheduling_for(lp.machine("sm_90a")):
        found = [*statements(lp.lower(recomputed_products(made, others), "cuda")[0].body)]
    assert sum(isinstance(x, Kernel) for x in found) == 5
    stored = [x.buffer.shape for x in found if isinstance(x, Alloc) and x.buffer.scope == "global"]
    assert not any({getattr(n, "value", 0) for n in shape} >= {rows, keys} for shape in stored)


def test_results_too_wide_for_registers_are_kernels_of_their_own() -> None:
    with lp.scheduling_for(lp.machine("sm_90a")):
        s = recomputed_products(gradients((), 128, 128, 192), others)
    found = [*statements(lp.lower(s, "cuda")[0].body)]
    assert sum(isinstance(x, Kernel) for x in found) == 4  # the mean of each row, and each of the results
    assert all(x.buffer.shape != (128, 128) for x in found if isinstance(x, Alloc) and x.buffer.scope == "global")


@pytest.mark.parametrize(
    ("rows", "depth", "told"),
    [(64, 64, "no two blocks"), (1024, 100, "no vectors of 8"), (1024, 264, "more than 256")],
)
def test_refusals(rows: int, depth: int, told: str) -> None:
    with lp.scheduling_for(lp.machine("sm_90a")), pytest.raises(lp.ScheduleError, match=told):
        recomputed_products(gradients((2,), rows, 1024, depth), others)


def test_products_of_products_that_are_no_group_are_refused_in_words() -> None:
    """Gradients of a perceptron; and sums of two elements of one product, of which no loop is the row of both."""
    a, b, c = (lp.placeholder((128, 128), BF16, name=x) for x in "abc")
    hidden = (a @ b).named("hidden")
    taken = lp.relu(hidden).named("taken")
    off = ((taken @ c) - a).named("off")
    back = (off @ turned(c)) * lp.where(hidden > 0.0, 1.0, 0.0).astype(BF16)
    made = lp.Schedule((turned(a) @ back, turned(taken) @ off))
    twice = lp.Schedule(((hidden + turned(hidden)).named("twice") @ c, taken))
    halves = lp.Schedule(((hidden[:, :64] * hidden[:, 64:]).named("halves") @ c[:64], taken))
    with lp.scheduling_for(lp.machine("sm_90a")):
        for s in (made, twice, halves):
            with pytest.raises(lp.ScheduleError):
                recomputed_products(s, others)
