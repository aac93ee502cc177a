"""Stages that are put together of several formulas along a short loop, on a GPU: a thread makes all parts of a vector.

Planes of a grid, pixels and points are stacks: a chain of selects says by what formula a part is made. A thread for
each part would read what the parts have in common again, and find its formula in the chain. Here the short loop is
innermost and unrolled, so that no select is left; what is read, and what other stages make of it, is in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import loopir as lp

from ..common.nest_queries import extent, free_loops, fused, if_legal, iterations, reads_of, result_of, written_by
from .row_threads import VECTOR_BYTES, copy_in_vectors

MOST_PARTS = 16
"""Parts of a stack, at most: each is code of its own."""
MOST_LOCAL_BYTES = 512
"""What a thread keeps in registers, at most: half of those that it may have."""


def part_loop(s: lp.Schedule, stage: str) -> str | None:
    """The short loop of `stage` along which selects choose by what formula it is made; None where there is none, it is
    the only loop, or iterations depend on each other."""
    loops = free_loops(s, stage)
    if s.reduced(stage) or len(loops) < 2 or loops != s.loops(stage):
        return None
    short = [x for x in loops if 2 <= (extent(s, x) or 0) <= MOST_PARTS]
    return next((x for x in short if s.why("partition", x) is None), None)


@lp.composite
def stacked_parts(s: lp.Schedule, stage: str, *, producers: Sequence[str] = (), threads: int = 128) -> lp.Schedule:
    """`s` with all parts of a vector of elements of `stage` in one of `threads` of a block, which makes what the stages
    `producers` make for these, too.

    ScheduleError where `stage` has no short loop of parts, or a producer is not made element by element for it.
    """
    part = part_loop(s, stage)
    if part is None:
        raise lp.ScheduleError(f"{stage} has no short loop of parts")
    others = [x for x in s.loops(stage) if x != part]
    before = [x for x in s.buffers if x not in {y for z in producers for y in written_by(s, z)}]
    planes = any(t.write and t.contiguous(others[-1]) for t in s.accesses(stage))
    lanes = VECTOR_BYTES // max(t.dtype.bytes for t in s.accesses(stage))
    s = s.reorder(*others, part)
    s, flat = fused(s, others)
    s, (block, rest) = s.split(flat, threads * lanes).with_loops
    s, (thread, lane) = s.split(rest, lanes).with_loops
    for x in reversed(producers):
        s = s.compute_at(x, thread)
        s = s.set_scope(result_of(s, x), "local")
    s = _reads_in_registers(s, (*producers, stage), before, thread)
    s = if_legal(s.reorder(part, lane), "vectorize", lane) if planes else _stored_in_vectors(s, stage, thread)
    if sum(_most_bytes(s, x) for x in s.buffers if x not in before) > MOST_LOCAL_BYTES:
        raise lp.ScheduleError(f"the parts of {stage} need more registers than a thread has")
    s = _unrolled(s, thread)
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")


def _reads_in_registers(s: lp.Schedule, stages: Sequence[str], given: Sequence[str], thread: str) -> lp.Schedule:
    """What `stages` read of the arrays `given` in a thread copied first, in vectors where that may be."""
    for buffer in given:
        readers = tuple(x for x in stages if any(t.buffer == buffer for t in reads_of(s, x)))
        if not readers or s.why("cache_read", readers, buffer, "local", thread) is not None:
            continue
        made, copied = s.cache_read(readers, buffer, "local", thread).with_loops
        count, size = iterations(made, copied), s.buffer(buffer).dtype.bytes
        if copied and count is not None and count * size <= MOST_LOCAL_BYTES:
            s = copy_in_vectors(made, copied, size) or made
    return s


def _stored_in_vectors(s: lp.Schedule, stage: str, thread: str) -> lp.Schedule:
    """What a thread makes of records that lie one after the other, in its registers first."""
    if s.why("cache_write", stage, "local", thread) is not None:
        return s
    made = s.cache_write(stage, "local", thread)
    return copy_in_vectors(made, made.last.loops, made.buffer(made.last.buffers[0]).dtype.bytes) or made


def _most_bytes(s: lp.Schedule, buffer: str) -> int:
    """Bytes of a buffer; too many for registers where that is not known."""
    memory = s.buffer(buffer)
    return prod(getattr(d, "value", MOST_LOCAL_BYTES) for d in memory.shape) * memory.dtype.bytes


def _unrolled(s: lp.Schedule, thread: str) -> lp.Schedule:
    """All that a thread goes through unrolled, as registers have no subscripts."""
    for x in [x for x in s.stages if thread in s.loops(x)]:
        for loop in s.loops(x)[s.loops(x).index(thread) + 1 :]:
            s = s.unroll(loop) if s.loop(loop).kind == "serial" else s
    return s
