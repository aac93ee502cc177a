"""Programs like those that docstrings show: still programs, and mostly others."""

from __future__ import annotations

import pytest
from hypothesis import find, given, settings, strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.verify.verify import verify
from loopir.testing.checking import QUIET
from loopir.testing.generate.families import documented
from loopir.testing.generate.odd_names import with_odd_names
from loopir.testing.generate.varied import varied
from loopir.testing.oracles.brute_force import runs, small_sizes

FEW = settings(QUIET, max_examples=15)
PLAIN = """
def f(n: "size", A: "float32[n, 8]", B: "out float32[n]"):
    for i in range(n):
        for k in range(8):
            B[i] = sum(A[i, k] * 2.0, over=k, init=0.0)
"""
ODD = PLAIN.replace("    for i", "    assume(n % 2 == 1)\n    for i")


@FEW
@given(st.sampled_from([PLAIN, ODD]).map(parse).flatmap(varied))
def test_what_is_varied_runs_at_all_small_sizes(func: Func) -> None:
    verify(func, "schedule")
    assert small_sizes(func)
    assert all(runs(func, [at]) for at in small_sizes(func))


@pytest.mark.parametrize("word", ["float64", "max(", "range(7)"])
def test_types_operations_and_numbers_are_varied(word: str) -> None:
    assert word not in PLAIN
    find(varied(parse(PLAIN)), lambda func: word in text(func), settings=settings(QUIET, max_examples=5000))


@FEW
@given(documented(memory=False), st.data())
def test_odd_names_leave_a_program(func: Func, data: st.DataObject) -> None:
    named = data.draw(with_odd_names(func))
    verify(named, "schedule")
    assert runs(named, small_sizes(named)) == runs(func, small_sizes(func))
