"""Elementwise operations as NumPy's: values, types of results, what is refused."""

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, assert_close, inputs, run, sample
from scipy import special

import loopir as lp

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
FLOATS = [np.dtype(f"float{bits}") for bits in (16, 32, 64)]
TYPES = [*INTEGERS, *FLOATS, np.dtype(bool)]
ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv}
BITS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
EXTREMES = {"maximum": (lp.maximum, np.maximum), "minimum": (lp.minimum, np.minimum)}
LOGIC = {"logical_and": (lp.logical_and, np.logical_and), "logical_or": (lp.logical_or, np.logical_or)}
BINARY = {name: (f, f) for name, f in (ARITHMETIC | BITS | COMPARISONS).items()} | EXTREMES | LOGIC


@pytest.mark.parametrize("name", BINARY)
def test_two_types_meet_as_in_numpy(name: str) -> None:
    """For every pair of types: the same type and values, or both refuse."""
    ours, theirs = BINARY[name]
    for a in TYPES:
        for b in TYPES:
            x, y = sample(a, (5,)), sample(b, (5,), 1)
            try:
                with np.errstate(all="ignore"):
                    theirs(x, y)
            except TypeError:
                with pytest.raises(TypeError):
                    ours(*inputs(x, y))
            else:
                assert_as_numpy(ours, theirs, x, y)


@pytest.mark.parametrize("name", ["floordiv", "mod"])
def test_quotients_round_down(name: str) -> None:
    op = getattr(operator, name)
    for a in (*INTEGERS, *FLOATS):
        for b in (*INTEGERS, *FLOATS):
            y = sample(b, (9,), 1)
            assert_as_numpy(op, op, sample(a, (9,)), np.where(y == 0, y + y.dtype.type(3), y))


@pytest.mark.parametrize("number", [True, 2, -3, 0.5])
@pytest.mark.parametrize("name", [*ARITHMETIC, "maximum", "lt"])
def test_python_numbers_are_weak(name: str, number: float) -> None:
    ours, theirs = BINARY[name]
    for a in TYPES:
        x = sample(a, (5,))
        for swap in (False, True):
            try:
                with np.errstate(all="ignore"):
                    theirs(number, x) if swap else theirs(x, number)
            except (TypeError, OverflowError):
                with pytest.raises((TypeError, lp.ExprError)):
                    ours(number, *inputs(x)) if swap else ours(*inputs(x), number)
            else:
                turned = (lambda f: lambda t: f(number, t)) if swap else (lambda f: lambda t: f(t, number))
                if name == "lt" and number == -3 and x.dtype.kind == "u":
                    continue  # NumPy compares with a number that the type has not; see test_tensor_core
                assert_as_numpy(turned(ours), turned(theirs), x)


@pytest.mark.parametrize("scalar", [np.float32(1.5), np.float64(1.5), np.int8(3), np.bool_(True), np.uint16(7)])
def test_numpy_scalars_bring_their_type(scalar: Any) -> None:
    for a in TYPES:
        x = sample(a, (4,))
        assert_as_numpy(lambda t: t * scalar, lambda t: t * scalar, x)
        assert_as_numpy(lambda t: lp.maximum(t, scalar), lambda t: np.maximum(t, scalar), x)


@pytest.mark.parametrize("a", TYPES, ids=str)
@pytest.mark.parametrize("b", TYPES, ids=str)
def test_astype(a: np.dtype[Any], b: np.dtype[Any]) -> None:
    x = sample(a, (9,))
    x = np.abs(x) if b.kind == "u" and a.kind == "f" else x
    assert_as_numpy(lambda t: t.astype(b), lambda t: t.astype(b), x)


def test_casts_of_floats_saturate() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 300.7, -300.7, -0.9, 2.9], np.float32)
    (t,) = inputs(x)
    assert run(t.astype("int8"), x).tolist() == [0, 127, -128, 127, -128, 0, 2]
    assert run(lp.cast(t, "uint8"), x).tolist() == [0, 255, 0, 255, 0, 0, 2]


ULPS = {np.dtype(np.float64): 4, np.dtype(np.float32): 1, np.dtype(np.float16): 1}
REAL = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "erf": special.erf, "rsqrt": lambda x: 1 / np.sqrt(x), "round": np.rint, "log1p": np.log1p, "expm1": np.expm1,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sign": np.sign,
}  # fmt: skip
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.25, -7.75, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("dtype", [*FLOATS, BFLOAT16], ids=str)
def test_functions_of_real_numbers(name: str, dtype: np.dtype[Any]) -> None:
    """The value is the float64 one, rounded once."""
    x = np.array(EDGES).astype(dtype)
    with np.errstate(all="ignore"):
        expected = REAL[name](x.astype(np.float64)).astype(dtype)
    assert_close(run(getattr(lp, name)(*inputs(x)), x), expected, ulps=ULPS.get(dtype, 1))


@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "tanh"])
def test_integers_become_floats_as_in_numpy(name: str) -> None:
    for a in (*INTEGERS, np.dtype(bool)):
        x = np.abs(sample(a, (5,)))
        assert_as_numpy(getattr(lp, name), getattr(np, name), x, ulps=2)


def test_the_angle_of_a_point_is_as_numpys() -> None:
    for a in FLOATS:
        y, x = (m.ravel().astype(a) for m in np.meshgrid(EDGES, EDGES))
        with np.errstate(all="ignore"):
            expected = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(a)
        found = run(lp.atan2(*inputs(y, x)), y, x)
        assert_close(found, expected, ulps=ULPS.get(a, 1))
        assert np.array_equal(np.signbit(found), np.signbit(expected))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([a for a in TYPES if a.kind in "iuf"]), *[st.none() | st.integers(0, 6)] * 2)
def test_clip_and_sign(dtype: np.dtype[Any], low: int | None, high: int | None) -> None:
    x = sample(dtype, (9,))
    assert_as_numpy(lp.sign, np.sign, x)
    bounded = x if low is None and high is None else np.clip(x, low, high)
    assert_as_numpy(lambda t: lp.clip(t, low, high) + 0, lambda _: bounded, x)
    assert_as_numpy(lambda t: lp.clip(t, t, high) + 0, lambda _: x if high is None else np.minimum(x, high), x)
    with pytest.raises(lp.ExprError, match="a bool has none, convert it first"):
        lp.sign(lp.placeholder((3,), "bool", name="b"))


@pytest.mark.parametrize("name", ["floor", "ceil", "isnan", "abs", "logical_not"])
def test_functions_of_every_type(name: str) -> None:
    for a in TYPES:
        x = np.array(EDGES).astype(a) if a.kind == "f" else sample(a, (9,))
        assert_as_numpy(getattr(lp, name), getattr(np, name), x)


def test_signs_and_bits() -> None:
    for a in INTEGERS:
        x = sample(a, (9,))
        for op in (operator.neg, operator.pos, operator.invert, abs):
            assert_as_numpy(op, op, x)
        assert_as_numpy(lambda t: t << 1, lambda t: t << 1, x)
        assert_as_numpy(lambda t: t >> 1, lambda t: t >> 1, x)
        assert_as_numpy(lambda t: 1 << lp.abs(t), lambda t: 1 << np.abs(t), x)
    assert_as_numpy(operator.invert, operator.invert, sample(bool, (4,)))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 16])
def test_powers_by_multiplication(exponent: int) -> None:
    for a in (*INTEGERS, *FLOATS):
        x = sample(a, (9,))
        x = np.append(x, [np.nan, np.inf]).astype(a) if a.kind == "f" else x
        assert_as_numpy(lambda t: t**exponent, lambda t: t**exponent, x, ulps=8)
    assert_as_numpy(lambda t: t**exponent, lambda t: t.astype(np.int64) ** exponent, sample(bool, (4,)))


def test_powers_of_floats() -> None:
    x = np.array([0.5, 2.0, 3.0, 0.0], np.float32)
    assert_as_numpy(lambda t: t**-1.5, lambda t: t**-1.5, x, ulps=1)
    assert_as_numpy(lambda t: 2.0**t, lambda t: 2.0**t, x, ulps=1)
    assert_as_numpy(lp.pow, np.power, x, x[::-1].copy(), ulps=1)


def test_composites() -> None:
    x = np.linspace(-6, 6, 25)
    logistic = special.expit(x)
    approximate = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    for name, expected in (("sigmoid", logistic), ("silu", x * logistic), ("gelu", x * special.ndtr(x))):
        np.testing.assert_allclose(run(getattr(lp, name)(*inputs(x)), x), expected, rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(run(lp.gelu(*inputs(x), approximate="tanh"), x), approximate, rtol=1e-12)
    assert_as_numpy(lp.relu, lambda a: np.maximum(a, 0), x)
    for half in (np.dtype(np.float16), BFLOAT16):
        low = x.astype(half)
        wide = low.astype(np.float64)
        expected = special.expit(wide)
        assert_close(run(lp.sigmoid(*inputs(low)), low), expected.astype(half), ulps=1)
        assert_close(run(lp.silu(*inputs(low)), low), (wide * expected).astype(half), ulps=1)
        inner = 2 * np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
        approximate = (wide * special.expit(inner)).astype(half)
        assert_close(run(lp.gelu(*inputs(low), approximate="tanh"), low), approximate, ulps=1)


def test_where_evaluates_one_side() -> None:
    x, y, c = sample("float32", (3, 4)), sample("float64", (4,)), sample(bool, (3, 1))
    assert_as_numpy(lambda a, b, t: lp.where(t, a, b), lambda a, b, t: np.where(t, a, b), x, y, c)
    assert_as_numpy(lambda a: lp.where(a > 0, 1, 2), lambda a: np.where(a > 0, 1, 2), x)
    assert_as_numpy(lambda a: lp.select(a, a, -1.0), lambda a: np.where(a, a, -1.0), y)
    (a,) = inputs(x)
    shifted = lp.compute((3, 4), lambda i, j: lp.where(j >= 1, a[i, j - 1], 0.0))
    assert run(shifted, x).tolist() == np.pad(x, ((0, 0), (1, 0)))[:, :4].tolist()


def test_bfloat16_rounds_after_every_operation() -> None:
    x, y = np.array([1.0, 3.0], BFLOAT16), np.array([1 / 256, 1 / 3], BFLOAT16)
    a, b = inputs(x, y)
    assert_close(run((a + b) - a, x, y), (x + y) - x)
    assert (a + b).dtype == lp.placeholder((), "bf16", name="t").dtype
    assert str((a + lp.placeholder((2,), "f16", name="h")).dtype) == "float32"
    assert str((a + lp.placeholder((2,), "int32", name="h")).dtype) == "bfloat16"
