"""Reductions that leave NaN out are NumPy's, over any axes, where all are NaN, too."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

import loopir as lp

FOLDS = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"]
VALUES = st.sampled_from([0.0, -1.5, 2.0, 7.0, np.inf, -np.inf, np.nan])


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=15, deadline=None)
@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 4)), elements=VALUES),
    st.sampled_from([None, 0, 1, -1, (0, 1)]), st.booleans(),
)  # fmt: skip
def test_folds_without_nan(a: Any, axis: Any, keepdims: bool) -> None:
    x = lp.placeholder(a.shape, "float64", name="x")
    got = lp.interpret(lp.to_func([getattr(lp, f)(x, axis, keepdims).named(f) for f in FOLDS]), {"x": a})
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for f in FOLDS:
            np.testing.assert_allclose(got[f], getattr(np, f)(a, axis=axis, keepdims=keepdims), err_msg=f)
        sums = lp.Schedule(lp.nancumsum(x, 1)).build("interpret")(a)
        np.testing.assert_allclose(sums, np.nancumsum(a, 1))


def test_places_of_extremes_and_integers() -> None:
    a = np.array([[np.nan, 2.0, 5.0], [1.0, np.nan, -3.0]], np.float32)
    x, n = lp.placeholder((2, 3), "float32", name="x"), lp.placeholder((3,), "int32", name="n")
    made = [lp.nanargmax(x, 1).named("most"), lp.nanargmin(x, 1).named("least"), lp.nanmax(n).named("m")]
    got = lp.interpret(lp.to_func([*made, lp.nanmean(n).named("mean")]), {"x": a, "n": np.array([3, 1, 2], np.int32)})
    assert got["most"].tolist() == [2, 0]
    assert got["least"].tolist() == [1, 2]
    assert got["m"].dtype == np.int32
    assert (got["m"], got["mean"]) == (3, 2.0)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_nan_and_infinities_become_numbers(dtype: str) -> None:
    a = np.array([np.nan, np.inf, -np.inf, 1.5], dtype)
    x = lp.placeholder((4,), dtype, name="x")
    got = lp.Schedule([lp.nan_to_num(x), lp.nan_to_num(x, 1.0, posinf=2.0, neginf=-2.0)]).build("interpret")(a)
    np.testing.assert_array_equal(got[0], np.nan_to_num(a))
    np.testing.assert_array_equal(got[1], np.nan_to_num(a, nan=1.0, posinf=2.0, neginf=-2.0))
