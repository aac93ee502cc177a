"""How mutants are hunted: one example each draws a program and steps, and puts what comes out to the oracles.

These are the trials that the tests of primitives and the fuzz run are made of, narrowed to the primitives whose rule
the fault is in.
"""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step, script
from loopir.testing.checking import Wrong, judge_case
from loopir.testing.fuzz import QUICK
from loopir.testing.generate.candidate_steps import random_candidate_steps
from loopir.testing.generate.steps import Crash
from loopir.testing.generate.strategies import arrays_for
from loopir.testing.generate.tiny import tiny
from loopir.testing.mutants.mutant import Hunt
from loopir.testing.oracles.oracles import Case, false_witness


def steps(
    *primitives: str,
    programs: st.SearchStrategy[Func] | None = None,
    most: int = 2,
    oracles: Collection[str] = QUICK,
    in_turn: bool = False,
    **told: object,
) -> Hunt:
    """Random programs under up to `most` plausible steps of `primitives`; `in_turn`, one of each in this order.

    `told` are arguments that all steps have, such as tail="peel"."""
    drawn = tiny() if programs is None else programs

    def hunt(data: st.DataObject) -> None:
        func = data.draw(drawn)

        def refused(before: Func, step: Step, error: ScheduleError) -> None:
            if why := false_witness(before, error):
                raise Wrong("witness", why, str(step), before, None, {})

        try:
            s = Schedule(func)
            for names in [(x,) for x in primitives] if in_turn else [primitives]:
                taken = data.draw(
                    random_candidate_steps(s.func, names, most=1 if in_turn else most, told=told, refused=refused)
                )
                s = s.replay(taken.trace)
        except Crash as crash:
            why = f"{type(crash.cause).__name__}: {crash.cause}"
            raise Wrong("crash", why, script([*crash.before.trace, crash.step]), func, None, {}) from crash.cause
        sizes, arrays = data.draw(arrays_for(func))
        if s.trace:
            judge_case(Case(func, s.func, sizes, arrays), script(s.trace), oracles)

    return hunt
