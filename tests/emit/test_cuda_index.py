"""Indices are counted in 32 bits where they fit: bounds hold for every part of every index, and hosts ask for them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings

import loopir as lp
import schedules
from loopir.emit.cuda import emit
from loopir.emit.cuda_index import bounds
from loopir.emit.host import python_index
from loopir.ir.grammar import Func, Index, Kernel, Loop
from loopir.ir.verify import evaluate
from loopir.ir.walk import nodes, statements
from loopir.testing.index_values import index_values


@given(index_values())
@settings(max_examples=100, deadline=None)
def test_no_part_of_an_index_is_beyond_the_bounds(func: Func) -> None:
    kernel = Kernel("k", func.body)
    found = bounds(kernel, most=0)
    assert found is not None
    indices = {n for n in nodes(kernel) if isinstance(n, Index)}
    loops = [s for s in statements(func.body) if isinstance(s, Loop)]
    for size in (0, 1, 5) if func.sizes else (0,):
        sizes = dict.fromkeys(func.sizes, size)
        most = max((evaluate(b, dict(sizes)) for b in found), default=0)
        for values in product(*(range(evaluate(s.extent, dict(sizes))) for s in loops)):
            env = sizes | dict(zip([s.var for s in loops], values, strict=True))
            assert all(abs(evaluate(n, dict(env))) <= most for n in indices)


def source(s: lp.Schedule) -> str:
    (lowered,) = lp.lower(s, "cuda")
    return emit(lowered).source


def test_what_is_counted_beyond_31_bits_is_counted_in_64() -> None:
    """Also where no array is as large: a value, and a row that a guard speaks of."""
    small = lp.compute((1000,), lambda i: lp.cast(i * 1000, "int64"), name="y")
    large = lp.compute((100000,), lambda i: lp.cast(i * 100000, "int64"), name="y")
    for t, kind in ((small, "int"), (large, "long long")):
        assert f"const {kind} i" in source(lp.Schedule(t).bind("i", "blockIdx.x"))
    x = lp.placeholder((2**31 - 1,), "int8", name="x")
    guarded = lp.Schedule((x + 1).named("y")).split("i", 256).bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")
    assert "const long long i_o" in source(guarded)


@pytest.mark.parametrize("make", [lambda x: x * 2.0, lambda x: x.sum(axis=0), lp.softmax, lambda x: x.T])
def test_of_sizes_that_are_not_known_the_host_asks(make: object) -> None:
    assert callable(make)
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "float32", name="x")
    (lowered,) = lp.lower(schedules.gpu(lp.Schedule(make(x).named("y"))), "cuda")

    def most(n: int, m: int) -> int:
        scope = {"lp_max": max, "lp_min": min, "n": n, "m": m}
        return max(eval(python_index(b), scope) for k in emit(lowered).kernels for b in k.within)

    assert most(8192, 8192) < 2**31
    assert most(20000, 20000) < 2**31  # columns are cut into parts, whose ends are told with some room
    assert most(50000, 50000) >= 2**31
    assert most(2**31, 2) >= 2**31
    assert "int n" in emit(lowered).source
    assert "long long n" in emit(lowered, long=True).source


def test_element_by_element_there_are_no_vectors_of_memory() -> None:
    x = lp.placeholder((8192,), "float32", name="x")
    (lowered,) = lp.lower(schedules.gpu(lp.Schedule((x + 1.0).named("y"))), "cuda")
    assert emit(lowered).kernels[0].wide
    other = emit(lowered, scalar=True)
    assert not other.kernels[0].wide
    assert "reinterpret_cast" not in other.source.partition("extern")[2]
