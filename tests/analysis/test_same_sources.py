"""Elements that lie elsewhere: every read has the write that it had, or the two are not taken for the same."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.analysis.dataflow.equivalence import same_values
from loopir.analysis.dataflow.same_sources import same_sources
from loopir.analysis.dataflow.value_flow import Flow, Unanalyzable
from loopir.analysis.presburger.solver import ALGEBRA, question
from loopir.errors import ScheduleError
from loopir.testing.generate.candidate_steps import candidate_steps
from loopir.testing.generate.families import forms
from loopir.testing.legality import verdict
from loopir.testing.oracles.brute_force import first_violation, small_sizes

PROGRAM = """
def f(n: "size", A: "float32[n + 9]", B: "out float32[n]"):
    with alloc("float32[{rows}]") as T:
        for i in range({first}):
            T[{i}] = A[i]
        for j in range(n):
            {write}
            B[j] = T[{low}] + T[{high}]
"""
WRITES = {
    "once": "T[{next}] = A[j + {reach}]",
    "twice": "T[{next}] = A[j]\n            T[{next}] = A[j + {reach}]",
    "as a sum": "for k in range(3):\n                T[{next}] = sum(A[j + k], over=k, init=0.0)",
}


def program(rows: str, ring: int | None, reach: int, low: int, write: str = "once") -> lp.Func:
    """Rows of T, `reach` of them made before, two of which are read at a time; in a ring, if one is given."""

    def at(row: str) -> str:
        return row if ring is None else f"({row}) % {ring}"

    names = {"next": at(f"j + {reach}"), "reach": reach}
    return lp.parse(
        PROGRAM.format(rows=rows, first=reach, i=at("i"), low=at(f"j + {low}"), high=at(f"j + {reach}"),
                       write=WRITES[write].format(**names))
    )  # fmt: skip


def same(before: lp.Func, after: lp.Func) -> bool:
    with question(times=ALGEBRA), suppress(Unanalyzable):
        return same_sources(Flow(before, "F"), Flow(after, "G"))
    return False


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 4), st.data(), st.sampled_from(sorted(WRITES)))
def test_a_ring_has_the_same_sources_where_no_row_is_lost_before_its_last_read(
    reach: int, data: st.DataObject, write: str
) -> None:
    low, ring = data.draw(st.integers(0, reach)), data.draw(st.integers(1, 6))
    before, after = program("n + 9", None, reach, low, write), program(str(ring), ring, reach, low, write)
    assert same(before, after) == (ring > reach - low)
    if ring > reach - low:
        assert first_violation(before, after, small_sizes(before)) is None


def test_a_ring_that_is_smaller_than_its_buffer_is_left_by_no_access() -> None:
    assert not same(program("n + 9", None, 2, 0), program("2", 3, 2, 0))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A[j + 2]", "A[j + 1]"),  # another element of what is given
        ("B[j] =", "B[n - 1 - j] ="),  # results lie elsewhere
        ("+ T", "* T"),
        ("for j in range(n)", "for j in range(n - 1)"),
    ],
)
def test_what_differs_in_more_than_places_is_not_looked_into(old: str, new: str) -> None:
    before, after = program("n + 9", None, 2, 0), lp.text(program("3", 3, 2, 0))
    assert old in after
    assert not same(before, lp.parse(after.replace(old, new)))


USES = {
    "subscript of a store": "B[T[0] % 4] = 1",
    "subscript of a load": "B[i] = A[T[0] % 4]",
    "value": "B[i] = T[0]",
    "length": "for k in range(T[0] % 3):\n                        B[k] = i",
    "guard": "if T[0] < 3:\n                        B[i] = i",
}


@pytest.mark.parametrize("use", USES)
def test_a_read_that_says_where_or_whether_something_is_done_is_a_read(use: str) -> None:
    """T[0] is read where it was, and every iteration writes it, in place of T[i]."""
    text = f"""
        def f(A: "int32[4]", B: "out int32[4]"):
            with alloc("int32[4]") as T:
                for i in range(4):
                    T[i] = A[i]
                    {USES[use]}
    """
    assert not same(lp.parse(text), lp.parse(text.replace("T[i] =", "T[0] =")))
    assert not same_values(lp.parse(text), lp.parse(text.replace("T[i] =", "T[0] =")))


def test_subscripts_that_read_more_are_others() -> None:
    text = """
        def f(A: "int32[4]", B: "out int32[4]"):
            with alloc("int32[4]") as T:
                for i in range(4):
                    T[i] = i
                for j in range(4):
                    B[j] = A[T[j] % 4]
    """
    assert not same(lp.parse(text), lp.parse(text.replace("T[j] % 4", "(T[j] + T[0]) % 4")))
    assert not same_values(lp.parse(text), lp.parse(text.replace("T[j] % 4", "(T[j] + T[0]) % 4")))


NUMBERS = """
def f(n: "size", Y: "out float32[n]"):
    with alloc("float32[6]") as T:
        for i in range(n):
            for j in range(6):
                T[j] = prod(1.0 * 1.0, over=i, init=-2.5)
        for r in range(n):
            Y[r] = T[1]
"""


def test_folds_of_the_identity_are_folds() -> None:
    """T[5] would go into the place of T[1], and both folds with it: the same number, of other writes."""
    with pytest.raises(ScheduleError, match=r"T\[4\] would lie where T\[0\] lies"):
        lp.Schedule(lp.parse(NUMBERS)).fold_storage("T", 0, 4)


@settings(max_examples=40, deadline=None)
@given(
    forms(("constant_folds",)), st.sampled_from(["fold_storage", "distribute", "vectorize", "cache_write"]), st.data()
)
def test_steps_that_compare_values_keep_the_writes(func: lp.Func, name: str, data: st.DataObject) -> None:
    if listed := candidate_steps(func, name):
        step = data.draw(st.sampled_from(listed))
        found, told = verdict(func, step)
        assert found not in ("accepted, illegal", "crash"), f"{step}\\n{told}"
