"""Columns of rows that are no whole vectors, folded by vectors all the same: as many rows as make whole ones together.

A row of 5003 elements starts anywhere, and what a thread reads of it is an element. Four rows of float32, or eight of
bfloat16, lie one after the other like a row of whole vectors, whose columns are folded as such; each is a part of the
sum of the column that it stands in. The parts are folded by a second kernel, with the few rows that are left over.
Where the sizes are not known, the host asks at each launch whether there are rows enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp

from ..common.nest_queries import extent, if_legal, legal, reader, reads_of, result_of
from .row_threads import VECTOR_BYTES

SIDE, COLUMN_THREADS, VECTORS_IN_FLIGHT = 64, 512, 4
"""Vectors of columns side by side in a block, its threads, and the vectors of a column that each has in flight."""
BLOCKS_PER_PROCESSOR = 3
"""Blocks for each processor, which all run at once."""
PARTS = 16
"""Parts of groups of rows, at most, where sizes are known."""
ROUNDS_PER_THREAD, LEAST = 4, 4
"""As often a thread has its vectors in flight in a part, and parts, at least, where they are not."""
LAST, BATCH = ((64, 8), (32, 32)), 4
"""Columns of a block of the second kernel and the threads that fold the parts of each, where sizes are known and where
they are not; and the parts that one has in flight."""


def grouped(
    s: lp.Schedule, stage: str, column: str, over: Sequence[str], *, side: int = SIDE, threads: int = COLUMN_THREADS
) -> lp.Schedule | None:
    """`s` with `stage` folded so over its one reduced loop, where rows follow one another; None where they do not.

    `column` is its only other loop. What is made of the results, element by element, is made in the second kernel.
    Where the number of rows is not known, they are taken to be as many as `many_rows` says.
    """
    width, rows, columns = _width(s, stage, column, over), extent(s, over[0]), extent(s, column)
    known = rows is not None and columns is not None
    together = threads // side * VECTORS_IN_FLIGHT
    each = ROUNDS_PER_THREAD * together
    if width == 1 or (rows is not None and rows < LEAST * width * each and not known):
        return None
    if rows is not None and columns is not None:
        parts = BLOCKS_PER_PROCESSOR * lp.machine().processors // max(1, -(-columns // side))
        if not 1 <= parts <= PARTS or rows < width * parts * threads // side:
            return None
        each = -(-(rows // width) // (parts * together)) * together
    (read,) = (t for t in s.accesses(stage) if not t.write)
    return legal(s, _grouped, stage, read.buffer, column, over[0], width, (each, together), (side, threads), known)


def many_rows(s: lp.Schedule, stage: str, column: str, over: Sequence[str]) -> str | None:
    """What has to hold of a number of rows that is not known for `grouped` to be worth it; None if it takes none."""
    width = _width(s, stage, column, over)
    least = LEAST * ROUNDS_PER_THREAD * width * (COLUMN_THREADS // SIDE) * VECTORS_IN_FLIGHT
    return f"{least} <= {lp.text(s.loop(over[0]).extent)}" if width > 1 and extent(s, over[0]) is None else None


def _width(s: lp.Schedule, stage: str, column: str, over: Sequence[str]) -> int:
    """How many rows that follow one another are whole vectors; 1 if `stage` does not fold such rows alone."""
    touched = reads_of(s, stage)
    if len(over) != 1 or len(s.loops(stage)) != 2 or len(touched) != 1:
        return 1
    (read,) = touched
    follow = read.strides.get(over[0]) == s.loop(column).extent and read.contiguous(column)
    return VECTOR_BYTES // read.dtype.bytes if follow and s.buffer(read.buffer).scope == "global" else 1


def _grouped(
    s: lp.Schedule, stage: str, buffer: str, column: str, over: str, width: int, parts: tuple[int, int],
    block: tuple[int, int], known: bool,
) -> lp.Schedule:  # fmt: skip
    """Groups of `width` rows, so many of them in a part and in a turn; a block has so many vectors side by side, and so
    many threads."""
    s = s.reorder(over, column) if s.loops(stage) != (over, column) else s
    s, (group, row, *_) = s.split(over, width, tail="peel").with_loops
    left = s.last.stages
    s = s.reorder(row, column, group)
    s, rows = s.rfactor(stage, row).with_stage
    s, (part, group) = s.split(group, parts[0]).with_loops
    s = s.reorder(part, row, column, group)
    s, partial = s.rfactor(rows, part).with_stage
    s = _vectors(s, partial, buffer, (part, row, column, group), width, (*block, parts[1]))
    return _last(_join_rest(s, stage, left), stage, rows, left, LAST[not known])


def _vectors(
    s: lp.Schedule, partial: str, buffer: str, loops: tuple[str, str, str, str], width: int, shape: tuple[int, int, int]
) -> lp.Schedule:
    """A block for vectors of a group's columns side by side and a part of the groups, threads along y folding each.

    `shape` is how many vectors it has side by side, its threads, and the groups that they take in a turn.
    """
    (part, row, column, group), (side, threads, together) = loops, shape
    s, (flat,) = s.fuse(row, column).with_loops
    s = s.fuse_dims(result_of(s, partial), 1)
    s, (flat, one) = s.split(flat, width).with_loops
    s, (block, lane) = s.split(flat, side).with_loops
    s, (_, inner) = s.split(group, together).with_loops
    outer = s.loops(partial)[s.loops(partial).index(inner) - 1]
    s, (some, thread) = s.split(inner, threads // side).with_loops
    s = s.reorder(outer, some, thread, one)
    s, fold = s.cache_write(partial, "local", lane).with_stage
    s, copy = s.reindex(fold, buffer, one, at=thread).with_stage
    s = s.set_scope(result_of(s, copy), "local").vectorize(s.loops(copy)[-1])
    s = s.bind(thread, "threadIdx.y").unroll(one).unroll(some)
    s = if_legal(s, "partition", outer)
    s = s.vectorize(s.loops(partial)[-1]).bind(lane, "threadIdx.x")
    s, (block,) = s.fuse(part, block).with_loops
    return s.bind(block, "blockIdx.x")


def _join_rest(s: lp.Schedule, stage: str, left: Sequence[str]) -> lp.Schedule:
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


def _last(s: lp.Schedule, stage: str, rows: str, left: Sequence[str], shape: tuple[int, int]) -> lp.Schedule:
    """Threads side by side for columns, and for each column a few that fold the parts of the `rows` of a group."""
    side, fold = shape
    s, (block, column) = s.split(s.loops(stage)[0], side).with_loops
    s = s.compute_at(rows, column).simplify(column, drop_unit_loops=True)
    part, row = s.loops(rows)[-2:]
    s, (_, inner) = s.split(part, fold * BATCH).with_loops
    s, (some, thread) = s.split(inner, fold).with_loops
    s = s.bind(thread, "threadIdx.y").unroll(some).unroll(row)
    s = s.set_scope(result_of(s, rows), "local")
    for x in (stage, *left):
        s = s.unroll(s.reduced(x)[0]) if extent(s, s.reduced(x)[0]) is not None else s
    return s.bind(column, "threadIdx.x").bind(block, "blockIdx.x")
