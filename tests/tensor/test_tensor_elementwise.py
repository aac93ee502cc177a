"""Functions of elements are NumPy's, SciPy's and torch's, on NaN, infinities and zeros of both signs, too."""

from typing import Any

import numpy as np
import pytest
from scipy import special

import loopir as lp

NUMBERS = np.array([0.0, -0.0, 1.0, -1.0, 0.25, -2.5, 3.0, 1e-3, 270.0, np.inf, -np.inf, np.nan])
ONE = ["cbrt", "deg2rad", "degrees", "fix", "isneginf", "isposinf", "rad2deg", "radians", "signbit", "sinc", "trunc"]
TWO = ["copysign", "fmax", "fmin", "heaviside", "hypot", "isclose", "logical_xor", "mod"]
OTHERS: dict[str, tuple[Any, Any]] = {
    "allclose": (lambda x, y: lp.allclose(x, y, equal_nan=True), lambda x, y: np.allclose(x, y, equal_nan=True)),
    "isclose of NaN": (lambda x, y: lp.isclose(x, y, 0.5, 0.1, True), lambda x, y: np.isclose(x, y, 0.5, 0.1, True)),
    "logit": (lambda x, _: lp.logit(x), lambda x, _: special.logit(x)),
    "logit, eps": (lambda x, _: lp.logit(x, 0.1), lambda x, _: special.logit(np.clip(x, 0.1, 0.9))),
    "lerp": (lambda x, y: lp.lerp(x, y, 0.25), lambda x, y: x + 0.25 * (y - x)),
    "negative": (lambda x, _: lp.negative(x), lambda x, _: -x),
    "ptp": (lambda x, _: lp.ptp(x[:9]), lambda x, _: np.ptp(x[:9])),
    "remainder": (lambda x, _: lp.remainder(x, 0.75), lambda x, _: np.remainder(x, x.dtype.type(0.75))),
    "xlogy": (lp.xlogy, special.xlogy),
    **{name: (lambda x, _, f=name: getattr(lp, f)(x), lambda x, _, f=name: getattr(np, f)(x)) for name in ONE},
    **{name: (getattr(lp, name), getattr(np, name)) for name in TWO},
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_are_as_theirs(dtype: str) -> None:
    a, b = (v.ravel().astype(dtype) for v in np.meshgrid(NUMBERS, NUMBERS))
    x, y = (lp.placeholder(a.shape, dtype, name=n) for n in "ab")
    results = [ours(x, y).named(f"r{n}") for n, (ours, _) in enumerate(OTHERS.values())]
    got = lp.interpret(lp.to_func(results), {"a": a, "b": b})
    with np.errstate(all="ignore"):
        for n, (name, (_, theirs)) in enumerate(OTHERS.items()):
            want = np.asarray(theirs(a, b))
            assert got[f"r{n}"].dtype == want.dtype, name
            np.testing.assert_allclose(
                got[f"r{n}"], want, rtol=8 * float(np.finfo(dtype).eps), atol=1e-36, err_msg=name
            )


def test_integers_are_converted_as_numpy_converts_them() -> None:
    a = np.array([-3, 0, 4], np.int32)
    x = lp.placeholder((3,), "int32", name="a")
    for ours, theirs in ((lp.trunc, np.trunc), (lp.signbit, np.signbit), (lp.deg2rad, np.deg2rad)):
        got = lp.Schedule(ours(x) + 0).build("interpret")(a)
        np.testing.assert_allclose(got, theirs(a) + 0)


def test_large_numbers_do_not_overflow() -> None:
    a = np.array([3e38, 1e-40], np.float32)
    x = lp.placeholder((2,), "float32", name="a")
    np.testing.assert_allclose(lp.Schedule(lp.hypot(x, x / 2)).build("interpret")(a), np.hypot(a, a / 2), rtol=1e-5)
