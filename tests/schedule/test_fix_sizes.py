"""Sizes fixed in a program: it computes the same as the program for all sizes at these, scheduled or not."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Func
from loopir.ir.verify.verify import verify
from loopir.testing import funcs, schedules
from loopir.testing.generate.strategies import arguments, sizes


def rows() -> lp.Schedule:
    n, m = lp.symbol("n"), lp.symbol("m", multiple_of=4)
    return lp.Schedule(lp.softmax(lp.placeholder((n, m), "float32", name="x")))


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_program_at_fixed_sizes_computes_what_it_does_at_these(data: st.DataObject) -> None:
    func: Func = data.draw(schedules(data.draw(funcs()))).func
    at = data.draw(sizes(func))
    fixed = lp.fix_sizes(func, at)
    verify(fixed)
    assert not fixed.sizes
    arrays = data.draw(arguments(func, at))
    wanted, found = (lp.interpret(f, arrays, where, domain="ring") for f, where in ((func, at), (fixed, {})))
    assert all(np.array_equal(wanted[name], found[name]) for name in wanted)


def test_some_sizes_may_stay_symbols() -> None:
    fixed = lp.fix_sizes(rows().func, {"m": 8})
    assert fixed.sizes == ("n",)
    assert 'x: "float32[n, 8]"' in lp.text(fixed)


@pytest.mark.parametrize("at", [{"n": 3, "m": 0}, {"n": 0, "m": 2}, {"m": 0}])
def test_what_never_runs_may_divide_by_0(at: dict[str, int]) -> None:
    func = lp.parse("""
        def f(n: "size", m: "size", x: "float32[n, m]", total: "out float32[]"):
            for i in range(n * m):
                if i // m + i % m < 9:
                    total[()] = sum(x[i // m, i % m], over=(i,), init=0.0)
    """)
    fixed = lp.fix_sizes(func, at)
    verify(fixed)
    sizes = {"n": 3} | at
    x = np.ones((sizes["n"], sizes["m"]), np.float32)
    assert lp.Schedule(fixed).build("interpret")(x) == 0


def test_what_never_runs_may_divide_by_what_comes_to_0() -> None:
    func = lp.parse("""
        def f(n: "size", x: "float32[n]", total: "out float32[]"):
            for i in range((n + 1) // 2 * n - (n + 1) // 2):
                total[()] = sum(x[i % (n - 1) + 1], over=(i,), init=0.0)
    """)
    for n, count in ((1, 0), (3, 4)):
        assert lp.Schedule(lp.fix_sizes(func, {"n": n})).build("interpret")(np.ones(n, np.float32)) == count


def test_counts_below_0_are_none() -> None:
    """Memory and loops of `m - 1` iterations where m is 0, and what is divided by that among no iterations."""
    func = lp.parse("""
        def f(n: "size", m: "size", x: "float32[n, m]", y: "inout float32[n]"):
            with alloc("float32[min(n - 1, m - 2) + 1]") as T:
                for k in range(min(n - 1, m - 2) + 1):
                    T[k] = x[k, k + 1]
                for j in range((m - 1) * n):
                    y[j // (m - 1)] = x[j // (m - 1), j % (m - 1)]
    """)
    for n, m in ((0, 0), (3, 0), (0, 3), (3, 1), (3, 4)):
        fixed = lp.fix_sizes(func, {"n": n, "m": m})
        verify(fixed)
        y = lp.interpret(fixed, [np.ones((n, m), np.float32), np.zeros(n, np.float32)])["y"]
        assert y.tolist() == [float(m > 1)] * n


def test_what_runs_does_not_divide_by_0() -> None:
    func = lp.parse("""
        def f(n: "size", x: "out int32[4]"):
            for i in range(4):
                x[i // n] = 1
    """)
    with pytest.raises(lp.ScheduleError, match=re.escape("i // n divides by 0 at these sizes")):
        lp.fix_sizes(func, {"n": 0})


def test_the_dimensions_of_a_layout_are_no_sizes() -> None:
    n = lp.symbol("n")
    s = lp.Schedule(lp.placeholder((n, 8), "float32", name="x") * 2.0).cache_read("out", "x", "global")
    s = s.set_layout("x_global", "lambda n, k: (k, n)")
    fixed = lp.Schedule(lp.fix_sizes(s.func, {"n": 5}))
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    assert np.array_equal(fixed.build("interpret")(x), x * 2)


@pytest.mark.parametrize(
    ("given_sizes", "said"),
    [
        ({"m": 7}, "assumes m % 4 == 0, which m=7 does not meet"),
        ({"n": 0}, "assumes 1 <= n, which n=0 does not meet"),
        ({"n": -1}, "n=-1: a size is at least 0"),
        ({"k": 4}, "has no size 'k'"),
    ],
)
def test_what_cannot_be_fixed_is_named(given_sizes: dict[str, int], said: str) -> None:
    with pytest.raises(lp.ScheduleError, match=said):
        lp.fix_sizes(rows().func, given_sizes)
