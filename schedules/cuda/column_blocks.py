"""Softmax, norms and several statistics along columns, in one kernel: a block for columns that lie side by side.

What `row_blocks` is for rows, across memory: the threads of a block stand side by side along a row, each with a vector
of its columns, and one above the other along the columns, of which each has every so many rows. What several stages
read of the columns stays in registers, so that it is read from memory once, in pieces of rows that are whole sectors.
What is folded of a column goes through shared memory to all threads of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import loopir as lp

from ..common.nest_queries import argument_names, extent, fused, if_legal
from .cheapest import cheapest
from .row_threads import VECTOR_BYTES

SECTOR_BYTES = 32
"""What a piece of a row is a multiple of, at least."""
SIDES = 8, 4, 2
"""Vectors side by side in a block, as many as leave a thread with few enough elements."""
BLOCK_THREADS = 256, 512
"""Threads of a block, the first that leaves few enough elements to each."""
THREAD_ELEMENTS = 64
"""Elements of an input that a thread keeps, at most: as many registers, or half as many of 16 bits."""
SINGLE_ROW_THREADS = 128
"""Threads of a block, each of which has all rows of its columns, where that are few."""
FEW_SIDES, FEW_BLOCK_THREADS = (2, 1), (256, 512, 1024)
"""The same where processors are left over: few vectors side by side, so that there are more blocks."""
ELEMENT_FACTOR = 4
"""How many times as many lie side by side where they are single elements."""


def along_columns(s: lp.Schedule) -> bool:
    """Whether all stages fold the same columns of what is given, or make something of the results along them.

    At least two of them read one input, which one block for all of them is there for.
    """
    return _column_plan(s) is not None


@lp.composite
def column_blocks(s: lp.Schedule, *, side: int | None = None, threads: int | None = None) -> lp.Schedule:
    """`s` as one launch whose blocks take columns; ScheduleError if its stages do not all work along the same ones.

    A block has `side` vectors side by side, and `threads` threads; by default, so that a thread keeps few elements.
    """
    made = _column_plan(s, side, threads)
    if made is None:
        raise lp.ScheduleError("the stages are not reductions along the same columns and what is made of them")
    for stage, columns in made.columns.items():
        order = (*columns, *(x for x in s.loops(stage) if x not in columns))
        s = s.reorder(*order) if order != s.loops(stage) else s
    *earlier, last = s.stages
    s, (block, _) = s.split(made.columns[last][-1], made.side * made.width).with_loops
    for stage in reversed(earlier):
        if any(t.write and t.buffer in made.given for t in s.accesses(stage)):
            s, _ = s.split(made.columns[stage][-1], made.side * made.width).with_loops
            s = s.fuse_loops(s.loops(stage)[0], s.loops(last)[0])
            block = s.loops(last)[len(made.columns[last]) - 1]
        else:
            s = s.compute_at(stage, block)
    inside = {b for b in s.buffers if b not in made.given}
    for buffer in sorted(made.read):
        readers = tuple(x for x in s.stages if any(t.buffer == buffer and not t.write for t in s.accesses(x)))
        s = if_legal(s, "cache_read", readers, buffer, "local", block)
    for stage in s.stages:
        s = _bind_stage(s, stage, made, block)
    for buffer in sorted(inside):
        s = s.set_scope(buffer, "shared")
    s, grid = fused(s, s.loops(last)[: s.loops(last).index(block) + 1])
    return s.bind(grid, "blockIdx.x")


def few_column_blocks(s: lp.Schedule) -> lp.Schedule:
    """`column_blocks` of `s` where there are too few columns for every processor to have some, by the shape of a block
    that is predicted to be fastest; ScheduleError where lowering takes none."""
    ways = [partial(column_blocks, side=side, threads=threads) for side, threads in _shapes_of_few(s)]
    made = cheapest(s, ways)
    if made is None:
        raise lp.ScheduleError("the stages do not work along the same columns, or lowering refuses blocks of these")
    return made


def along_few_columns(s: lp.Schedule) -> bool:
    """Whether `few_column_blocks` has a shape of blocks for `s`, and `along_columns` has none."""
    return not along_columns(s) and bool(_shapes_of_few(s))


def _shapes_of_few(s: lp.Schedule) -> list[tuple[int, int]]:
    """For few vectors side by side, but for single elements, the fewest threads that leave few enough to each."""
    found: list[tuple[int, int]] = []
    for side in FEW_SIDES:
        plans = ((n, _column_plan(s, side, n)) for n in FEW_BLOCK_THREADS)
        threads = next((n for n, x in plans if x is not None and x.side * x.width > 1), None)
        found += [] if threads is None else [(side, threads)]
    return found


@dataclass(frozen=True)
class _Columns:
    """The loops of each stage over columns, the arguments, which of them are kept, and the shape of a block."""

    columns: dict[str, tuple[str, ...]]
    given: frozenset[str]
    read: frozenset[str]
    side: int
    width: int
    rows: int


def _column_plan(s: lp.Schedule, side: int | None = None, threads: int | None = None) -> _Columns | None:
    """How the stages are spread; None where they do not all work along the same columns, or do not fit a block."""
    reductions = [x for x in s.stages if s.reduced(x)]
    if len(s.stages) < 2 or not reductions or any(s.loop(x).kind != "serial" for x in s.loops()):
        return None
    columns = {x: _column_loops(s, x, reductions) for x in s.stages}
    sizes = _extents(s, columns)
    if sizes is None or not all(_is_contiguous_along(s, x, found[-1]) for x, found in columns.items()):
        return None
    given = argument_names(s)
    read = _shared_inputs(s, columns, given)
    shape = _block_shape(s, *sizes, read, side, threads) if read else None
    return None if shape is None else _Columns(columns, given, read, *shape)


def _extents(s: lp.Schedule, columns: dict[str, tuple[str, ...]]) -> tuple[tuple[int, ...], int] | None:
    """How long the loops over columns and the columns are, if they are as long in all stages, and known."""
    counts = {tuple(extent(s, y) for y in found) for found in columns.values()}
    lengths = {prod(extent(s, y) or 0 for y in s.loops(x) if y not in found) for x, found in columns.items()} - {1}
    if len(counts) != 1 or len(lengths) != 1 or 0 in lengths:
        return None
    (count,), (length,) = counts, lengths
    known = tuple(n for n in count if n is not None)
    return (known, length) if known and len(known) == len(count) else None


def _shared_inputs(s: lp.Schedule, columns: dict[str, tuple[str, ...]], given: frozenset[str]) -> frozenset[str]:
    """The arguments that are read along columns, if two stages read one of them."""
    read = [[t.buffer for t in s.accesses(x) if not t.write and not _is_per_column(t, columns[x])] for x in s.stages]
    found = frozenset(b for buffers in read for b in buffers) & given
    return found if any(sum(b in buffers for buffers in read) > 1 for b in found) else frozenset()


def _column_loops(s: lp.Schedule, stage: str, reductions: Sequence[str]) -> tuple[str, ...]:
    """The loops of `stage` over columns: those that it does not reduce, or along which it reads what is folded."""
    if stage in reductions:
        return tuple(x for x in s.loops(stage) if x not in s.reduced(stage))
    folded = {t.buffer for x in reductions for t in s.accesses(x) if t.write}
    reads = [t for t in s.accesses(stage) if t.buffer in folded and not t.write]
    return tuple(x for x in s.loops(stage) if any(not t.invariant(x) for t in reads))


def _is_per_column(touched: object, columns: Sequence[str]) -> bool:
    """Whether an access is to one element for each column, or fewer, as of what is folded."""
    strides = getattr(touched, "strides", {})
    return all(getattr(v, "value", 1) == 0 or x in columns for x, v in strides.items())


def _is_contiguous_along(s: lp.Schedule, stage: str, column: str) -> bool:
    """Whether neighbours along `column` are neighbours in all that `stage` touches, and are read through no index."""
    return all(t.contiguous(column) or t.invariant(column) for t in s.accesses(stage))


def _block_shape(
    s: lp.Schedule, counts: Sequence[int], length: int, read: frozenset[str], side: int | None, threads: int | None
) -> tuple[int, int, int] | None:
    """Vectors side by side, elements of each, and threads one above the other; None if nothing fits."""
    sizes = [s.buffer(x).dtype.bytes for x in read]
    width = max(1, VECTOR_BYTES // max(sizes))
    width = width if counts[-1] % width == 0 else 1
    if length * width * len(read) <= THREAD_ELEMENTS // 2 and counts[-1] >= SINGLE_ROW_THREADS * width and not side:
        return SINGLE_ROW_THREADS, width, 1
    for together in (side,) if side else SIDES:
        lanes = together if width > 1 or side else together * ELEMENT_FACTOR
        blocks = prod(counts[:-1]) * -(-counts[-1] // (lanes * width))
        if counts[-1] < lanes * width or (lanes * width * min(sizes) < SECTOR_BYTES and not side):
            continue
        for count in (threads,) if threads else BLOCK_THREADS:
            rows = max(1, count // lanes)
            if -(-length // rows) * width * len(read) <= THREAD_ELEMENTS and (
                side or blocks >= lp.machine().processors
            ):
                return lanes, width, rows
    return None


def _bind_stage(s: lp.Schedule, stage: str, made: _Columns, block: str) -> lp.Schedule:
    """The loops of `stage` inside `block`: vectors of columns along x, rows along y."""
    inner = tuple(x for x in s.loops(stage)[s.loops(stage).index(block) + 1 :] if extent(s, x) != 1)
    folds = bool(s.reduced(stage))
    first = stage in made.columns  # a copy goes along rows first
    column, rows = (inner[0], inner[1:]) if first else (inner[-1], inner[:-1])
    s, (lane, one) = s.split(column, made.width).with_loops
    if rows:
        s, row = fused(s, rows)
        s, (turn, row) = s.split(row, made.rows).with_loops
        s = s.reorder(lane, turn, row, one).bind(row, "threadIdx.y").unroll(turn)
    if folds:
        s = s.cache_write(stage, "local", lane)
        for moved in s.last.loops:
            s = if_legal(s, "vectorize", moved)
    s = s.vectorize(one) if not folds and s.why("vectorize", one) is None else s.unroll(one)
    return s.bind(lane, "threadIdx.x")
