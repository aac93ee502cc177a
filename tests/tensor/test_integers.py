"""Functions of integers, and the parts of floats, are NumPy's at every value, edges among them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import inputs, run

import loopir as lp

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def numbers(dtype: str) -> st.SearchStrategy[int]:
    """Integers of a type, the least and the largest often, and small ones."""
    info = np.iinfo(dtype)
    edges = [x for x in (int(info.min), int(info.min) + 1, int(info.max), 0, 1, -1, 12, 18) if info.min <= x]
    small = st.integers(max(int(info.min), -60), 60)
    return st.one_of(st.sampled_from(edges), small, st.integers(int(info.min), int(info.max)))


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(["interpret", "llvm"]))
def test_divisors_and_multiples(data: st.DataObject, dtype: str, target: str) -> None:
    pairs = data.draw(st.lists(st.tuples(numbers(dtype), numbers(dtype)), min_size=1, max_size=6))
    a, b = (np.array(x, dtype) for x in zip(*pairs, strict=True))
    x, y = inputs(a, b)
    got = lp.Schedule([lp.gcd(x, y), lp.lcm(x, y)]).build(target)(a, b)
    with np.errstate(all="ignore"):
        for found, want in zip(got, (np.gcd(a, b), np.lcm(a, b)), strict=True):
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(found, want)


def test_fibonacci_takes_the_most_steps() -> None:
    f = [1, 2]
    while f[-1] + f[-2] < 2**64:
        f.append(f[-1] + f[-2])
    a, b = np.array([f[-1], f[-2]], np.uint64), np.array([f[-2], f[-1]], np.uint64)
    assert run(lp.gcd(*inputs(a, b)), a, b).tolist() == [1, 1]


def test_shapes_broadcast_and_scalars_are_taken() -> None:
    a, b = np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(run(lp.gcd(*inputs(a, b)), a, b), np.gcd(a, b))
    np.testing.assert_array_equal(run(lp.gcd(inputs(a)[0], 6), a), np.gcd(a, 6))


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(INTEGERS))
def test_bits_are_counted(data: st.DataObject, dtype: str) -> None:
    a = np.array(data.draw(st.lists(numbers(dtype), min_size=1, max_size=8)), dtype)
    got = run(lp.bitwise_count(*inputs(a)), a)
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, np.bitwise_count(a))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(["float16", "float32", "float64"]), st.sampled_from(["interpret", "llvm"]))
def test_parts_of_floats(data: st.DataObject, dtype: str, target: str) -> None:
    width = {"float16": 16, "float32": 32, "float64": 64}[dtype]
    info = np.finfo(dtype)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, 1.0, -2.0, float(info.max), float(info.tiny)]
    edges += [
        float(info.smallest_subnormal),
        -float(info.smallest_subnormal) * 3,
        float(np.nextafter(info.dtype.type(1), 0)),
    ]
    drawn = st.one_of(st.sampled_from(edges), st.floats(width=width))
    a = np.array(data.draw(st.lists(drawn, min_size=1, max_size=8)), dtype)
    m, e = lp.Schedule([*lp.frexp(*inputs(a))]).build(target)(a)
    want, power = np.frexp(a)
    assert (m.dtype, e.dtype) == (want.dtype, np.int32)
    np.testing.assert_array_equal(m, want)
    np.testing.assert_array_equal(np.signbit(m[~np.isnan(a)]), np.signbit(want[~np.isnan(a)]))
    np.testing.assert_array_equal(e[np.isfinite(a)], power[np.isfinite(a)])


X = lp.placeholder((4,), "float32", name="x")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: lp.gcd(X, 2), r'gcd of numbers of type float32; it takes integers: .astype\("int64"\) converts'),
        (lambda: lp.lcm(X > 0, X > 0), "lcm of numbers of type bool"),
        (lambda: lp.bitwise_count(X), "bitwise_count of x .*; it takes integers"),
    ],
)
def test_what_is_no_integer_is_refused(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(lp.ExprError, match=said):
        wrong()


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan]


@settings(max_examples=20, deadline=None)
@given(st.data(), st.sampled_from(["float16", "float32", "float64"]), st.sampled_from(["interpret", "llvm"]))
def test_neighbours_among_floats(data: st.DataObject, dtype: str, target: str) -> None:
    info = np.finfo(dtype)
    edges = [*EDGES, float(info.max), float(info.tiny), float(info.smallest_subnormal), -float(info.smallest_subnormal)]
    some = st.sampled_from(edges) | st.floats(width=int(dtype[5:]))  # pyright: ignore[reportArgumentType]
    pairs = data.draw(st.lists(st.tuples(some, some), min_size=1, max_size=6))
    a, b = (np.array(x, dtype) for x in zip(*pairs, strict=True))
    x, y = inputs(a, b)
    made = [lp.nextafter(x, y), *([] if dtype == "float16" else [lp.spacing(x)])]  # NumPy's of float16 has no signs
    got = lp.Schedule(made).build(target)(a, b)
    with np.errstate(all="ignore"):
        for found, want in zip(got if len(made) > 1 else (got,), (np.nextafter(a, b), np.spacing(a)), strict=False):
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(found, want)
            known = (want != 0) & ~np.isnan(want) if dtype == "float16" else ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(want[known]))
