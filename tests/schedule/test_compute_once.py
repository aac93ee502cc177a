"""compute_once: values are read where they are stored by then, unchanged, and in scope; else it is refused."""

from __future__ import annotations

import pytest
from meaning import assert_same

import loopir as lp
from loopir.schedule.core.trace import Step
from loopir.testing.legality import verdict

AFTER = """
def f(n: "size", A: "inout float32[n + 2]", S: "out float32[1]", B: "out float32[n]"):
    assume(1 <= n)
    with alloc("float32[n]") as M:
        for i in range(n):
            S[0] = sum(exp(A[{at}] - 1.0) * A[i], over=i, init=0.0)
        with alloc("float32[n]") as E:
{between}            for j in range(n):
                E[j] = exp(A[j] - 1.0)
            for k in range(n):
                B[k] = E[k]
"""
BETWEEN = "            for w in range(n):\n                A[w] = 2.0\n"


def test_a_stage_after_its_reader_moves_before_it_and_its_memory_with_it() -> None:
    s = lp.Schedule(lp.parse(AFTER.format(at="i", between="")))
    t = s.compute_once("E", "S")
    assert "sum(E[i] * A[i], over=i" in str(t)
    for n in (1, 2, 5):
        assert_same(s.func, t.func, {"n": n})


@pytest.mark.parametrize(
    ("at", "between", "told"),
    [("i", BETWEEN, "would reverse two dependent instances"), ("i + 1", "", "which is not known to be stored")],
)
def test_other_values_are_not_read(at: str, between: str, told: str) -> None:
    why = lp.Schedule(lp.parse(AFTER.format(at=at, between=between))).why("compute_once", "E", "S")
    assert why is not None
    assert told in why.reason


ENDED = """
def f(A: "float32[6]", B: "out float32[6]", C: "out float32[6, 6]"):
    with alloc("float32[6]") as E, alloc("float32[6]") as F:
        for i in range(6):
            E[i] = A[i] * 2.0
        for f in range(6):
            F[f] = E[f] + 1.0
        for j in range(6):
            B[j] = F[5 - j]
    for k in range(6):
        for l in range(6):
            C[l, k] = A[l] * 2.0 + A[k] * 2.0
"""


def test_memory_is_kept_until_the_reader_has_read_it() -> None:
    s = lp.Schedule(lp.parse(ENDED))
    t = s.compute_once("E", "C")
    assert "C[l, k] = E[l] + E[k]" in str(t)
    assert_same(s.func, t.func, {})
    assert verdict(s.func, Step("compute_once", ("E", "C"), ())) == ("accepted", "")


SIDES = """
def f(n: "size", A: "float32[6]", B: "out float32[6]", E: "out float32[6]"):
    if n < 3:
        for i in range(6):
            E[i] = A[i] * 2.0
    else:
        for j in range(6):
            B[j] = A[j] * 2.0
"""


def test_what_stands_on_the_other_side_of_a_test_is_not_read() -> None:
    why = lp.Schedule(lp.parse(SIDES)).why("compute_once", "E", "B")
    assert why is not None
    assert "is in no nest beside that of loop 'i'" in why.reason


def test_a_copy_is_read_in_place_of_what_it_copies() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", S: "out float32[1]", B: "out float32[8]"):
    with alloc("float32[8]") as C:
        for i in range(8):
            C[i] = A[i]
        for j in range(8):
            S[0] = sum(exp(A[j]), over=j, init=0.0)
        for k in range(8):
            B[k] = C[k]
""")
    )
    t = s.compute_once("C", "S")
    assert "exp(C[j])" in str(t)
    assert_same(s.func, t.func, {})
