"""Softmax, norms and other stages along rows, in one kernel: a block for each row, or for several short ones.

Every reduction along a row is computed where the row's results are; what it gives stays in registers of all threads.
What several stages read of a row, and what a stage makes of it for others, stays in registers, too, each thread's own
part, so that a row is read from memory once; a row that is too long for that is read from the cache again. Where the
length is not known, the host picks a kernel for it at each launch.
"""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from functools import partial
from math import prod

import loopir as lp

from ..common.nest_queries import (
    argument_names,
    extent,
    fused,
    if_legal,
    iterations,
    reads_of,
    spatial_loops,
    written_by,
)
from ..common.view_loops import split_groups
from .cheapest import cheapest
from .row_scans import in_parts, row_scans, shared_with_scans, spread_scan
from .row_threads import LONGEST, MAX_ROW_THREADS, VECTOR_BYTES, WARP, spread_row, threads_evenly, threads_worth, vector

SHORT_ROW = 16384
"""A row that one block takes in good time, even if other blocks have nothing to do."""
SHORT_ROW_THREADS, FOLDED = 128, 512
"""Threads of a block whose rows have a warp or less each, and where all that is made of a row is an element."""
SHARED_BYTES = 16384
"""Of what a block keeps in shared memory, at most, so that several blocks fit a processor."""
KEPT_BYTES = 256
"""What a thread keeps of a row, at most: as much as is in 64 registers."""
NEAR_ELEMENTS, NEAR_BYTES, ROWS_AT_ONCE = 48, 65536, 3
"""A row of which threads would have more elements is kept in shared memory, if three blocks' rows fit a processor: an
element has a register, however short it is, and with twice as many of them one block would be all that fits."""
FEW_ROWS = 4
"""Rows for each processor, at most, of which the last turn of blocks is a large part of the time."""


@lp.composite
def row_blocks(
    s: lp.Schedule,
    *,
    threads: int | None = None,
    rows: int | None = None,
    keep: bool = True,
    after: Sequence[str] = (),
) -> lp.Schedule:
    """`s` as one launch whose blocks take rows; ScheduleError if its stages do not all work along the same rows.

    The last stage says what a row is: the loops that it has in common with the results of the reductions before it.
    `threads` is how many a row has at most, `rows` how many of them a block takes; with `keep` what fits is kept in
    registers. The stages `after` are launches of their own, before, whose results are as given.
    """
    if not s.stages:
        raise lp.ScheduleError("no stage is there to have rows")
    out, mine = s.stages[-1], [x for x in s.stages if x not in after]
    s, row = _with_row_loop(s, out, mine)
    for stage in reversed(mine[:-1]):
        s, row = _at_row(s, stage, row)
        if extent(s, row) != 1 and all(t.invariant(row) for t in reads_of(s, stage)):
            raise lp.ScheduleError(f"{stage} is the same for every row")
    given = argument_names(s).union(*(written_by(s, x) for x in after))
    length = _length(s, row) if keep and threads is None and not row_scans(s, _stages(s, row)) else None
    if length is not None:
        s, row = _rows_by_length(s, row, length, given, rows)
    return blocks_of_rows(s, row, given, threads, rows, keep)


def _with_row_loop(s: lp.Schedule, out: str, stages: Sequence[str]) -> tuple[lp.Schedule, str]:
    """`s` with one loop over rows around what `out` makes of a row, and that loop; ScheduleError if `stages` do not
    fold along the same rows."""
    depths = {len(s.loops(x)) - len(s.reduced(x)) for x in stages if s.reduced(x)}
    depths |= {len(s.loops(x)) - 1 for x in row_scans(s, stages)}
    depth = min(depths, default=0)
    along = s.loops(out)[:depth]
    if depths != {depth} or len(s.loops(out)) < max(1, depth) or (s.reduced(out) and not depth):
        raise lp.ScheduleError("the stages are not reductions along the same rows and what is made of them")
    if s.reduced(out):  # a row's element of it is folded as those of other stages are, and then stored
        if along != tuple(spatial_loops(s, out)):
            raise lp.ScheduleError(f"{out} does not fold inside of its rows")
        return fused(s.cache_write(out, "local", along[-1]), along)
    if not depth:
        return _one_row(s, out)
    s = _rows_first(s, out, stages, depth)
    return fused(s, s.loops(out)[:depth])


def _at_row(s: lp.Schedule, stage: str, row: str) -> tuple[lp.Schedule, str]:
    """`stage` in the loop over rows: what a row needs of it; or, of a running fold, what it makes of a row."""
    if not row_scans(s, (stage,)):
        return s.compute_at(stage, row), row
    s, own = fused(s, s.loops(stage)[:-1])
    s = s.fuse_loops(own, row)
    row = s.loops(stage)[0]
    for buffer in written_by(s, stage):
        if s.why("privatize", buffer, row) is None:
            s = s.privatize(buffer, row)
            for dim in range(len(s.buffer(buffer).shape) - 1):
                s = if_legal(s, "fold_storage", buffer, dim, 1)
    return s, row


def _rows_by_length(
    s: lp.Schedule, row: str, length: str, given: frozenset[str], rows: int | None
) -> tuple[lp.Schedule, str]:
    """Kernels for rows of several lengths that are not known before a launch, and the loop of all other rows."""
    size = _widest(s, _stages(s, row), given)
    for most, width, rest in _kernels(s, row, length, size):
        whole = f"{length} % {width} == 0 and " if width > 1 else ""
        inside = f"{whole}1 <= {length} and {length} <= {most}{rest}"
        if s.why("specialize", row, inside) is not None:
            break
        s, (other, *_) = s.specialize(row, inside).with_loops
        s = _of_length(s, row, most, width)
        s = blocks_of_rows(s, row, given, None, rows, keep=True, least=1)
        row = other
    return s, row


def few_row_blocks(s: lp.Schedule) -> lp.Schedule:
    """`row_blocks` of `s` with the number of threads that is predicted to be fastest, and rows kept where that is.

    A processor holds few blocks of many threads; a few rows more than it holds cost a turn as long as the first.
    """
    every = [None, *(MAX_ROW_THREADS >> n for n in range(3))]
    ways = [partial(row_blocks, threads=n, keep=keep) for keep in (True, False) for n in every]
    made = cheapest(s, ways)
    if made is None:
        raise lp.ScheduleError("the stages do not work along the same rows, or lowering refuses blocks of these")
    return made


def has_few_rows(s: lp.Schedule) -> bool:
    """Whether the first reduction of `s` is known to have no more rows than a few for each processor."""
    first = next((x for x in s.stages if s.reduced(x)), None)
    if first is None:
        return False
    rows = iterations(s, spatial_loops(s, first))
    return rows is not None and rows <= FEW_ROWS * lp.machine().processors


def _one_row(s: lp.Schedule, out: str) -> tuple[lp.Schedule, str]:
    """A loop of one iteration around all that `out` makes, as a row of its own."""
    s, whole = fused(s, s.loops(out))
    if (size := extent(s, whole)) is None:
        raise lp.ScheduleError(f"{out} is one row, of a length that is not known")
    s, (row, _) = s.split(whole, size).with_loops
    return s, row


def _rows_first(s: lp.Schedule, out: str, stages: Sequence[str], depth: int) -> lp.Schedule:
    """`s` with the loops of the last stage over which it reads what `stages` fold as its outer ones, in their order.

    A loop of which groups read the same, as channels do in a group norm, is split into groups. It is as it was where
    these are not `depth` loops: as many as the folds have results along.
    """
    folded = {t.buffer for x in stages if s.reduced(x) for t in s.accesses(x) if t.write}
    s = split_groups(s, out, folded)
    reads = [t for t in s.accesses(out) if t.buffer in folded and not t.write]
    rows = [x for x in s.loops(out) if any(not t.invariant(x) for t in reads)]
    order = (*rows, *(x for x in s.loops(out) if x not in rows))
    if len(rows) != depth or order == s.loops(out) or s.why("reorder", *order) is not None:
        return s
    if lp.machine().processors * _row_bytes(s, out, order[depth:]) > lp.machine().l2_bytes:
        raise lp.ScheduleError(f"rows of {out} are too long for the cache, from which they would be read again")
    return s.reorder(*order)


def _row_bytes(s: lp.Schedule, stage: str, inner: Sequence[str]) -> int:
    """Bytes of a row of the widest that `stage` reads over the loops `inner`, where these have a known length."""
    read = [t.dtype.bytes for t in s.accesses(stage) if not t.write and not all(map(t.invariant, inner))]
    return max(read, default=0) * (iterations(s, inner) or 0)


def _stages(s: lp.Schedule, row: str) -> list[str]:
    return [x for x in s.stages if row in s.loops(x)]


def _inner(s: lp.Schedule, stage: str, row: str) -> list[str]:
    """The loops of `stage` along a row."""
    loops = s.loops(stage)
    return [x for x in loops[loops.index(row) + 1 :] if extent(s, x) != 1]


def _row_threads(s: lp.Schedule, row: str) -> int:
    """How many threads a block has for rows that have a warp or less each."""
    return SHORT_ROW_THREADS if _inner(s, _stages(s, row)[-1], row) else FOLDED


def _length(s: lp.Schedule, row: str) -> str | None:
    """The size that all rows are as long as, if it is one that is not known."""
    found = {lp.text(s.loop(x).extent) for stage in _stages(s, row) for x in _inner(s, stage, row)}
    length = found.pop() if len(found) == 1 else ""
    return length if length.isidentifier() and length not in s.loops() else None


def _kernels(s: lp.Schedule, row: str, length: str, size: int) -> tuple[tuple[int, int, str], ...]:
    """Up to what length there is a kernel for rows that are whole vectors of so many elements, and what else must hold.

    Short rows of elements of `size` bytes have a warp each, and several of them a block, if that leaves no row out. Of
    those that are nearly as long as the longest, no vector of a thread but the last may be beyond the end.
    """
    count, width = lp.text(s.loop(row).extent), VECTOR_BYTES // size
    shared = count.isidentifier() and threads_worth(LONGEST[0], size) == WARP
    several = ((LONGEST[0], width, f" and {count} % {_row_threads(s, row) // WARP} == 0"),) if shared else ()
    *shorter, longest = LONGEST
    nearly = f" and {longest - width * threads_worth(longest, size)} < {length}"
    return (*several, *((most, width, "") for most in shorter), (longest, width, nearly), (longest, width, ""))


def _of_length(s: lp.Schedule, row: str, most: int, width: int) -> lp.Schedule:
    """The loops along a row, which is known to be vectors of `width`, as long as `most` elements are, and guarded."""
    for stage in _stages(s, row):
        for loop in _inner(s, stage, row):
            if width > 1:
                s, (loop, _) = s.split(loop, width).with_loops
            s = s.split(loop, most // width)
    return s


def blocks_of_rows(
    s: lp.Schedule, row: str, given: frozenset[str], threads: int | None, rows: int | None, keep: bool, least: int = 2
) -> lp.Schedule:
    """The iterations of `row` on blocks, and what is in each on threads; what `least` stages read is kept."""
    stages = _stages(s, row)
    scans = row_scans(s, stages)
    if not scans and not any(s.reduced(x) for x in stages):
        raise lp.ScheduleError(f"steps have shown that nothing is folded in {row!r}", loop=row)
    width = vector(s, {x: _inner(s, x, row)[-1] for x in stages if _inner(s, x, row)}, given)
    lanes = _lanes(s, stages, width, threads, given)
    if scans:
        return _blocks_with_scans(s, row, scans, given, lanes, width, least if keep else 0)
    block = row
    rows = rows or (max(1, (threads or _row_threads(s, row)) // lanes) if lanes <= WARP else 1)
    if lanes == WARP and s.why("split", row, rows, tail="exact") is not None:
        rows = 1  # a warp a block takes no guard, which would part what threads compute alike
    if rows > 1:
        s, (block, row) = s.split(row, rows).with_loops
    inside = {t.buffer for x in stages for t in s.accesses(x)} - given
    if keep:
        s = _inputs_in_registers(s, row, given, lanes, least)
    for stage in _stages(s, row):
        s = spread_row(s, stage, row, lanes, width)
    s = s.bind(block, "blockIdx.x")
    if row != block:
        s = s.bind(row, "threadIdx.y")
    return _in_scopes(s, inside, lanes if keep else 1)


def _in_scopes(s: lp.Schedule, buffers: AbstractSet[str], lanes: int) -> lp.Schedule:
    """What a row has of `buffers` in the registers of `lanes` threads, or in shared memory."""
    for buffer in sorted(buffers):
        s = s.set_scope(buffer, _scope(s, buffer, lanes))
    return s


def _blocks_with_scans(
    s: lp.Schedule, row: str, scans: Sequence[str], given: frozenset[str], lanes: int, width: int, least: int
) -> lp.Schedule:
    """The iterations of `row`, `scans` among its stages, on blocks: what is in shared memory is a block's, which has
    one row. What `least` stages read is kept, and nothing where that is 0."""
    gpu = lp.machine()  # as many blocks as it holds fill a processor then
    lanes, each = _parts(s, scans, max(lanes, gpu.threads_per_processor // gpu.blocks_per_processor))
    s, scans, shared = shared_with_scans(s, scans, row, given)
    stages = _stages(s, row)
    inside = {t.buffer for x in stages for t in s.accesses(x)}.difference(given, shared)
    if least:
        s = _inputs_in_registers(s, row, given, lanes, least)
    for stage in [x for x in _stages(s, row) if x not in scans]:
        s = spread_row(s, stage, row, lanes, width)
    for buffer in shared:
        s = in_parts(s, buffer, each)
    for stage in scans:
        s = spread_scan(s, stage, each)
    return _in_scopes(s.bind(row, "blockIdx.x"), inside, lanes if least else 1)


def _parts(s: lp.Schedule, scans: Sequence[str], lanes: int) -> tuple[int, int]:
    """How many of `lanes` threads a row gets whose running folds are `scans`, and how many elements each has of it:
    whole vectors."""
    lengths = {extent(s, s.loops(x)[-1]) for x in scans}
    length = lengths.pop()
    if length is None or lengths:
        raise lp.ScheduleError("running folds of a row have one length, which is known")
    vector = VECTOR_BYTES // min(t.dtype.bytes for x in scans for t in s.accesses(x))
    each = -(-max(length, 1) // (lanes * vector)) * vector
    return min(lanes, max(WARP, -(-length // (each * WARP)) * WARP)), each


def crowded(s: lp.Schedule, after: Sequence[str] = ()) -> bool:
    """Whether there are rows for `row_blocks`, not known to be too few for a GPU or too long for a block.

    They are looked for in what comes `after` stages that are launches of their own. A row's elements have to stand side
    by side in what its reductions read.
    """
    mine = [x for x in s.stages if x not in after]
    reductions = [x for x in mine if s.reduced(x)]
    if len(mine) < 2 or not reductions or not all(_runs_along(s, x) for x in reductions):
        return False
    loops = s.loops(reductions[0])
    counts = [extent(s, x) for x in loops if x not in s.reduced(reductions[0])]
    length = prod(extent(s, x) or 0 for x in s.reduced(reductions[0]))
    return None in counts or prod(n or 1 for n in counts) >= lp.machine().processors or length <= SHORT_ROW


def _runs_along(s: lp.Schedule, stage: str) -> bool:
    """Whether the innermost reduced loop runs along something that `stage` reads, or across nothing.

    Of several, what no loop reads again counts: a vector that is multiplied by a matrix is in the cache.
    """
    inner, loops = s.reduced(stage)[-1], [x for x in s.loops(stage) if extent(s, x) != 1]
    reads = [t for t in s.accesses(stage) if not t.write and not t.invariant(inner)]
    once = [t for t in reads if not any(t.invariant(x) for x in loops)]
    return not reads or any(t.contiguous(inner) for t in once or reads)


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


def _inputs_in_registers(s: lp.Schedule, row: str, given: frozenset[str], lanes: int, least: int) -> lp.Schedule:
    """What several stages read of a row of their inputs copied near first, where that is known to fit.

    `least` is how many. Where there are guards, it is 1: tests between loads would keep them from being in flight
    together.
    """
    for buffer in sorted(given):
        readers = [x for x in _stages(s, row) if _reads_rows(s, x, buffer, row)]
        if len(readers) < least or s.why("cache_read", tuple(readers), buffer, "local", row) is not None:
            continue
        t = s.cache_read(tuple(readers), buffer, "local", row)
        (copy,) = t.last.buffers
        size = _size(t, copy)
        if size is None or size > KEPT_BYTES * lanes:
            continue
        many = size // t.buffer(copy).dtype.bytes > NEAR_ELEMENTS * lanes
        s = t.set_scope(copy, "shared") if many and size <= _near_bytes() and len(readers) > 1 else t
    return s


def _near_bytes() -> int:
    """Bytes of a row that is kept in shared memory, at most."""
    return min(NEAR_BYTES, lp.machine().shared_per_processor // ROWS_AT_ONCE)


def _reads_rows(s: lp.Schedule, stage: str, buffer: str, row: str) -> bool:
    """Whether `stage` reads along `row` in `buffer`; several iterations of that have to read different elements."""
    reads = [t for t in s.accesses(stage) if t.buffer == buffer and not t.write]
    reads = reads if extent(s, row) == 1 else [t for t in reads if not t.invariant(row)]
    return any(not t.invariant(x) for t in reads for x in _inner(s, stage, row))


def _lanes(s: lp.Schedule, stages: list[str], width: int, threads: int | None, given: frozenset[str]) -> int:
    """How many threads a row gets: at most `threads`, or what it is worth."""
    known = [[extent(s, y) for y in s.reduced(x)] for x in stages if s.reduced(x)]
    known += [[extent(s, s.loops(x)[-1])] for x in row_scans(s, stages)]
    length = None if any(None in x for x in known) else max(prod(n or 0 for n in x) for x in known)
    return threads_evenly(length, width, threads or threads_worth(length, _widest(s, stages, given)))


def _widest(s: lp.Schedule, stages: list[str], given: frozenset[str]) -> int:
    """The bytes of the widest elements of the arguments."""
    return max(t.dtype.bytes for x in stages for t in s.accesses(x) if t.buffer in given)
