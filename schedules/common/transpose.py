"""Stages that read along one loop and write along another, on a GPU: through tiles in shared memory.

A block takes a tile. Its threads read the tile along the rows of the input and write it along those of the output, each
in whole vectors where rows are aligned; in shared memory rows are one bank longer, so that columns meet no bank twice.
Any permutation of any number of dimensions is one of these in the two loops that matter, and a batch of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import loopir as lp

from .nest_queries import batched, extent, free_loops, if_legal, one_nest

BANK_BYTES = 4
"""Of a bank of shared memory, which serves one word in a cycle (CUDA C++ Programming Guide)."""
FULL_TILE = 64
MIN_SIDE = 16
"""The tile for sides that are whole ones, by default."""


@dataclass(frozen=True)
class TransposedRead:
    """A stage whose output runs along `column`, and an input of it along `row`."""

    buffer: str
    bytes: int
    row: str
    column: str


def find_transposed_read(s: lp.Schedule, stage: str) -> TransposedRead | None:
    """What `stage` reads across the direction it writes in; None if it reads nothing so, or reduces."""
    loops = free_loops(s, stage)
    if loops != s.loops(stage):
        return None
    for out in s.accesses(stage):
        column = next((x for x in loops if out.write and out.contiguous(x)), None)
        for t in s.accesses(stage) if column is not None else ():
            row = next((x for x in loops if not t.write and t.contiguous(x)), None)
            if column is not None and row not in (None, column) and not t.invariant(column):
                return TransposedRead(t.buffer, t.dtype.bytes, str(row), column)
    return None


def worth_turning(s: lp.Schedule, t: TransposedRead) -> bool:
    """Whether neither loop is known to be shorter than MIN_SIDE: a tile would be mostly empty."""
    return all(n is None or n >= MIN_SIDE for n in (extent(s, t.row), extent(s, t.column)))


@lp.composite
def transpose(
    s: lp.Schedule, stage: str, *, tile: int | None = None, threads: int | None = None, vector: int | None = None
) -> lp.Schedule:
    """`stage`, which reads an input across the direction it writes in, by tiles of `tile` x `tile` in shared memory.

    By default: where both sides are whole tiles of 64, 256 threads move 8 bytes each at once. Else rows are not
    aligned, and threads move elements: 512 threads of tiles of 64 if these are words, 128 of tiles of 32 if less.
    ScheduleError if `stage` is no such stage.
    """
    t = find_transposed_read(s, stage)
    if t is None:
        raise lp.ScheduleError(f"{stage} reads nothing across the direction that it writes in")
    sides = [lp.text(s.loop(x).extent) for x in (t.row, t.column)]
    known = [extent(s, x) for x in (t.row, t.column)]
    whole = all(n is not None and n % (tile or FULL_TILE) == 0 for n in known)
    tiles = " and ".join(f"({n}) % {tile or FULL_TILE} == 0" for n in dict.fromkeys(sides))
    first = s.loops(stage)[0]
    if not whole and None in known and one_nest(s, stage) and s.why("specialize", first, tiles) is None:
        s, other = s.specialize(first, tiles).with_stage
        s = _tiles(s, stage, t, tile, threads, vector, True)
        stage, again = other, find_transposed_read(s, other)
        assert again is not None
        t = again
    return _tiles(s, stage, t, tile, threads, vector, whole)


def tiled(
    s: lp.Schedule, stage: str, t: TransposedRead, tile: int, scope: Literal["shared", "local"]
) -> tuple[lp.Schedule, str, tuple[str, ...], tuple[str, str, str, str]]:
    """`stage` by tiles of `tile` x `tile`, which a copy in `scope` has of what it reads; the copy, the loops around the
    tiles, and those over tiles and in them, rows first."""
    batch = tuple(x for x in s.loops(stage) if x not in (t.row, t.column))
    s, (high, i) = s.split(t.row, tile).with_loops
    s, (wide, j) = s.split(t.column, tile).with_loops
    moved = s.loops(stage)[len(batch) :] if s.loops(stage)[: len(batch)] == batch else s.loops(stage)
    s = s.reorder(*(x for x in (*batch, high, wide, i, j) if x in moved))  # what is around them may hold more
    s, copy = s.cache_read(stage, t.buffer, scope, at=wide).with_stage
    return s, copy, batch, (high, wide, i, j)


def _tiles(
    s: lp.Schedule,
    stage: str,
    t: TransposedRead,
    tile: int | None,
    threads: int | None,
    vector: int | None,
    whole: bool,
) -> lp.Schedule:
    """`stage` by tiles, of which its sides are `whole` ones, or may not be."""
    words = t.bytes >= BANK_BYTES
    threads = threads or (256 if whole else 512 if words and not tile else 128)
    tile = tile or (FULL_TILE if whole or words else 32)
    lanes = (vector or max(1, 8 // t.bytes)) if whole else 1
    s, copy, batch, (high, wide, i, j) = tiled(s, stage, t, tile, "shared")
    s = s.set_layout(copy, f"lambda x, k: x * {tile + max(1, BANK_BYTES // t.bytes)} + k")
    s = _spread(s, s.loops(copy)[-2:], tile, threads, lanes)
    s = _spread(s, (i, j), tile, threads, lanes)
    s = s.bind(wide, "blockIdx.x").bind(high, "blockIdx.y")
    return batched(s, batch)


def _spread(s: lp.Schedule, rows: tuple[str, ...], tile: int, threads: int, lanes: int) -> lp.Schedule:
    """The tile's rows over all threads, `lanes` elements at once along them; what is left is unrolled."""
    i, j = rows
    along = min(tile // lanes, 32) if lanes == 1 else tile // lanes
    if lanes > 1:
        s, (j, lane) = s.split(j, lanes).with_loops
        s = s.vectorize(lane)
    s, (part, x) = s.split(j, along).with_loops
    s, (rest, y) = s.split(i, threads // along).with_loops
    s = if_legal(s, "reorder", rest, y, part, x)
    return s.bind(y, "threadIdx.y").bind(x, "threadIdx.x").unroll(rest).unroll(part)
