"""Reductions on a GPU: along rows, along columns, over everything; at any size, by threads that fold together.

Where the data runs along what is reduced, the threads of a block stand side by side along it, and a block has one row
or, where rows are short, several. Where it runs along what is kept, threads stand side by side along that, and those
of one column fold through shared memory. A sum with few results has few blocks: it is cut in chunks first, a block's
work each, whose partial results a second kernel folds.
"""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp
from schedules.nests import extent, fused, step

BLOCKS = 256
"""Results that keep a GPU busy without cutting them up: about two blocks for each of 132 processors."""
CHUNK = 8192
"""Elements that a block folds where a reduction is cut."""
OUTER = 16
"""Rows of a nest, reduced as a whole on a CPU, that a thread takes at once."""
WIDTH = 32
"""Columns that a block takes side by side: a line of 128 bytes of float32."""


@lp.composite
def reduction(s: lp.Schedule, stage: str, *, threads: int = 256, chunk: int | None = CHUNK) -> lp.Schedule:
    """`s` with the reduction `stage` spread over a GPU; a stage that is no reduction is left as it is.

    `threads` is how many a block has at most, `chunk` how many elements it folds where a reduction is cut; None cuts
    none, so that every result is one block's.
    """
    over = s.reduced(stage)
    rows = tuple(x for x in s.loops(stage) if x not in over)
    if not over:
        return s
    if s.loops(stage) != (*rows, *over):
        s = s.reorder(*rows, *over)
    along = [x for x in (*over, *rows) if any(t.contiguous(x) for t in s.accesses(stage) if not t.write)]
    column = along[0] if along and along[0] in rows else None
    s, rows = _merged(s, tuple(x for x in rows if x != column))
    s, over = _merged(s, over)
    if chunk is not None and _few(s, (*rows, column) if column else rows, WIDTH if column else 1):
        part = chunk // WIDTH if column else chunk
        if _many(s, over[-1], part):
            return _in_two(s, stage, rows, column, over, threads, part)
    return _columns(s, rows, column, over, threads) if column else _rows(s, stage, rows, over, threads)


def streams(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a reduction that reads something as long as its loops, each element once: no product."""
    reads = [t for t in s.accesses(stage) if not t.write]
    return bool(s.reduced(stage)) and any(not any(t.invariant(x) for x in s.loops(stage)) for t in reads)


def _merged(s: lp.Schedule, loops: Sequence[str]) -> tuple[lp.Schedule, tuple[str, ...]]:
    """`loops` as few as can be, the innermost merged first."""
    if not loops:
        return s, ()
    s, last = fused(s, loops)
    return s, (*(x for x in loops if x in s.loops()), *(() if last in loops else (last,)))


def _few(s: lp.Schedule, loops: Sequence[str], together: int) -> bool:
    """Whether these loops, `together` iterations of them a block, are known to be fewer than a GPU has room for."""
    total = 1
    for loop in loops:
        length = extent(s, loop)
        if length is None:
            return False
        total *= length
    return total < BLOCKS * together


def _many(s: lp.Schedule, loop: str, chunk: int) -> bool:
    """Whether `loop` may be longer than a chunk."""
    length = extent(s, loop)
    return length is None or length > chunk


def _in_two(
    s: lp.Schedule, stage: str, rows: tuple[str, ...], column: str | None, over: tuple[str, ...], threads: int,
    size: int,
) -> lp.Schedule:  # fmt: skip
    """Parts of the innermost reduced loop folded by blocks of their own, and what they give by a second kernel."""
    s, (part, inner) = step(s, "split", over[-1], size)
    s = s.reorder(part, *rows, *((column,) if column else ()), *over[:-1], inner)
    before, s = s.stages, s.rfactor(stage, part)
    (partial,) = (x for x in s.stages if x not in before)
    finals = s.loops(stage)
    if len(finals) > 1:
        s = s.reorder(*finals[1:], finals[0])
    s, blocks = _merged(s, (part, *rows))
    first = (*over[:-1], inner)
    s = _columns(s, blocks, column, first, threads) if column else _rows(s, partial, blocks, first, threads)
    return reduction(s, stage, threads=threads, chunk=None)


def _rows(s: lp.Schedule, stage: str, rows: tuple[str, ...], over: tuple[str, ...], threads: int) -> lp.Schedule:
    """A block for each row, or for several short ones; its threads along the innermost reduced loop."""
    length = extent(s, over[-1])
    lanes = threads if length is None else min(threads, max(1, 1 << (length - 1).bit_length()))
    s, (_, lane) = step(s, "split", over[-1], lanes)
    s = s.bind(lane, "threadIdx.x")
    if not rows:
        return s.reorder(lane, *(x for x in s.loops(stage) if x != lane))  # one block
    block = rows[-1]
    if lanes <= 32:
        s, (block, row) = step(s, "split", rows[-1], threads // lanes)
        s = s.bind(row, "threadIdx.y")
    return s.bind(block, "blockIdx.x")


def _columns(s: lp.Schedule, rows: tuple[str, ...], column: str, over: tuple[str, ...], threads: int) -> lp.Schedule:
    """A block for some columns side by side, its threads along y folding each."""
    width = min(WIDTH, threads)
    s, (block, lane) = step(s, "split", column, width)
    s, (_, row) = step(s, "split", over[-1], threads // width)
    s = s.bind(lane, "threadIdx.x").bind(row, "threadIdx.y")
    s, blocks = _merged(s, (*rows, block))
    return s.bind(blocks[-1], "blockIdx.x")


@lp.composite
def reduction_cpu(s: lp.Schedule, stage: str, *, lanes: int = 16, chunk: int = 1 << 16) -> lp.Schedule:
    """`s` with the reduction `stage` on a CPU: threads over its results, or over chunks of one, and vectors of sums.

    A stage that is no reduction, or whose data does not run along what it reduces, is left as it is.
    """
    over = s.reduced(stage)
    rows = tuple(x for x in s.loops(stage) if x not in over)
    if not over or s.loops(stage) != (*rows, *over):
        return s
    if not any(t.contiguous(over[-1]) for t in s.accesses(stage) if not t.write):
        return s
    length = extent(s, over[-1])
    if not rows and (length is None or length > chunk or len(over) > 1):
        s, (part, inner) = step(s, "split", over[0], chunk if len(over) == 1 else OUTER)
        before, s = s.stages, s.rfactor(stage, part)
        (stage,) = (x for x in s.stages if x not in before)
        rows, over = (part,), (inner, *over[1:])
    tail = "peel" if len(over) == 1 else "guard"  # what is left of each row would be folded between the vectors
    s, (_, lane, *_) = step(s, "split", s.loops(stage)[-1], lanes, tail=tail)
    s = s.rfactor(stage, lane) if s.why("rfactor", stage, lane) is None else s
    s = s.vectorize(lane) if s.why("vectorize", lane) is None else s
    return s.parallel(rows[0]) if rows and s.why("parallel", rows[0]) is None else s
