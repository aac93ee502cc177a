"""Numbers beside tensors, conversions and remainders: the type and the value that NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from running import assert_as_numpy

import loopir as lp
from loopir.errors import ExprError

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def value(t: lp.Tensor, *arrays: Any, target: str = "llvm") -> Any:
    return lp.Schedule(t).build(target)(*arrays)


@pytest.mark.parametrize("number", [np.float64(2.5), np.array(2.5), np.array(2), np.uint8(200), np.array(True)])
def test_a_number_with_a_type_is_promoted_by_it(number: Any) -> None:
    x, a = lp.placeholder((4,), "int16", name="x"), np.arange(4, dtype=np.int16)
    for made, wanted in ((x + number, a + number), (lp.maximum(x, number), np.maximum(a, number))):
        found = value(made, a)
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["int8", "uint8", "bool", "float16", "float8_e4m3fn"])
def test_what_is_converted_twice_is_what_the_first_type_has_of_it(kind: str) -> None:
    numbers = {"index": lambda i: i + 199, "number": lambda i: 300, "real": lambda i: 0.1}
    for name, number in numbers.items():
        if name == "real" and "float" not in kind:
            continue
        made = lp.compute((3,), lambda i, number=number: lp.cast(lp.cast(number(i), kind), "float64"), name="y")
        one = np.array([number(i) for i in range(3)])
        wanted = one.astype(lp.placeholder((1,), kind, name="t").dtype.numpy).astype(np.float64)
        assert np.array_equal(value(made), wanted), name


@pytest.mark.parametrize("target", ["llvm", "interpret"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_remainder_of_floats_is_exact(dtype: str, target: str) -> None:
    """As NumPy's: it is between 0 and the divisor, whatever the quotient is rounded to."""
    kind = lp.placeholder((1,), dtype, name="t").dtype.numpy
    ends = np.array([0.0, -0.0, 1, -1, 0.1, -0.1, np.inf, -np.inf, np.nan, 5, 7.5, -7.5, 1e-20, 3, 1e30])
    rng = np.random.default_rng(0)
    more = [rng.normal(size=300) * 10.0 ** rng.integers(-3, 6, 300) for _ in range(2)]
    with np.errstate(all="ignore"):
        a = np.concatenate([np.repeat(ends, len(ends)), more[0]]).astype(kind)
        b = np.concatenate([np.tile(ends, len(ends)), more[1]]).astype(kind)
        x, y = (lp.placeholder(a.shape, dtype, name=n) for n in "xy")
        for made, wanted in ((x % y, np.remainder(a, b)), (x // y, np.floor_divide(a, b))):
            found = value(made, a, b, target=target)
            assert np.array_equal(found.astype(np.float64), wanted.astype(np.float64), equal_nan=True)
            one, other = (np.signbit(v.astype(np.float64)[~np.isnan(v)]) for v in (found, wanted))
            assert np.array_equal(one, other)


def test_axes_may_be_told_in_a_tuple() -> None:
    x, a = lp.placeholder((2, 3), "int32", name="x"), np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.array_equal(value(x.transpose((1, 0)), a), a.T)


def test_padding_is_of_the_type() -> None:
    x = lp.placeholder((2,), "uint8", name="x")
    with pytest.raises(TypeError, match=r"2\.5 is no uint8"):
        lp.pad(x, [(1, 1)], value=2.5)
    with pytest.raises(ExprError, match="-1 is no uint8"):
        lp.pad(x, [(1, 1)], value=-1)


def test_a_number_that_is_too_large_for_the_type_is_infinite_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    x = lp.placeholder((2,), "float32", name="x")
    assert np.isinf(value(x * 1e300, np.ones(2, np.float32))).all()
    assert not recwarn.list


def test_an_expression_may_be_as_deep_as_memory_is_large() -> None:
    deep = lp.placeholder((2,), "float32", name="x")
    for _ in range(3000):
        deep = deep + 1
    assert np.array_equal(value(deep, np.zeros(2, np.float32)), [3000, 3000])
    assert np.array_equal(value(lp.sum(deep), np.zeros(2, np.float32)), 6000)


def test_what_numbers_are_and_their_squares() -> None:
    a = np.array([0.0, -1.5, np.inf, -np.inf, np.nan, 3.0], np.float32)
    for name in ("isinf", "isfinite", "square"):
        assert_as_numpy(getattr(lp, name), getattr(np, name), a)
    assert_as_numpy(lp.isfinite, np.isfinite, np.arange(4, dtype=np.int8))
    assert_as_numpy(lp.reciprocal, np.reciprocal, np.array([0.5, -4.0, 3.0], np.float32))
    big = np.array([-200.0, -1.0, 0.0, 1.0, 200.0], np.float32)
    assert_as_numpy(lp.softplus, lambda x: np.logaddexp(0, x.astype(np.float64)).astype(np.float32), big, ulps=4)
    assert_as_numpy(lp.outer, np.outer, np.arange(3, dtype=np.int32), np.arange(4, dtype=np.int32))
    assert_as_numpy(lambda t: lp.diff(t, 2), lambda x: np.diff(x, 2), np.array([[1, 4, 9, 16], [2, 3, 5, 7]], np.int32))
