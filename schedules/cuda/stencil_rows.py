"""Stages that read neighbours of an element, on a GPU: a thread takes a few rows, so that a row is loaded once for all.

Threads stand side by side along a row, each with a pair of elements; in the rows below one another that a thread has,
what one reads below itself another reads at its place, and the compiler keeps it. A block's threads read each row once
from memory and its ends from the cache.
"""

from __future__ import annotations

from collections import Counter

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, free_loops, fused, one_nest
from .row_threads import WARP

THREAD_ROWS = Knob("rows", "rows below one another that a thread has", octaves(1, 16), 0.05)
THREADS = Knob("threads", "threads of a block", octaves(64, 1024), 0.05)
PAIR_BYTES = 8
"""Of the vector that a thread makes of each row."""
SEVERAL = 3
"""Reads of one array, at different places, that make a stencil."""


def reaches(s: lp.Schedule, stage: str, inside: str | None = None) -> bool:
    """Whether `stage` reads several elements of one buffer in every iteration, all a fixed way apart; its loops, or
    those `inside` one of them, are all independent."""
    loops = free_loops(s, stage, inside)
    if len(loops) < 2 or loops != _loops_inside(s, stage, inside):
        return False
    reads = Counter((t.buffer, tuple(t.strides.items())) for t in s.accesses(stage) if not t.write)
    along = {t.buffer for t in s.accesses(stage) if not t.write and t.contiguous(loops[-1])}
    return any(n >= SEVERAL and buffer in along for (buffer, _), n in reads.items())


@lp.composite
def neighbours(
    s: lp.Schedule, stage: str, *, rows: int = 4, threads: int = 256, inside: str | None = None
) -> lp.Schedule:
    """`stage` by blocks of `threads` along a row and `rows` rows below one another; ScheduleError if it has none.

    Its loops are those `inside` a loop, if one is given, each of whose iterations is a launch.
    """
    loops = _loops_inside(s, stage, inside)
    if len(loops) < 2:
        raise lp.ScheduleError(f"{stage} has no rows below one another: there are too few loops around it")
    *batch, row, column = loops
    rows, threads = THREAD_ROWS(rows, at=stage), THREADS(threads, at=stage)
    width = max(1, PAIR_BYTES // max(t.dtype.bytes for t in s.accesses(stage)))
    whole = f"({lp.text(s.loop(column).extent)}) % {width} == 0"
    if (
        inside is None
        and extent(s, column) is None
        and one_nest(s, stage)
        and s.why("specialize", s.loops(stage)[0], whole) is None
    ):
        known, nest = s.stages, s.loops(stage)
        s, others = s.specialize(nest[0], whole).with_loops
        (stage,) = (x for x in s.stages if x not in known)
        s = _blocks(s, nest, rows, threads, width)
        *batch, row, column = others
    width = width if s.why("split", column, width, tail="exact") is None else 1
    return _blocks(s, (*batch, row, column), rows, threads, width)


def _loops_inside(s: lp.Schedule, stage: str, inside: str | None) -> tuple[str, ...]:
    """The loops of `stage`, or those inside one of them."""
    loops = s.loops(stage)
    return loops if inside is None else loops[loops.index(inside) + 1 :]


def _even(columns: int | None, width: int, threads: int) -> int:
    """As many threads as a block needs, in whole warps, for blocks of `threads` at most to share a row evenly."""
    if columns is None:
        return threads
    pairs = max(1, -(-columns // width))
    blocks = -(-pairs // threads)
    return min(threads, -(-pairs // (blocks * WARP)) * WARP)


def _blocks(s: lp.Schedule, loops: tuple[str, ...], rows: int, threads: int, width: int) -> lp.Schedule:
    """Blocks and threads. A block whose rows and columns may not all be there has a version without tests."""
    *batch, row, column = loops
    threads = _even(extent(s, column), width, threads)
    sizes = [lp.text(s.loop(x).extent) for x in (row, column)]
    s, (high, one) = s.split(row, rows).with_loops
    s, (wide, part) = s.split(column, threads * width).with_loops
    s, (thread, lane) = s.split(part, width).with_loops if width > 1 else (s, (part, ""))
    s = s.reorder(*batch, high, wide, thread, one, *((lane,) if lane else ()))
    last = f"{wide} * {threads * width} + {threads * width - 1}"
    inside = f"{high} * {rows} + {rows - 1} < {sizes[0]} and {last} < {sizes[1]}"
    ones, lanes = [one], [lane] if lane else []
    if s.why("specialize", one, inside) is None:
        s, others = s.specialize(one, inside).with_loops
        ones.append(others[0])
        lanes += others[1:]
    for x in lanes:
        s = s.vectorize(x)
    s, block = fused(s, (*batch, high, wide))
    s = s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")
    for x in ones:
        s = s.unroll(x)
    return s
