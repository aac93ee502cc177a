"""Nests whose inner loops carry dependences, on a CPU: an iteration of a free outer loop in each lane of vectors.

Polynomials by Horner's rule, fixed points and sums in an order of their own wait in each iteration for the one before.
Where all that a nest touches lies along a free loop around them, or stays along it, its iterations fill vectors as they
lie, and several vectors wait at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp

from ..common.nest_queries import extent, free_loops, reads_own
from ..common.row_intermediates import statements_beside
from .split_reduction import lanes_of
from .threads import parallel_if_legal

CHAIN_VECTORS = 4
"""Vectors of chains at once: as many as hide the latency of an operation."""


@lp.composite
def chains_in_lanes(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """The nest of `stage` with iterations of its innermost loop that is free in all its statements in vectors of
    `lanes`, by default a few vectors of this machine; threads over the outermost.

    A nest without loops inside that carry dependences, or that does not lie along that loop, is left as it is.
    """
    nest = statements_beside(s, stage)
    column = _column(s, stage, nest)
    if column is None:
        return s
    width = lanes or min(lanes_of(s, x) for x in nest)
    length = extent(s, column)
    if length is not None and length < width:
        return s
    many = CHAIN_VECTORS * width
    width = many if lanes is None and (length is None or length >= many) else width
    tail = "exact" if length is not None and length % width == 0 else "peel"
    if s.why("split", column, width, tail=tail) is not None:
        return s
    t = s.split(column, width, tail=tail)
    lane = t.last.loops[1]
    if t.why("vectorize", lane) is not None:
        return s
    t = t.vectorize(lane)
    return parallel_if_legal(t, stage, t.loops(stage)[0]) if stage in t.stages else t


def _column(s: lp.Schedule, stage: str, nest: Sequence[str]) -> str | None:
    """The loop for the lanes: the innermost that is free in all statements of `nest`, along which all that they touch
    lies or stays, if a loop inside it carries dependences that are not those of a fold."""
    if any(s.loop(x).kind != "serial" for y in nest for x in s.loops(y)):
        return None
    shared = [x for x in free_loops(s, stage) if all(x in s.loops(y) for y in nest)]
    if not shared:
        return None
    touches = [t for y in nest for t in s.accesses(y)]
    if not all(t.contiguous(shared[-1]) or (t.invariant(shared[-1]) and not t.write) for t in touches):
        return None
    return shared[-1] if any(_carries(s, y, shared[-1]) for y in nest) else None


def _carries(s: lp.Schedule, stage: str, column: str) -> bool:
    """Whether a loop of `stage` inside `column` carries dependences, other than those of a fold of what others made."""
    loops, folds = s.loops(stage), () if reads_own(s, stage) else s.reduced(stage)
    inside = loops[loops.index(column) + 1 :]
    return any(x not in folds and s.why("parallel", x) is not None for x in inside)
