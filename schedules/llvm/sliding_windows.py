"""Stencils in sliding windows: a thread takes a strip of rows, and each stage keeps only the rows still to be read.

For a blur in two passes, an unsharp mask and longer chains: in the loop over a strip's rows each stage computes the
row that is new, into a ring of as many rows as the stages after it reach across.
"""

from __future__ import annotations

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, innermost, reads_of, written_by
from .nontemporal_stores import past_caches
from .row_fusion import STREAMED, vectors
from .split_reduction import several
from .threads import parallel_if_legal

STRIP = 128
"""Rows that a thread takes at once, at most: those that a strip shares with the one above are computed in both."""
STRIPS = 8
"""Strips that a thread has, at least."""
RING = 16
"""Rows of the largest ring that is tried."""
STRIP_ROWS = Knob("strip", "rows that a thread takes at once", octaves(1, 1024), 0.05)


@lp.composite
def windows(s: lp.Schedule, *, strip: int | None = None, lanes: int | None = None) -> lp.Schedule:
    """`s` with the outermost loop of the last stage in strips of rows, and the stages before it in windows on them.

    Unless told, a strip has as many rows as leave a few strips for each thread, and vectors are those of this machine.
    """
    if not s.stages or not s.loops(s.stages[-1]):
        return s
    last = s.stages[-1]
    loops = s.loops(last)
    length = extent(s, loops[0])
    strip = strip or STRIP_ROWS(_strip(length), at=last)
    strip = min(strip, length or strip)
    if s.why("split", loops[0], strip) is not None:
        return s
    s, (outer, row) = s.split(loops[0], strip).with_loops
    for stage in reversed(s.stages[:-1]):
        if s.why("compute_at", stage, row, store=outer) is None:
            t = s.compute_at(stage, row, store=outer)
            if not _same_for_all(t, stage, (outer, row)):
                s = ringed(t, stage) if stage in t.stages else t  # that step may show that the stage never runs
    for stage in s.stages:
        inner = innermost(s, stage)
        if inner is not None and inner not in (outer, row):
            past = stage == last and STREAMED(past_caches(s), at=stage)
            s = vectors(s, inner, lanes or several(s, stage), last if past else None)
    return parallel_if_legal(s, last, outer)


def _same_for_all(s: lp.Schedule, stage: str, loops: tuple[str, str]) -> bool:
    """Whether `stage` reads the same in all iterations of `loops`, and would compute it in each strip again; one that
    reads nothing, whether it stores to the same elements."""
    touched = (reads_of(s, stage) or s.accesses(stage)) if stage in s.stages else []
    return bool(touched) and all(t.invariant(x) for t in touched for x in loops)


def _strip(length: int | None) -> int:
    """How many of `length` rows make a strip."""
    if length is None:
        return STRIP // 2
    return max(1, min(STRIP, length // (STRIPS * lp.thread_count())))


@lp.composite
def ringed(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the first dimension of what `stage` writes folded into the smallest ring that is enough."""
    for buffer in written_by(s, stage):
        if s.why("fold_storage", buffer, 0, RING) is not None:
            continue  # rows so far apart are needed at once: nor would a smaller ring do
        s = s.fold_storage(buffer, 0, _least_ring(s, buffer))
    return s


def _least_ring(s: lp.Schedule, buffer: str) -> int:
    """The fewest rows of `buffer` that do for a ring, of which RING do: rows that are alive at a time lie side by side,
    so that where some do, more do."""
    least = 1 + max((_reach(s, x, buffer) for x in s.stages), default=0)
    fails, fits = least - 1, RING
    trial = least
    while fails + 1 < fits:
        if s.why("fold_storage", buffer, 0, trial) is None:
            fits = trial
        else:
            fails = trial
        trial = (fails + fits) // 2
    return fits


def _reach(s: lp.Schedule, stage: str, buffer: str) -> int:
    """How far apart rows of `buffer` are, at most, that one iteration of `stage` is known to read."""
    rows = {t.subscripts[0] for t in s.accesses(stage) if t.buffer == buffer and not t.write}
    pairs = ((a, b) for a in rows for b in rows if a.without_constant == b.without_constant)
    return max((b.constant - a.constant for a, b in pairs), default=0)
