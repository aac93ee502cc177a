"""Rows of a nest: every line once, each with the innermost loop around it, and heads with their margins."""

import pytest

import loopir as lp
from loopir.ir.printer import lines
from loopir.show.rows import folded_rows, rows, taken_at
from loopir.testing.generate.nests import NESTS, constant


@pytest.mark.parametrize("name", NESTS)
def test_every_line_is_a_row_and_every_loop_the_head_of_one(name: str) -> None:
    func = constant(name)
    found = rows(func)
    assert [r.line for r in found] == lines(func)
    assert {r.loop for r in found if r.cells} <= {*lp.Schedule(func).loops()}


@pytest.mark.parametrize("name", NESTS)
def test_folded_rows_are_rows_and_lines_for_what_is_left_out(name: str) -> None:
    every = rows(constant(name))
    assert folded_rows(every, 99) == every
    shown = folded_rows(every, 1)
    assert len(shown) <= len(every)
    assert all(r in every or r.cells == () for r in shown)


def test_sizes_are_named_where_there_are_some() -> None:
    func = lp.parse('def f(n: "size", A: "out float32[n]"):\n    for i in range(n):\n        A[i] = 0.0\n')
    assert taken_at(func, {"n": 7}) == "at n=7"
    assert taken_at(func).startswith("at n=")
    assert taken_at(lp.parse('def g(A: "out float32[1]"):\n    A[0] = 0.0\n')) == ""
