"""Loops that run past their extent: taken exactly where nobody sees what the extra iterations do."""

import pytest
from meaning import assert_same

from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule


@pytest.mark.parametrize(
    ("extent", "guard", "taken"),
    [
        ("(n + 2) // 3", "i * 3 + x < n", True),
        ("n", "i + x < n", True),
        ("n", "i - x < n", False),
        ("3", "i * 3 + x < 8", True),
    ],
)
def test_rounding_up_past_what_guards_keep_inside(extent: str, guard: str, taken: bool) -> None:
    at = guard.split(" < ")[0]
    s = Schedule(
        parse(f"""
def f(n: "size", A: "float32[n + 8]", B: "inout float32[n + 8]"):
    for i in range({extent}):
        for x in range(3):
            if 0 <= {at} and {guard}:
                B[{at}] = A[{at}] * 2.0
""")
    )
    error = s.why("split", "i", 4, tail="round_up")
    assert (error is None) == taken, error
    if taken:
        for n in range(8):
            assert_same(s.func, s.split("i", 4, tail="round_up").func, {"n": n})


def test_the_start_of_a_fold_is_not_kept_inside_by_a_guard_of_what_it_is_over() -> None:
    s = Schedule(
        parse("""
def f(n: "size", A: "float32[n, 3]", B: "inout float32[n]"):
    for i in range(n):
        for k in range(3):
            if i + k < n:
                B[i] = sum(A[i, k], over=k, init=0.0)
""")
    )
    assert s.why("split", "i", 4, tail="round_up") is not None


@pytest.mark.parametrize(("end", "taken"), [("i + 1", False), ("3", True), ("n", True)])
def test_rounding_up_past_an_end_that_stays_where_it_is(end: str, taken: bool) -> None:
    """What is past i + 1 in one iteration of i was taken for past it in all, and later ones read what was written."""
    s = Schedule(
        parse(f"""
def f(n: "size", A: "float32[n + 8]", Y: "inout float32[4, n + 8]"):
    with alloc("float32[n + 8]") as T:
        for g in range(n + 8):
            T[g] = A[g]
        for i in range(4):
            for k in range({end}):
                Y[i, k] = T[k]
            for j in range({end}):
                T[j]: "late" = A[j + 1]
""")
    )
    error = s.why("split", "j", 4, tail="round_up")
    assert (error is None) == taken, error
    if taken:
        assert_same(s.func, s.split("j", 4, tail="round_up").func, {"n": 3})
    else:
        assert "past i + 1 iterations of 'j', late would write T[j], which is read" in str(error)


@pytest.mark.parametrize(
    ("fill", "taken"),
    [
        ("for k in range(2): R[k] = A[j]", True),
        ("for k in range(3 - j): R[0] = A[k]", False),
        ("if j < 3: R[0] = A[j]", False),
        ("R[j // 3] = A[j]", False),
    ],
)
def test_rounding_up_an_iteration_that_fills_what_it_reads(fill: str, taken: bool) -> None:
    """An iteration past the end read memory of its own that it had not filled."""
    lines = fill.replace(": ", ":\n                    ")
    s = Schedule(
        parse(f"""
def f(A: "float32[8]", Y: "inout float32[4]"):
    with alloc("float32[8]") as T:
        for j in range(3):
            with alloc("float32[2]") as R:
                {lines}
                T[j] = R[0] * 2.0
        for h in range(3):
            Y[h] = T[h]
""")
    )
    error = s.why("split", "j", 4, tail="round_up")
    assert (error is None) == taken, error
    if taken:
        assert_same(s.func, s.split("j", 4, tail="round_up").func, {})
    else:
        assert "past 3 iterations of 'j', T would read R, of which it may have written nothing" in str(error)


def test_rounding_up_names_the_statement_that_would_go_too_far() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[8]", B: "out float32[8]", C: "inout float32[9]"):
    for i in range(8):
        C[i] = A[i // 2]
        B[i] = A[i]
""")
    )
    with pytest.raises(ScheduleError, match="past 8 iterations of 'i', B would reach A"):
        s.split("i", 3, tail="round_up")
