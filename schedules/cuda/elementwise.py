"""Elementwise stages on a GPU: one pass over memory, in vectors of 16 bytes, at the speed of a copy.

The loops of a stage are fused into one that runs along its output, so that rows of any length are read and written
whole; where a row is a multiple of what a block takes, blocks stay inside rows, and what a row shares is found without
a division. A thread takes `vectors` vectors, a block's width apart: their loads are in flight together. The last
elements of an array whose size is no multiple are taken one by one, in the same launch. Where rows of a length that is
not known share something, whether they are whole vectors is asked at each launch.
"""

from __future__ import annotations

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, free_loops, fused, iterations, one_nest, reads_of
from .row_threads import VECTOR_BYTES, copy_in_vectors

THREADS = Knob("threads", "threads of a block", octaves(64, 1024), 0.05)
THREAD_VECTORS = Knob("vectors", "vectors that a thread takes", octaves(1, 8), 0.05)
MANY_VECTORS = 8
"""Elements of a vector from which on a thread takes two vectors where it evaluates functions."""
RECORD_BYTES = 256
"""Of records in the registers of a thread, at most: a quarter of these."""
MOST_ROWS = 65535
"""Blocks that a grid has along y, at most."""


@lp.composite
def elementwise(
    s: lp.Schedule, stage: str, *, threads: int = 256, vectors: int | None = None, inside: str | None = None
) -> lp.Schedule:
    """`s` with the independent loops around `stage` fused, split among blocks of `threads`, and vectorized.

    A vector has as many elements as 16 bytes hold of the widest type that runs along it; where nothing does, lanes
    are single elements. Unless told, a thread takes one vector, and two where it has functions to evaluate for many
    elements meanwhile. A stage without independent loops is left as it is. The loops around are those `inside` a loop,
    if one is given, each of whose iterations is a launch.
    """
    loops = free_loops(s, stage, inside)
    if not loops:
        return s
    lanes = _lanes(s, stage, loops[-1])
    vectors = THREAD_VECTORS(vectors or (2 if lanes >= MANY_VECTORS and s.real_functions else 1), at=stage)
    threads = THREADS(threads, at=stage)
    if extent(s, loops[-1]) is None and _rows_share_reads(s, stage, loops):
        s, stage, loops = _by_rows(s, stage, loops, threads, lanes, vectors)
    return _flat(s, stage, loops, threads, lanes, vectors)


def by_element(s: lp.Schedule, stage: str, *, threads: int = 128) -> lp.Schedule:
    """`s` with the independent loops of `stage` fused, and a thread for each element: of a small array that is not read
    as it lies, more threads wait less."""
    s, flat = fused(s, s.loops(stage))
    s, (block, thread) = s.split(flat, threads).with_loops
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")


def _by_rows(
    s: lp.Schedule, stage: str, loops: tuple[str, ...], threads: int, lanes: int, vectors: int
) -> tuple[lp.Schedule, str, tuple[str, ...]]:
    """A version whose blocks stay inside rows, for rows of whole vectors; and the rest, which has to divide."""
    length, chunk = lp.text(s.loop(loops[-1]).extent), threads * lanes * vectors
    count = " * ".join(f"({lp.text(s.loop(x).extent)})" for x in loops[:-1])
    inside = f"{length} % {lanes} == 0 and {chunk} <= {length} and {count} <= {MOST_ROWS}"
    if not one_nest(s, stage) or s.why("specialize", loops[0], inside) is not None:
        return s, stage, loops
    s, others = s.specialize(loops[0], inside).with_loops
    (other,) = s.last.stages
    s, row = fused(s, loops[:-1])
    s, (block, part) = s.split(loops[-1], chunk).with_loops
    s = _threads(s, stage, block, part, chunk, threads, lanes, vectors, length)
    return s.bind(row, "blockIdx.y").bind(block, "blockIdx.x"), other, others


def _flat(s: lp.Schedule, stage: str, loops: tuple[str, ...], threads: int, lanes: int, vectors: int) -> lp.Schedule:
    """All rows as one, or blocks that stay inside rows where these are known to be a multiple of what a block takes."""
    chunk, length = threads * lanes * vectors, extent(s, loops[-1])
    if len(loops) > 1 and length is not None and length % chunk == 0:
        s, (block, part) = s.split(loops[-1], chunk).with_loops
        s, block = fused(s, (*loops[:-1], block))
        fits = None
    else:
        s, flat = fused(s, loops)
        fits = lp.text(s.loop(flat).extent)
        s, (block, part) = s.split(flat, chunk).with_loops
    s = _threads(s, stage, block, part, chunk, threads, lanes, vectors, fits)
    return s.bind(block, "blockIdx.x")


def _threads(
    s: lp.Schedule, stage: str, block: str, part: str, chunk: int, threads: int, lanes: int, vectors: int,
    fits: str | None,
) -> lp.Schedule:  # fmt: skip
    """The `chunk` iterations `part` of a block on its threads; vectors beyond `fits` are taken one by one."""
    s, (vector, row) = s.split(part, threads * lanes).with_loops
    s, (thread, lane) = s.split(row, lanes).with_loops
    places = [(vector, lane)]
    if vectors > 1:
        s = s.reorder(thread, vector)
        if fits is not None and s.why("specialize", vector, f"{block} * {chunk} + {chunk} <= {fits}") is None:
            s, other = s.specialize(vector, f"{block} * {chunk} + {chunk} <= {fits}").with_loops
            places.append((other[0], other[-1]))  # one test for all that a thread of a whole block has in flight
    for vector, lane in places:
        last = f"{block} * {chunk} + {vector} * {threads * lanes} + {thread} * {lanes} + {lanes - 1}"
        if lanes > 1 and fits is not None and s.why("specialize", lane, f"{last} < {fits}") is None:
            s = s.specialize(lane, f"{last} < {fits}")  # the other version keeps its guards, and its lanes one by one
        s = _records_read(s, stage, vector if vectors > 1 else thread, lane, lanes) if lane in s.loops(stage) else s
        s = s.vectorize(lane) if lanes > 1 and s.why("vectorize", lane) is None else s
        s = s.unroll(vector) if vectors > 1 else s
    return s.bind(thread, "threadIdx.x")


def _records_read(s: lp.Schedule, stage: str, at: str, lane: str, lanes: int) -> lp.Schedule:
    """What `lanes` iterations of `stage` read of arrays of short records, as points and pixels are, in the registers of
    a thread: all of these records as whole vectors, in place of a load for each of their elements."""
    room = RECORD_BYTES
    for buffer in dict.fromkeys(t.buffer for t in reads_of(s, stage)):
        made, size = _record_read(s, stage, buffer, at, lane, lanes)
        if size <= room:
            s, room = made, room - size
    return s


def _record_read(s: lp.Schedule, stage: str, buffer: str, at: str, lane: str, lanes: int) -> tuple[lp.Schedule, int]:
    """The same of one `buffer`, and the bytes that this takes; `s` itself where there is something between the records,
    or they are no whole vectors."""
    touched = [t for t in reads_of(s, stage) if t.buffer == buffer]
    strides = {getattr(t.strides.get(lane), "value", None) for t in touched}
    stride = strides.pop()
    single = len({t.text for t in touched}) == 1
    if strides or stride in (None, 1) or single or s.why("cache_read", stage, buffer, "local", at) is not None:
        return s, 0
    made, copied = s.cache_read(stage, buffer, "local", at).with_loops
    count, size = iterations(made, copied), touched[0].dtype.bytes
    if count is None or (stride and count != lanes * stride):
        return s, 0
    vectors = copy_in_vectors(made, copied, size)
    return (s, 0) if vectors is None else (vectors, count * size)


def _rows_share_reads(s: lp.Schedule, stage: str, loops: tuple[str, ...]) -> bool:
    """Whether rows share what `stage` reads along them, so that one loop over all would have to divide for it."""
    along = [t for t in s.accesses(stage) if t.contiguous(loops[-1])]
    one = len(loops) == 2 or (len(loops) == 3 and s.why("fuse", *loops[:2]) is None)
    return one and any(t.invariant(x) for t in along for x in loops[:-1])


def _lanes(s: lp.Schedule, stage: str, loop: str) -> int:
    """How many elements of the widest type that `loop` runs along fill a vector."""
    widths = [t.dtype.bytes for t in s.accesses(stage) if t.contiguous(loop)]
    innermost = s.loops(stage)[-1] == loop
    return max(1, VECTOR_BYTES // max(widths)) if widths and innermost else 1
