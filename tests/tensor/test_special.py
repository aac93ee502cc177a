"""Special functions are SciPy's, in both precisions, at edges, and where others would lose all digits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import inputs, run
from scipy import special

import loopir as lp

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.nan]
ANY, POSITIVE, SHARE, INSIDE = (-25.0, 25.0), (1e-3, 25.0), (1e-7, 1 - 1e-7), (-1 + 1e-7, 1 - 1e-7)
ONE: dict[str, tuple[float, float]] = {
    "digamma": ANY, "entr": ANY, "erfc": (-5, 5), "erfcx": (-5, 60), "erfinv": INSIDE, "exp10": ANY, "expit": ANY,
    "exprel": ANY, "factorial": POSITIVE, "gamma": POSITIVE, "gammaln": POSITIVE, "i0": ANY, "i0e": (-90, 90),
    "i1": ANY, "i1e": (-90, 90), "log_expit": ANY, "log_ndtr": (-60, 5), "ndtr": (-5, 5), "ndtri": SHARE, "psi": ANY,
}  # fmt: skip
TWO: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "beta": (POSITIVE, POSITIVE), "betaln": (POSITIVE, POSITIVE), "binom": ((13, 25), (0, 12)),
    "boxcox": (POSITIVE, (-1.5, 1.5)), "boxcox1p": (POSITIVE, (-1.5, 1.5)), "huber": (ANY, ANY),
    "inv_boxcox": (POSITIVE, (0.01, 1)), "inv_boxcox1p": (POSITIVE, (0.01, 1)), "kl_div": (POSITIVE, POSITIVE),
    "pseudo_huber": (ANY, ANY), "rel_entr": (ANY, ANY), "xlog1py": (ANY, POSITIVE),
}  # fmt: skip


def assert_near(found: Any, wanted: Any, dtype: str) -> None:
    assert found.dtype == dtype
    rtol, atol = (1e-10, 1e-11) if dtype == "float64" else (3e-4, 2e-5)
    np.testing.assert_allclose(found, wanted.astype(dtype), rtol=rtol, atol=atol)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(ONE)), st.sampled_from(["float32", "float64"]), st.integers(0, 999))
def test_of_one_argument(name: str, dtype: str, seed: int) -> None:
    edges = np.array(EDGES) if name not in ("digamma", "psi", "gamma") else np.array([1.0, 0.5, 2.0])
    x = np.concatenate([np.random.default_rng(seed).uniform(*ONE[name], 20), edges]).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(special, name)(x.astype(np.float64))
    assert_near(run(getattr(lp, name)(*inputs(x)), x), wanted, dtype)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(TWO)), st.sampled_from(["float32", "float64"]), st.integers(0, 999))
def test_of_two_arguments(name: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.uniform(*ends, 20).astype(dtype) for ends in TWO[name])
    if name == "binom":
        x, y = np.floor(x), np.floor(y)
    with np.errstate(all="ignore"):
        wanted = getattr(special, name)(x.astype(np.float64), y.astype(np.float64))
    assert_near(run(getattr(lp, name)(*inputs(x, y)), x, y), wanted, dtype)


TAILS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "erfc": (special.erfc, [6.0, 20.0, 26.0]),
    "erfcx": (special.erfcx, [30.0, 1e10, np.inf]),
    "erfinv": (special.erfinv, [1e-20, 1 - 1e-15, 1.0, -1.0]),
    "log_ndtr": (special.log_ndtr, [-38.0, -1e5, 8.0, -np.inf]),
    "ndtri": (special.ndtri, [1e-300, 1e-20, 1 - 1e-15, 0.0, 1.0]),
    "i0e": (special.i0e, [700.0, -1e9]),
    "i1": (special.i1, [1e-300, 700.0, -700.0]),
    "digamma": (special.digamma, [1e-300, -1e-9, 1e300, 0.0, -0.0, -3.0]),
    "entr": (special.entr, [-np.inf, -1e-300]),
    "exprel": (special.exprel, [1e-300, 720.0, np.inf, -np.inf]),
}


@pytest.mark.parametrize("name", TAILS)
def test_far_from_the_middle(name: str) -> None:
    theirs, at = TAILS[name]
    x = np.array(at)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(getattr(lp, name)(*inputs(x)), x), theirs(x), rtol=3e-13)


def test_multivariate_gamma() -> None:
    a = np.array([3.0, 7.5, 40.0])
    parts = [special.gammaln(a - k / 2) for k in range(4)]
    wanted = sum(parts) + 3 * np.log(np.pi)
    np.testing.assert_allclose(run(lp.multigammaln(inputs(a)[0], 4), a), wanted, rtol=1e-13)
    with pytest.raises(lp.ExprError, match="multigammaln of dimension 0"):
        lp.multigammaln(inputs(a)[0], 0)


def test_narrow_floats_are_computed_in_32_bits() -> None:
    x = np.array([0.1, 3.0, 9.0], np.float16)
    np.testing.assert_array_equal(
        run(lp.i0e(*inputs(x)), x), special.i0e(x.astype(np.float32)).astype(np.float16), strict=True
    )
