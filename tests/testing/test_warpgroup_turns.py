"""Random programs whose warpgroups take turns mean the same, and run as threads without race or deadlock."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st
from meaning import require_decided

import loopir as lp
from loopir.errors import LowerError, TargetError
from loopir.ir.grammar import Func
from loopir.testing.generate.candidate_steps import candidate_steps
from loopir.testing.generate.strategies import arrays_for
from loopir.testing.generate.warpgroup_turns import warpgroups


@given(st.data())
@settings(max_examples=3)
def test_turns_change_no_value(data: st.DataObject) -> None:
    func: Func = data.draw(warpgroups())
    _, arrays = data.draw(arrays_for(func))
    steps = candidate_steps(func, "alternate")
    assert steps
    step = data.draw(st.sampled_from(steps))
    if (why := lp.Schedule(func).why("alternate", *step.args)) is not None:
        assert "is not in turns" in str(why)
        return
    s = lp.Schedule(func).apply(step)
    assert lp.parse(str(s)) == s.func
    want = lp.interpret(func, arrays)
    assert_equal(lp.interpret(s.func, arrays), want)
    lowered = _lowered(s)
    if lowered is None:  # as it is without turns
        assert _lowered(lp.Schedule(func)) is None
        return
    assert_equal(lp.interpret(lowered, arrays, seed=data.draw(st.integers(0, 9))), want)


def _lowered(s: lp.Schedule) -> Func | None:
    try:
        return lp.lower(s, "cuda")[0]
    except (LowerError, TargetError) as error:
        require_decided(error)
        return None


def assert_equal(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    for name, x in want.items():
        assert np.array_equal(got[name], x), name
