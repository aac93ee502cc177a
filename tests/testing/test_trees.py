"""Trees of any form verify at their stage and print as what parses to the same tree."""

from hypothesis import HealthCheck, given, settings, strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars
from loopir.testing.generate.trees import anything, conditions, indices

SLOW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(anything())
def test_what_is_drawn_prints_and_parses_as_itself(func: Func) -> None:
    assert parse(text(func)) == func


@SLOW
@given(st.one_of(indices(["i", "n"]), conditions(["i", "n"])))
def test_an_index_speaks_of_the_names_it_is_given(node) -> None:
    assert free_vars(node) <= {"i", "n"}
