"""Correlations, polynomials, phases and windows are NumPy's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import inputs, run, sample

import loopir as lp


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 6), st.sampled_from(["valid", "same", "full"]),
    st.sampled_from(["float32", "float64", "int32", "int8"]), st.integers(0, 99),
)  # fmt: skip
def test_products_of_signals(n: int, m: int, mode: str, dtype: str, seed: int) -> None:
    a, v = sample(dtype, (n,), seed), sample(dtype, (m,), seed + 1)
    x, y = inputs(a, v)
    for ours, theirs in ((lp.correlate, np.correlate), (lp.convolve, np.convolve)):
        want, made = theirs(a, v, mode), ours(x, y, mode)  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert (made.shape, made.dtype.numpy) == (want.shape, want.dtype)
        np.testing.assert_array_equal(run(made, a, v), want)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(-20, 20, width=16), min_size=1, max_size=8), st.sampled_from([2 * np.pi, 4.0, 3.0]),
    st.sampled_from([None, 0.0, 2.5, 7.0]), st.booleans(),
)  # fmt: skip
def test_phases(values: list[float], period: float, discont: float | None, whole: bool) -> None:
    a: Any = np.array(values, np.int64 if whole else np.float64)
    given: Any = {"period": int(period) if whole else period, "discont": discont}
    made = lp.unwrap(inputs(a)[0], **given)
    want = np.unwrap(a, **given)
    assert made.dtype.numpy == want.dtype
    np.testing.assert_allclose(run(made, a), want, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value")
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 4), st.sampled_from(["float32", "float64", "int16"]), st.integers(0, 99))
def test_polynomials(degree: int, dtype: str, seed: int) -> None:
    p, a = sample(dtype, (degree,), seed), sample(dtype, (2, 3), seed + 1)
    if a.dtype.kind == "f":
        a[0, 0], a[1, 1] = np.nan, np.inf
    q, x = inputs(p, a)
    made = [lp.polyval(q, x), lp.polyval([1.0, -2.0, 0.5], x)]
    got = run([m * 1 for m in made], p, a) if degree else [run(made[0] * 1), run(made[1] * 1, a)]
    np.testing.assert_array_equal(got[0], np.polyval(p, a).astype(a.dtype) if degree else np.zeros_like(a))
    np.testing.assert_allclose(got[1], np.polyval([1.0, -2.0, 0.5], a), rtol=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.sampled_from(["float32", "int8"]), st.booleans())
def test_differences(n: int, dtype: str, ends: bool) -> None:
    a = sample(dtype, (n, 2))
    given: Any = {"to_end": [1, 2], "to_begin": 7} if ends else {}
    x = inputs(a)[0]
    ours: Any = {"to_end": lp.arange(2) + 1, "to_begin": 7} if ends else {}
    np.testing.assert_array_equal(run(lp.ediff1d(x, **ours) * 1, a), np.ediff1d(a, **given))


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
@pytest.mark.parametrize("points", [0, 1, 2, 7])
def test_windows(name: str, points: int) -> None:
    np.testing.assert_allclose(run(getattr(lp, name)(points) * 1.0), getattr(np, name)(points), atol=1e-15)


@pytest.mark.parametrize("points", [0, 1, 2, 12])
@pytest.mark.parametrize("beta", [0.0, 8.6, 40.0])
def test_kaiser(points: int, beta: float) -> None:
    np.testing.assert_allclose(run(lp.kaiser(points, beta) * 1.0), np.kaiser(points, beta), rtol=1e-13, atol=1e-14)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5), st.integers(0, 2))
def test_derivatives_and_integrals_of_polynomials(factors: list[int], times: int) -> None:
    p = np.array(factors, np.float64)
    np.testing.assert_allclose(run(lp.polyint(inputs(p)[0], times) * 1.0, p), np.polyint(p, times), rtol=1e-14)
    if len(factors) > times:
        np.testing.assert_array_equal(run(lp.polyder(inputs(p)[0], times) * 1.0, p), np.polyder(p, times))


def test_coefficients_of_an_unknown_number_are_refused() -> None:
    with pytest.raises(lp.ExprError, match="coefficients are a vector of a known length, or a list"):
        lp.polyval(lp.placeholder((lp.symbol("n"),), name="p"), 1.0)
