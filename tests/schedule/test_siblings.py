"""Two nests made neighbours: memory is moved so that they stand side by side, and the program stays the same."""

import pytest

import loopir as lp
from loopir.errors import ScheduleError
from loopir.schedule.core.find import find_loop
from loopir.schedule.transform.siblings import (
    body_with,
    extend_allocs_back,
    extend_allocs_forward,
    require_next,
    under_one_guard,
)
from loopir.testing import assert_equivalent

BACK = """
def f(A: "float32[4]", B: "out float32[4]", C: "out float32[4]"):
    for i in range(4):
        B[i] = A[i]
    with alloc("float32[4]") as T:
        for j in range(4):
            T[j] = A[j]
        for k in range(4):
            C[k] = T[3 - k]
"""
FORWARD = """
def f(A: "float32[4]", B: "out float32[4]", C: "out float32[4]"):
    with alloc("float32[4]") as T:
        for k in range(4):
            T[k] = A[k]
        for i in range(4):
            C[i] = T[3 - i]
    for j in range(4):
        B[j] = A[j]
"""
GUARDED = """
def f(n: "size", A: "out float32[4]", B: "out float32[4]"):
    for x in range(4):
        A[x] = 0.0
        B[x] = 0.0
    if n < 4:
        for i in range(4):
            A[i] = 1.0
    if n < 4:
        for j in range(4):
            B[j] = 1.0
"""


@pytest.mark.parametrize(
    ("source", "move"),
    [(BACK, extend_allocs_back), (FORWARD, extend_allocs_forward), (GUARDED, under_one_guard)],
    ids=["back", "forward", "guard"],
)
def test_loops_become_neighbours_in_the_same_program(source: str, move) -> None:
    func = lp.parse(source)
    first, second = "i", "j"
    assert body_with(func, find_loop(func, first)) != body_with(func, find_loop(func, second))
    new = move(func, first, second)
    level = body_with(new, find_loop(new, first))
    assert find_loop(new, second) in level
    require_next(new, find_loop(new, first), find_loop(new, second))
    assert_equivalent(func, new)


def test_what_stands_between_is_refused() -> None:
    func = lp.parse(BACK)
    with pytest.raises(ScheduleError):
        require_next(func, find_loop(func, "i"), find_loop(func, "k"))
