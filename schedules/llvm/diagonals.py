"""Sweeps whose two innermost loops both carry dependences, as Gauss-Seidel's: a few rows at a time by diagonals.

In each iteration an element waits for the one before it. On a diagonal of a few rows, the elements of different rows
do not wait for one another, so that a processor computes them at the same time, in the same operations as before.
"""

from __future__ import annotations

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, if_legal

ROWS_PER_DIAGONAL = 8
"""Rows of a diagonal: the operations of so many hide the latency of one."""
WORTH_DIAGONALS = 0.7
"""What part of the predicted time of a sweep as it is written diagonals take, at most: short chains hide."""
DIAGONAL_ROWS = Knob("diagonal", "rows of a sweep that are computed by diagonals", octaves(2, 16), 0.1)


@lp.composite
def diagonals(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the two innermost loops of `stage`, if both carry dependences and stand around nothing else, by
    diagonals of a few rows; any other stage is left as it is."""
    loops = s.loops(stage)
    if len(loops) < 2 or s.reduced(stage) or any(s.loop(x).kind != "serial" for x in loops):
        return s
    outer, inner = loops[-2:]
    length, width = extent(s, outer), extent(s, inner)
    if (length is not None and length < 2 * ROWS_PER_DIAGONAL) or (width is not None and width < 4 * ROWS_PER_DIAGONAL):
        return s
    if any(s.why("parallel", x) is None for x in (outer, inner)):
        return s
    rows = DIAGONAL_ROWS(ROWS_PER_DIAGONAL, at=stage)
    tail = "exact" if length is not None and length % rows == 0 else "peel"
    if s.why("split", outer, rows, tail=tail) is not None:
        return s
    t, (_, row, *_) = s.split(outer, rows, tail=tail).with_loops
    if t.why("wavefront", row, inner) is not None:
        return s
    before, t = set(t.stages) - {stage}, t.wavefront(row, inner)
    t = if_legal(t, "partition", t.loops(stage)[-2])  # no test of ends between these
    for x in (x for x in t.stages if x not in before):
        t = if_legal(t, "unroll", t.loops(x)[-1])
    seconds = [lp.predict(x, "llvm", threads=1).seconds for x in (s, t)]
    return t if seconds[1] < WORTH_DIAGONALS * seconds[0] else s
