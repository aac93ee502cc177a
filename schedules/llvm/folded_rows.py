"""Folds of several rows at a time along which the same vector lies, as a matrix times a vector: on a CPU.

Each vector of what the rows share is loaded once for all of them, the sums of one row need not wait for those of
another, and as many rows come from memory side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import evaluates_functions, extent, if_legal, reads_of, written_by
from .split_reduction import lanes_of, runs_along

ROWS = 8
"""Rows at a time: as many sums as a core begins before the first is done, of which none waits then; with what they
share and an element, these are in registers of any machine."""
SIDE_BY_SIDE = Knob("rows", "rows of a fold that are taken at a time", octaves(1, 16), 0.05)


@lp.composite
def folded_rows(s: lp.Schedule, stage: str, *, rows: int | None = None, lanes: int | None = None) -> lp.Schedule:
    """`s` with the fold `stage` along `rows` rows at a time, each into a vector of `lanes` partial results.

    By default these are those of this machine, and as many rows as keep it busy. A stage that is no fold of long rows
    with something that all rows share is left as it is.
    """
    lanes = lanes or lanes_of(s, stage)
    count = SIDE_BY_SIDE(ROWS, at=stage) if rows is None else rows
    if not _shares(s, stage, count, lanes):
        return s
    row, along = s.loops(stage)[-2:]
    t, (outer, lane) = s.split(along, lanes).with_loops
    if t.why("rfactor", stage, lane) is not None:
        return s
    t = t.rfactor(stage, lane)
    if t.why("unroll_and_jam", row, count) is not None:
        return s
    t = t.unroll_and_jam(row, count)
    made = [x for x in t.stages if x == stage or x not in s.stages]
    for x in made:
        t = _lanes_inside(t, x)
    t = _in_local_memory(t, made, {b for x in s.stages for b in written_by(s, x)})
    return if_legal(t, "partition", outer) if outer in t.loops() else t


def _in_local_memory(s: lp.Schedule, stages: Sequence[str], given: set[str]) -> lp.Schedule:
    """`s` with what `stages` store to, but for the buffers `given`, in local memory."""
    for buffer in sorted({b for x in stages for b in written_by(s, x)} - given):
        s = if_legal(s, "set_scope", buffer, "local")
    return s


def _shares(s: lp.Schedule, stage: str, rows: int, lanes: int) -> bool:
    """Whether `stage` folds along its innermost loop alone, and reads something along it that each row of its own has,
    and something that all rows of the loop outside share, which are as many and as long.

    What functions make of it is made once for all rows, by `hoisted_tables`.
    """
    loops = s.loops(stage)
    lengths = zip((extent(s, x) for x in loops[-2:]), (rows, lanes), strict=False)
    if min(rows, lanes) < 2 or any(n is not None and n < least for n, least in lengths):
        return False
    if len(loops) < 2 or s.reduced(stage) != loops[-1:] or not runs_along(s, stage):
        return False
    if any(s.loop(x).kind != "serial" for x in loops[-2:]) or sum(t.write for t in s.accesses(stage)) != 1:
        return False
    if evaluates_functions(s, stage):
        return False
    read = [t.invariant(loops[-2]) for t in reads_of(s, stage) if t.contiguous(loops[-1])]
    return any(read) and not all(read)


def _lanes_inside(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`stage` with its rows, which are unrolled, outside of the lanes, and these in vectors."""
    loops = s.loops(stage)
    if s.loop(loops[-1]).kind == "unroll":
        s = if_legal(s, "reorder", loops[-1], loops[-2])
    lane = s.loops(stage)[-1]
    return if_legal(s, "vectorize", lane) if s.loop(lane).kind == "serial" else s
