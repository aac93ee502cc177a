"""What one loop does in a nest: what it carries from iteration to iteration, what it steps through, what it may be.

An answer for a person who asks why a loop cannot be parallel, or which loop to make a vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopir.analysis.dependence.depend import Clash, dependences
from loopir.errors import ScheduleError
from loopir.ir.printer import text
from loopir.schedule.core.queries import StageAccess
from loopir.schedule.schedule import Schedule
from loopir.witness import page

QUESTIONS = ("parallel", "vectorize")
"""What a loop may be made, as far as its iterations allow."""


@dataclass(frozen=True)
class Explanation:
    """A loop explained.

    `carried` are the dependences from an iteration to a later one, each with its least example; `touches` the accesses
    inside with their steps; `refusals` has, for "parallel", "vectorize" and the "reorder" with the loop next to it, the
    error it would raise, or None where it is legal.
    """

    loop: str
    extent: str
    kind: str
    stages: tuple[str, ...]
    carried: tuple[Clash, ...]
    touches: tuple[StageAccess, ...]
    refusals: dict[str, ScheduleError | None]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        yield f"{self.loop}: {self.extent} iterations, {self.kind}, around {', '.join(self.stages)}"
        yield "carries nothing from one iteration to a later one" if not self.carried else "carries"
        for c in self.carried:
            fold = "; folds of one reduction, whose order is free" if c.fold else ""
            yield f"  {c.witness.kind} on {c.witness.buffer}: {c.witness}{fold}{f'; {c.inexact}' if c.inexact else ''}"
        yield "one iteration on"
        for t in self.touches:
            yield f"  {'writes' if t.write else 'reads'} {t.text} {_moved_text(t, self.loop)}"
        for asked, error in self.refusals.items():
            yield f"{asked}: {'legal' if error is None else error.reason}"

    def _repr_html_(self) -> str:
        pictures = "".join(c.witness.svg() for c in self.carried)
        return page(str(self), pictures)


def explain(schedule: Schedule, loop: str) -> Explanation:
    """What `loop` of `schedule` carries, steps through and may be. ScheduleError if there is no such loop."""
    node = schedule.loop(loop)
    stages = tuple(x for x in schedule.stages if loop in schedule.loops(x))
    touches = {(t.text, t.write): t for x in stages for t in schedule.accesses(x)}
    asked = {name: schedule.why(name, loop) for name in QUESTIONS}
    around = [v for x in stages for v, w in zip(schedule.loops(x), schedule.loops(x)[1:], strict=False) if w == loop]
    for outer in dict.fromkeys(around):
        asked[f'reorder("{loop}", "{outer}")'] = schedule.why("reorder", loop, outer)
    carried = tuple(dependences(schedule.func, loop))
    return Explanation(loop, text(node.extent), node.kind, stages, carried, tuple(touches.values()), asked)


def _moved_text(t: StageAccess, loop: str) -> str:
    if t.invariant(loop):
        return "again"
    step = t.strides.get(loop)
    return "somewhere else, at no fixed step" if step is None else f"{text(step)} elements on"
