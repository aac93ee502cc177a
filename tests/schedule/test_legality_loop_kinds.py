"""Lanes are folded together where a reduction is all that their loop holds, and nothing is put beside it."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.checking import QUIET
from loopir.testing.generate.steps import EXACT, arguments_of
from loopir.testing.oracles.brute_force import first_violation, small_sizes

HEAD = 'def f(A: "float32[3, 4]", B: "float32[4]", Y: "out float32[3]", Z: "out float32[3, 4]"):\n'
DOT = f"""{HEAD}    for i in range(3):
        for k in vectorize(4):
            Y[i] = sum(A[i, k] * B[k], over=k, init=0.0)
        for h in range(4):
            Z[i, h] = A[i, h] + 1.0
"""
GUARDED = f"""{HEAD}    for i in range(3):
        for k in vectorize(4):
            if k < 1:
                Y[i] = sum(A[i, k], over=k, init=0.0)
            Z[i, k] = A[i, k] + 1.0
"""
PADDED = """
def f(A: "float32[8]", S: "inout float32[1]", E: "out float32[8]"):
    with alloc("float32[2]") as X:
        for j in range(2):
            X[j] = select(j < 1, A[j + 7], 0.0)
        for i in vectorize(2):
            if i < 1:
                S[0] = sum(X[i], over=i)
            E[i] = A[i]
"""
IN_TURN = """
def f(A: "float32[8]", E: "out float32[8]"):
    with alloc("float32[8]") as X:
        for i in vectorize(16):
            if i < 8:
                X[i] = A[i]
            else:
                E[i - 8] = X[i - 8]
"""
"""Lanes take the two sides one after the other."""
REFUSED = {
    'cache_write("X", "local", at="i")': IN_TURN,
    'cache_read("Y", "A", "local", at="k")': DOT,
    'reindex("Y", "A", at="k")': DOT,
    'pad("S")': PADDED,
}


@pytest.mark.parametrize("step", REFUSED)
def test_what_would_stand_where_lanes_run_together_is_refused(step: str) -> None:
    s = lp.Schedule(parse(REFUSED[step]))
    with pytest.raises(ScheduleError, match=r"the lanes of '[ik]' would run together"):
        eval(f"s.{step}", {"s": s})


@settings(QUIET, max_examples=60)
@given(st.data())
def test_no_step_lets_lanes_write_one_element(data: st.DataObject) -> None:
    func = parse(data.draw(st.sampled_from((DOT, GUARDED))))
    name = data.draw(st.sampled_from(EXACT))
    args, kwargs = data.draw(arguments_of(PRIMITIVES[name], func))
    try:
        after = lp.Schedule(func).apply(Step(name, args, tuple(kwargs.items()))).func
    except ScheduleError:
        return
    assert first_violation(func, after, small_sizes(func)) is None
