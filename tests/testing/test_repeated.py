"""Programs that compute values twice: compute_once takes some of them, and keeps what they give."""

from __future__ import annotations

from hypothesis import find, given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Func
from loopir.testing.checking import QUIET
from loopir.testing.generate.candidate_steps import candidate_steps
from loopir.testing.generate.repeated import repeated
from loopir.testing.oracles.brute_force import first_violation, small_sizes


def accepted(func: Func) -> list[Func]:
    """What compute_once makes of `func`, where it does."""
    s = lp.Schedule(func)
    steps = [step for step in candidate_steps(func, "compute_once") if s.why(step.name, *step.args) is None]
    return [s.apply(step).func for step in steps]


def test_some_are_accepted() -> None:
    find(repeated(), lambda func: bool(accepted(func)))


@settings(QUIET, max_examples=40)
@given(repeated(), st.data())
def test_what_is_accepted_keeps_the_meaning(func: Func, data: st.DataObject) -> None:
    made = accepted(func)
    if made:
        assert first_violation(func, data.draw(st.sampled_from(made)), small_sizes(func)) is None
