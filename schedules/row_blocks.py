"""Softmax, norms and other stages along rows, in one kernel: a block for each row, or for several short ones.

Every reduction along a row is computed where the row's results are; what it gives stays in registers of all threads.
So a row is read from memory once, and from the cache after that.
"""

from __future__ import annotations

from math import prod

import loopir as lp
from schedules.nests import extent, fused, step

BLOCKS = 132
SHORT = 16384
"""A row that one block takes in good time, even if other blocks have nothing to do."""
VECTOR_BYTES = 16
SHARED_BYTES = 16384
WARP = 32


@lp.composite
def row_blocks(s: lp.Schedule, *, threads: int = 256) -> lp.Schedule:
    """`s` as one kernel whose blocks take rows; ScheduleError if its stages do not all work along the same rows.

    The last stage says what a row is: the loops that it has in common with the results of the reductions before it.
    """
    out = s.stages[-1]
    depths = {len(s.loops(x)) - len(s.reduced(x)) for x in s.stages if s.reduced(x)}
    depth = min(depths, default=0)
    if depths != {depth} or not depth or s.reduced(out) or len(s.loops(out)) < depth:
        raise lp.ScheduleError("the stages are not reductions along the same rows and what is made of them")
    lanes = _lanes(s, threads)
    s, row = fused(s, s.loops(out)[:depth])
    block = row
    if lanes <= WARP < threads:
        s, (block, row) = step(s, "split", row, threads // lanes)
    for stage in reversed(s.stages[:-1]):
        s = s.compute_at(stage, row)
    inside = [x for x in s.buffers if x not in {a.buffer.name for a in s.func.args}]
    for stage in s.stages:
        s = along(s, stage, row, lanes)
    s = s.bind(block, "blockIdx.x")
    if row != block:
        s = s.bind(row, "threadIdx.y")
    for buffer in inside:
        s = s.set_scope(buffer, _scope(s, buffer))
    return s


def crowded(s: lp.Schedule) -> bool:
    """Whether there are rows for `row_blocks`, not known to be too few for a GPU or too long for a block.

    A row's elements have to stand side by side in what its reductions read.
    """
    reductions = [x for x in s.stages if s.reduced(x)]
    if len(s.stages) < 2 or not reductions or not all(_runs_along(s, x) for x in reductions):
        return False
    loops = s.loops(reductions[0])
    counts = [extent(s, x) for x in loops if x not in s.reduced(reductions[0])]
    length = extent(s, loops[-1]) or 0
    return None in counts or prod(n or 1 for n in counts) >= BLOCKS or length <= SHORT


def _runs_along(s: lp.Schedule, stage: str) -> bool:
    """Whether the innermost reduced loop runs along something that `stage` reads, or across nothing."""
    inner = s.reduced(stage)[-1]
    reads = [t for t in s.accesses(stage) if not t.write and not t.invariant(inner)]
    return not reads or any(t.contiguous(inner) for t in reads)


def _scope(s: lp.Schedule, buffer: str) -> str:
    """Registers for what a row has one of, a block's shared memory for what it has many of."""
    memory = s.buffer(buffer)
    sizes = [getattr(d, "value", SHARED_BYTES + 1) for d in memory.shape]
    if prod(sizes) == 1:
        return "local"
    if prod(sizes) * memory.dtype.bytes > SHARED_BYTES:
        raise lp.ScheduleError(f"{buffer} has a row's elements, and these are not known to fit {SHARED_BYTES} bytes")
    return "shared"


def _lanes(s: lp.Schedule, threads: int) -> int:
    """How many threads a row gets: whole warps that share it evenly, vectors and all, where there are such."""
    lengths = [extent(s, s.reduced(x)[-1]) for x in s.stages if s.reduced(x)]
    longest = max((n for n in lengths if n is not None), default=0)
    if None in lengths:
        return threads
    pieces = [longest // w for w in (8, 4, 2, 1) if longest % w == 0 and longest // w >= WARP]
    even = [n for p in pieces for n in range(threads, WARP - 1, -WARP) if p % n == 0]
    return even[0] if even else min(threads, max(1, 1 << (longest - 1).bit_length()))


def along(s: lp.Schedule, stage: str, row: str, lanes: int) -> lp.Schedule:
    """`stage` with the loops inside `row` spread over `lanes` threads, in vectors of 16 bytes where its rows hold such.

    A stage with no loops there is left to all threads alike.
    """
    loops = s.loops(stage)
    inner = [x for x in loops[loops.index(row) + 1 :] if extent(s, x) != 1]
    if not inner:
        return s
    s, last = fused(s, inner)
    width = _width(s, stage, last)
    if width == 1:
        s, (_, lane) = step(s, "split", last, lanes)
        return s.bind(lane, "threadIdx.x")
    s, (pieces, vector) = step(s, "split", last, width)
    guarded = s.why("split", pieces, lanes, tail="exact") is not None
    size = lp.text(s.loop(pieces).extent)
    s, (outer, lane) = step(s, "split", pieces, lanes)
    s = s.bind(lane, "threadIdx.x")
    if not s.reduced(stage):
        return s.vectorize(vector) if s.why("vectorize", vector) is None else s
    for buffer in dict.fromkeys(t.buffer for t in s.accesses(stage) if not t.write and t.contiguous(vector)):
        s = _vector_read(s, stage, buffer, lane, f"{outer} * {lanes} + {lane} < {size}" if guarded else None)
    return s.unroll(vector)


def _width(s: lp.Schedule, stage: str, loop: str) -> int:
    """How many elements fill a vector of 16 bytes along `loop`, if it is known to be whole vectors; else 1."""
    sizes = [t.dtype.bytes for t in s.accesses(stage) if t.contiguous(loop)]
    width = VECTOR_BYTES // max(sizes) if sizes else 1
    return width if width > 1 and s.why("split", loop, width, tail="exact") is None else 1


def _vector_read(s: lp.Schedule, stage: str, buffer: str, at: str, inside: str | None) -> lp.Schedule:
    """What an iteration of `at` reads of `buffer`, moved into registers as a vector; whole where `inside` holds."""
    if s.why("cache_read", stage, buffer, "local", at) is not None:
        return s
    t, copied = step(s, "cache_read", stage, buffer, "local", at)
    if len(copied) != 1:
        return s
    if inside is not None:
        if t.why("specialize", copied[0], inside) is not None:
            return t
        t = t.specialize(copied[0], inside)
    return t.vectorize(copied[0]) if t.why("vectorize", copied[0]) is None else t
