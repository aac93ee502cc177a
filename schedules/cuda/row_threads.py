"""Rows spread over threads: side by side along a row, in vectors of 16 bytes, as many as its bytes are worth."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import loopir as lp

from ..common.nest_queries import extent, fused, if_legal, reads_of

VECTOR_BYTES = 16
"""Of the widest load or store of a thread (PTX ISA, `ld.v4.b32`)."""
SHARE_BYTES = 64
"""What a thread takes of a row, while there are threads for that."""
MANY_ROWS = 512
"""Threads beyond which each takes twice as much: two blocks fit a processor, one loading while the other stores."""
MAX_ROW_THREADS, UNKNOWN = 1024, 256
"""Threads that a row has at most, and that one has whose length is not known: so many of its elements are read one
after the other, and blocks of several rows are there to wait for."""
LONGEST = 1024, 8192, 32768
"""Rows of a length that is not known have a kernel for lengths up to each of these, and one for all others."""
MIDDLE = LONGEST[1]
"""So those that are no whole vectors, up to this length alone."""
FLIGHT = 4
"""Turns of threads along a row of a length that is not known whose loads are in flight together."""
LEAST_BYTES = 4
"""Bytes of the narrowest vector: what a thread loads by one instruction in any case."""
WARP = 32
"""Threads of a warp (CUDA C++ Programming Guide, SIMT architecture)."""
LINE = 8
"""Threads whose vectors are a line of memory."""
UNROLLED = 64
"""Vectors of a row that a thread has at most in a loop that is unrolled."""


def vector(s: lp.Schedule, loops: dict[str, str], buffers: frozenset[str]) -> int:
    """How many elements of `buffers` fill a vector along each stage's loop, if these are whole vectors; else 1.

    Where they are not, vectors are as wide as divide the loops, of LEAST_BYTES at least.
    """
    found = [t.dtype.bytes for x, y in loops.items() for t in s.accesses(x) if t.buffer in buffers and t.contiguous(y)]
    width = VECTOR_BYTES // max(found) if found else 1
    while width > 1 and width * max(found) >= LEAST_BYTES:
        if all(s.why("split", y, width, tail="exact") is None for y in loops.values() if extent(s, y) != 1):
            return width
        width //= 2
    return 1


def threads_worth(length: int | None, size: int) -> int:
    """How many threads a row of `length` elements of `size` bytes is worth."""
    if length is None:
        return UNKNOWN
    wanted = length * size // SHARE_BYTES
    wanted = min(wanted, max(MANY_ROWS, wanted // 2))
    return min(MAX_ROW_THREADS, 1 << (max(LINE, wanted) - 1).bit_length())


def threads_evenly(length: int | None, width: int, threads: int) -> int:
    """How many threads a row gets, at most `threads`: whole warps that share its vectors evenly, if there are such."""
    if length is None:
        return threads
    pieces = length // width
    even = [n for n in range(threads, max(WARP, threads // 2) - 1, -WARP) if pieces % n == 0]
    return even[0] if even else min(threads, max(1, 1 << (pieces - 1).bit_length()))


def spread_row(
    s: lp.Schedule, stage: str, row: str | None, lanes: int, width: int, whole: tuple[str, str] | None = None
) -> lp.Schedule:
    """`stage` with the loops inside `row`, or all of them, spread over `lanes` threads in vectors of `width`.

    A stage with no loops there is left to all threads alike. `whole` says of what length a row is part, and where in
    that the row starts: vectors beyond are taken element by element.
    """
    loops = s.loops(stage)
    if row is not None and row not in loops:
        raise lp.ScheduleError(f"steps have shown that {stage} never runs in {row!r}", loop=row)
    first = 0 if row is None else loops.index(row) + 1
    inner = [x for x in loops[first:] if extent(s, x) != 1]
    if not inner:
        return s
    s, pieces, lane = _in_vectors(s, inner, width)
    guarded, size, turn = s.why("split", pieces, lanes, tail="exact") is not None, lp.text(s.loop(pieces).extent), ""
    if row is not None and extent(s, pieces) is None:
        s, (turn, pieces) = s.split(pieces, lanes * FLIGHT).with_loops
    s, (outer, thread) = s.split(pieces, lanes).with_loops
    if row is None:
        s = s.reorder(thread, outer)  # one block: what is around its threads would be the host's
    s = s.bind(thread, "threadIdx.x")
    if (extent(s, outer) or UNROLLED + 1) <= UNROLLED:
        s = s.unroll(outer)
    if lane and not s.reduced(stage):
        s = if_legal(s, "vectorize", lane)
    elif lane:
        place = f"{f'{turn} * {lanes * FLIGHT} + ' if turn else ''}{outer} * {lanes} + {thread}"
        inside = f"{place} < {size}" if guarded else None
        if whole is not None:
            inside = f"{whole[1]} + ({place}) * {width} + {width - 1} < {whole[0]}"
        s = _vector_reads(s, stage, lane, outer if row is None else thread, inside).unroll(lane)
    # tests between loads would keep them from being in flight together
    return if_legal(s, "partition", turn) if turn else s


def _in_vectors(s: lp.Schedule, loops: Sequence[str], width: int) -> tuple[lp.Schedule, str, str]:
    """`loops` as one over vectors of `width` and one over their lanes; that one is "" where vectors have one lane."""
    if width > 1 and len(loops) > 1 and extent(s, loops[-1]) == width:
        s, vectors = fused(s, loops[:-1])
        return s, vectors, loops[-1]
    s, elements = fused(s, loops)
    if width == 1:
        return s, elements, ""
    s, (vectors, lane) = s.split(elements, width).with_loops
    return s, vectors, lane


def _vector_reads(s: lp.Schedule, stage: str, lane: str, at: str, inside: str | None) -> lp.Schedule:
    """What `stage` reads along `lane` of memory, and an iteration of `at` needs, read as vectors."""
    for buffer in dict.fromkeys(t.buffer for t in reads_of(s, stage) if t.contiguous(lane)):
        if s.buffer(buffer).scope != "local":
            s = vector_read(s, stage, buffer, at, inside)
    return s


def vector_read(s: lp.Schedule, stage: str, buffer: str, at: str, inside: str | None = None) -> lp.Schedule:
    """What an iteration of `at` reads of `buffer`, moved into registers as a vector; whole where `inside` holds.

    Where that is all between two elements, as of `x[i] + x[j]`, only what is read for the one that is a vector is.
    """
    of_one = [t.text for t in reads_of(s, stage) if t.buffer == buffer]
    for element in (None, *(of_one if len(of_one) > 1 else ())):
        if s.why("cache_read", stage, buffer, "local", at, element=element) is not None:
            continue
        t, copied = s.cache_read(stage, buffer, "local", at, element=element).with_loops
        if len(copied) != 1 or extent(t, copied[0]) is None:
            continue
        if inside is not None:
            t = if_legal(t, "specialize", copied[0], inside)
        return if_legal(t, "vectorize", copied[0])
    return s


def copy_in_vectors(s: lp.Schedule, loops: Sequence[str], size: int) -> lp.Schedule | None:
    """The `loops` of a copy of elements of `size` bytes by one thread, as unrolled vectors: the widest ones that lie
    side by side and leave nothing over. None where there are none."""
    s, flat = fused(s, loops)
    width = gcd(extent(s, flat) or 1, VECTOR_BYTES // size)
    while width > 1:
        made, (part, element) = s.split(flat, width, tail="exact").with_loops
        if made.why("vectorize", element) is None:
            return made.vectorize(element).unroll(part)
        width //= 2
    return None
