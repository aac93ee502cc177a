"""Reductions into elements that memory chooses, such as histograms: atomic updates from every thread.

On a GPU a result that is small beside what is folded into it is folded block by block in shared memory first: there
updates of one element wait for one another in a block, and not for those of the whole GPU.
"""

from __future__ import annotations

from math import prod

import loopir as lp

from .nest_queries import extent, fused, result_of

SHARED_BYTES, LEAST_FOLDS = 32768, 16
"""Bytes of a result that each block has for itself, at most, and folds into each of its elements, at least."""
HISTOGRAMS, HISTOGRAM_THREADS = 2, 1024
"""Blocks for each processor, and their threads, that fill it."""
FOLDS_IN_FLIGHT = 8
"""Folds of a thread whose loads are in flight together."""


@lp.composite
def scatter(s: lp.Schedule, stage: str, target: str, *, threads: int = 256, chunk: int = 4096) -> lp.Schedule:
    """`s` with the reduction `stage` folded by atomic updates: on a GPU by a thread each, on a CPU by `chunk` each.

    For a nest whose iterations clash by these updates alone; ScheduleError, with the clash, for any other.
    """
    s, loop = fused(s, s.loops(stage))
    if target == "cuda" and (folds := _folds_of_block(s, stage, loop)) is not None:
        return _by_block(s, stage, loop, folds)
    s = s.atomic(stage)
    s, (outer, inner) = s.split(loop, threads if target == "cuda" else chunk).with_loops
    return s.bind(outer, "blockIdx.x").bind(inner, "threadIdx.x") if target == "cuda" else s.parallel(outer)


def _folds_of_block(s: lp.Schedule, stage: str, loop: str) -> int | None:
    """How many iterations of `loop` a block has that folds them in shared memory; None where that is not worth it."""
    result = result_of(s, stage)
    memory, count = s.buffer(result), extent(s, loop)
    sizes = [getattr(d, "value", None) for d in memory.shape]
    if count is None or None in sizes:
        return None
    elements = prod(n for n in sizes if n is not None)
    blocks = HISTOGRAMS * lp.machine().processors
    whole = HISTOGRAM_THREADS * FOLDS_IN_FLIGHT
    each = -(-count // (blocks * whole)) * whole
    worth = elements * memory.dtype.bytes <= SHARED_BYTES and each >= LEAST_FOLDS * elements
    return each if worth and s.why("privatize_reduction", stage, loop) is None else None


def _by_block(s: lp.Schedule, stage: str, loop: str, folds: int) -> lp.Schedule:
    """Blocks of `folds` iterations each with a result of its own, which it folds into the whole when it is done."""
    s, (block, loop) = s.split(loop, folds).with_loops
    s, (loop, thread) = s.split(loop, HISTOGRAM_THREADS, tail="exact").with_loops
    s, (loop, several) = s.split(loop, FOLDS_IN_FLIGHT, tail="exact").with_loops
    s = s.privatize_reduction(stage, block, "shared")
    filled, own = s.last.stages
    for x in (filled, stage):
        s, flat = fused(s, s.loops(x)[1:])
        s, (_, inner) = s.split(flat, HISTOGRAM_THREADS).with_loops
        s = s.bind(inner, "threadIdx.x")
    s = s.atomic(own).atomic(stage).bind(block, "blockIdx.x").bind(thread, "threadIdx.x")
    return s.reorder(thread, several).unroll(several)
