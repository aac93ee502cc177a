"""Grids, flat indices, slopes, integrals and histograms are NumPy's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp


def run(results: list[Any], **arrays: Any) -> list[Any]:
    got = lp.interpret(lp.to_func([r.named(f"r{n}") for n, r in enumerate(results)]), arrays)
    return [got[f"r{n}"] for n in range(len(results))]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.sampled_from(["xy", "ij"]))
def test_grids_and_flat_indices(shape: list[int], indexing: Any) -> None:
    vectors = [np.arange(n) * 10 for n in shape]
    made = lp.meshgrid(*(lp.arange(n) * 10 for n in shape), indexing=indexing)
    flat = np.arange(np.prod(shape))
    at = lp.placeholder(flat.shape, "int64", name="at")
    each = lp.unravel_index(at, shape)
    got = run([*made, *each, lp.ravel_multi_index(each, shape)], at=flat)
    want = [*np.meshgrid(*vectors, indexing=indexing), *np.unravel_index(flat, shape), flat]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 5), st.integers(2, 4), st.sampled_from([1.0, 0.5]))
def test_slopes_and_integrals(n: int, m: int, step: float) -> None:
    a = np.random.default_rng(n * m).integers(-9, 9, (n, m)).astype(np.float64)
    x, p = lp.placeholder((lp.symbol("n", min=2), m), "float64", name="x"), np.sort(a[:, 0])
    points = lp.placeholder((n,), "float64", name="p")
    got = run(
        [*lp.gradient(x, step), lp.gradient(x, axis=1), lp.trapezoid(x, dx=step), lp.trapezoid(x, axis=0),
         lp.trapezoid(points * 2.0, points)], x=a, p=p,
    )  # fmt: skip
    want = [*np.gradient(a, step), np.gradient(a, axis=1), np.trapezoid(a, dx=step), np.trapezoid(a, axis=0)]
    for g, w in zip(got, [*want, np.trapezoid(p * 2, p)], strict=True):
        np.testing.assert_allclose(g, w)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(-4, 4), min_size=2, max_size=5, unique=True),
    st.lists(st.floats(-6, 6, width=16) | st.just(np.nan), min_size=1, max_size=5), st.booleans(),
)  # fmt: skip
def test_points_between_others(points: list[int], at: list[float], ends: bool) -> None:
    xp, x = np.sort(np.array(points, np.float64)), np.array(at, np.float64)
    fp = xp**2 - 3.0
    a, b, c = (lp.placeholder(v.shape, "float64", name=n) for n, v in (("x", x), ("xp", xp), ("fp", fp)))
    given = {"left": -100.0, "right": 100.0} if ends else {}
    inside = np.nan_to_num(x)
    got = run([lp.interp(a, b, c, **given), lp.digitize(a, b), lp.digitize(a, b, right=True)], x=x, xp=xp, fp=fp)
    np.testing.assert_allclose(got[0], np.interp(x, xp, fp, **given))
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(got[1][numbers], np.digitize(inside, xp)[numbers])
    np.testing.assert_array_equal(got[2][numbers], np.digitize(inside, xp, right=True)[numbers])


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=9), st.integers(1, 7))
def test_histograms(values: list[float], bins: int) -> None:
    a = np.array(values, np.float64)
    x = lp.placeholder(a.shape, "float64", name="x")
    got = run([*lp.histogram(x, bins, (-1.5, 1.0))], x=a)
    counts, edges = np.histogram(a, bins, (-1.5, 1.0))
    np.testing.assert_array_equal(got[0], counts)
    np.testing.assert_allclose(got[1], edges)


def test_made_from_nothing() -> None:
    x = lp.placeholder((3,), "float64", name="x")
    got = run([lp.tri(3, 4, 1), lp.logspace(0, 2, 3), lp.geomspace(1, 16, 5), lp.vander(x, 3), lp.vander(x, 20, True)],
              x=np.arange(3.0))  # fmt: skip
    a = np.arange(3.0)
    want = [np.tri(3, 4, 1), np.logspace(0, 2, 3), np.geomspace(1, 16, 5), np.vander(a, 3), np.vander(a, 20, True)]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w)


def test_what_is_no_grid_is_refused() -> None:
    x = lp.placeholder((3, 4), "float64", name="x")
    for wrong, what in (
        (lambda: lp.meshgrid(x, indexing="yx"), "it is 'xy' or 'ij'"),
        (lambda: lp.unravel_index(x, (3, 4)), "an index is an integer"),
        (lambda: lp.interp(x, x, x), "points lie along one dimension"),
        (lambda: lp.geomspace(-1, 1), "both are positive, or both negative"),
        (lambda: lp.histogram(x, 0, (0, 1)), "one bin at least, and a range"),
    ):
        with pytest.raises(lp.ExprError, match=what):
            wrong()
