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


@pytest.mark.parametrize("rows", [512, 600])
def test_queries_keys_and_values_of_one_array(rows: int) -> None:
    packed = lp.placeholder((rows, 3, 2, DEPTH), "float32", name="P")
    q, k, v = (packed[:, n].transpose(1, 0, 2) for n in range(3))
    s = schedules.auto(lp.Schedule(lp.softmax((q @ k.transpose(0, 2, 1)) * DEPTH**-0.5) @ v), "llvm")
    assert "rolling_update" in s.script()
    some = data((2,), rows, rows)
    got = s.build("llvm")(np.ascontiguousarray(np.stack(some).transpose(2, 0, 1, 3)))
    np.testing.assert_allclose(got, wanted(*some), rtol=2e-5, atol=1e-6)


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


@pytest.mark.parametrize(
    ("rows", "keys", "name"), [(1, 513, "large"), (130, 700, "causal from the end"), (64, 512, "softcap")]
)
def test_lengths_that_are_no_whole_blocks(rows: int, keys: int, name: str) -> None:
    ours, numpys = SCORES.get(name) or _masked(keys - rows)
    s = schedules.auto(lp.Schedule(naive((2,), rows, keys, ours)), "llvm")
    assert "rolling_update" in s.script()
    some = data((2,), rows, keys)
    tolerance = 2e-2 if name == "large" else 2e-5
    np.testing.assert_allclose(s.build("llvm")(*some), wanted(*some, score=numpys), rtol=tolerance, atol=tolerance / 10)


def _masked(ahead: int) -> tuple[Score, Score]:
    """Scores of keys up to the query's own, which is so many further."""
    return (
        lambda s, i, j: lp.where(j <= i + ahead, s, -math.inf), lambda s, i, j: np.where(j <= i + ahead, s, -np.inf)
    )  # fmt: skip


def test_lengths_that_are_not_known() -> None:
    n, m = lp.symbol("n", min=1), lp.symbol("m", min=1)
    q, k, v = (lp.placeholder((2, x, DEPTH), "float32", name=y) for x, y in ((n, "Q"), (m, "K"), (m, "V")))
    s = schedules.auto(lp.Schedule(lp.softmax((q @ k.transpose(0, 2, 1)) * DEPTH**-0.5) @ v), "llvm")
    assert "rolling_update" in s.script()
    kernel = s.build("llvm")
    for rows, keys in ((1, 1), (64, 127), (65, 128), (3, 129), (130, 300)):
        some = data((2,), rows, keys)
        np.testing.assert_allclose(kernel(*some), wanted(*some), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 70])
def test_heads_that_share_keys(rows: int) -> None:
    """Columns that are no whole vectors, and powers that the product computes itself."""
    heads, keys, depth = 4, 600, 40
    q, k, v = (
        lp.placeholder((h, n, depth), "float32", name=x)
        for x, h, n in (("Q", heads, rows), ("K", 2, keys), ("V", 2, keys))
    )
    d, j = lp.reduce_axis(depth, name="d"), lp.reduce_axis(keys, name="j")
    s = lp.compute((heads, rows, keys), lambda h, i, x: lp.sum(q[h, i, d] * k[h // 2, x, d], axis=d))
    p = lp.softmax(s * DEPTH**-0.5)
    o = lp.compute((heads, rows, depth), lambda h, i, e: lp.sum(p[h, i, j] * v[h // 2, j, e], axis=j))
    made = schedules.auto(lp.Schedule(o), "llvm")
    assert "rolling_update" in made.script()
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal((h, n, depth)).astype(np.float32) for h, n in ((heads, rows), (2, keys), (2, keys)))
    one, two = np.repeat(y, 2, 0), np.repeat(z, 2, 0)
    got = x.astype(np.float64) @ one.swapaxes(1, 2) * DEPTH**-0.5
    power = np.exp(got - got.max(-1, keepdims=True))
    np.testing.assert_allclose(
        made.build("llvm")(x, y, z), power / power.sum(-1, keepdims=True) @ two, rtol=2e-5, atol=1e-6
    )


def test_short_rows_go_another_way_and_are_right() -> None:
    s = lp.Schedule(naive(rows=64, keys=100))
    assert product_chain(s) is None
    some = data(rows=64, keys=100)
    np.testing.assert_allclose(schedules.auto(s, "llvm").build("llvm")(*some), wanted(*some), rtol=2e-5, atol=1e-6)


def test_rows_that_are_masked_as_a_whole_are_no_numbers_as_in_the_stages() -> None:
    s = schedules.auto(lp.Schedule(naive(score=lambda s, i, j: lp.where(i < 3, -math.inf, s))), "llvm")
    assert "rolling_update" in s.script()
    got = s.build("llvm")(*data())
    assert np.isnan(got[:, :3]).all()
    np.testing.assert_allclose(got[:, 3:], wanted(*data())[:, 3:], rtol=2e-5, atol=1e-6)


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


ROW, KEY = lp.arange(128)[:, None], lp.arange(KEYS)[None, :]
MASKS = {
    "a comparison": lambda: ROW + 64 >= KEY,
    "a negation": lambda: ~(KEY > ROW + 64),
    "a window": lambda: (ROW + 64 >= KEY) & (ROW - KEY < 20),
    "a triangle": lambda: lp.tril(lp.ones((128, KEYS), dtype="bool"), 64),
    "numbers": lambda: lp.tril(lp.ones((128, KEYS), dtype="float32"), 64) != 0,
    "floats": lambda: lp.cast(ROW + 64, "float32") >= lp.cast(KEY, "float32"),
    "a stage": lambda: lp.compute((128, KEYS), lambda i, j: (ROW + 64 >= KEY)[i, j], name="mask"),
}


@pytest.mark.parametrize(
    ("name", "target"), [*((name, "llvm") for name in MASKS), ("a comparison", "cuda"), ("a stage", "cuda")]
)
def test_blocks_that_a_mask_leaves_out_are_skipped_however_it_is_written(name: str, target: str) -> None:
    kind, sizes = "bfloat16" if target == "cuda" else "float32", {"Q": 128, "K": KEYS, "V": KEYS}
    q, k, v = (lp.placeholder((n, 64), kind, name=x) for x, n in sizes.items())
    scores = lp.where(MASKS[name](), q @ k.T, -math.inf)
    s = schedules.auto(lp.Schedule(lp.softmax(scores) @ v), target, **({"arch": "sm_90a"} if target == "cuda" else {}))
    assert ".trim(" in s.script()
    if name == "a window" and target == "llvm":
        arrays = [
            np.random.default_rng(n).standard_normal((x, 64)).astype("f4") for n, x in enumerate((128, KEYS, KEYS))
        ]
        i, j = np.indices((128, KEYS))
        x = np.where((i + 64 >= j) & (i - j < 20), arrays[0].astype("f8") @ arrays[1].T, -np.inf)
        p = np.exp(x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(s.build("llvm")(*arrays), p / p.sum(-1, keepdims=True) @ arrays[2], atol=1e-4)
