"""Running folds in batches on a GPU: prefix sums along the rows or the columns of an array, of any number and length.

A row is scanned by one block, in chunks that pass through shared memory; short rows share a block, whose threads each
have a part of a row; rows that are long and too few for a GPU are cut into blocks, whose sums are scanned by themselves
in the same way. Columns are a thread's each, side by side in vectors: what a thread goes along is prefetched some rows
ahead, and what it has stored last stays in a register; columns that are too few are cut into blocks, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import loopir as lp

from ..common.nest_queries import argument_names, extent, free_loops, fused, if_legal, iterations, written_by
from .elementwise import MOST_ROWS, by_element, elementwise
from .reduction import reduction
from .row_threads import VECTOR_BYTES, WARP
from .scan import Tile, block_scan, by_threads, copied_out, moved_copy, one_row, source_of, vector_by_vector

PART_BYTES = 64
"""What a thread has of a row, at most."""
BLOCK_THREADS = 256
"""Of a block, by default."""
SHORT_ROW_PARTS = 4
"""Elements for each thread of a block in a row of which a block takes several."""
CHUNKS_WORTH_BLOCKS = 4
"""Chunks of a row that is worth several blocks, if there are fewer rows than processors."""
ROWS_IN_FLIGHT = 8
"""Rows that a thread loads at once as it goes down its columns."""
MOST_ROWS_IN_FLIGHT, ELEMENTS_IN_FLIGHT = 32, 4096
"""The same of few columns, at most, and how many elements a processor has in flight then, about."""
COLUMN_THREADS = 256
"""Threads for each processor that go down columns, at least, where these are not cut."""
BLOCK_ROWS = 8
"""How often a thread has its rows in flight in a block of columns, at least."""

BlockShape = tuple[int, int]
"""Threads of a block, and the elements of a row that each has at a time."""


def is_scan(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a running fold along one of its loops, all others of which are independent."""
    return _carried_loop(s, stage) is not None


@lp.composite
def batched_scan(s: lp.Schedule, stage: str, *, threads: int = BLOCK_THREADS, part: int = PART_BYTES) -> lp.Schedule:
    """`s` with the running fold `stage` on a GPU: along rows by blocks, along columns by threads.

    A block has at most about so many `threads`, and each has at most `part` bytes of a row at a time. What starts the
    fold, as a statement before it in the same nest, stays with it. Raises ScheduleError where `stage` is no running
    fold of one loop.
    """
    carrier = _carried_loop(s, stage)
    if carrier is None:
        raise lp.ScheduleError(f"{stage} is not a running fold along one loop with all others independent")
    free = [x for x in s.loops(stage) if x != carrier]
    s = _innermost(s, stage, carrier)
    block = threads, max(1, part // _element_bytes(s, stage))
    if free and not stores_along(s, stage, carrier) and stores_along(s, stage, free[-1]):
        return _scan_columns(s, stage, free, carrier, block)
    return _scan_rows(s, stage, free, carrier, block)


def _carried_loop(s: lp.Schedule, stage: str) -> str | None:
    """The loop that `stage` folds along, which can be scanned in blocks."""
    carried = chain_loop(s, stage)
    if carried is None:
        return None
    s = _innermost(s, stage, carried)
    return carried if s.why("scan_blocks", carried, 2) is None else None


def _innermost(s: lp.Schedule, stage: str, loop: str) -> lp.Schedule:
    """`stage` with `loop` inside its others."""
    return s if s.loops(stage)[-1] == loop else s.reorder(*(x for x in s.loops(stage) if x != loop), loop)


def chain_loop(s: lp.Schedule, stage: str) -> str | None:
    """The only loop of `stage` whose iterations depend on each other; it can be its innermost one."""
    loops = s.loops(stage)
    stored = written_by(s, stage)
    if s.reduced(stage) or not any(t.buffer in stored and not t.write for t in s.accesses(stage)):
        return None
    if any(s.loop(x).kind != "serial" for x in loops):
        return None
    carried = [x for x in loops if s.why("parallel", x) is not None]
    if len(carried) != 1:
        return None
    order = (*(x for x in loops if x != carried[0]), carried[0])
    return carried[0] if order == loops or s.why("reorder", *order) is None else None


def is_recurrence(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` depends on what it stored along one loop, and other loops, all independent, go along memory."""
    carried = chain_loop(s, stage)
    if carried is None:
        return False
    free = [x for x in s.loops(stage) if x != carried]
    return bool(free) and not stores_along(s, stage, carried) and stores_along(s, stage, free[-1])


@lp.composite
def recurrence(s: lp.Schedule, stage: str, *, threads: int = BLOCK_THREADS) -> lp.Schedule:
    """`s` with `stage`, any chain along one loop, by threads that go down a column each; ScheduleError for others."""
    carried = chain_loop(s, stage) if is_recurrence(s, stage) else None
    if carried is None:
        raise lp.ScheduleError(f"{stage} is no chain along one loop with columns that are independent")
    free = [x for x in s.loops(stage) if x != carried]
    s = _innermost(s, stage, carried)
    count = iterations(s, free)
    narrow = count is not None and count < threads * lp.machine().processors
    return _scan_down(s, stage, free, carried, 1, WARP if narrow else threads)


def stores_along(s: lp.Schedule, stage: str, loop: str) -> bool:
    return any(t.write and t.contiguous(loop) for t in s.accesses(stage))


def _element_bytes(s: lp.Schedule, stage: str) -> int:
    return max(t.dtype.bytes for t in s.accesses(stage))


# ---------------------------------------------------------------- along rows


def _scan_rows(s: lp.Schedule, stage: str, free: Sequence[str], loop: str, block: BlockShape) -> lp.Schedule:
    length, rows = extent(s, loop), iterations(s, free)
    threads, each = block
    if free and length is not None and length <= SHORT_ROW_PARTS * threads and rows != 1:
        tile = _RowParts.of(_element_bytes(s, stage), length, block)
        if tile.rows > 1:
            return _rows_together(s, stage, free, loop, tile)
    few = rows is not None and rows < lp.machine().processors
    long = (
        length > CHUNKS_WORTH_BLOCKS * threads * each if length is not None else not free and not _made_here(s, stage)
    )
    return _rows_in_blocks(s, stage, free, loop, block) if few and long else _row_by_block(s, stage, free, loop, block)


def _made_here(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` stores into memory of the program's own: sums of blocks, which are few."""
    return not written_by(s, stage) & argument_names(s)


def _chunk_tile(s: lp.Schedule, stage: str, length: int | None, block: BlockShape, chunks: int = 0) -> Tile:
    """Parts of a whole number of vectors for as many threads as each of the `chunks` of a row takes, or a block has."""
    threads, each = block
    lanes = max(1, VECTOR_BYTES // _element_bytes(s, stage))
    if length is None:
        return Tile(threads, each, lanes if each % lanes == 0 else 1)
    if chunks:
        threads = -(-length // (chunks * each))
        threads = -(-threads // WARP) * WARP
    return Tile(threads, each, lanes if length % lanes == each % lanes == 0 else 1)


def _row_by_block(s: lp.Schedule, stage: str, free: Sequence[str], loop: str, block: BlockShape) -> lp.Schedule:
    """A block for each row, which goes along it in chunks."""
    length, source = lp.text(s.loop(loop).extent), source_of(s, stage)
    chunks = -(-(extent(s, loop) or 1) // (block[0] * block[1]))
    tile = _chunk_tile(s, stage, extent(s, loop), block, chunks)
    if not free:
        return one_row(s, stage, source, tile)
    s, (chunk, _) = s.split(loop, tile.width).with_loops
    s = block_scan(s, stage, source, chunk, length, tile)
    s, row = fused(s, free)
    return s.bind(row, "blockIdx.x")


def _rows_in_blocks(s: lp.Schedule, stage: str, free: Sequence[str], loop: str, block: BlockShape) -> lp.Schedule:
    """Rows in blocks: the sums of these, the scan of the sums, and the scan inside each block, which starts there."""
    length, source = lp.text(s.loop(loop).extent), source_of(s, stage)
    tile = _chunk_tile(s, stage, extent(s, loop), block)
    s, sums, ends = _in_blocks(s, stage, free, loop, tile.width)
    *free, piece, _ = s.loops(stage)
    s = block_scan(s, stage, source, piece, length, tile)
    s, flat = fused(s, [*free, piece])
    s = s.bind(flat, "blockIdx.x")
    return _of_blocks(s, sums, ends, block)


def _in_blocks(s: lp.Schedule, stage: str, free: Sequence[str], loop: str, width: int) -> tuple[lp.Schedule, str, str]:
    """`stage` in blocks of `width`, their sums, and where each block ends, in nests of their own; the last two's names.

    What starts the fold gets a nest of its own, too.
    """
    starts = _stages_before(s, stage, free[0]) if free else []
    s = s.scan_blocks(loop, width)
    sums, ends = s.last.stages
    for x in reversed(free):
        s = s.distribute(x, *(y for y in (*starts, sums, ends) if x in s.loops(y)))
    for x in starts:
        s = by_element(s, x, threads=WARP)
    return s, sums, ends


@dataclass(frozen=True)
class _RowParts:
    """Short rows of a block, each of `length` in `parts` of `each` elements, moved in vectors of so many lanes."""

    length: int
    rows: int
    parts: int
    each: int
    lanes: int

    @staticmethod
    def of(size: int, length: int, block: BlockShape) -> _RowParts:
        lanes = max(1, VECTOR_BYTES // size)
        each = min(block[1], -(-length // lanes) * lanes)
        parts = -(-length // each)
        rows = 1 << max(1, block[0] // parts).bit_length() - 1
        return _RowParts(length, rows, parts, each, lanes if length % lanes == each % lanes == 0 else 1)

    def side_by_side(self, s: lp.Schedule, copy: str, loops: Sequence[str]) -> lp.Schedule:
        """The loops of a copy by all threads, one row after the other; parts lie a vector apart, so no banks meet."""
        s, _ = by_threads(s, loops, self.rows * self.parts, self.lanes)
        dims = len(s.buffer(copy).shape)
        s = s.fuse_dims(copy, 0, dims - 1) if dims > 2 else s
        names, r, i = "r, i", "r", "i"
        if dims == 1:  # rows that follow one another in memory
            names, r, i = "f", f"(f // {self.length})", f"(f % {self.length})"
        place = f"({r} * {self.parts} + {i} // {self.each}) * {self.each + self.lanes} + {i} % {self.each}"
        return s.set_layout(copy, f"lambda {names}: {place}")

    def along(self, s: lp.Schedule, loops: Sequence[str]) -> lp.Schedule:
        """The loops of a copy by one thread, a vector after the other."""
        return vector_by_vector(s, loops[-1], self.lanes)


def _rows_together(s: lp.Schedule, stage: str, free: Sequence[str], loop: str, tile: _RowParts) -> lp.Schedule:
    """Several short rows a block: a thread for each part of a row, and one for each row where parts are added up."""
    source = source_of(s, stage)
    s, outer, row, rows = _box_of_rows(s, free, tile.rows)
    block = outer[-1]
    tile = replace(tile, rows=rows)
    starts = _stages_before(s, stage, row)
    s = s.scan_blocks(loop, tile.each) if tile.parts > 1 else s.split(loop, tile.each)
    made = s.last.stages
    s = s.distribute(row, *starts, *made) if starts or made else s
    for x in starts:
        s = s.bind(s.loops(x)[-1], "threadIdx.x")
    *_, row, part, last = s.loops(stage)
    readers, tiles = (*made[:1], stage), list[str]()
    if source is not None and s.why("cache_read", readers, source, "shared", block) is None:
        s, copy, moved = moved_copy(s.cache_read(readers, source, "shared", block))
        s, tiles = tile.side_by_side(s, copy, moved), [copy]
        for reader in readers:
            s, _, moved = moved_copy(s.cache_read(reader, copy, "local", s.loops(reader)[-2]))
            s = tile.along(s, moved)
    s, copy, moved = copied_out(s, stage, "shared", block)
    s, tiles = tile.side_by_side(s, copy, moved), [copy, *tiles]
    s, _, moved = moved_copy(s.cache_write(copy, "local", part))
    s = tile.along(s, moved).unroll(last)
    pairs: list[tuple[str, ...]] = [(row, part)]
    if made:
        s = _part_sums(s, *made)
        pairs.append(s.loops(made[0])[len(outer) : len(outer) + 2])
    for pair in pairs:
        s, thread = fused(s, pair)
        s = s.bind(thread, "threadIdx.x")
    s = if_legal(s, "reuse", *tiles) if len(tiles) == 2 else s
    s, block = fused(s, outer)
    return s.bind(block, "blockIdx.x")


def _box_of_rows(s: lp.Schedule, free: Sequence[str], rows: int) -> tuple[lp.Schedule, list[str], str, int]:
    """The loops over blocks, that over the rows of one, and how many these are: at most `rows`, which lie in a box of
    the array, so that a copy of them is one, too."""
    *outer, cut = free
    whole, inside = 1, list[str]()
    while outer and (n := extent(s, cut)) is not None and whole * n <= rows:
        whole, inside = whole * n, [cut, *inside]
        cut = outer.pop()
    s, (block, own) = s.split(cut, rows // whole).with_loops
    s, row = fused(s, [own, *inside])
    return s, [*outer, block], row, rows // whole * whole


def _part_sums(s: lp.Schedule, sums: str, ends: str) -> lp.Schedule:
    """The sums of parts, each in a thread's register, and where parts end, by a thread for each row."""
    *_, part, each = s.loops(sums)
    s, _, _ = moved_copy(s.cache_write(sums, "local", part))
    s = s.set_scope(sums, "shared").set_scope(ends, "shared").unroll(each)
    *_, row, along = s.loops(ends)
    return s.unroll(along).bind(row, "threadIdx.x")


def _stages_before(s: lp.Schedule, stage: str, loop: str) -> list[str]:
    """The stages that stand before `stage` in `loop`: what starts it."""
    mine = [x for x in s.stages if loop in s.loops(x)]
    return mine[: mine.index(stage)]


def _of_blocks(s: lp.Schedule, sums: str, ends: str, block: BlockShape) -> lp.Schedule:
    """The sums of blocks, and where these end: a scan of its own where there is more than one end."""
    if is_scan(s, ends):
        s = batched_scan(s, ends, threads=block[0], part=block[1] * _element_bytes(s, ends))
        return reduction(s, sums, threads=2 * block[0])
    s = reduction(s, sums, threads=2 * block[0])
    if ends not in s.stages or any(s.loop(x).kind != "serial" for x in s.loops(ends)):
        return s  # the reduction has taken it along
    return elementwise(s, ends) if free_loops(s, ends) else s


# ---------------------------------------------------------------- along columns


def _scan_columns(s: lp.Schedule, stage: str, free: Sequence[str], loop: str, block: BlockShape) -> lp.Schedule:
    """A thread for a vector of columns, or for a part of one; parts start where those before them end."""
    count, length, threads = iterations(s, free), extent(s, loop), max(1, block[0] // 2)
    vector = max(1, VECTOR_BYTES // _element_bytes(s, stage))
    lanes = vector if (extent(s, free[-1]) or 1) % vector == 0 else 1
    if count is None or length is None:
        return _scan_down(s, stage, free, loop, lanes, threads)
    wanted = COLUMN_THREADS * lp.machine().processors * block[0] // BLOCK_THREADS
    lanes = lanes if count >= wanted else 1
    parts = min(-(-wanted * 2 // count), length // (BLOCK_ROWS * ROWS_IN_FLIGHT))
    if count >= wanted or parts <= 1:
        return _scan_down(s, stage, free, loop, lanes, threads)
    s, sums, ends = _in_blocks(s, stage, free, loop, _block_rows(length, parts))
    *free, piece, loop = s.loops(stage)
    free = [*free[:-1], piece, free[-1]]
    s = _scan_down(s.reorder(*free, loop), stage, free, loop, lanes, threads)
    *batch, column, piece, inner = s.loops(sums)
    s = s.reorder(*batch, piece, column, inner)
    return _of_blocks(s, sums, ends, block)


def _block_rows(length: int, parts: int) -> int:
    """Rows of a block where `length` of them are cut into about `parts`: whole turns, and whole blocks if any are."""
    least = -(-length // (parts * ROWS_IN_FLIGHT)) * ROWS_IN_FLIGHT
    return next((n for n in range(least, 2 * least, ROWS_IN_FLIGHT) if length % n == 0), least)


def sources_along(s: lp.Schedule, stage: str, loop: str) -> list[str]:
    """What `stage` reads along `loop`, besides what it stores."""
    stored = written_by(s, stage)
    return sorted({t.buffer for t in s.accesses(stage) if t.contiguous(loop)} - stored)


def _rows_in_flight(s: lp.Schedule, free: Sequence[str], lanes: int) -> int:
    """How many rows a thread loads at once: more where columns are few, so that as many bytes are on their way."""
    columns = iterations(s, free)
    if columns is None or lanes > 1:
        return ROWS_IN_FLIGHT
    wanted = ELEMENTS_IN_FLIGHT * lp.machine().processors // max(1, columns)
    return max(ROWS_IN_FLIGHT, min(MOST_ROWS_IN_FLIGHT, 1 << max(0, wanted - 1).bit_length()))


def _scan_down(s: lp.Schedule, stage: str, free: Sequence[str], loop: str, lanes: int, threads: int) -> lp.Schedule:
    """Blocks of `threads` that go down `lanes` columns each, some rows at a time, the row above in registers."""
    sources, rows = sources_along(s, stage, free[-1]), _rows_in_flight(s, free, lanes)
    s, (column, lane) = s.split(free[-1], lanes).with_loops
    beside = iterations(s, [column]) or threads
    outer = free[:-1] if beside >= WARP and (iterations(s, free[:-1]) or MOST_ROWS + 1) <= MOST_ROWS else ()
    s, column = (s, column) if outer else fused(s, [*free[:-1], column])
    threads = min(threads, -(-beside // WARP) * WARP) if outer else threads
    s, (block, thread) = s.split(column, threads).with_loops
    s, (turn, row) = s.split(loop, rows).with_loops
    s = s.reorder(thread, turn, row, lane)
    s, copy, moved = copied_out(s, stage, "local", thread)
    s = s.fuse_loops(turn, moved[0]).fold_storage(copy, 0, rows)
    for source in sources:
        if s.why("cache_read", copy, source, "local", turn) is not None:
            continue
        made, _, ahead = moved_copy(s.cache_read(copy, source, "local", turn))
        if prod(extent(made, x) or 1 for x in ahead) > 2 * rows * lanes:
            continue  # of a flat array, whose rows lie apart: it would hold all that is between them
        s = made
        s = if_legal(s, "vectorize", ahead[-1]) if lanes > 1 else s
        for x in ahead[:-1] if lanes > 1 else ahead:
            s = s.unroll(x)
    s = s.unroll(row).unroll(lane).unroll(moved[1])
    s = if_legal(s, "vectorize", moved[2]) if lanes > 1 else s.unroll(moved[2])
    s = if_legal(s, "partition", turn)
    s = s.bind(thread, "threadIdx.x").bind(block, "blockIdx.x")
    if not outer:
        return s
    s, across = fused(s, outer)
    return s.bind(across, "blockIdx.y")
