"""Schedule functions of one's own: a function of a Schedule that takes several steps counts as one.

It is named in the trace with its arguments, undone as a whole, and what it took stands inside the step, so that
`script` and `replay` need nothing but the primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from loopir.errors import ScheduleError
from loopir.schedule.core.trace import Step
from loopir.schedule.schedule import Schedule

P = ParamSpec("P")
Recipe = Callable[Concatenate[Schedule, P], Schedule]


def composite(f: Recipe[P]) -> Recipe[P]:
    """Decorator: calls of `f(s, ...)`, which takes steps on the Schedule `s` and returns where they lead, are one step.

    A refusal inside is a ScheduleError whose `.call` names the outer call, too, and leaves `s` as it was. `f` has to
    return a Schedule that comes from `s` by steps; TypeError or ValueError otherwise.

        @lp.composite
        def blocked(s: lp.Schedule, stage: str, size: int) -> lp.Schedule:
            i, j = s.loops(stage)[:2]
            return s.tile(i, j, size, size)

        s = blocked(lp.Schedule(C), "C", 32)
        print(s.trace[-1])  # blocked("C", 32)
    """
    name = cast("Any", f).__name__

    @wraps(f)
    def recipe(s: Schedule, *args: P.args, **kwargs: P.kwargs) -> Schedule:
        call = Step(name, args, tuple(kwargs.items()))
        try:
            made = f(s, *args, **kwargs)
        except ScheduleError as error:
            error.call = str(call) if error.call is None else f"{call}: {error.call}"
            raise
        if not isinstance(made, Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{call} has to return a Schedule, not {type(made).__name__}")
        steps = made.steps_since(s)
        if steps is None:
            raise ValueError(f"{call} has to return a Schedule that comes from the one it was given")
        return s.grouped(Step(name, args, tuple(kwargs.items()), steps), made) if steps else s

    return recipe
