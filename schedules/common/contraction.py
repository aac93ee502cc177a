"""Contractions, C[i, j] = fold over k of A[i, k] with B[k, j]: each operand is read once and used many times.

The structure is what counts, not the operation: one reduced loop, and two operands, each of which does not speak of one
of the two other loops; any loops around make a batch. How the operands lie in memory, transposed or not, is taken as
it is: they are copied into panels that the inner loops run along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import loopir as lp

from .nest_queries import batched, extent, fold_made, free_loops, if_legal, indices_of, reads_of, spatial_loops

LARGE_MATRIX = 1536
"""Rows, and columns, from which on a GPU of some 130 processors has a tile of 128 x 128 for each."""


@dataclass(frozen=True)
class Operand:
    """An input: its buffer, whether the reduced loop runs along its rows, and which of the two reads it is."""

    buffer: str
    along: bool
    number: int = 0

    def panels(self, width: int, chunk: int = 1) -> str:
        """The layout in panels of `width` rows or columns, in each of which the reduced loop comes first, or so many
        steps of it last.
        """
        if chunk > 1:
            args = "x, k" if self.along else "k, x"
            return f"lambda {args}: (x // {width}, k // {chunk}, x % {width}, k % {chunk})"
        if self.along:
            return f"lambda x, k: (x // {width}, k, x % {width})"
        return f"lambda k, x: (x // {width}, k, x % {width})"


@dataclass(frozen=True)
class Contraction:
    """The loops of a contraction: around it, over rows, over columns (along the output), and reduced; its operands."""

    stage: str
    batch: tuple[str, ...]
    row: str
    column: str
    reduced: str
    left: Operand
    right: Operand
    bytes: int
    """Of an element of the output."""


def separate_operands(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with a copy for the right operand of `stage`, if it folds products of elements of one buffer, as `A @ A.T`.

    What brings operands near knows them by their buffers.
    """
    over = s.reduced(stage)
    reads, writes = ([t for t in s.accesses(stage) if t.write == kind] for kind in (False, True))
    if not over or len(writes) != 1 or len(reads) != 2 or reads[0].buffer != reads[1].buffer:
        return s
    for left, right in (reads, reads[::-1]):
        loops = [x for x in s.loops(stage) if not right.invariant(x)]
        if any(writes[0].contiguous(x) and left.invariant(x) for x in loops):
            loops.sort(key=right.contiguous)
            if s.why("reindex", stage, right.buffer, *loops) is None:
                return s.reindex(stage, right.buffer, *loops)
    return s


def operands_read(s: lp.Schedule, stage: str) -> list[Any]:
    """What `stage` reads, but for what only says where another element lies."""
    reads = reads_of(s, stage)
    return [t for t in reads if not (t.dtype.is_integer and any(t.text in x.text for x in reads if x is not t))]


def contraction(
    s: lp.Schedule, stage: str, *, of_one_buffer: bool = False, in_parts: bool = False, gathered: bool = False
) -> Contraction | None:
    """What `stage` is as a contraction; None if it is none, or of one buffer: see `separate_operands`.

    With `of_one_buffer`, one of one buffer is given, too: for those who copy operands by `copied_operand`; with
    `in_parts`, one whose rows or columns are counted by two loops, of which the outer one is of its batch; with
    `gathered`, one of rows that indices in memory select.
    """
    over, reads = s.reduced(stage), operands_read(s, stage) if gathered else reads_of(s, stage)
    found = sides(s, stage, reads) if len(over) == 1 else None
    if found is None or (reads[0].buffer == reads[1].buffer and not of_one_buffer):
        return None
    (k,), (out,) = over, [t for t in s.accesses(stage) if t.write]
    if not in_parts and any(_parted(out.subscripts, x) for x in (found.rows, found.columns)):  # no split loop
        return None
    row = max(reversed(found.rows), key=lambda x: extent(s, x) or LARGE_MATRIX)  # others go around
    pairs = ((found.left, row), (found.right, found.column))
    if any(t.contiguous(k) == t.contiguous(x) or t.invariant(k) for t, x in pairs):
        return None
    batch = tuple(x for x in spatial_loops(s, stage) if x not in (row, found.column))
    one, other = (Operand(t.buffer, t.contiguous(k), int(t is reads[1])) for t, _ in pairs)
    return Contraction(stage, batch, row, found.column, k, one, other, out.dtype.bytes)


def require_contraction(s: lp.Schedule, stage: str) -> Contraction:
    """As `contraction`; ScheduleError if `stage` is none."""
    c = contraction(s, stage)
    if c is None:
        raise lp.ScheduleError(f"{stage} is no contraction of two operands over one loop")
    return c


@dataclass(frozen=True)
class Sides:
    """The two reads of a fold, the loops that one of them alone speaks of, and that one of these, of the right one,
    along which the output runs."""

    left: Any
    right: Any
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    column: str


def sides(s: lp.Schedule, stage: str, reads: Sequence[Any]) -> Sides | None:
    """`reads` as the operands of `stage`; None unless it folds two into one buffer, over loops inside independent ones,
    each with loops that the other does not speak of."""
    free, writes = tuple(spatial_loops(s, stage)), [t for t in s.accesses(stage) if t.write]
    if not s.reduced(stage) or len(reads) != 2 or len(writes) != 1 or free_loops(s, stage)[: len(free)] != free:
        return None
    for left, right in (reads, reads[::-1]):
        rows = tuple(x for x in free if right.invariant(x) and not left.invariant(x))
        columns = tuple(x for x in free if left.invariant(x) and not right.invariant(x))
        column = next((x for x in columns if writes[0].contiguous(x)), None)
        if rows and column is not None:
            return Sides(left, right, rows, columns, column)
    return None


def copied_operand(s: lp.Schedule, stage: str, operand: Operand, scope: str, at: str | None) -> tuple[lp.Schedule, str]:
    """`s` with what the contraction `stage` reads of `operand` in an iteration of `at` copied, and that copy. Of rows
    that indices in memory select, as those of pages, the copy has the rows in the order in which they are read."""
    reads = reads_of(s, stage)
    if at is not None and (gathered := _gathered_in(s, stage, operand, at)) is not None:
        moving = sorted((x for x in s.loops(stage) if not gathered.invariant(x)), key=gathered.contiguous)
        s, copy = s.reindex(stage, operand.buffer, *moving).with_stage
        (made,) = (t.buffer for t in s.accesses(copy) if t.write)
        s = s.compute_at(copy, at).simplify(drop_unit_loops=True)  # outer dimensions are of one element now
        return s.fuse_dims(made, 0, len(moving) - 1).set_scope(made, scope), copy
    shared = len({t.buffer for t in reads}) == 1
    element = reads[operand.number].text if shared else None
    return s.cache_read(stage, operand.buffer, scope, at=at, element=element).with_stage


def _gathered_in(s: lp.Schedule, stage: str, operand: Operand, at: str) -> Any:
    """The read of `operand` by `stage`, if an index in memory says where it is, another one within an iteration of
    `at`; else None."""
    inside, reads = s.loops(stage)[s.loops(stage).index(at) + 1 :], reads_of(s, stage)
    found = [t for t in reads if t.buffer == operand.buffer]
    indices = indices_of(found[0], reads) if len(found) == 1 else ()
    return found[0] if any(not x.invariant(y) for x in indices for y in inside) else None


def _parted(subscripts: tuple[Any, ...], loops: Sequence[str]) -> bool:
    """Whether one of `subscripts` is counted by several of `loops`."""
    return any(len(d.variables.intersection(loops)) > 1 for d in subscripts)


def partial_sums(s: lp.Schedule, stage: str, parts: int, depth: int = 1) -> tuple[lp.Schedule, str]:
    """The contraction `stage` as the sum of what a new stage folds in `parts` of the reduced loop; and that stage.

    Parts are of one length where they divide the loop in steps of `depth`; else all but the last are whole steps.
    """
    c = contraction(s, stage)
    length = None if c is None else extent(s, c.reduced)
    if c is None or length is None or (length % parts and depth == 1):
        raise lp.ScheduleError(f"{stage} is no contraction over a loop that {parts} parts of one length make up")
    exact = length % (parts * depth) == 0
    each = length // parts if exact else -(-length // (parts * depth)) * depth
    s, (part, _) = s.split(c.reduced, each, tail="exact" if exact else "guard").with_loops
    s, partial = s.reorder(part, *spatial_loops(s, stage)).rfactor(stage, part).with_stage
    own = s.loops(stage)
    return s.reorder(*own[1:], own[0]), partial


def worth_tiling(s: lp.Schedule, c: Contraction, least: int = 32, steps: int | None = None) -> bool:
    """Whether no loop of the three is known to be shorter than `least`: then its operands are not used often enough.

    The reduced loop may have `steps` iterations, if that is given: how often operands are used does not depend on it.
    """
    lengths = [(extent(s, x), least) for x in (c.row, c.column)]
    lengths.append((extent(s, c.reduced), least if steps is None else steps))
    return all(n is None or n >= short for n, short in lengths)


def padded(s: lp.Schedule, stage: str, *loops: str) -> lp.Schedule:
    """`stage` without the guards of `loops`, or else of each of them that can be padded away by itself."""
    if s.why("pad", stage, *loops) is None:
        return s.pad(stage, *loops)
    for loop in loops:
        s = if_legal(s, "pad", stage, loop)
    return s


# ---------------------------------------------------------------- GPU


@lp.composite
def matmul_gpu(
    s: lp.Schedule, stage: str, *, block: int | None = None, depth: int = 16, part: int | None = None, vector: int = 4
) -> lp.Schedule:
    """The contraction `stage` in tiles of `block` x `block` for a block of threads, `part` x `part` for each of them.

    `depth` steps of the reduced loop at a time, both operands' tiles are copied to shared memory by all threads,
    `vector` elements at once; a thread takes its rows and columns from there to registers. Unless told, tiles are
    as large as registers allow where there are enough of them for a whole GPU.
    """
    c = require_contraction(s, stage)
    lengths = [extent(s, x) for x in (c.row, c.column)]
    large = all(n is not None and n >= LARGE_MATRIX for n in lengths)
    block, part = block or (128 if large else 64), part or (8 if large else 4)
    side = block // part
    s, (bi, i) = s.split(c.row, block).with_loops
    s, (ti, ii) = s.split(i, part).with_loops
    s, (bj, j) = s.split(c.column, block).with_loops
    s, (tj, jj) = s.split(j, part).with_loops
    s, (ko, ki) = s.split(c.reduced, depth).with_loops
    s = s.reorder(*c.batch, bi, bj, ko, ti, tj, ki, ii, jj)
    s = s.bind(bi, "blockIdx.y").bind(bj, "blockIdx.x").bind(ti, "threadIdx.y").bind(tj, "threadIdx.x")
    s = s.cache_write(stage, "local", at=bj)
    inner = fold_made(s)
    tiles: list[str] = []
    for operand in (c.left, c.right):
        s, copy = s.cache_read(inner, operand.buffer, "shared", at=ko).with_stage
        if operand.along:  # rows of four more, so that the threads that turn a tile around meet few banks twice
            s = s.set_layout(copy, f"lambda x, k: k * {block + vector} + x")
        tiles.append(copy)
    s = padded(s, inner, ii, jj, ki)
    for copy in tiles:
        s = _copy_by_square(s, copy, side, vector)
        s, mine = s.cache_read(inner, copy, "local", at=ki).with_stage
        s = s.vectorize(s.loops(mine)[-1])
    s = s.unroll(ii).unroll(jj).unroll(ki)
    out = s.loops(stage)
    return batched(s.vectorize(out[-1]).unroll(out[-2]), c.batch)  # once tiles are found


def _copy_by_square(s: lp.Schedule, copy: str, side: int, vector: int) -> lp.Schedule:
    """The copy of a tile by `side` x `side` threads, each of them `vector` elements along a row at once."""
    s, (flat,) = s.fuse(*s.loops(copy)[-2:]).with_loops
    s, (flat, lane) = s.split(flat, vector).with_loops
    s, (_, thread) = s.split(flat, side * side).with_loops
    s, (y, x) = s.split(thread, side).with_loops
    return s.bind(y, "threadIdx.y").bind(x, "threadIdx.x").vectorize(lane)
