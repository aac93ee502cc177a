"""sort, argsort and topk are NumPy's stable ones, on rows with equal elements and NaN."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp

NUMBERS = st.lists(st.sampled_from([0.0, -1.5, 2.0, 7.0, float("inf"), float("nan")]), min_size=2, max_size=6)


def run(*results: Any, **arrays: Any) -> Any:
    return lp.interpret(lp.to_func(list(results)), arrays)


@settings(max_examples=12, deadline=None)
@given(NUMBERS, st.booleans(), st.booleans())
def test_rows_are_sorted_as_numpy_sorts_them(row: list[float], descending: bool, columns: bool) -> None:
    a = np.array([row, row[::-1]], np.float32)
    axis = 0 if columns else 1
    x = lp.placeholder(a.shape, "float32", name="x")
    got = run(lp.sort(x, axis, descending).named("s"), lp.argsort(x, axis, descending).named("i"), x=a)
    keys = np.where(np.isnan(a), np.inf, a), np.isnan(a)  # NaN above infinity, and equal to NaN
    ranks = np.unique(np.stack([keys[1], keys[0]]).reshape(2, -1), axis=1, return_inverse=True)[1].reshape(a.shape)
    order = np.argsort(-ranks if descending else ranks, axis=axis, kind="stable")
    np.testing.assert_array_equal(got["i"], order)
    np.testing.assert_array_equal(got["s"], np.take_along_axis(a, order, axis))


def test_topk_gives_values_and_places() -> None:
    a = np.array([[3, 1, 3, 2]], np.int32)
    x = lp.placeholder(a.shape, "int32", name="x")
    values, at = lp.topk(x, 3)
    got = run(values.named("v"), at.named("i"), x=a)
    assert got["v"].tolist() == [[3, 3, 2]]
    assert got["i"].tolist() == [[0, 2, 3]]
    smallest = run(lp.topk(x, 2, largest=False)[0].named("v"), x=a)
    assert smallest["v"].tolist() == [[1, 2]]


def test_what_cannot_be_sorted_is_refused() -> None:
    with pytest.raises(lp.ExprError, match="k=5; it is from 0 to the size along the axis, 4"):
        lp.topk(lp.placeholder((4,), "float32", name="x"), 5)
    with pytest.raises(lp.ExprError, match="which has no dimension to sort along"):
        lp.sort(lp.placeholder((), "float32", name="x"))
