"""Asking why never ends in an error of another kind: what cannot be done is refused, in a sentence."""

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import loopir as lp
from loopir.errors import LoopirError, ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.traverse.walk import loops, replace, replace_loop
from loopir.ir.verify.verify import verify
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step, script
from loopir.testing.campaign import small_program
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.draws import between
from loopir.testing.generate.empties import with_empties
from loopir.testing.generate.guarded import guarded
from loopir.testing.generate.steps import arguments_of
from loopir.testing.legality import JUDGED, take

TURNS = """
def f(A: "float32[4, 2]", B: "out float32[4, 2]", C: "out float32[4, 2]"):
    for t in range(4):
        FIRST
            for g in bind("warpgroup", 2):
                B[t, g] = A[t, g] * 2.0
                INNER
                    for x in range(1):
                        C[t, g + x] = exp(B[t, g + x])
"""


def test_turns_in_turns_are_refused() -> None:
    inner = lp.Schedule(lp.parse(TURNS.replace("FIRST", "if t < 4:").replace("INNER", "with turns():")))
    with pytest.raises(ScheduleError, match="warpgroups take turns with a part of 'g' already"):
        inner.alternate("g")
    outer = lp.Schedule(lp.parse(TURNS.replace("FIRST", "with turns():").replace("INNER", "if t < 4:")))
    with pytest.raises(ScheduleError, match="warpgroups take turns with 'g' already"):
        outer.alternate("g")


def test_turns_that_are_moved_into_turns_are_refused() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[4, 2]", B: "out float32[4, 2]", C: "out float32[4, 2]"):
    for t in range(4):
        with turns():
            for g in bind("warpgroup", 2):
                B[t, g] = A[t, g] * 2.0
        with turns():
            for h in bind("warpgroup", 2):
                C[t, h] = exp(B[t, h])
""")
    )
    with pytest.raises(ScheduleError, match="turns stand in turns"):
        s.reverse_compute_at("C", "g")


KINDS = ("parallel", "vectorize", "unroll", "threadIdx.x", "threadIdx.y", "blockIdx.x", "blockIdx.y", "warpgroup")
LONGEST = 6_000
"""Programs of more characters have had their steps."""


@st.composite
def programs(draw: st.DrawFn) -> Func:
    """Anything that steps are tried on, or folds under guards; some with nests of nothing, and loops of other kinds."""
    memory = draw(st.booleans())
    drawn = guarded(memory=memory) if not draw(between(0, 2)) else small_program(draw(st.sampled_from(JUDGED)))
    func = draw(drawn)
    func = draw(with_empties(func)) if draw(st.booleans()) else func
    for loop in [*loops(func.body)] if draw(between(0, 3)) else ():
        if not draw(between(0, 3)):
            kind = draw(st.sampled_from(KINDS))
            made = replace_loop(func, loop.var, lambda s, kind=kind: replace(s, kind=kind))
            try:
                verify(made)
            except LoopirError:
                continue
            func = made
    return func


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(programs(), st.data())
def test_asking_why_raises_nothing(func: Func, data: st.DataObject) -> None:
    """In schedules of some steps, in which any step may be asked for."""
    try:
        s = lp.Schedule(func)
    except LoopirError:
        assume(False)
        raise
    for name in data.draw(st.lists(st.sampled_from(JUDGED), min_size=4, max_size=12)):
        if len(str(s)) > LONGEST:
            return
        if listed := candidate_steps(s.func, name) if name in TABLE else []:
            step = data.draw(st.sampled_from(listed))
        else:
            args, kwargs = data.draw(arguments_of(PRIMITIVES[name], s.func))
            step = Step(name, args, tuple(kwargs.items()))
        taken = take(s.func, step)
        assert not isinstance(taken, str), f"{lp.text(func)}\n{script([*s.trace, step])}\n{taken}"
        s = s.apply(step) if isinstance(taken, Func) else s
