"""Softmax, norms and other stages along rows, in one kernel: a block for each row, or for several short ones.

Every reduction along a row is computed where the row's results are; what it gives stays in registers of all threads.
What several stages read of a row, and what a stage makes of it for others, stays in registers, too, each thread's own
part, so that a row is read from memory once; a row that is too long for that, or of a length that is not known, is
read from the cache again.
"""

from __future__ import annotations

from math import prod

import loopir as lp
from schedules.along import WARP, along, evenly, vector, worth
from schedules.nests import extent, fused, step

BLOCKS = 132
SHORT = 16384
"""A row that one block takes in good time, even if other blocks have nothing to do."""
SHARED_BYTES = 16384
KEPT_BYTES = 256
"""What a thread keeps of a row, at most: as much as is in 64 registers."""


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
    width = vector(s, {x: s.loops(x)[-1] for x in s.stages if len(s.loops(x)) > depth}, given)
    lanes = _lanes(s, width, threads, given)
    s, row = fused(s, s.loops(out)[:depth])
    block = row
    if lanes <= WARP:
        s, (block, row) = step(s, "split", row, max(1, (threads or 4 * WARP) // lanes))
    for stage in reversed(s.stages[:-1]):
        s = s.compute_at(stage, row)
        if all(t.invariant(row) for t in s.accesses(stage) if not t.write):
            raise lp.ScheduleError(f"{stage} is the same for every row")
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


def _lanes(s: lp.Schedule, width: int, threads: int | None, given: frozenset[str]) -> int:
    """How many threads a row gets: at most `threads`, or what it is worth."""
    lengths = [extent(s, s.reduced(x)[-1]) for x in s.stages if s.reduced(x)]
    length = None if None in lengths else max((n for n in lengths if n is not None), default=0)
    widest = max(t.dtype.bytes for x in s.stages for t in s.accesses(x) if t.buffer in given)
    return evenly(length, width, threads or worth(length, widest))
