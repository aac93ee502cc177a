"""Contractions on a CPU: register tiles, on operands in panels or, where these are small, as they lie.

The parameters follow from the machine (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication",
2008). A tile of a few rows and vectors keeps its sums in registers, and leaves one for each vector of the right operand
and one for an element of the left: 6 rows of 2 vectors with AVX2, 14 with AVX-512, or what wastes less of a short or
narrow product. One operand is copied into panels as a whole, the other a block at a time, which stays in the second
cache while the panels of the first come by. Blocks are of rows, or of columns where these are many more.
"""

from __future__ import annotations

import loopir as lp
from schedules.matmul import Contraction, Operand, contraction, copied, padded, stages
from schedules.nests import extent, step

DEEP = 1152
PART = 1024
"""A reduced loop longer than DEEP is taken at most PART at a time, so that the caches hold the panels."""
SMALL = 1 << 22
"""Products up to which panels are not worth their making, as the operands are in the second cache."""
NARROW = 8
"""Vectors of columns up to which they are not either: an element of the left operand is in few products."""
SHARED = 1 << 20
"""Products from which threads share operands as they lie: some 20 us."""
STEPS = 16
"""Steps of the reduced loop that are copied of a panel at once."""
AHEAD = 2048
"""Bytes of the panel that is shared, and comes from further away, that are asked for before they are used."""
LINE = 64
WORD = 4
TURNS = 3
ROWS = 160
"""Blocks that a thread has, where they are no smaller than so many rows: each goes through all panels."""
UNKNOWN = 8
"""Tiles of a block where lengths are not known."""


@lp.composite
def matmul_cpu(
    s: lp.Schedule, stage: str, *, lanes: int | None = None, registers: int | None = None, tiles: int | None = None
) -> lp.Schedule:
    """The contraction `stage` in register tiles, threads over blocks of `tiles` of them.

    A vector has `lanes` elements, and there are `registers` of them; unless told, as this machine has them, and blocks
    as its caches take them. With `tiles`, operands are always copied into panels.
    """
    c = contraction(s, stage)
    if c is None:
        raise lp.ScheduleError(f"{stage} is no contraction of two operands over one loop")
    bytes_, count = lp.vector_unit()
    lanes = lanes or max(1, bytes_ // max(WORD, c.bytes))  # floats of 16 bits are added up as float32
    registers = registers or count
    if tiles is None and _is_small(s, c, lanes):
        return _as_it_lies(s, c, lanes, registers)
    rows, columns = extent(s, c.row), extent(s, c.column)
    height, width = _tile(s, c, lanes, registers)
    flat = rows is not None and columns is not None and columns > 2 * rows and not c.batch
    s = _in_panels(s, c, width, height, lanes, tiles, flat)
    return whole_vectors(s, stage) if _is_last(s, c) else s


def _is_last(s: lp.Schedule, c: Contraction) -> bool:
    """Whether the product is a result; else what goes on with it is to be in its stores, which are not to be parted."""
    given = {a.buffer.name for a in s.func.args}
    return all(t.buffer in given for t in s.accesses(c.stage) if t.write)


# ---------------------------------------------------------------- tiles

VECTORS = (1, 2, 4)
"""Vectors of a tile: LLVM takes a vector of three for one of four."""
LATENCY = 4
"""Cycles from a sum to the next one of the same element."""
LOAD = 0.75
"""Cycles of a load from the first cache: two start in one, if nothing is in the way."""
NEAR = 16
"""Bytes that come from the second cache in a cycle."""
START = 20
"""Cycles that the sums of a tile wait for one another, at its end."""


def _tile(s: lp.Schedule, c: Contraction, lanes: int, registers: int, *, whole: bool = False) -> tuple[int, int]:
    """The rows and columns of a tile: those by which all tiles take the fewest cycles, by what bounds a step of each.

    That are its products, two in a cycle, its loads, as many, and its bytes. If `whole`, a tile is within the output.
    """
    lengths = [extent(s, x) for x in (c.row, c.column, c.reduced)]
    if any(n is None for n in lengths):
        return (registers - 3) // 2, 2 * lanes
    rows, columns, depth = (n or 0 for n in lengths)
    sets = depth * c.bytes % 4096 == 0  # rows that many bytes apart meet in one set of the first cache
    best = (0.0, 2, lanes)
    for vectors in VECTORS:
        for height in range(1 if whole else 2, (registers - 1) // vectors):
            width, sums = vectors * lanes, height * vectors
            over = sums + vectors >= registers or (whole and (height > rows or width > max(columns, lanes)))
            if over or (whole and sets and height > 8):
                continue
            size = c.bytes * (height + width)
            far = size / NEAR if 2 * depth * size > lp.caches()[0] else 0
            step_ = max(sums / 2, LOAD * (height + vectors), LATENCY, far)
            cycles = -(-rows // height) * -(-columns // width) * (depth * step_ + sums + START)
            best = min(best, (cycles, height, width)) if best[0] else (cycles, height, width)
    return best[1], best[2]


# ---------------------------------------------------------------- small ones


def _is_small(s: lp.Schedule, c: Contraction, lanes: int) -> bool:
    """Whether the operands are in cache as they lie, and the right one's rows along the output."""
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None or c.right.along:
        return False
    if columns < lanes or (columns > NARROW * lanes and rows * columns * depth > SMALL):
        return False
    return min(columns, 2 * lanes if columns <= NARROW * lanes else columns) * depth * c.bytes <= lp.caches()[1] // 2


def _as_it_lies(s: lp.Schedule, c: Contraction, lanes: int, registers: int) -> lp.Schedule:
    """Register tiles on the operands themselves.

    The last tiles are moved back, so that all are whole. Where others go on with the product, which are to be in its
    stores, each element has to be stored once, and by one thread where there are several. A right operand that is not
    near as a whole is gone through a tile's columns at a time.
    """
    rows, columns, depth = (extent(s, x) or 1 for x in (c.row, c.column, c.reduced))
    height, width = _tile(s, c, lanes, registers, whole=True)
    share = not c.batch and lp.thread_count() > 1 and rows * columns * depth >= SHARED
    far = not share and columns * depth * c.bytes > lp.caches()[1] // 2
    back = "shift_inwards" if _is_last(s, c) else "guard"
    s, (i, ii) = step(s, "split", c.row, height, tail="guard" if share or far else back)
    s, (j, jj) = step(s, "split", c.column, width, tail=back)
    outer = (j, i) if far else (i, j)
    s = s.reorder(*c.batch, *outer, c.reduced, ii, jj)
    s, (inner,) = stages(s, "cache_write", c.stage, "local", at=outer[1])
    s = padded(s, inner, ii, jj).vectorize(jj).unroll(ii)
    s = s.vectorize(s.loops(c.stage)[-1]).unroll(s.loops(c.stage)[-2])
    if c.batch or share:
        s = s.parallel(c.batch[0] if c.batch else i)
    return s.partition(i) if (share or far) and _is_last(s, c) and s.why("partition", i) is None else s


# ---------------------------------------------------------------- panels


def _in_panels(
    s: lp.Schedule, c: Contraction, width: int, height: int, lanes: int, tiles: int | None, flat: bool
) -> lp.Schedule:
    """Blocks of rows or, if `flat`, of columns, on threads; the operand that blocks share is copied once."""
    s, (j, jj) = step(s, "split", c.column, width)
    s, (i, ii) = step(s, "split", c.row, height)
    across, other = (j, i) if flat else (i, j)
    one, all_ = (c.right, c.left) if flat else (c.left, c.right)
    tall, wide = (width, height) if flat else (height, width)
    depth = _depth(extent(s, c.reduced))
    length = depth or extent(s, c.reduced)
    s, (block, tile) = step(s, "split", across, tiles or _tiles(extent(s, across), tall, length, c.bytes))
    order = (tile, other) if flat else (other, tile)
    home, k = block, c.reduced
    if depth is not None:
        s, (home, k) = step(s, "split", k, depth)
        s = s.reorder(*c.batch, block, home, *order, k, ii, jj).decompose_reduction(c.stage)
    else:
        s = s.reorder(*c.batch, block, *order, k, ii, jj)
    s, nests = stages(s, "cache_write", c.stage, "local", at=order[1])
    inner = next(x for x in nests if k in s.loops(x))
    s, shared = _packed(s, inner, all_, wide, c.batch[-1] if c.batch else None)
    s, mine = _packed(s, inner, one, tall, home)
    s = padded(s, inner, ii, jj).vectorize(jj).unroll(ii)
    for copy in (c.stage, *(x for x in nests if x != inner)):
        s = s.vectorize(s.loops(copy)[-1]).unroll(s.loops(copy)[-2])
    s = _filled(s, mine, one, tall, lanes)
    s = _filled(s, shared, all_, wide, lanes, threads=not c.batch)
    if wide * c.bytes >= LINE:
        s = s.prefetch(inner, shared, k, AHEAD // (wide * c.bytes))
    s = s.prefetch(c.stage, next(t.buffer for t in s.accesses(c.stage) if t.write), order[1])
    return s.parallel(c.batch[0] if c.batch else block)


@lp.composite
def whole_vectors(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the tiles whose vectors `stage` stores in part in a loop of their own: others then need no masks."""
    lane = s.loops(stage)[-1]
    out = next(t for t in s.accesses(stage) if t.write)
    for loop in s.loops(stage)[:-1]:
        stride = getattr(out.strides.get(loop), "value", None)
        if stride == extent(s, lane) and s.why("partition", loop) is None:
            return s.partition(loop)
    return s


def _depth(length: int | None) -> int | None:
    """How much of the reduced loop to take at a time where all of it is more than caches hold; None for all."""
    if length is None or length <= DEEP:
        return None
    return next((length // n for n in range(-(-length // PART), 17) if length % n == 0), None)


def _tiles(count: int | None, tall: int, length: int | None, size: int) -> int:
    """How many of `count` tiles make a block: as many as half of the second cache holds panels of.

    Blocks are then made as many as threads can share evenly.
    """
    if count is None or length is None:
        return UNKNOWN
    threads = lp.thread_count()
    most = max(1, lp.caches()[1] // (2 * tall * length * size))
    blocks = -(-count // most)
    if threads > 1:  # and several for each, as one that is held up leaves what it has not begun to others
        blocks = max(blocks, min(TURNS * threads, count * tall // ROWS))
    blocks = -(-blocks // threads) * threads
    return max(1, -(-count // blocks))


def _packed(s: lp.Schedule, stage: str, operand: Operand, width: int, at: str | None) -> tuple[lp.Schedule, str]:
    """A copy of `operand` in panels of `width`; and what it is called."""
    s, copy = copied(s, stage, operand.buffer, "global", at)
    return s.set_layout(copy, operand.panels(width)), copy


def _filled(
    s: lp.Schedule, copy: str, operand: Operand, width: int, lanes: int, *, threads: bool = False
) -> lp.Schedule:
    """The loops of a copy in panels, one panel at a time; where that would leave a row of the operand for each step of
    the reduced loop, a few steps of all panels, so that few pages are in use at once.
    """
    one, other = s.loops(copy)[-2:]
    x, k = (one, other) if operand.along else (other, one)
    s, (panel, part) = step(s, "split", x, width)
    outer = panel
    if operand.along:
        s = s.reorder(panel, k, part).unroll(part)
    else:
        s, (outer, near) = step(s, "split", k, STEPS)
        s = s.reorder(outer, panel, near, part)
        s = s.vectorize(part) if width % lanes == 0 else s.unroll(part)
    s = s.parallel(outer) if threads else s
    return s.partition(panel) if panel != outer and s.why("partition", panel) is None else s
