"""Which intermediates are a nest's own, and rows of them for each iteration of its outermost loop."""

import pytest

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.common.row_intermediates import own_buffers, statements_beside, with_own_rows

TEXT = """
def f(x: "int32[6, 8]", y: "out int32[6, 8]", z: "out int32[6, 8]"):
    with alloc("int32[6, 2, 8]") as t, alloc("int32[6, 8]") as u:
        for r in range(6):
            for i in range(8):
                t[r, 0, i] = x[r, 7 - i]
            for i in range(4):
                with alloc("int32[]") as first:
                    first[()] = t[r, 0, i * 2]
                    t[r, 1, i] = t[r, 0, i * 2 + 1]
                    t[r, 1, i + 4] = first[()]
            for i in range(8):
                y[r, i] = t[r, 1, i]
                u[r, i] = t[r, 1, 7 - i]
        for r in range(6):
            for i in range(8):
                z[r, i] = u[r, i]
"""


def test_intermediates_of_one_nest_are_its_own() -> None:
    s = lp.Schedule(lp.parse(TEXT))
    assert own_buffers(s, s.stages[0]) == ["t"]  # not u, which is read later, nor what an iteration inside has
    assert len(statements_beside(s, s.stages[0])) == 6


def test_each_iteration_has_a_row() -> None:
    s = lp.Schedule(lp.parse(TEXT))
    made = with_own_rows(s, s.stages[0], 64)
    assert lp.text(made.buffer("t").shape[0]) == "1"
    assert own_buffers(made, made.stages[0]) == ["t"]
    assert_equivalent(s, made)


def test_rows_that_take_too_much_are_refused() -> None:
    s = lp.Schedule(lp.parse(TEXT))
    with pytest.raises(lp.ScheduleError, match="take more than 63 bytes"):
        with_own_rows(s, s.stages[0], 63)
    with pytest.raises(lp.ScheduleError, match="has no intermediates"):
        with_own_rows(s, s.stages[-1], 64)
