"""Asking why never ends in an error of another kind: what cannot be done is refused, in a sentence."""

import pytest

import loopir as lp
from loopir.errors import ScheduleError

TURNS = """
def f(A: "float32[4, 2]", B: "out float32[4, 2]", C: "out float32[4, 2]"):
    for t in range(4):
        FIRST
            for g in bind("warpgroup", 2):
                B[t, g] = A[t, g] * 2.0
                INNER
                    for x in range(1):
                        C[t, g + x] = exp(B[t, g + x])
"""


def test_turns_in_turns_are_refused() -> None:
    inner = lp.Schedule(lp.parse(TURNS.replace("FIRST", "if t < 4:").replace("INNER", "with turns():")))
    with pytest.raises(ScheduleError, match="warpgroups take turns with a part of 'g' already"):
        inner.alternate("g")
    outer = lp.Schedule(lp.parse(TURNS.replace("FIRST", "with turns():").replace("INNER", "if t < 4:")))
    with pytest.raises(ScheduleError, match="warpgroups take turns with 'g' already"):
        outer.alternate("g")


def test_turns_that_are_moved_into_turns_are_refused() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[4, 2]", B: "out float32[4, 2]", C: "out float32[4, 2]"):
    for t in range(4):
        with turns():
            for g in bind("warpgroup", 2):
                B[t, g] = A[t, g] * 2.0
        with turns():
            for h in bind("warpgroup", 2):
                C[t, h] = exp(B[t, h])
""")
    )
    with pytest.raises(ScheduleError, match="turns stand in turns"):
        s.reverse_compute_at("C", "g")
