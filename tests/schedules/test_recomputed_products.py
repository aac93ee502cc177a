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
    turn = (*range(len(shape)), len(shape) + 1, len(shape))
    scores = (q @ k.transpose(*turn)).astype(F32) * SCALE
    if causal:
        scores = scores + lp.placeholder((rows, keys), BF16, name="B").astype(F32)
    p = lp.exp(scores - of_row)
    if causal:
        raw = p
        p = lp.compute(raw.shape, lambda *at: lp.where(at[-1] <= at[-2], raw[*at], 0.0), name="P")
    mean = lp.sum(o.astype(F32) * d.astype(F32), axis=-1, keepdims=True)
    s = (p * ((d @ v.transpose(*turn)).astype(F32) - mean) * SCALE).astype(BF16)
    return lp.Schedule((s @ k, s.transpose(*turn) @ q, p.astype(BF16).transpose(*turn) @ d))


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
