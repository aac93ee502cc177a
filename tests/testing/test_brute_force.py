"""What is refused is not legal, and what is accepted is: the brute force, and that it can tell."""

from __future__ import annotations

import pytest

import loopir as lp
from loopir.analysis.presburger import solver
from loopir.errors import ScheduleError
from loopir.schedule.core.trace import Step
from loopir.testing.legality import verdict
from loopir.testing.oracles.brute_force import first_violation, small_sizes, tagged
from loopir.testing.oracles.unchecked import unchecked

SWEEP = lp.parse("""
def sweep(n: "size", a: "inout float32[n + 1, n + 1]"):
    for i in range(n):
        for j in range(n):
            a[i + 1, j] = a[i, j + 1] + 1.0
""")
SHIFTED = lp.parse("""
def shifted(n: "size", a: "inout float32[n + 1]"):
    for i in range(n):
        a[i] = a[i + 1] * 2.0
""")


def test_the_rewrite_itself_is_there_without_the_checks_and_only_then() -> None:
    s = lp.Schedule(SWEEP)
    with unchecked():
        wrong = s.reorder("j", "i").func
    assert first_violation(SWEEP, wrong, small_sizes(SWEEP)) is not None
    with pytest.raises(ScheduleError, match="the other way round"):
        s.reorder("j", "i")


@pytest.mark.parametrize(
    ("func", "step", "expected"),
    [
        (SWEEP, Step("reorder", ("j", "i"), ()), "refused"),
        (SWEEP, Step("skew", ("i", "j"), ()), "accepted"),
        (SWEEP, Step("parallel", ("j",), ()), "accepted"),
        (SWEEP, Step("parallel", ("i",), ()), "refused"),
        (SWEEP, Step("reorder", ("i", "k"), ()), "no rewrite"),
        (SHIFTED, Step("parallel", ("i",), ()), "refused"),
    ],
    ids=str,
)
def test_verdicts(func: lp.Func, step: Step, expected: str) -> None:
    assert verdict(func, step)[0] == expected


def test_what_the_solver_gave_up_on_is_no_refusal_of_what_is_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    func = lp.parse(lp.text(SWEEP).replace("a[i + 1, j]", "a[(3 * i + 2 * j) // 5, j]"))
    monkeypatch.setattr(solver, "WORK", 1)
    monkeypatch.setattr(solver, "MIN_OPERATIONS", 1)
    with pytest.raises(ScheduleError, match="was not decided"):
        verdict(func, Step("parallel", ("j",), ()))


def test_lanes_are_run_together() -> None:
    """Reading ahead is no trouble to lanes, reading back is."""
    s = lp.Schedule(SHIFTED).split("i", 4, tail="peel")
    assert verdict(s.func, Step("vectorize", ("i_i",), ()))[0] == "accepted"
    back = lp.parse("""
def back(a: "inout float32[5]"):
    for i in range(4):
        a[i + 1] = a[i] * 2.0
""")
    assert verdict(back, Step("vectorize", ("i",), ()))[0] == "refused"


def test_two_writes_of_one_statement_differ_once_they_are_tagged() -> None:
    same = lp.parse("""
def same(a: "inout float32[1]"):
    for i in range(4):
        for j in range(4):
            if i + j < 4:
                a[0] = 1.0
""")
    with unchecked():
        turned = lp.Schedule(tagged(same)).reorder("j", "i").func
        plain = lp.Schedule(same).reorder("j", "i").func
    assert first_violation(same, plain, [{}]) is None
    assert first_violation(tagged(same), turned, [{}]) is not None


def test_a_value_that_nobody_reads_may_go_where_another_is_made_again() -> None:
    source = """
def rings(n: "size", A: "int32[n + 2]", Y: "out int32[n]"):
    with alloc("int32[n + 2]") as T:
        for j in range(n):
            for i in range(min(j, 1) * -2 + 3):
                T[j + min(j, 1) * 2 + i] = A[j + min(j, 1) * 2 + i]
        for j_1 in range(n):
            Y[j_1] = maximum(T[j_1], T[j_1 + 1])
"""
    assert verdict(lp.parse(source), Step("compute_at", ("T", "j_1"), ()))[0] == "accepted"


def test_copies_beside_writes_of_other_elements_are_legal() -> None:
    """cache_read and cache_write refused by the name of the buffer; now by the elements and their order."""
    func = lp.parse("""
def shift(n: "size", a: "inout float32[n + 2]"):
    for i in range(n):
        a[i] = a[i + 1] * 2.0
""")
    assert verdict(func, Step("cache_read", ("a", "a", "global"), ()))[0] == "accepted"
    assert verdict(func, Step("cache_write", ("a", "global"), ()))[0] == "accepted"
    back = lp.parse("""
def back(n: "size", a: "inout float32[n + 2]"):
    for i in range(n):
        a[i + 1] = a[i] * 2.0
""")
    assert verdict(back, Step("cache_read", ("a", "a", "global"), ()))[0] == "refused"
    assert verdict(back, Step("cache_write", ("a", "global"), ()))[0] == "refused"


def test_what_the_ring_tells_apart_is_legal_where_the_field_does_not_and_only_there() -> None:
    """Division is any function over the ring: a quotient may be taken otherwise only by the laws of a field."""
    source = """
def f(S: "float32[4]", L: "float32[4]", Y: "out float32[4]"):
    for i in range(4):
        Y[i]: "{}" = {}
"""
    values = ("S[i] / L[i]", "S[i] * (1.0 / L[i])", "L[i] / S[i]")
    one, same, other = (lp.parse(source.format(f"Y_{n}", x)) for n, x in enumerate(values))
    assert first_violation(one, same, [{}]) is None
    assert "Y[0] is" in str(first_violation(one, other, [{}]))


ADDED = """
def f(A: "float32[2, 4]", Y: "inout float32[4]"):
    for q in bind("threadIdx.x", 2):
        if q == 1:
            for i in range(4):
                Y[i] = sum(A[q, i], over=q{one})
        else:
            for j in range(4):
                Y[j] = {two}(A[q, j], over=q{other}, label="Z")
"""


@pytest.mark.parametrize(
    ("one", "two", "other", "races"),
    [
        (", atomic=True", "sum", ", atomic=True", False),
        (", atomic=True", "max", ", atomic=True", True),
        (", atomic=True", "sum", "", True),
        ("", "sum", "", True),
    ],
)
def test_atomic_updates_of_two_statements_race_unless_one_monoid_makes_them(
    one: str, two: str, other: str, *, races: bool
) -> None:
    func = lp.parse(ADDED.format(one=one, two=two, other=other))
    assert (first_violation(func, func, [{}]) is not None) is races


def test_versions_of_an_atomic_update_are_legal() -> None:
    func = lp.parse("""
def f(n: "size", A: "float32[2, n]", Y: "inout float32[n]"):
    for q in bind("threadIdx.x", 2):
        for i in range(n):
            Y[i] = sum(A[q, i], over=q, atomic=True)
""")
    assert verdict(func, Step("specialize", ("i", "q == 1"), ())) == ("accepted", "")
