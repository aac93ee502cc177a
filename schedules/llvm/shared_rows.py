"""Two folds that read one array, one of them along its rows and the other across them, in one loop over rows.

A matrix times a vector, and its transpose times another, as in A^T (A x): each fold by itself brings the whole array
from memory. Together a few rows are folded along, and then across while they are in the first cache; sums of columns
stay in registers for these rows. Threads take parts of the rows, and their sums of columns are added up at the end.
"""

from __future__ import annotations

import re
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, free_loops, legal, one_nest
from .column_reduction import across
from .inner_loops import column_sums
from .split_reduction import folded, lanes_of, runs_along

FOLDED_ROWS = 8
"""Rows that are folded along, and then across."""
SHARED_ROWS = Knob("rows", "rows that are folded along and then across", octaves(2, 32), 0.05)


class _FoldPair(NamedTuple):
    """Two folds over the same rows of an array: their stages, their loops over rows, and the columns of the second."""

    along: str
    across: str
    row: str
    other_row: str
    column: str


@lp.composite
def shared_rows(s: lp.Schedule) -> lp.Schedule:
    """`s` with each two folds that read one array along and across its rows in one loop over these, where the array
    is larger than the second cache; a program without such folds is left as it is."""
    for one, other in pairwise(s.stages):
        if one in s.stages and other in s.stages:
            pair = _fold_pair(s, one, other) or _fold_pair(s, other, one)
            if pair is not None:  # as it is where something is between the two, or one needs the other's end
                s = legal(s, _fused_folds, pair) or s
    return s


def _fold_pair(s: lp.Schedule, first: str, second: str) -> _FoldPair | None:
    if not all(len(s.loops(x)) == 2 and len(s.reduced(x)) == 1 and one_nest(s, x) for x in (first, second)):
        return None
    if not runs_along(s, first) or not free_loops(s, first) or (column := across(s, second)) is None:
        return None
    (row, inner), (other_row,) = s.loops(first), s.reduced(second)
    names = {other_row: row, column: inner}
    reads = [{t.buffer: t.text for t in s.accesses(x) if not t.write} for x in (first, second)]
    held = lp.buffer_bytes(s)
    for name, text in reads[1].items():
        renamed = re.sub(r"\w+", lambda m: names.get(m.group(), m.group()), text)
        if reads[0].get(name) == renamed and held.get(name, 0) >= lp.caches()[1] and inner in renamed:
            sizes = [(extent(s, a), extent(s, b)) for a, b in names.items()]
            return _FoldPair(first, second, row, other_row, column) if all(a == b for a, b in sizes) else None
    return None


def _fused_folds(s: lp.Schedule, p: _FoldPair) -> lp.Schedule:
    """`s` with the folds of `p` in one loop over rows, by vectors, and parts of the rows on threads."""
    rows, sums = SHARED_ROWS(gcd(extent(s, p.row) or 1, FOLDED_ROWS), at=p.across), p.across
    if rows < 2:
        raise lp.ScheduleError("the rows are no whole blocks", loop=p.row)
    s = s.reorder(p.other_row, p.column) if s.loops(sums) != (p.other_row, p.column) else s
    s, (outer, _) = s.split(p.row, rows, tail="exact").with_loops
    s, (other, inside) = s.split(p.other_row, rows, tail="exact").with_loops
    column = s.loops(sums)[-1]
    loops = (outer, other) if s.stages.index(p.along) < s.stages.index(sums) else (other, outer)
    s = s.fuse_loops(*loops).reorder(column, inside)
    count, threads, part = extent(s, loops[0]), lp.thread_count(), None
    if threads > 1 and count is not None and count % threads == 0:
        s, (part, _) = s.split(loops[0], count // threads, tail="exact").with_loops
        s, sums = s.rfactor(sums, part).with_stage
        s = s.decompose_reduction(sums)
    made = column_sums(folded(s, p.along), sums, column, lanes_of(s, sums))
    return made if part is None else made.parallel(part)
