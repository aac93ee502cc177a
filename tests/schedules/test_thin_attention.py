"""Attention of which a dimension, or several, have one element: by `auto` and plainly, on both targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir import schedules

WHOLE = slice(None)


def attention(shape: Any, rows: int, keys: int) -> lp.Schedule:
    """softmax(q @ k.T) @ v, where `shape` has what is before and after the rows of an operand."""
    before, depth = shape
    q = lp.placeholder((*before, rows, depth), "float32", name="q")
    k, v = (lp.placeholder((*before, keys, depth), "float32", name=name) for name in "kv")
    scores = q @ (k.transpose(0, 1, 3, 2) if before else k.T)
    last, column = len(before) + 1, (*[WHOLE] * (len(before) + 1), None)
    weights = lp.exp(scores - lp.max(scores, axis=last)[column])
    return lp.Schedule((weights / lp.sum(weights, axis=last)[column]) @ v)


def expected(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(
    ("before", "rows", "keys", "depth"),
    [((), 1, 1, 1), ((), 1, 16, 8), ((1, 2), 4, 1, 8), ((2, 1), 1, 16, 1)],
    ids=["one of all", "one row", "one batch and key", "one head, row and element"],
)
def test_dimensions_of_one_element(before: tuple[int, ...], rows: int, keys: int, depth: int) -> None:
    s = attention((before, depth), rows, keys)
    made = schedules.auto(s, "llvm")
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((*before, n, depth)).astype(np.float32) for n in (rows, keys, keys)]
    np.testing.assert_allclose(made.build("llvm", threads=1)(*given), expected(*given), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(s.build("interpret")(*given), expected(*given), rtol=1e-4, atol=1e-5)
    lp.lower(schedules.auto(s, "cuda", arch="sm_90a"), "cuda")
