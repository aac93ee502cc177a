"""Programs around the nest of an instruction: they run, and hold what some instruction does."""

from __future__ import annotations

from hypothesis import given, settings

from loopir.ir.grammar import Func
from loopir.ir.ops import INSTRUCTIONS
from loopir.ir.traverse.walk import loops
from loopir.testing.checking import QUIET
from loopir.testing.generate.instructed import instructed
from loopir.testing.generate.steps import done_by
from loopir.testing.oracles.brute_force import runs


@settings(QUIET, max_examples=15)
@given(instructed())
def test_a_nest_of_an_instruction_is_a_program_that_holds_it(func: Func) -> None:
    assert runs(func, [{}])
    assert any(done_by(fn, x) for x in loops(func.body) for fn in INSTRUCTIONS.values())
