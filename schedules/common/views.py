"""Views as loops: a stage that finds elements by the quotient and the remainder of one loop gets a loop for each."""

from __future__ import annotations

import re
from collections.abc import Callable

import loopir as lp

from .nest_queries import extent, step

_PART = re.compile(r"^(\w+) (//|%) (\d+)$")


@lp.composite
def split_views(s: lp.Schedule) -> lp.Schedule:
    """`s` with loops that a stage reads by quotient and remainder split there, and in the order of what it reads.

    So a stage that merges heads, `y[i, k] = x[k // 64, i, k % 64]`, runs over heads, rows and columns, as the stage
    does that made `x`, and stores where it did. Stages that fold, and loops that nothing divides, are left as they are.
    """
    for stage in s.stages:
        if stage in s.stages and not s.reduced(stage):
            s = _split(s, stage)
    return s


def with_views_split(s: lp.Schedule, schedule: Callable[[lp.Schedule], lp.Schedule | None]) -> lp.Schedule | None:
    """What `schedule` makes of `s`; if it does not take that, of `s` with its views split, where it has any."""
    made = schedule(s)
    return schedule(split) if made is None and (split := split_views(s)).func is not s.func else made


def _split(s: lp.Schedule, stage: str) -> lp.Schedule:
    for t in s.accesses(stage):
        at = [] if t.write else t.text.partition("[")[2].removesuffix("]").split(", ")
        found = [x.groups() if (x := _PART.match(d)) else (d, "", "") for d in at]
        for loop, sign, factor in found:
            size = extent(s, loop) if sign == "//" and (loop, "%", factor) in found else None
            if size is None or size % int(factor) or s.why("split", loop, int(factor), tail="exact") is not None:
                continue
            made, (outer, inner) = step(s, "split", loop, int(factor), tail="exact")
            names = {"//": outer, "%": inner}
            order = [names[sign] if name == loop and sign else name for name, sign, _ in found]
            loops = made.loops(stage)
            if sorted(order) == sorted(loops) and (tuple(order) == loops or made.why("reorder", *order) is None):
                return made if tuple(order) == loops else made.reorder(*order)
    return s
