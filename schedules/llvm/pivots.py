"""Nests that read a row and a column of what they change in place, on a CPU: loops are cut where they pass these.

In shortest paths, `d[i, j] = min(d[i, j], d[i, k] + d[k, j])`, elements depend on others of the same iteration of the
outer loop by row k and column k alone. On either side of these the loops inside are independent (index set splitting).
"""

from __future__ import annotations

from collections.abc import Iterator

import loopir as lp

from ..common.nest_queries import extent, if_legal, one_nest


@lp.composite
def cut_at_pivots(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with loops of `stage`, inside its outermost one, cut at an index at which it reads what it stores, where the
    parts are independent; a stage without such loops is left as it is."""
    if not one_nest(s, stage):
        return s
    before, start = s.stages, s
    for depth in range(1, len(s.loops(stage))):
        for x in (x for x in s.stages if x == stage or x not in before):
            if extent(s, s.loops(x)[depth - 1]) != 1:
                s = _parts_at_pivot(s, x, depth)
    return s.simplify(drop_unit_loops=True) if s is not start else s


def _parts_at_pivot(s: lp.Schedule, stage: str, depth: int) -> lp.Schedule:
    """The loop number `depth` of `stage` in three, before a pivot, at it and after it, if each is independent."""
    loop = s.loops(stage)[depth]
    if loop in s.reduced(stage) or s.why("parallel", loop) is None:
        return s
    for pivot in dict.fromkeys(_pivots(s, stage, loop)):
        t = if_legal(s, "peel", loop, first=pivot)
        t = if_legal(t, "peel", loop, first=1) if t is not s else s
        parts = [x for x in t.stages if x == stage or x not in s.stages]
        if all(t.why("parallel", t.loops(x)[depth]) is None for x in parts):
            return t
    return s


def _pivots(s: lp.Schedule, stage: str, loop: str) -> Iterator[str]:
    """The loops around `loop` by which `stage` reads what it stores by `loop`."""
    around = s.loops(stage)[: s.loops(stage).index(loop)]
    touches = s.accesses(stage)
    for stored in (t for t in touches if t.write):
        for read in (t for t in touches if not t.write and t.buffer == stored.buffer):
            for a, b in zip(stored.subscripts, read.subscripts, strict=True):
                if str(a) == loop and str(b) in around:
                    yield str(b)
