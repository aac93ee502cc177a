"""Nests whose outermost loop carries dependences, on a GPU: what is independent inside it takes the grid.

Folds into elements that memory chooses, as histograms and gradients of embeddings have them, are atomic, a thread for
each: floats are then added in no fixed order. A loop over time stays on the host, and each of its sweeps is a launch.
"""

from __future__ import annotations

from math import prod

import loopir as lp

from ..common.nest_queries import extent, free_loops
from ..common.scatter import scatter
from .elementwise import elementwise
from .stencil_rows import neighbours, reaches

WORTH_LAUNCH = 32
"""Iterations that are independent in a sweep, at least, for a launch of its own."""


def is_scatter(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds into elements that memory chooses, and its iterations are independent but for that."""
    chosen = any(t.write and None in t.strides.values() for t in s.accesses(stage))
    if not chosen or not _untouched(s, stage) or s.why("atomic", stage) is not None:
        return False
    folds = s.atomic(stage)
    return all(folds.why("parallel", x) is None for x in folds.loops(stage))


def carrier(s: lp.Schedule, stage: str) -> str | None:
    """The innermost of the outer loops of `stage` that carry dependences, if there are enough independent iterations
    for a launch inside it."""
    loops = s.loops(stage)
    if not _untouched(s, stage):
        return None
    carried = [n for n, x in enumerate(loops) if s.why("parallel", x) is not None and x not in s.reduced(stage)]
    if not carried or carried != list(range(len(carried))) or len(carried) == len(loops):
        return None
    outer = loops[carried[-1]]
    inside = [extent(s, x) for x in free_loops(s, stage, outer)]
    worth = inside and (None in inside or prod(n or 0 for n in inside) >= WORTH_LAUNCH)
    return outer if worth else None


@lp.composite
def carried_loops(s: lp.Schedule, stage: str, *, threads: int = 256) -> lp.Schedule:
    """`s` with the iterations of `stage` that its outer loops leave independent on blocks of `threads`.

    Raises ScheduleError where there are none, or too few.
    """
    if is_scatter(s, stage):
        return scatter(s, stage, "cuda", threads=threads)
    outer = carrier(s, stage)
    if outer is None:
        raise lp.ScheduleError(f"{stage} has no loops that carry dependences around ones that are independent")
    if reaches(s, stage, outer):
        return neighbours(s, stage, threads=threads, inside=outer)
    return elementwise(s, stage, threads=threads, inside=outer)


def _untouched(s: lp.Schedule, stage: str) -> bool:
    """Whether no step has placed a loop of `stage` anywhere."""
    return bool(s.loops(stage)) and all(s.loop(x).kind == "serial" for x in s.loops(stage))
