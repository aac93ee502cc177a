"""Values that loops inside tell apart and loops around do not, computed once into a table.

A window, `x[i, j] * cos(j)`, evaluates in every row what depends on the column alone; no compiler moves it out, as it
changes in the loop inside. Loop-invariant code motion, with an element of a table for each iteration of the loops that
the value does depend on: these go outside, the value before the others, and the loops are distributed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import loopir as lp

from .nest_queries import extent, functions_of, if_legal, one_nest

LEAST_WORK = 8
"""Of an instruction whose result is worth a table: those that take as long as so many others, as a quotient."""


@lp.composite
def hoisted_tables(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with a table for each function that `stage` evaluates anew in a loop, of more than one iteration, around
    those which it depends on; a stage that has none, or shares its nest with others, is left as it is."""
    if not one_nest(s, stage):
        return s
    for inside in sorted({*_repeated(s, stage)}, key=len):  # of what depends on least first: others are made of it
        s = _table(s, stage, inside)
    return s


def _repeated(s: lp.Schedule, stage: str) -> Iterator[tuple[int, ...]]:
    """For each function in `stage`, which of its loops it depends on, where a loop around one of them has no part in
    it, or a fold has none whose terms lie along one of them: lanes go inside it."""
    loops = s.loops(stage)
    terms = [t for t in s.accesses(stage) if not all(t.invariant(x) for x in s.reduced(stage))]
    for value in functions_of(s, stage, LEAST_WORK):
        named = {*re.findall(r"\w+", lp.text(value))}
        inside = tuple(n for n, x in enumerate(loops) if x in named)
        across = any(t.contiguous(loops[n]) for t in terms for n in inside)
        around = len(loops) if across else max(inside, default=0)
        if inside and any(n not in inside and extent(s, x) != 1 for n, x in enumerate(loops[:around])):
            yield inside


def _table(s: lp.Schedule, stage: str, dims: tuple[int, ...]) -> lp.Schedule:
    """`s` with what `stage` computes of its loops number `dims` alone in a table; `s` itself where a step is
    refused."""
    loops, before = s.loops(stage), s.stages
    inside, others = [loops[n] for n in dims], [x for n, x in enumerate(loops) if n not in dims]
    t = if_legal(s, "reorder", *inside, *others)
    if t.loops(stage) != (*inside, *others) or t.why("hoist", stage, others[0]) is not None:
        return s
    t = t.hoist(stage, others[0])
    made = [x for x in t.stages if x not in before]
    for loop in reversed(inside):
        if t.why("distribute", loop) is not None:
            return s
        t = t.distribute(loop)
    place = dict(zip((*inside, *others), t.loops(stage), strict=True))
    order = tuple(place[x] for x in loops)
    t = if_legal(t, "reorder", *order)
    if t.loops(stage) != order:
        return s
    for x in made:  # elements that are read as they lie need no table
        t = t if any(functions_of(t, x, LEAST_WORK)) else if_legal(t, "compute_inline", x)
    return t
