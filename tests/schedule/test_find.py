"""Loops, statements and buffers are found by the names that the nest shows, and others refused with those there are."""

import pytest
from hypothesis import given, strategies as st

import loopir as lp
from loopir.errors import ScheduleError
from loopir.schedule.core.find import all_buffers, find_buffer, find_loop, find_serial, find_statement, join_names

NEST = lp.parse("""
def f(n: "size", A: "float32[n, 4]", B: "out float32[n]"):
    with alloc("float32[n]") as T:
        for i in range(n):
            for j in parallel(4):
                T[i] = A[i, j]
        for k in range(n):
            B[k] = T[k]
""")


@pytest.mark.parametrize("loop", "ijk")
def test_a_loop_is_found_by_its_variable(loop: str) -> None:
    assert find_loop(NEST, loop).var == loop


@pytest.mark.parametrize("label", "TB")
def test_a_statement_is_found_by_its_label(label: str) -> None:
    assert find_statement(NEST, label).stmt.label == label


@pytest.mark.parametrize("find", [find_loop, find_buffer, find_statement])
def test_what_is_not_there_is_refused_by_name(find) -> None:
    with pytest.raises(ScheduleError, match="'Z'"):
        find(NEST, "Z")


def test_all_buffers_are_arguments_and_allocations() -> None:
    assert {b.name for b in all_buffers(NEST)} == {"A", "B", "T"}
    assert {find_buffer(NEST, n).name for n in "ABT"} == {"A", "B", "T"}


def test_a_loop_of_another_kind_is_not_serial() -> None:
    assert find_serial(NEST, "i").kind == "serial"
    with pytest.raises(ScheduleError, match="parallel"):
        find_serial(NEST, "j")


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4, unique=True))
def test_names_are_joined_as_a_sentence_has_them(names: list[str]) -> None:
    joined = join_names(names)
    assert all(n in joined for n in names)
    assert len(names) == 1 or " and " in joined
