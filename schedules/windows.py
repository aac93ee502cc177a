"""Stencils in sliding windows: a thread takes a strip of rows, and each stage keeps only the rows still to be read.

For a blur in two passes, an unsharp mask and longer chains: in the loop over a strip's rows each stage computes the
row that is new, into a ring of as many rows as the stages after it reach across.
"""

from __future__ import annotations

import loopir as lp
from schedules.cpu import LANES
from schedules.nests import extent, step
from schedules.rows import vectors

STRIP = 32
"""Rows that a thread takes at once: those that a strip shares with the one above are computed in both."""
RING = 16


@lp.composite
def windows(s: lp.Schedule, *, strip: int = STRIP, lanes: int = LANES) -> lp.Schedule:
    """`s` with the outermost loop of the last stage in strips of rows, and the stages before it in windows on them."""
    last = s.stages[-1]
    loops = s.loops(last)
    length = extent(s, loops[0])
    if s.why("split", loops[0], min(strip, length or strip)) is not None:
        return s
    s, (outer, row) = step(s, "split", loops[0], min(strip, length or strip))
    for stage in reversed(s.stages[:-1]):
        if s.why("compute_at", stage, row, store=outer) is None:
            s = ringed(s.compute_at(stage, row, store=outer), stage)
    for stage in s.stages:
        inner = s.loops(stage)[-1]
        if inner not in (outer, row):
            s = vectors(s, inner, lanes)
    return s.parallel(outer) if s.why("parallel", outer) is None else s


@lp.composite
def ringed(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the first dimension of what `stage` writes folded into the smallest ring that is enough."""
    for buffer in {t.buffer for t in s.accesses(stage) if t.write}:
        size = next((n for n in range(1, RING + 1) if s.why("fold_storage", buffer, 0, n) is None), None)
        s = s if size is None else s.fold_storage(buffer, 0, size)
    return s
