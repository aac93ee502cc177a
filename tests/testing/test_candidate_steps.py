"""Candidate steps name what there is: each is taken, or refused in words, and most primitives have one."""

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.tiny import tiny

NAMES = sorted(TABLE)


def test_each_row_of_the_table_is_a_primitive() -> None:
    assert TABLE.keys() <= PRIMITIVES.keys()


@settings(max_examples=30, deadline=None)
@given(st.data(), tiny())
def test_a_candidate_is_taken_or_refused_in_words(data: st.DataObject, func: lp.Func) -> None:
    name = data.draw(st.sampled_from(NAMES))
    if listed := candidate_steps(func, name):
        step = data.draw(st.sampled_from(listed))
        assert step.name == name
        lp.Schedule(func).why(step.name, *step.args, **dict(step.kwargs))
