"""Nests as they are written by hand, in the form in which schedules find folds and products.

Updates, as `x += e`, become reductions; loops around several statements are distributed, so that each fold has a nest
of its own; and the loops that a fold is over stand inside those that tell its elements apart, of which the one along
memory is the last. Each is an ordinary step, taken where it is legal.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import contraction, separate_operands
from ..common.nest_queries import extent, if_legal, one_nest, step


@lp.composite
def normalized(s: lp.Schedule) -> lp.Schedule:
    """`s` with its updates as reductions, each in a nest of its own where that is legal, reduced loops innermost.

    A program without updates is left as it is.
    """
    updates = [x for x in s.stages if s.why("fold_into_reduce", x) is None]
    for stage in updates:
        t = s.fold_into_reduce(stage)
        s = t if t.reduced(stage) else s
    found = [x for x in updates if s.reduced(x)]
    if not found:
        return s
    for stage in found:
        s = _alone(s, stage)
    for stage in found:
        s = _from_identity(_reduced_innermost(s, stage), stage) if one_nest(s, stage) else s
    return s


def _alone(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the loops around `stage` distributed, from the inside, as far as each may be."""
    for _ in s.loops(stage):
        for loop in reversed(s.loops(stage)):
            s = if_legal(s, "distribute", loop)
    return s


def _reduced_innermost(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The nest of `stage` with the loops that it folds over inside the others, if it may be."""
    loops, over = s.loops(stage), s.reduced(stage)
    free = [x for x in loops if x not in over]
    along = sorted(free, key=lambda x: any(t.write and t.contiguous(x) for t in s.accesses(stage)))
    for order in ((*along, *over), (*free, *over)):
        if order == loops or s.why("reorder", *order) is None:
            return s if order == loops else s.reorder(*order)
    return s


def _from_identity(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product that goes on from what is there as a product of its own, which is added to that when it is done.

    Tiles of it then start from the identity, also where they are larger than the output. It is what one iteration of a
    loop around all folds, which the reduced loop is split into.
    """
    apart = separate_operands(s, stage)
    c = contraction(apart, stage)
    length = extent(apart, c.reduced) if c is not None else None
    if c is None or length is None or apart.why("split", c.reduced, length) is not None:
        return s
    loops = apart.loops(stage)
    t, (whole, part) = step(apart, "split", c.reduced, length)
    order = (whole, *(part if x == c.reduced else x for x in loops))
    if t.why("reorder", *order) is not None:
        return s
    t = t.reorder(*order)
    return t.rfactor(stage, whole).simplify(drop_unit_loops=True) if t.why("rfactor", stage, whole) is None else s
