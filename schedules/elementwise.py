"""Elementwise stages on a GPU: one pass over memory, in vectors of 16 bytes, at the speed of a copy.

The loops of a stage are fused into one that runs along its output, so that rows of any length are read and written
whole; where a row is a multiple of what a block takes, blocks stay inside rows, and what a row shares is found without
a division. A thread takes `vectors` vectors, a block's width apart: their loads are in flight together. The last
elements of an array whose size is no multiple are taken one by one, in the same launch. Where rows of a length that is
not known share something, blocks stay inside rows, too, and whether rows are whole vectors is asked at each launch.
"""

from __future__ import annotations

import loopir as lp
from schedules.nests import extent, free_loops, fused, step

VECTOR_BYTES = 16
MANY = 8


@lp.composite
def elementwise(s: lp.Schedule, stage: str, *, threads: int = 256, vectors: int | None = None) -> lp.Schedule:
    """`s` with the independent loops around `stage` fused, split among blocks of `threads`, and vectorized.

    A vector has as many elements as 16 bytes hold of the widest type that runs along it; where nothing does, lanes
    are single elements. Unless told, a thread takes one vector, and two where it has functions to evaluate for many
    elements meanwhile. A stage without independent loops is left as it is.
    """
    loops = free_loops(s, stage)
    if not loops:
        return s
    lanes = _lanes(s, stage, loops[-1])
    vectors = vectors or (2 if lanes >= MANY and s.cost.special != 0 else 1)
    chunk = threads * lanes * vectors
    length = extent(s, loops[-1])
    aligned: tuple[str, ...] = ()
    across = None
    if length is None and _shared(s, stage, loops):
        size = lp.text(s.loop(loops[-1]).extent)
        aligned = (f"{size} % {lanes} == 0",)
        s, across = fused(s, loops[:-1])
        s, (block, part) = step(s, "split", loops[-1], chunk)
        fits = size
    elif len(loops) > 1 and length is not None and length % chunk == 0:
        s, (block, part) = step(s, "split", loops[-1], chunk)
        s, block = fused(s, (*loops[:-1], block))
        fits = None
    else:
        s, flat = fused(s, loops)
        size = lp.text(s.loop(flat).extent)
        s, (block, part) = step(s, "split", flat, chunk)
        fits = size
    s, (vector, row) = step(s, "split", part, threads * lanes)
    s, (thread, lane) = step(s, "split", row, lanes)
    if vectors > 1:
        s = s.reorder(thread, vector)
    if lanes > 1:
        last = f"{block} * {chunk} + {vector} * {threads * lanes} + {thread} * {lanes} + {lanes - 1}"
        inside = " and ".join((*aligned, f"{last} < {fits}"))
        if fits is not None and s.why("specialize", lane, inside) is None:
            s = s.specialize(lane, inside)  # the other version keeps its guards, and its lanes one by one
        s = s.vectorize(lane) if s.why("vectorize", lane) is None else s
    if vectors > 1:
        s = s.unroll(vector)
    if across is not None:
        return s.bind(across, "blockIdx.x").bind(block, "blockIdx.y").bind(thread, "threadIdx.x")
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")


def _shared(s: lp.Schedule, stage: str, loops: tuple[str, ...]) -> bool:
    """Whether rows share what `stage` reads along them, so that one loop over all would have to divide for it."""
    along = [t for t in s.accesses(stage) if t.contiguous(loops[-1])]
    one = len(loops) == 2 or (len(loops) == 3 and s.why("fuse", *loops[:2]) is None)
    return one and any(t.invariant(x) for t in along for x in loops[:-1])


def _lanes(s: lp.Schedule, stage: str, loop: str) -> int:
    """How many elements of the widest type that `loop` runs along fill a vector."""
    widths = [t.dtype.bytes for t in s.accesses(stage) if t.contiguous(loop)]
    innermost = s.loops(stage)[-1] == loop
    return max(1, VECTOR_BYTES // max(widths)) if widths and innermost else 1
