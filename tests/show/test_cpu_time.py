"""The price of a nest on a CPU: what has to make it greater, and what may not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.machines import ZEN_4, Cpu, cpu_like
from loopir.show.cpu_time import cpu_seconds


def price(s: lp.Schedule, cpu: Cpu = ZEN_4, threads: int = 1, **sizes: int) -> float:
    return cpu_seconds(s.func, sizes, cpu, threads)[0]


def scale(n: Any, dtype: str = "float32") -> lp.Schedule:
    return lp.Schedule(lp.placeholder((n,), dtype, name="x") * 2.0)


@settings(max_examples=25, deadline=None)
@given(st.integers(6, 26), st.sampled_from(["float32", "float64", "float16"]))
def test_twice_the_work_takes_longer_and_not_much_over_twice_as_long(power: int, dtype: str) -> None:
    """But where it leaves a cache: no cache's rate is a tenth of the one before it."""
    once, twice = price(scale(1 << power, dtype)), price(scale(2 << power, dtype))
    assert once < twice < 20.0 * once


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1 << 24), st.integers(1, 1 << 24))
def test_a_size_counts_as_the_constant_that_it_is(n: int, m: int) -> None:
    symbolic = scale(lp.symbol("n"))
    assert price(symbolic, n=n) == pytest.approx(price(scale(n)))
    more = 1.001 * price(symbolic, n=m)  # of less than a vector, an element may take as long as all of one
    assert price(symbolic, n=n) <= more or n >= m


def test_bytes_from_memory_take_the_time_of_memory() -> None:
    s = schedules.auto(scale(1 << 24), "llvm")
    _, moved = cpu_seconds(s.func, {}, ZEN_4)
    assert moved >= 8 << 24
    slow = replace(ZEN_4, caches=(*ZEN_4.caches[:2], (ZEN_4.caches[2][0], ZEN_4.caches[2][1] / 2)))
    assert price(s, slow) > 1.6 * price(s)


def test_what_a_cache_holds_is_there_from_the_call_before() -> None:
    assert cpu_seconds(scale(1 << 10).func, {}, ZEN_4)[1] == 0.0


def test_a_fold_that_waits_for_itself_is_slower_than_one_of_vectors() -> None:
    s = lp.Schedule(lp.sum(lp.placeholder((1 << 16,), "float32", name="x"), axis=0))
    assert price(s) > 4.0 * price(schedules.auto(s, "llvm"))


def test_an_update_of_integers_that_no_order_is_free_for_waits_as_well() -> None:
    text = """
def f(x: "uint32[64, 4096]", h: "inout uint32[64]"):
    for i in range(64):
        for j in range(4096):
            h[i] = {} + x[i, j]
"""
    added, hashed = (price(lp.Schedule(lp.parse(text.format(h)))) for h in ("h[i]", "h[i] * uint32(31)"))
    assert hashed > 4.0 * added


def test_threads_share_what_they_can() -> None:
    x = lp.placeholder((1024, 1024), "float32", name="x")
    s = lp.Schedule(lp.tanh(x))
    shared = s.parallel(s.loops()[0])
    assert price(shared, threads=4) < 0.5 * price(shared, threads=1)
    assert price(s, threads=4) == price(s, threads=1)


def test_a_narrower_unit_is_slower() -> None:
    x = lp.placeholder((1 << 12,), "float32", name="x")
    s = lp.Schedule(lp.exp(x))
    narrow = cpu_like(16, (32 << 10, 1 << 20, 32 << 20), 2)
    assert price(s, narrow) > price(s, replace(narrow, vector_bytes=64))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_every_program_has_a_price(data: st.DataObject) -> None:
    func = data.draw(lp.testing.funcs())
    made = data.draw(lp.testing.schedules(func))
    found = lp.predict(made, "llvm", sizes=dict.fromkeys(func.sizes, 7), threads=2)
    assert 0.0 < found.seconds < 10.0
    assert found.bytes >= 0.0


def test_a_sweep_waits_for_the_element_before_unless_rows_take_turns() -> None:
    text = """
def f(A: "inout float64[66, 130]", B: "float64[66, 130]"):
    for i in range(64):
        for j in range(128):
            A[i + 1, j + 1] = 0.5 * ({} + B[i + 1, j + 2])
"""
    sweep, beside = (lp.Schedule(lp.parse(text.format(x))) for x in ("A[i + 1, j]", "B[i + 1, j]"))
    assert price(sweep) > 3.0 * price(beside)
    rows = sweep.split("i", 8, tail="exact").reorder("j", "i_i").unroll("i_i")
    assert price(rows) < 0.5 * price(sweep)
