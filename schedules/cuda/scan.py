"""Prefix sums in three steps: the sum of each block of elements, the sums up to each block, the sums inside it.

A running sum is one long chain of dependences, and no order of its loop is another; `scan_blocks` cuts the chain. On a
GPU it cuts each block again, into the parts of threads, and the row of these parts once more. A block comes in and goes
out through shared memory: there threads move vectors side by side, while each goes along a part of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import loopir as lp

from ..common.nest_queries import extent, fused, if_legal, reader, written_by
from .row_threads import VECTOR_BYTES

PROGRAM = """
def prefix_sum(n: "size", A: "{t}[n]", B: "out {t}[n]"):
    for i in range(n):
        B[i] = select(1 <= i, B[i - 1], {zero}) + A[i]
"""
ROW = 16
"""How many parts a thread goes along where the row of parts is cut."""


def prefix_sum(dtype: str) -> lp.Func:
    """B[i] = A[0] + ... + A[i] for `dtype`; a program at any size."""
    return lp.parse(PROGRAM.format(t=dtype, zero="0.0" if "float" in dtype else "0"))


@lp.composite
def scan(s: lp.Schedule, target: str, *, width: int = 4096, threads: int = 256, rows: int = 8) -> lp.Schedule:
    """The running fold that is the innermost loop of the only stage, in blocks of `width` elements that run at once.

    On a GPU ("cuda") `threads` threads share a block: each has a part of it, of which it folds the sum first. The sums
    of `rows` blocks are one block's work, and what the blocks come to is scanned in the same way, by one block.
    ScheduleError for a program of another form.
    """
    if len(s.stages) != 1 or not s.loops(s.stages[0]):
        raise lp.ScheduleError(f"a scan is one stage in a loop; this program's stages are {', '.join(s.stages)}")
    (stage,) = s.stages
    loop = s.loops(stage)[-1]
    length, source = lp.text(s.loop(loop).extent), source_of(s, stage)
    if target != "cuda":
        s = s.scan_blocks(loop, width, names=("block", "within"))
        return s.parallel(s.loops(s.stages[0])[-2]).parallel("block")
    tile = Tile.of(s, stage, width, threads)
    s = s.scan_blocks(loop, tile.width, names=("block", "within"))
    sums, ends, _ = s.stages
    s = one_row(_sums(s, sums, source, tile, rows), ends, sums, tile)
    return block_scan(s, stage, source, "block", length, tile).bind("block", "blockIdx.x")


@dataclass(frozen=True)
class Tile:
    """What a block has: parts of `each` elements for as many threads, moved in vectors of so many lanes."""

    threads: int
    each: int
    lanes: int

    @staticmethod
    def of(s: lp.Schedule, stage: str, width: int, threads: int) -> Tile:
        each, size = -(-width // threads), max(t.dtype.bytes for t in s.accesses(stage))
        lanes = max(1, VECTOR_BYTES // size)
        return Tile(threads, each, lanes if each % lanes == 0 else 1)

    @property
    def width(self) -> int:
        return self.threads * self.each

    def padded(self, s: lp.Schedule, buffer: str) -> lp.Schedule:
        """Parts a vector apart, so that threads that each look into their own part meet in no bank of memory."""
        return s.set_layout(buffer, f"lambda i: i // {self.each} * {self.each + self.lanes} + i % {self.each}")

    def side_by_side(self, s: lp.Schedule, loops: Sequence[str], whole: str) -> lp.Schedule:
        """The loops of a copy by all threads, which have vectors side by side, where the block is a `whole` one."""
        s, some = by_threads(s, loops, self.threads, self.lanes)
        return if_legal(s, "specialize", some, whole)

    def along(self, s: lp.Schedule, loops: Sequence[str]) -> lp.Schedule:
        """The loop of a copy by one thread, a vector after the other."""
        for loop in loops:
            s = vector_by_vector(s, loop, self.lanes)
        return s


def by_threads(s: lp.Schedule, loops: Sequence[str], threads: int, lanes: int) -> tuple[lp.Schedule, str]:
    """The `loops` of a copy by `threads` that have vectors of `lanes` side by side; and the loop that each runs."""
    s, flat = fused(s, loops)
    s, (some, rest) = s.split(flat, threads * lanes).with_loops
    s, (thread, lane) = s.split(rest, lanes).with_loops
    return if_legal(s, "vectorize", lane).bind(thread, "threadIdx.x").unroll(some), some


def vector_by_vector(s: lp.Schedule, loop: str, lanes: int) -> lp.Schedule:
    """The `loop` of a copy by one thread, a vector after the other."""
    s, (some, lane) = s.split(loop, lanes).with_loops
    return if_legal(s, "vectorize", lane).unroll(some)


def source_of(s: lp.Schedule, stage: str) -> str | None:
    """What the stage goes along by its innermost loop, besides what it stores, if that is one array."""
    stored, loop = written_by(s, stage), s.loops(stage)[-1]
    found = {t.buffer for t in s.accesses(stage) if t.contiguous(loop)} - stored
    return found.pop() if len(found) == 1 else None


def _sums(s: lp.Schedule, stage: str, source: str | None, tile: Tile, rows: int) -> lp.Schedule:
    """The sums of blocks, all of which are whole: threads side by side, each with a vector at a time."""
    block, inner = s.loops(stage)[-2:]
    s, (pieces, lane) = s.split(inner, tile.lanes).with_loops
    s, (some, thread) = s.split(pieces, max(1, tile.threads // rows)).with_loops
    s, (block, row) = s.split(block, rows).with_loops
    s, fold, _ = moved_copy(s.cache_write(stage, "local", row))
    if source is not None:
        s, _, moved = moved_copy(s.cache_read(fold, source, "local", thread))
        s = tile.along(s, moved)
    s = s.bind(block, "blockIdx.x").bind(row, "threadIdx.y").bind(thread, "threadIdx.x")
    return s.unroll(lane).unroll(some)


def one_row(s: lp.Schedule, stage: str, sums: str | None, tile: Tile) -> lp.Schedule:
    """A row, as that of the blocks' `sums`, which one block scans, a tile after the other."""
    loop = s.loops(stage)[-1]
    length = lp.text(s.loop(loop).extent)
    s, (chunk, _) = s.split(loop, tile.width).with_loops
    s, (chunk, one) = s.split(chunk, 1).with_loops
    s = s.reorder(one, chunk)
    return block_scan(s, stage, sums, chunk, length, tile).bind(one, "blockIdx.x")


def block_scan(s: lp.Schedule, stage: str, source: str | None, block: str, length: str, tile: Tile) -> lp.Schedule:
    """The innermost loop of `stage`, a block of the scan of `length` elements, by the threads of a block of the GPU."""
    whole = f"{block} * {tile.width} + {tile.width - 1} < {length}"
    s = s.scan_blocks(s.loops(stage)[-1], tile.each)
    parts, ends = s.last.buffers
    (part, one), thread, row = s.loops(parts)[-2:], s.loops(stage)[-2], s.loops(ends)[-1]
    going, tiles = stage, list[str]()
    if source is not None and s.why("cache_read", (parts, stage), source, "shared", block) is None:
        s, copy, moved = moved_copy(s.cache_read((parts, stage), source, "shared", block))
        s, tiles = tile.padded(tile.side_by_side(s, moved, whole), copy), [copy]
        for reader, own in ((parts, part), (stage, thread)):
            s, _, moved = moved_copy(s.cache_read(reader, copy, "local", own))
            s = tile.along(s, moved)
    if s.why("cache_write", stage, "shared", block) is None:
        s, copy, moved = copied_out(s, stage, "shared", block)
        s = tile.padded(tile.side_by_side(s, moved, whole), copy)
        s, going, moved = moved_copy(s.cache_write(copy, "local", thread))
        s, tiles = tile.along(s, moved), [copy, *tiles]
    s, _, _ = moved_copy(s.cache_write(parts, "local", part))
    s = s.set_scope(parts, "shared").set_scope(ends, "shared").unroll(one).unroll(s.loops(going)[-1])
    for loop in (part, thread):
        s = s.bind(loop, "threadIdx.x")
        s = if_legal(s, "specialize", loop, whole)
    s = if_legal(s, "reuse", *tiles) if len(tiles) == 2 else s
    return part_ends(s, parts, ends, row)


def part_ends(s: lp.Schedule, parts: str, ends: str, row: str) -> lp.Schedule:
    """The row of the parts, in parts of its own where it is long."""
    if (extent(s, row) or 0) <= 2 * ROW:
        return s
    s = s.scan_blocks(row, ROW)
    sums, starts = s.last.buffers
    tile = Tile(0, ROW, 1)
    for fold, loop in ((sums, s.loops(sums)[-2]), (ends, s.loops(ends)[-2])):
        s, inner, moved = moved_copy(s.cache_write(fold, "local", loop))
        for x in (s.loops(inner)[-1], *moved):
            s = s.unroll(x)
        s = s.bind(loop, "threadIdx.x")
    for b in (sums, starts):
        s = s.set_scope(b, "shared")
    s = s.unroll(s.loops(starts)[-1])
    return tile.padded(tile.padded(s, parts), ends)


def copied_out(s: lp.Schedule, stage: str, scope: str, loop: str) -> tuple[lp.Schedule, str, tuple[str, ...]]:
    """`stage` in memory of `scope` inside `loop`, with that memory and the loops of the nest that copies it out.

    A stage that alone reads the result, an element for each of its own, is computed in that copy: the running fold of
    it, in float32 perhaps, is stored nowhere else.
    """
    s, copy, moved = moved_copy(s.cache_write(stage, scope, loop))
    after = reader(s, stage)
    return (s if after is None else if_legal(s, "reverse_compute_inline", after)), copy, moved


def moved_copy(s: lp.Schedule) -> tuple[lp.Schedule, str, tuple[str, ...]]:
    """`s`, whose last step has made a copy, with the buffer of the copy and the loops of the nest that moves it."""
    (copy,) = s.last.buffers
    return s, copy, s.last.loops
