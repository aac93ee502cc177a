"""Running folds among the stages of a row, on a GPU: each thread of the row has a part, in the block's shared memory.

A thread folds its part, the sums of parts are scanned, and it goes along its part again from where those before it end.
Other stages of the row have elements side by side; what goes over from the ones to the others is in shared memory, with
a vector between parts, so that threads that each look into their own part meet in no bank.
"""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp

from ..common.nest_queries import extent, reads_of, written_by
from .batched_scan import chain_loop, sources_along, stores_along
from .row_threads import VECTOR_BYTES
from .scan import moved_copy, part_ends, vector_by_vector


def row_scans(s: lp.Schedule, stages: Sequence[str]) -> list[str]:
    """The running folds among `stages` along their innermost loops, which run along memory."""
    found = [(x, loop) for x in stages if (loop := chain_loop(s, x)) is not None and loop == s.loops(x)[-1]]
    return [x for x, loop in found if stores_along(s, x, loop) and s.why("scan_blocks", loop, 2) is None]


def shared_with_scans(
    s: lp.Schedule, scans: Sequence[str], row: str, given: frozenset[str]
) -> tuple[lp.Schedule, list[str], list[str]]:
    """What the `scans` of a row read and write along it, of arrays `given` as copies; the stages that the scans are
    then, and all that is to be shared."""
    found, made = list[str](), list[str]()
    for scan in scans:
        for buffer in sources_along(s, scan, s.loops(scan)[-1]):
            copy = buffer
            if buffer in given:
                readers = tuple(
                    x for x in s.stages if row in s.loops(x) and buffer in {t.buffer for t in reads_of(s, x)}
                )
                s, copy, _ = moved_copy(s.cache_read(readers, buffer, "shared", row))
            found.append(copy)
        (result,) = written_by(s, scan)
        if result in given:
            s, result, _ = moved_copy(s.cache_write(scan, "shared", row))
            scan = result
        found.append(result)
        made.append(scan)
    return s, made, list(dict.fromkeys(found))


def in_parts(s: lp.Schedule, buffer: str, each: int) -> lp.Schedule:
    """The `buffer` of a row in shared memory, with a vector between parts of `each` elements, if these are longer."""
    lanes, dims = VECTOR_BYTES // s.buffer(buffer).dtype.bytes, len(s.buffer(buffer).shape)
    s = s.fuse_dims(buffer, 0, dims) if dims > 1 else s
    s = s.set_scope(buffer, "shared")
    return s if each <= lanes else s.set_layout(buffer, f"lambda i: i // {each} * {each + lanes} + i % {each}")


def spread_scan(s: lp.Schedule, stage: str, each: int) -> lp.Schedule:
    """The running fold `stage` of a row by threads that have parts of `each` elements."""
    loop = s.loops(stage)[-1]
    if (extent(s, loop) or 0) <= each:
        raise lp.ScheduleError(f"{loop} is no longer than a part", loop=loop)
    s = s.scan_blocks(loop, each)
    sums, ends = s.last.buffers
    (part, one), thread = s.loops(sums)[-2:], s.loops(stage)[-2]
    for reader, own in ((sums, part), (stage, thread)):
        for buffer in sources_along(s, reader, s.loops(reader)[-1]):
            if s.why("cache_read", reader, buffer, "local", own) is None:
                s, _, moved = moved_copy(s.cache_read(reader, buffer, "local", own))
                s = _copied_by_one(s, buffer, moved)
    (result,) = written_by(s, stage)
    s, own, moved = moved_copy(s.cache_write(stage, "local", thread))
    s = _copied_by_one(s, result, moved).unroll(s.loops(own)[-1])
    s = s.cache_write(sums, "local", part).unroll(one)
    s = s.set_scope(sums, "shared").set_scope(ends, "shared")
    for x in (part, thread):
        s = s.bind(x, "threadIdx.x")
    return part_ends(s, sums, ends, s.loops(ends)[-1])


def _copied_by_one(s: lp.Schedule, buffer: str, loops: Sequence[str]) -> lp.Schedule:
    """The loop of a copy of a part of `buffer` by one thread, a vector after the other."""
    for loop in loops:
        s = vector_by_vector(s, loop, VECTOR_BYTES // s.buffer(buffer).dtype.bytes)
    return s
