"""Attention on a CPU: one loop over blocks, chosen by structure, right for whatever is done to the scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules
from schedules.llvm.product_chains import product_chain

ROWS, KEYS, DEPTH = 64, 512, 32
Score = Callable[[Any, Any, Any], Any]
"""What becomes of a score of a query and a key, given their numbers."""


def naive(shape: tuple[int, ...] = (2,), rows: int = ROWS, keys: int = KEYS, score: Score | None = None) -> lp.Tensor:
    q, k, v = (lp.placeholder((*shape, n, DEPTH), "float32", name=x) for x, n in zip("QKV", (rows, keys, keys)))
    turned = {0: lambda: k.T, 1: lambda: k.transpose(0, 2, 1), 2: lambda: k.transpose(0, 1, 3, 2)}[len(shape)]()
    s = (q @ turned) * DEPTH**-0.5
    if score is not None:
        s = lp.compute((*shape, rows, keys), lambda *at: score(s[*at], at[-2], at[-1]), name="X")
    return lp.softmax(s) @ v


def wanted(q: Any, k: Any, v: Any, score: Score | None = None) -> Any:
    s = q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64) * DEPTH**-0.5
    if score is not None:
        s = score(s, *np.indices(s.shape)[-2:])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def data(shape: tuple[int, ...] = (2,), rows: int = ROWS, keys: int = KEYS) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((*shape, n, DEPTH)).astype(np.float32) for n in (rows, keys, keys)]


def longest(s: lp.Schedule) -> int:
    """The elements of the largest memory for scores, powers and statistics."""
    sizes = {
        b: math.prod(getattr(d, "value", 0) for d in s.buffer(b).shape) for b in s.buffers if b not in ("Q", "K", "V")
    }
    return max(size for b, size in sizes.items() if b.startswith(("matmul", "max", "sum", "t", "X")) and b != OUT)


OUT = "matmul_1"


@pytest.mark.parametrize(("shape", "rows"), [((), 128), ((2,), 64), ((2, 1), 128), ((2, 2), 64)], ids=str)
def test_naive_attention_is_one_loop_of_blocks(shape: tuple[int, ...], rows: int) -> None:
    s = schedules.auto(lp.Schedule(naive(shape, rows)), "llvm")
    assert "rolling_update" in s.script()
    outer = s.loop(s.loops(s.stages[-1])[0])
    threads = math.prod(shape) * rows // 64  # blocks of all batches, if there are several
    assert (outer.kind == "parallel", getattr(outer.extent, "value", 0)) == (True, threads)
    assert longest(s) <= 64 * 128
    some = data(shape, rows)
    np.testing.assert_allclose(s.build("llvm")(*some), wanted(*some), rtol=2e-5, atol=1e-6)


def test_keys_that_lie_the_other_way_round() -> None:
    q, k, v = (
        lp.placeholder(n, "float32", name=x) for x, n in zip("QKV", ((ROWS, DEPTH), (DEPTH, KEYS), (KEYS, DEPTH)))
    )
    s = schedules.auto(lp.Schedule(lp.softmax((q @ k) * DEPTH**-0.5) @ v), "llvm")
    assert "rolling_update" in s.script()
    x, y, z = data(())
    np.testing.assert_allclose(s.build("llvm")(x, y.T.copy(), z), wanted(x, y, z), rtol=2e-5, atol=1e-6)


SCORES: dict[str, tuple[Score, Score]] = {
    "causal": (
        lambda s, i, j: lp.where(j <= i + 448, s, -math.inf), lambda s, i, j: np.where(j <= i + 448, s, -np.inf),
    ),
    "keys from the query on": (
        lambda s, i, j: lp.where(i <= j, s, -math.inf), lambda s, i, j: np.where(i <= j, s, -np.inf),
    ),
    "softcap": (lambda s, i, j: 3.0 * lp.tanh(s / 3.0), lambda s, i, j: 3.0 * np.tanh(s / 3.0)),
    "large": (lambda s, i, j: s * 1e4, lambda s, i, j: s * 1e4),
    "masked by a large number": (
        lambda s, i, j: lp.where(j <= i, s, -1e30), lambda s, i, j: np.where(j <= i, s, -1e30)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCORES)
def test_whatever_is_done_to_the_scores(name: str) -> None:
    ours, numpys = SCORES[name]
    s = schedules.auto(lp.Schedule(naive(score=ours)), "llvm")
    assert "rolling_update" in s.script()
    tolerance = 2e-2 if name == "large" else 2e-5  # scores of 1e4 have 1e-3 of their own
    np.testing.assert_allclose(
        s.build("llvm")(*data()), wanted(*data(), score=numpys), rtol=tolerance, atol=tolerance / 10
    )


@pytest.mark.parametrize(("rows", "keys"), [(63, 512), (64, 500), (64, 128), (1, 512)])
def test_odd_or_short_ones_go_another_way_and_are_right(rows: int, keys: int) -> None:
    s = lp.Schedule(naive(rows=rows, keys=keys))
    assert product_chain(s) is None
    some = data(rows=rows, keys=keys)
    np.testing.assert_allclose(schedules.auto(s, "llvm").build("llvm")(*some), wanted(*some), rtol=2e-5, atol=1e-6)


def test_a_fold_without_a_correction_goes_another_way_and_is_right() -> None:
    """Scores less their mean, squared: of a mean that goes on there is no correction."""
    q, k, v = (lp.placeholder((n, DEPTH), "float32", name=x) for x, n in (("Q", ROWS), ("K", KEYS), ("V", KEYS)))
    s = q @ k.T
    centred = s - s.sum(axis=1, keepdims=True) * (1 / KEYS)
    o = lp.Schedule((centred * centred) @ v)
    assert product_chain(o) is None
    x, y, z = data(())
    one = x.astype(np.float64) @ y.T
    two = (one - one.mean(-1, keepdims=True)) ** 2 @ z
    np.testing.assert_allclose(schedules.auto(o, "llvm").build("llvm")(x, y, z), two, rtol=1e-4, atol=1e-2)
