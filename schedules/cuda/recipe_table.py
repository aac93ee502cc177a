"""Tables of recipes: which stages each takes, what it makes of them, and what is left to do then.

A table is read from top to bottom, for one stage after the other; the first row that matches, and whose schedule the
target takes, has the stage. So what a row takes is written next to what it does, and the order of the rows is all that
decides between two that match.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import loopir as lp

from ..common.nest_queries import legal


@dataclass(frozen=True)
class Recipe:
    """A row: what it takes, what it makes of that, and what it ends.

    A recipe ends the `stage`, so that no later row is asked about it; the `program`, which is scheduled then; or, with
    "row", itself alone. What is `checked` is lowered before it is taken.
    """

    name: str
    matches: Callable[[lp.Schedule, str], object]
    schedule: Callable[[lp.Schedule, str], lp.Schedule]
    ends: Literal["row", "stage", "program"] = "stage"
    checked: bool = True

    def tried(self, s: lp.Schedule, stage: str, *, checked: bool = False) -> lp.Schedule | None:
        """What it makes of `stage`; None where it does not match, a step is refused, or the target does not take it."""
        if not self.matches(s, stage):
            return None
        if self.checked and not checked:
            return lowered(s, self.schedule, stage)
        made = legal(s, self.schedule, stage)
        return made if made is None or not checked or is_lowered(made) else None


@dataclass(frozen=True)
class Phase:
    """Rows for each stage of a program in turn; of a `whole` program, rows are asked once, with "" for the stage."""

    rows: Sequence[Recipe]
    whole: bool = False


def apply_phases(s: lp.Schedule, phases: Sequence[Phase], *, checked: bool = False) -> lp.Schedule:
    """`s` after all `phases`, or after the first recipe that ends the program; `checked`: every row is lowered."""
    for phase in phases:
        for stage in ("",) if phase.whole else s.stages:
            for row in phase.rows:
                if stage and stage not in s.stages:
                    break  # it is part of another one, or a step showed that it never runs
                made = row.tried(s, stage, checked=checked)
                if made is None:
                    continue
                if row.ends == "program":
                    return made
                s = made
                if row.ends == "stage":
                    break
    return s


def first_of(rows: Sequence[Recipe]) -> Callable[[lp.Schedule, str], lp.Schedule]:
    """The recipe that takes the first of `rows` that gives something; ScheduleError where none does."""

    def schedule(s: lp.Schedule, stage: str) -> lp.Schedule:
        for row in rows:
            if (made := row.tried(s, stage)) is not None:
                return made
        raise lp.ScheduleError(f"{stage or 'the program'} is nothing for {', '.join(r.name for r in rows)}")

    return schedule


def lowered(s: lp.Schedule, schedule: Callable[..., lp.Schedule], *args: Any, **options: Any) -> lp.Schedule | None:
    """What `schedule` makes of `s`, if it takes it and lowering for CUDA takes that.

    The nests that it changes are lowered, each by itself; the program as a whole where one of these is not taken, or
    all are changed. So what recipes for one nest after the other take is not lowered again for each of the others.
    """
    made = legal(s, schedule, *args, **options)
    return made if made is not None and (_are_lowered(made, _changed(s, made)) or is_lowered(made)) else None


def _changed(s: lp.Schedule, made: lp.Schedule) -> list[tuple[str, ...]]:
    """The stages of each nest of `made` that is no nest of `s`; none if all are."""
    before = {id(s.loop(x)) for stage in s.stages for x in s.loops(stage)[:1]}
    every = [nest.stages for nest in lp.nests(made.func) if nest.stages]
    found = [x for x in every if not {id(made.loop(y)) for y in made.loops(x[0])[:1]} & before]
    return found if len(found) < len(every) else []


_lowered_texts = ContextVar[dict[tuple[str, lp.Machine], bool] | None]("lowered_texts", default=None)


@contextmanager
def remembering_lowered(known: dict[tuple[str, lp.Machine], bool]) -> Generator[None]:
    """Look once in the body at programs of the same text, as nests by themselves are that differ in names alone."""
    token = _lowered_texts.set(known)
    try:
        yield
    finally:
        _lowered_texts.reset(token)


def _are_lowered(s: lp.Schedule, nests: Sequence[tuple[str, ...]]) -> bool:
    """Whether there are `nests`, each is a program of its own, and lowering takes it as that."""
    try:
        parts = [lp.Schedule(lp.extract(s.func, x).func) for x in nests]
    except lp.ScheduleError:  # they share memory of a kernel
        return False
    return bool(parts) and all(map(is_lowered, parts))


def is_lowered(s: lp.Schedule) -> bool:
    """Whether lowering for CUDA takes `s`."""
    known = {} if (outer := _lowered_texts.get()) is None else outer
    key = lp.text(s.func), lp.machine()
    if key not in known:
        try:
            lp.lower(s, "cuda")
            known[key] = True
        except (lp.ScheduleError, lp.LowerError, lp.TargetError):
            known[key] = False
    return known[key]
