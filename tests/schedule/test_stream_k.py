"""Folds dealt out in parts of one length: what they give, at every length, and what is turned down."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.ir.grammar import Loop
from loopir.ir.traverse.walk import statements

ROWS = """
def f(A: "float32[{t}, {k}]", S: "out float32[{t}]"):
    for i in range({t}):
        for k in range({k}):
            S[i] = sum(A[i, k], over=k, init=2.0)
"""
TILES = """
def f(A: "float32[7, 10]", B: "float32[10, 3]", C: "out float32[7, 3]"):
    for t in range(4):
        for ko in range(4):
            for i in range(2):
                if t * 2 + i < 7:
                    for j in range(3):
                        for k in range(3):
                            if ko * 3 + k < 10:
                                C[t * 2 + i, j] = sum(
                                    A[t * 2 + i, ko * 3 + k] * B[ko * 3 + k, j], over=(ko, k), init=0.0)
"""
BEST = """
def f(A: "float32[5, 6]", V: "out float32[5]", I: "out int32[5]"):
    for i in range(5):
        for k in range(6):
            V[i], I[i] = argmax(A[i, k], int32(k), over=k, init=(0.0, 0))
"""
ADDED = """
def f(A: "float32[5, 6]", S: "inout float32[5]"):
    for i in range(5):
        for k in range(6):
            S[i] = sum(A[i, k], over=k)
"""
READ = """
def f(S: "inout float32[6]"):
    for i in range(5):
        for k in range(4):
            S[i + 1] = sum(S[i] * 2.0, over=k, init=0.0)
"""


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 60))
@settings(max_examples=45, deadline=None)
def test_it_is_the_same_for_all_lengths(t: int, k: int, parts: int) -> None:
    s = lp.Schedule(lp.parse(ROWS.format(t=t, k=k)))
    made = s.stream_k("S", "i", "k", parts)
    assert_same(s.func, made.func, {})
    dealt = next(x for x in statements(made.func.body) if isinstance(x, Loop))
    assert dealt.extent.value == -(-t * k // -(-t * k // parts))  # none is empty, and all but the last are alike


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_no_index_has_a_much_shorter_form(t: int, k: int, parts: int) -> None:
    made = lp.Schedule(lp.parse(ROWS.format(t=t, k=k))).stream_k("S", "i", "k", parts)
    assert len(lp.text(made.func)) < 1.5 * len(lp.text(made.simplify().func))


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7, 16])
def test_tiles_with_guards(parts: int) -> None:
    s = lp.Schedule(lp.parse(TILES))
    made = s.stream_k("C", "t", "ko", parts)
    assert_same(s.func, made.func, {})
    assert_same(s.func, made.parallel("part").func, {})


@pytest.mark.parametrize("source", [BEST, ADDED], ids=["two results", "no init"])
def test_other_folds(source: str) -> None:
    s = lp.Schedule(lp.parse(source))
    assert_same(s.func, s.stream_k("V" if source is BEST else "S", "i", "k", 4).func, {})


def test_what_reads_the_results_is_refused() -> None:
    s = lp.Schedule(lp.parse(READ))
    with pytest.raises(lp.ScheduleError, match=r"writes S\[1\], which S at \(i=1, k=0\) reads later"):
        s.stream_k("S", "i", "k", 2)


def test_other_loops_than_those_are_refused() -> None:
    s = lp.Schedule(lp.parse(TILES))
    with pytest.raises(lp.ScheduleError, match="not directly inside"):
        s.stream_k("C", "ko", "k", 2)
    with pytest.raises(lp.ScheduleError, match="not directly inside"):
        s.stream_k("C", "t", "k", 2)
