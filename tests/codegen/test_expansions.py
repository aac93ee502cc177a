"""Elementary functions on the CPU, in lanes, beside exact arithmetic: every bit pattern is a number to try.

The bound of each is in units in the last place of the exact result, for results that are normal numbers; infinities,
zeros with their signs, and NaN are as C's functions give them.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.intrinsics.ops import expand
from loopir.ir.dtypes import float64
from loopir.ir.grammar import Op, Param
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.rebuild import distinct_nodes

Array = np.ndarray[Any, Any]
SIZE = 64
EXACT: dict[str, Callable[..., Any]] = {
    "exp": mp.exp, "exp2": lambda x: mp.power(2, x), "log": mp.log, "sin": mp.sin, "cos": mp.cos, "tanh": mp.tanh,
    "erf": mp.erf, "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
}  # fmt: skip
BOUND = {"sigmoid": 2.5}
"""Of those whose bound is not 2: below 0 the result may be just under a power of 2, and its parts above one."""
USUAL = {"exp": 60.0, "exp2": 90.0, "log": 1e6, "sin": 1e5, "cos": 1e5, "tanh": 4.0, "erf": 4.0, "sigmoid": 60.0}
"""Up to where arguments are drawn beside arbitrary bits, whose functions are 0 or infinite for the most part."""


@cache
def kernel(name: str, dtype: str, fma: bool) -> Any:
    args = [lp.placeholder((SIZE,), dtype, name=f"x{n}") for n in range(REGISTRY[name].arity)]
    s = lp.Schedule(lp.compute((SIZE,), lambda i: getattr(lp, name)(*(x[i] for x in args)), name="y"))
    return s.split("i", 8).vectorize("i_i").build("llvm", fma=fma)


@st.composite
def floats(draw: st.DrawFn, dtype: str, usual: float) -> Array:
    """Random bits, numbers of usual magnitude, and what is special."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    word = "u4" if dtype == "float32" else "u8"
    bits = rng.integers(0, np.iinfo(word).max, SIZE, dtype=word, endpoint=True).view(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.finfo(dtype).smallest_subnormal], dtype)
    near = rng.uniform(-usual, usual, SIZE).astype(dtype)
    turns = (np.round(near / (np.pi / 2)) * (np.pi / 2)).astype(dtype)  # where sine and cosine are nearly 0
    kinds = [bits, near, rng.uniform(-1, 1, SIZE).astype(dtype), turns, rng.choice(special, SIZE)]
    return np.choose(rng.integers(0, len(kinds), SIZE), kinds)


def worst(found: Array, arguments: list[Array], exact: Callable[..., Any], expected: Array) -> float:
    """The largest error, in units in the last place; `expected` has what is special."""
    special = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) < np.finfo(found.dtype).smallest_normal)
    tiny = special & np.isfinite(expected) & (expected != 0)
    np.testing.assert_array_equal(found[special & ~tiny], expected[special & ~tiny], strict=True)
    steps = np.abs(found[tiny].astype(np.float64) - expected[tiny]) / np.finfo(found.dtype).smallest_subnormal
    signed = special & ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[signed]), np.signbit(expected[signed]))
    largest = float(steps.max(initial=0.0))
    with mp.workprec(200):
        for got, near, *x in zip(found[~special], expected[~special], *(a[~special] for a in arguments), strict=True):
            unit = mp.mpf(float(np.spacing(np.abs(near))))
            largest = max(largest, float(abs(mp.mpf(float(got)) - exact(*(mp.mpf(float(v)) for v in x))) / unit))
    return largest


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_functions_are_within_two_units_of_the_exact_value(name: str, dtype: str, data: st.DataObject) -> None:
    x = data.draw(floats(dtype, USUAL[name]))
    with np.errstate(all="ignore"):
        expected = REGISTRY[name].meaning(x)
    found = kernel(name, dtype, data.draw(st.booleans()))(x)
    assert worst(found, [x], EXACT[name], expected) <= BOUND.get(name, 2.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_powers_are_within_two_units_and_special_ones_are_as_in_c(dtype: str, data: st.DataObject) -> None:
    x, y = data.draw(floats(dtype, 40.0)), data.draw(floats(dtype, 20.0))
    whole = data.draw(st.booleans())
    with np.errstate(all="ignore"):
        x, y = (x, np.round(y)) if whole else (np.abs(x), y)
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    found = kernel("pow", dtype, data.draw(st.booleans()))(x, y)
    assert worst(found, [x, y], mp.power, expected) <= 2


def test_all_special_powers_are_as_in_c() -> None:
    numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 2.0**24, 2e7 + 1, 1e30]
    x, y = (v.ravel() for v in np.meshgrid(numbers, numbers))
    for dtype in ("float32", "float64"):
        for n in range(0, len(x), SIZE):
            a, b = x[n : n + SIZE].astype(dtype), y[n : n + SIZE].astype(dtype)
            with np.errstate(all="ignore"):
                expected = np.power(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
            found = kernel("pow", dtype, True)(a, b)
            np.testing.assert_allclose(found, expected, rtol=3 * np.finfo(dtype).eps)
            assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all(), (a, b)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux", reason="libm's flags"
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_masked_scores_do_not_underflow(name: str, dtype: str) -> None:
    """A product that underflows takes a processor a hundred cycles: scores of minus infinity are none."""
    library, underflow = ctypes.CDLL("libm.so.6"), 0x10
    for value in (-np.inf, -1e4, -0.1):
        x = np.full(SIZE, value, dtype)
        y = kernel(name, dtype, True)(x)
        library.feclearexcept(underflow)
        again, flag = kernel(name, dtype, True)(x), library.fetestexcept(underflow)
        np.testing.assert_array_equal(again, y)
        assert not flag


@pytest.mark.parametrize("extent", ["n", "256"])
def test_what_is_far_is_a_cold_call_of_its_own(extent: str) -> None:
    """No loop calls the library's sine lane by lane: also where the size is symbolic and lanes are masked."""
    n: Any = lp.symbol("n") if extent == "n" else 256
    x = lp.placeholder((n,), "float32", name="x")
    s = lp.Schedule(lp.compute((n,), lambda i: lp.sin(x[i]) + lp.cos(x[i]), name="y")).split("i", 64).vectorize("i_i")
    kernel, *apart = s.build("llvm").source.partition("define i32")[2].split("define internal")
    assert "call <64 x float> @lp.sin.v64f32" in kernel
    assert "call float" not in kernel
    assert len(apart) == 2
    assert "cold" in apart[-1]
    assert "noinline" in apart[-1]


def test_expansions_are_walked_once_for_each_object() -> None:
    """As a tree an expansion is far larger than as what its parts share."""
    made = expand.pow(Param("x", float64), Param("y", float64))
    assert sum(1 for _ in distinct_nodes(made)) < 600
    usual = list(distinct_nodes(made, but=_rare))
    assert len(usual) < sum(1 for _ in distinct_nodes(made))
    assert not any(map(_rare, usual))


def _rare(n: Any) -> bool:
    return isinstance(n, Op) and n.fn.rare
