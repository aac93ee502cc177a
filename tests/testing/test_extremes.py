"""Extreme programs have large numbers and short loops: any size takes few iterations."""

from hypothesis import given, settings

from loopir.ir.verify.verify import verify
from loopir.testing.generate.extremes import EDGES, Extreme, edge, extremes


@settings(max_examples=200)
@given(edge())
def test_an_edge_is_near_0_or_3000_or_an_end_of_integers(number: int) -> None:
    assert min(abs(abs(number) - e) for e in (0, 3000, *EDGES)) <= 3


@settings(max_examples=50)
@given(edge(least=0))
def test_a_least_number_is_kept_to(number: int) -> None:
    assert number >= 0


@settings(max_examples=40, deadline=None)
@given(extremes())
def test_all_arrays_of_a_program_are_given_but_the_output(program: Extreme) -> None:
    verify(program.func)
    inputs = {a.buffer.name for a in program.func.args if a.access == "in"}
    assert inputs == program.arrays.keys()
    assert all(len(a) <= 4 for a in program.arrays.values())
    assert all(size >= 0 for size in program.sizes.values())
