"""Columns of rows that are no whole vectors, folded by vectors all the same: as many rows as make whole ones together.

A row of 5003 elements starts anywhere, and what a thread reads of it is an element. Four rows of float32, or eight of
bfloat16, lie one after the other like a row of whole vectors, whose columns are folded as such; each is a part of the
sum of the column that it stands in. The parts are folded by a second kernel, with the few rows that are left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loopir as lp
from schedules.along import VECTOR_BYTES
from schedules.nests import extent, reader, step

SIDE, THREADS, TOGETHER = 64, 512, 4
"""Vectors of columns side by side in a block, its threads, and the vectors of a column that each has in flight."""
BLOCKS = 396
"""Three blocks for each of 132 processors, which all run at once."""
PARTS = 16
"""Parts of groups of rows, at most: as many times as many rows as a group has are what the second kernel folds."""
BATCH = 32
"""Rows that a thread of the second kernel has in flight."""
LAST = 64
"""Its threads."""


def grouped(
    s: lp.Schedule, stage: str, column: str, over: Sequence[str], *, side: int = SIDE, threads: int = THREADS
) -> lp.Schedule | None:
    """`s` with `stage` folded so over its one reduced loop, where rows follow one another; None where they do not.

    `column` is its only other loop. What is made of the results, element by element, is made in the second kernel.
    """
    touched = [t for t in s.accesses(stage) if not t.write]
    columns, rows = extent(s, column), extent(s, over[0])
    if len(over) != 1 or len(s.loops(stage)) != 2 or columns is None or rows is None or len(touched) != 1:
        return None
    (read,) = touched
    width = VECTOR_BYTES // read.dtype.bytes
    parts = BLOCKS // max(1, -(-columns // side))
    if width == 1 or not read.contiguous(column) or _step(read, over[0]) != columns:
        return None
    enough = 1 <= parts <= PARTS and rows >= width * parts * threads // side
    if not enough or s.buffer(read.buffer).scope != "global":
        return None
    try:
        return _grouped(s, stage, read.buffer, column, over[0], width, parts, (side, threads))
    except lp.ScheduleError:
        return None


def _step(t: Any, loop: str) -> int | None:
    """How many elements an iteration of `loop` goes on, if it is known."""
    return getattr(t.strides.get(loop), "value", None)


def _grouped(
    s: lp.Schedule, stage: str, buffer: str, column: str, over: str, width: int, parts: int, block: tuple[int, int]
) -> lp.Schedule:
    """Groups of `width` rows, in `parts`; a block has so many vectors side by side, and so many threads."""
    s = s.reorder(over, column) if s.loops(stage) != (over, column) else s
    known = s.stages
    s, (group, row, *_) = step(s, "split", over, width, tail="peel")
    left = [x for x in s.stages if x not in known]
    turn = block[1] // block[0] * TOGETHER
    each = -(-(extent(s, group) or 0) // (parts * turn)) * turn
    s, (part, group) = step(s, "split", group, each)
    s = s.reorder(part, row, column, group)
    s, (one,) = step(s, "fuse", part, row)
    known, s = s.stages, s.rfactor(stage, one)
    (partial,) = (x for x in s.stages if x not in known)
    s = _together(s, stage, left)
    s = _vectors(s, partial, buffer, (one, column, group), width, block)
    return _last(s, stage, left)


def _vectors(
    s: lp.Schedule, partial: str, buffer: str, loops: tuple[str, str, str], width: int, shape: tuple[int, int]
) -> lp.Schedule:
    """A block for vectors of a group's columns side by side and a part of the groups, threads along y folding each."""
    (part, column, group), (side, threads) = loops, shape
    s, (part, row) = step(s, "split", part, width)
    s, (flat,) = step(s, "fuse", row, column)
    s = s.fuse_dims(next(t.buffer for t in s.accesses(partial) if t.write), 0)
    s, (flat, one) = step(s, "split", flat, width)
    s, (block, lane) = step(s, "split", flat, side)
    s, (_, inner) = step(s, "split", group, threads // side * TOGETHER)
    outer = s.loops(partial)[s.loops(partial).index(inner) - 1]
    s, (some, thread) = step(s, "split", inner, threads // side)
    s = s.reorder(outer, some, thread, one)
    known, s = s.stages, s.cache_write(partial, "local", lane)
    (fold,) = (x for x in s.stages if x not in known)
    known, s = s.stages, s.reindex(fold, buffer, one, at=thread)
    (copy,) = (x for x in s.stages if x not in known)
    s = s.set_scope(next(t.buffer for t in s.accesses(copy) if t.write), "local").vectorize(s.loops(copy)[-1])
    s = s.bind(thread, "threadIdx.y").unroll(one).unroll(some)
    s = s.partition(outer) if s.why("partition", outer) is None else s
    s = s.vectorize(s.loops(partial)[-1]).bind(lane, "threadIdx.x")
    s, (block,) = step(s, "fuse", part, block)
    return s.bind(block, "blockIdx.x")


def _together(s: lp.Schedule, stage: str, left: Sequence[str]) -> lp.Schedule:
    """The rest of what is folded into a column, and what is made of it, in the loop over columns of `stage`."""
    after = reader(s, left[-1] if left else stage)
    for x in (stage, *left):
        s = s.reorder(*(y for y in s.loops(x) if y not in s.reduced(x)), *s.reduced(x))
    column = s.loops(stage)[0]
    for x in left:
        s = s.fuse_loops(column, s.loops(x)[0])
    alone = after is not None and len(s.loops(after)) == 1 and not s.reduced(after)
    if after is not None and alone and s.why("fuse_loops", column, s.loops(after)[0]) is None:
        s = s.fuse_loops(column, s.loops(after)[0])
    return s


def _last(s: lp.Schedule, stage: str, left: Sequence[str]) -> lp.Schedule:
    """A thread for each column, which has many of its rows in flight."""
    column = s.loops(stage)[0]
    for x in (stage, *left):
        (row,) = s.reduced(x)
        if (extent(s, row) or 0) > BATCH:
            s, (_, row) = step(s, "split", row, BATCH)
        s = s.unroll(row)
    s, (block, thread) = step(s, "split", column, LAST)
    return s.bind(thread, "threadIdx.x").bind(block, "blockIdx.x")
