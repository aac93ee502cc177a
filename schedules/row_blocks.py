"""Softmax, norms and other stages along rows, in one kernel: a block for each row, or for several short ones.

Every reduction along a row is computed where the row's results are; what it gives stays in registers of all threads.
What several stages read of a row, and what a stage makes of it for others, stays in registers, too, each thread's own
part, so that a row is read from memory once; a row that is too long for that, or of a length that is not known, is
read from the cache again.
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
KEPT_BYTES = 256
"""What a thread keeps of a row, at most: as much as is in 64 registers."""
SHARE_BYTES = 64
"""What a thread takes of a row, while there are threads for that."""
THREADS = 1024
WARP = 32


@lp.composite
def row_blocks(s: lp.Schedule, *, threads: int | None = None, keep: bool = True) -> lp.Schedule:
    """`s` as one kernel whose blocks take rows; ScheduleError if its stages do not all work along the same rows.

    The last stage says what a row is: the loops that it has in common with the results of the reductions before it.
    `threads` is how many a row has at most; with `keep` what fits is kept in registers.
    """
    out = s.stages[-1]
    depths = {len(s.loops(x)) - len(s.reduced(x)) for x in s.stages if s.reduced(x)}
    depth = min(depths, default=0)
    if depths != {depth} or not depth or s.reduced(out) or len(s.loops(out)) < depth:
        raise lp.ScheduleError("the stages are not reductions along the same rows and what is made of them")
    given = frozenset(a.buffer.name for a in s.func.args)
    width = _width(s, depth, given)
    s, row = fused(s, s.loops(out)[:depth])
    lanes = _lanes(s, width, threads or _share(s, given))
    block = row
    if lanes <= WARP:
        s, (block, row) = step(s, "split", row, max(1, (threads or 4 * WARP) // lanes))
    for stage in reversed(s.stages[:-1]):
        s = s.compute_at(stage, row)
    inside = [x for x in s.buffers if x not in given]
    if keep:
        s = _kept(s, row, given, lanes)
    for stage in s.stages:
        s = along(s, stage, row, lanes, width)
    s = s.bind(block, "blockIdx.x")
    if row != block:
        s = s.bind(row, "threadIdx.y")
    for buffer in inside:
        s = s.set_scope(buffer, _scope(s, buffer, lanes if keep else 1))
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


def _scope(s: lp.Schedule, buffer: str, lanes: int) -> str:
    """Registers for what a row has one of, or `lanes` threads have parts of; a block's shared memory for the rest."""
    size = _size(s, buffer)
    if size is not None and (size == s.buffer(buffer).dtype.bytes or (lanes > 1 and size <= KEPT_BYTES * lanes)):
        return "local"
    if size is None or size > SHARED_BYTES:
        raise lp.ScheduleError(f"{buffer} has a row's elements, and these are not known to fit {SHARED_BYTES} bytes")
    return "shared"


def _size(s: lp.Schedule, buffer: str) -> int | None:
    """Bytes, or None if that depends on a size."""
    memory = s.buffer(buffer)
    sizes = [getattr(d, "value", None) for d in memory.shape]
    return None if None in sizes else prod(n for n in sizes if n is not None) * memory.dtype.bytes


def _kept(s: lp.Schedule, row: str, given: frozenset[str], lanes: int) -> lp.Schedule:
    """What several stages read of a row of their inputs copied into registers first, where that is known to fit."""
    for buffer in sorted(given):
        readers = [x for x in s.stages if _reads_rows(s, x, buffer, row)]
        if len(readers) < 2 or s.why("cache_read", tuple(readers), buffer, "local", row) is not None:
            continue
        t = s.cache_read(tuple(readers), buffer, "local", row)
        (copy,) = set(t.buffers) - set(s.buffers)
        size = _size(t, copy)
        s = t if size is not None and size <= KEPT_BYTES * lanes else s
    return s


def _reads_rows(s: lp.Schedule, stage: str, buffer: str, row: str) -> bool:
    """Whether `stage` reads along `row` in `buffer`, whose iterations read different elements."""
    loops = s.loops(stage)
    inner = [x for x in loops[loops.index(row) + 1 :] if extent(s, x) != 1]
    reads = [t for t in s.accesses(stage) if t.buffer == buffer and not t.write and not t.invariant(row)]
    return any(not t.invariant(x) for t in reads for x in inner)


def _width(s: lp.Schedule, depth: int, given: frozenset[str]) -> int:
    """How many elements fill a vector of 16 bytes along the rows of all stages, if these are whole vectors; else 1."""
    lasts = {x: s.loops(x)[-1] for x in s.stages if len(s.loops(x)) > depth}
    found = [t.dtype.bytes for x in lasts for t in s.accesses(x) if t.buffer in given and t.contiguous(lasts[x])]
    width = VECTOR_BYTES // max(found) if found else 1
    whole = (s.why("split", loop, width, tail="exact") is None for loop in lasts.values() if extent(s, loop) != 1)
    return width if width > 1 and all(whole) else 1


def _share(s: lp.Schedule, given: frozenset[str]) -> int:
    """How many threads a row is worth."""
    lengths = [prod(extent(s, y) or THREADS * SHARE_BYTES for y in s.reduced(x)) for x in s.stages if s.reduced(x)]
    widest = max(t.dtype.bytes for x in s.stages for t in s.accesses(x) if t.buffer in given)
    wanted = max(lengths) * widest // SHARE_BYTES
    return min(THREADS, max(1, 1 << (wanted - 1).bit_length())) if wanted else 1


def _lanes(s: lp.Schedule, width: int, threads: int) -> int:
    """How many threads a row gets, at most `threads`: whole warps that share it evenly, where there are such."""
    lengths = [extent(s, s.reduced(x)[-1]) for x in s.stages if s.reduced(x)]
    if None in lengths:
        return threads
    pieces = max((n for n in lengths if n is not None), default=0) // width
    even = [n for n in range(threads, max(WARP, threads // 2) - 1, -WARP) if pieces % n == 0]
    return even[0] if even else min(threads, max(1, 1 << (pieces - 1).bit_length()))


def along(s: lp.Schedule, stage: str, row: str, lanes: int, width: int) -> lp.Schedule:
    """`stage` with the loops inside `row` spread over `lanes` threads, in vectors of `width`.

    A stage with no loops there is left to all threads alike.
    """
    loops = s.loops(stage)
    inner = [x for x in loops[loops.index(row) + 1 :] if extent(s, x) != 1]
    if not inner:
        return s
    s, last = fused(s, inner)
    s, (pieces, vector) = step(s, "split", last, width) if width > 1 else (s, (last, ""))
    guarded = s.why("split", pieces, lanes, tail="exact") is not None
    size = lp.text(s.loop(pieces).extent)
    s, (outer, lane) = step(s, "split", pieces, lanes)
    s = s.bind(lane, "threadIdx.x")
    if (extent(s, outer) or KEPT_BYTES) < KEPT_BYTES:
        s = s.unroll(outer)
    if not vector:
        return s
    if not s.reduced(stage):
        return s.vectorize(vector) if s.why("vectorize", vector) is None else s
    for buffer in dict.fromkeys(t.buffer for t in s.accesses(stage) if not t.write and t.contiguous(vector)):
        if s.buffer(buffer).scope == "global":
            s = _vector_read(s, stage, buffer, lane, f"{outer} * {lanes} + {lane} < {size}" if guarded else None)
    return s.unroll(vector)


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
