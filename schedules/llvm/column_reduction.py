"""Reductions across rows on a CPU: rows come by in the order they lie in, and the sums of all columns stay near."""

from __future__ import annotations

from math import prod

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, free_loops, in_lanes, spatial_loops
from .split_reduction import lanes_of
from .threads import parallel_if_legal

MAX_REGISTER_TERMS = 16
"""A reduction that is known to be no longer has its sums in registers, and reads few rows at a time."""
CACHE_FRACTION = 3
"""What part of the first cache has the sums: one of so many."""
COLUMNS = Knob("columns", "columns that are folded at a time", octaves(16, 1 << 16), 0.05)
LANE_COLUMNS = Knob("lanes", "columns that the lanes of an iteration take", octaves(4, 512), 0.05)


def across(s: lp.Schedule, stage: str) -> str | None:
    """The innermost free loop of `stage`, along which its rows and its results lie, if it folds many rows that are not
    known to be shorter than a vector."""
    over, free = s.reduced(stage), free_loops(s, stage)
    if not over or not free or (*free, *over) != s.loops(stage):
        return None
    column, touched = free[-1], s.accesses(stage)
    rows, wide = [extent(s, x) for x in over], extent(s, column)
    if (None not in rows and prod(n or 0 for n in rows) <= MAX_REGISTER_TERMS) or (
        wide is not None and wide < lanes_of(s, stage)
    ):
        return None
    if not all(t.contiguous(column) for t in touched if t.write):
        return None
    reads = [t for t in touched if not t.write and not t.invariant(column)]
    return column if reads and all(t.contiguous(column) for t in reads) else None


@lp.composite
def columns(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """`s` with the reduction `stage` by rows, in vectors of `lanes` columns, threads over parts of the columns.

    A stage that does not fold rows into one, or few of them, is left as it is. Sums are added up in the order of rows.
    """
    column = across(s, stage)
    if column is None:
        return s
    lanes = lanes or lanes_of(s, stage)
    before, outer = s.stages, s.loops(stage)[0]
    alone = outer == column
    part = _part(s, stage, column, lanes, threads=lp.thread_count() if alone else 1)
    part = None if part is None else COLUMNS(part, at=stage)
    lanes = LANE_COLUMNS(lanes, at=stage)
    if part is not None and s.why("split", column, part, tail="peel") is None:
        s, (tile, *_) = s.split(column, part, tail="peel").with_loops
        outer = tile if alone else outer
    for x in (stage, *(x for x in s.stages if x not in before)):
        s = _vectors(s, x, lanes)
    return parallel_if_legal(s, stage, outer)


def _part(s: lp.Schedule, stage: str, column: str, lanes: int, threads: int) -> int | None:
    """How many columns are taken at a time: what stays near, and each thread has some; None for all."""
    near = max(lanes, lp.caches()[0] // CACHE_FRACTION // max(t.dtype.bytes for t in s.accesses(stage)))
    length = extent(s, column)
    count = max(threads, -(-length // near)) if length is not None else None
    if count == 1 or (length is not None and count is not None and length < 2 * count * lanes):
        return None
    return near if length is None or count is None else length // count // lanes * lanes


def _vectors(s: lp.Schedule, stage: str, lanes: int) -> lp.Schedule:
    """Columns by vectors inside the loops over rows, the last ones in a masked one."""
    *loops, column = spatial_loops(s, stage)
    order = (*loops, *s.reduced(stage), column)
    if s.why("reorder", *order) is not None:
        return s
    t = s.reorder(*order)
    made = in_lanes(t, column, lanes)
    return s if made is t else made
