"""Contractions on a CPU: register tiles, on operands in panels or, where these are small, as they lie.

The parameters follow from the machine (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication",
2008). A tile of a few rows and vectors keeps its sums in registers, and leaves one for each vector of the right operand
and one for an element of the left: 6 rows of 2 vectors with AVX2, 14 with AVX-512, or what wastes less of a short or
narrow product. One operand is copied into panels as a whole, the other a block at a time, which stays in the second
cache while the panels of the first come by. Blocks are of rows, or of columns where these are many more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import loopir as lp

from ..common.contraction import Contraction, Operand, padded, require_contraction
from ..common.knobs import Knob, either, octaves
from ..common.nest_queries import argument_names, extent, if_legal, result_of
from .split_reduction import folded
from .threads import parallel

MAX_UNSPLIT_STEPS = 1152
PART = 1024
"""A reduced loop longer than MAX_UNSPLIT_STEPS is taken at most PART at a time, so that the caches hold the panels."""
SMALL_PRODUCT = 1 << 22
"""Products up to which panels are not worth their making, as the operands are in the second cache."""
NARROW = 8
"""Vectors of columns up to which they are not either: an element of the left operand is in few products."""
MAX_UNPACKED_ROWS = 12
"""Rows, which are two tiles or less, up to which not even those of a right operand that is not near are worth it."""
MANY, LONG_PANELS = 20, 2
"""Tiles of columns from which on one column more hardly counts, and vectors of a row from which on it is folded."""
SHARED_CACHE = 1 << 20
"""Products from which threads share operands as they lie: some 20 us."""
PANEL_STEPS = 8
"""Steps of the reduced loop that are copied of a panel at once, their loads under way together: rows a page apart meet
in one set of the first cache, which holds so many lines."""
CHUNKS = (8, 4, 1)
"""Steps of the reduced loop that may lie together: as a vector of them, and the loop inside is that much longer."""
TURN = 4
"""Steps of one turn of the loop inside: what ends a turn, and a hint, are then few operations beside theirs."""
AHEAD, AHEAD_SHARED = 4096, 2048
"""Bytes of the panel that is shared, and comes from further away, that are asked for before they are used where not all
of the next one is; on several threads fewer.
"""
LINE = 64
WORD_BYTES = 4
BLOCKS_PER_THREAD, BLOCK_ROWS = 3, 160
"""Blocks that a thread has, where they are no smaller than so many rows: each goes through all panels."""
L2_BLOCKS, L2_BLOCKS_SHARED = 4, 2
"""The second cache has room for so many blocks: one, and panels that go through; for fewer where threads share them."""
LARGER = 0.03
"""What of its time a block loses that is larger."""
BLOCK_START_COST = 0.2
"""Tiles in whose time a block is begun."""
MAX_UNIFORM_TILES = 16
"""Tiles of columns, of which the last is worth as much code as all others."""
UNKNOWN = 8
"""Tiles of a block where lengths are not known."""
TILE = Knob("tile", "rows and columns of a tile of sums", lambda formula: (), 0.05)
IN_PLACE = Knob("in place", "whether operands are read as they lie, and not from panels", either, 0.2)
BLOCK = Knob("block", "tiles of a block, whose panels are in the second cache", octaves(1, 256), 0.04)
PART_DEPTH = Knob("depth", "steps of the reduced loop that are taken at a time", lambda formula: (), 0.08)
FLAT = Knob("flat", "whether blocks are of columns, and not of rows", either, 0.15)
PREFETCHED = Knob("prefetched", "whether what comes next is asked for ahead", either, 0.1)


@lp.composite
def matmul_cpu(
    s: lp.Schedule, stage: str, *, lanes: int | None = None, registers: int | None = None, tiles: int | None = None
) -> lp.Schedule:
    """The contraction `stage` in register tiles, threads over blocks of `tiles` of them.

    A vector has `lanes` elements, and there are `registers` of them; by default, as this machine has them, and blocks
    as its caches take them. With `tiles`, operands are always copied into panels.
    """
    c = require_contraction(s, stage)
    bytes_, count = lp.vector_unit()
    lanes = lanes or max(1, bytes_ // max(WORD_BYTES, c.bytes))  # floats of 16 bits are added up as float32
    registers = registers or count
    if tiles is None and _one_is_left(s, c, _tile(s, c, lanes, registers)[1], lanes):
        whole = padded(s, stage, c.row, c.column)
        return matmul_cpu(_without_one(whole, c, lanes), stage, lanes=lanes, registers=registers)
    if tiles is None and _may_lie(s, c, lanes) and IN_PLACE(_is_small(s, c, lanes), at=stage):
        return _as_it_lies(padded(s, stage, c.row, c.column), c, lanes, registers)
    tile = _chosen_tile(s, c, lanes, registers)
    rows, columns = extent(s, c.row), extent(s, c.column)
    flat = rows is not None and columns is not None and columns > 2 * rows and not c.batch
    flat = flat if c.batch else FLAT(flat, at=stage)
    return _in_panels(s, c, tile, lanes, tiles, flat)


def _is_last(s: lp.Schedule, c: Contraction) -> bool:
    """Whether the product is a result; else what goes on with it is to be in its stores, which are not to be parted."""
    given = argument_names(s)
    return all(t.buffer in given for t in s.accesses(c.stage) if t.write)


# ---------------------------------------------------------------- tiles

TILE_VECTORS = (1, 2, 4)
"""Vectors of a tile: LLVM takes a vector of three for one of four."""
LATENCY = 4
"""Cycles from a sum to the next one of the same element."""
LOAD = 0.75
"""Cycles of a load from the first cache: two start in one, if nothing is in the way."""
L2_BYTES_PER_CYCLE = 16
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
    for vectors in TILE_VECTORS:
        for height in range(1 if whole else 2, (registers - 1) // vectors):
            width, sums = vectors * lanes, height * vectors
            over = sums + vectors >= registers or (whole and (height > rows or width > max(columns, lanes)))
            if over or (whole and sets and height > 8):
                continue
            cycles = tile_cycles((rows, columns, depth), height, vectors, lanes, c.bytes)
            best = min(best, (cycles, height, width)) if best[0] else (cycles, height, width)
    return best[1], best[2]


def tile_cycles(sizes: tuple[int, int, int], height: int, vectors: int, lanes: int, bytes_: int) -> float:
    """The cycles of a product of so many rows, columns and terms in tiles of `height` rows and so many vectors."""
    rows, columns, depth = sizes
    width, sums = vectors * lanes, height * vectors
    size = bytes_ * (height + width)
    far = size / L2_BYTES_PER_CYCLE if 2 * depth * size > lp.caches()[0] else 0
    each = max(sums / 2, LOAD * (height + vectors), LATENCY, far)
    return -(-rows // height) * -(-columns // width) * (depth * each + sums + START)


def _chosen_tile(s: lp.Schedule, c: Contraction, lanes: int, registers: int, *, whole: bool = False) -> tuple[int, int]:
    """The tile of the formula, or another whose sums leave registers for a column of each operand."""
    height, width = _tile(s, c, lanes, registers, whole=whole)
    rows = extent(s, c.row) or height
    among = [
        (high, vectors * lanes) for vectors in TILE_VECTORS for high in (2, 3, 4, 6, 8, 10, 12, 14, 20, 28)
        if vectors * (high + 1) < registers and high <= rows and high * vectors >= registers // 4
    ]  # fmt: skip
    among.sort(key=lambda t: (abs(t[0] * t[1] - height * width), t))
    return TILE((height, width), at=c.stage, among=among[:8])


# ---------------------------------------------------------------- a column left over


def _one_is_left(s: lp.Schedule, c: Contraction, width: int, lanes: int) -> bool:
    """Whether whole tiles leave one column, for which a tile more takes longer than vectors along the reduced loop.

    On one thread: on several, another loop to share has not been shown to be worth it.
    """
    columns, depth = extent(s, c.column), extent(s, c.reduced)
    if (
        lp.thread_count() > 1
        or columns is None
        or depth is None
        or c.batch
        or not _is_last(s, c)
        or not c.left.along
        or c.right.along
    ):
        return False
    return columns % width == 1 and width < columns <= MANY * width and depth >= LONG_PANELS * lanes


def _without_one(s: lp.Schedule, c: Contraction, lanes: int) -> lp.Schedule:
    """The last column in a nest of its own, which folds vectors; the right operand's has a copy for it."""
    before = set(s.stages)
    s = s.reorder(c.column, c.row, c.reduced)
    s, (outer, inner, *_) = s.split(c.column, (extent(s, c.column) or 0) - 1, tail="peel").with_loops
    (one,) = (x for x in s.stages if x not in before)
    s = s.fuse(outer, inner)
    column, row, k = s.loops(one)
    s, _ = s.reorder(row, column, k).cache_read(one, c.right.buffer, "global", at=None).with_stage
    return folded(s, one, lanes=lanes)


def _products(s: lp.Schedule, *loops: str) -> int:
    return prod(extent(s, x) or 1 for x in loops)


# ---------------------------------------------------------------- small ones


def _is_small(s: lp.Schedule, c: Contraction, lanes: int) -> bool:
    """Whether the operands are in cache as they lie, and the right one's rows along the output."""
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None or c.right.along:
        return False
    if columns < lanes or (columns > NARROW * lanes and rows * columns * depth > SMALL_PRODUCT):
        return False
    size, room = columns * depth * c.bytes, lp.caches()[1]
    return size <= (room * 3 // 4 if columns <= NARROW * lanes else room // 2) or rows <= MAX_UNPACKED_ROWS


def _may_lie(s: lp.Schedule, c: Contraction, lanes: int) -> bool:
    """Whether the operands can be read as they lie by vectors: the right one's rows go along the output."""
    known = all(extent(s, x) is not None for x in (c.row, c.column, c.reduced))
    return known and not c.right.along and (extent(s, c.column) or 0) >= lanes


def _as_it_lies(s: lp.Schedule, c: Contraction, lanes: int, registers: int) -> lp.Schedule:
    """Register tiles on the operands themselves.

    The last tiles are moved back, so that all are whole. Where others go on with the product, which are to be in its
    stores, each element has to be stored once, and by one thread where there are several. A right operand that the
    second cache does not hold is gone through a tile's columns at a time.
    """
    columns, depth = (extent(s, x) or 1 for x in (c.column, c.reduced))
    height, width = _chosen_tile(s, c, lanes, registers, whole=True)
    last, shared = _is_last(s, c), _shared_loop(s, c, height, width)
    moved = s.why("split", c.row, height, tail="shift_inwards"), s.why("split", c.column, width, tail="shift_inwards")
    back = "shift_inwards" if last and moved == (None, None) else "guard"  # sums that go on are added to once
    by_columns = shared == c.column or (columns * depth * c.bytes > lp.caches()[1] // 2 and shared is None)
    if by_columns:  # before tiles overlap, whose order is then kept
        s = s.reorder(*c.batch, c.column, c.row, c.reduced)
    s, (i, ii) = s.split(c.row, height, tail="guard" if shared == c.row else back).with_loops
    s, (j, jj) = s.split(c.column, width, tail="guard" if shared == c.column else back).with_loops
    outer = (j, i) if by_columns else (i, j)
    s = s.reorder(*c.batch, *outer, c.reduced, ii, jj)
    s = s.cache_write(c.stage, "local", at=outer[1])
    nests = s.last.stages
    inner = next(x for x in nests if c.reduced in s.loops(x))
    s = _tile_in_registers(s, c.stage, nests, inner, (ii, jj))
    s, _ = _in_turns(s, c.reduced)
    if c.batch or shared:
        s = parallel(s, c.stage, c.batch[0] if c.batch else outer[0])
    return if_legal(s, "partition", outer[0]) if shared and last else s


def _shared_loop(s: lp.Schedule, c: Contraction, height: int, width: int) -> str | None:
    """The loop whose tiles threads share: that of which they do the same, or else the longer one. None where one thread
    takes all, or each one those of a matrix of a batch."""
    if c.batch or lp.thread_count() == 1 or _products(s, c.row, c.column, c.reduced) < SHARED_CACHE:
        return None
    rows, columns = (extent(s, x) or 1 for x in (c.row, c.column))
    by_columns = (_held_up(columns, width), -columns) < (_held_up(rows, height), -rows)
    return c.column if by_columns else c.row


def _tile_in_registers(
    s: lp.Schedule, stage: str, nests: Sequence[str], inner: str, loops: tuple[str, str]
) -> lp.Schedule:  # fmt: skip
    """`s` with the rows of a tile unrolled, and its columns as vectors: in the fold `inner`, over rows and columns in
    `loops`, and in the other `nests`, which load and store the sums."""
    rows, columns = loops
    s = padded(s, inner, rows, columns).vectorize(columns).unroll(rows)
    for copy in (stage, *(x for x in nests if x != inner)):  # sums that go on are read first
        s = s.vectorize(s.loops(copy)[-1]).unroll(s.loops(copy)[-2])
    return s


def _in_turns(s: lp.Schedule, k: str) -> tuple[lp.Schedule, str]:
    """`s` with the reduced loop `k` in turns of a few steps, which are unrolled; and the loop over turns."""
    length = extent(s, k)
    if length is None or length <= TURN:
        return s, k
    s, (k, step, *_) = s.split(k, TURN, tail="peel").with_loops
    return s.unroll(step), k


def _held_up(length: int, part: int) -> float:
    """What of a loop's time threads take that share it by `part` iterations, if what is left at its end comes after."""
    whole, rest = length // part, length % part > 0
    return (-(-whole // lp.thread_count()) + rest) / (whole + rest)


# ---------------------------------------------------------------- panels


@dataclass(frozen=True)
class _Blocks:
    """The loops of a product in blocks: over blocks, over parts of the reduced loop (or blocks again), in which panels
    of a block are made, over panels of the operand that blocks share, over tiles of a block, over what is left of the
    reduced loop, and over rows and columns of a tile. `step` is over what lies together of the reduced loop, if any."""

    block: str
    part: str
    panel: str
    tile: str
    k: str
    step: str
    inside: tuple[str, str]


def _block_loops(
    s: lp.Schedule, c: Contraction, tile: tuple[int, int], tiles: int | None, flat: bool, chunk: int
) -> tuple[lp.Schedule, _Blocks]:
    """`s` with blocks of `tiles` of rows or, if `flat`, of columns, and `chunk` steps of the reduced loop together."""
    s, (j, jj) = s.split(c.column, tile[1]).with_loops
    s, (i, ii) = s.split(c.row, tile[0]).with_loops
    across, panel = (j, i) if flat else (i, j)
    k, depth = c.reduced, _chosen_depth(c, extent(s, c.reduced))
    tiles = tiles or BLOCK(_block_tiles(extent(s, across), tile[flat], depth or extent(s, k), c.bytes), at=c.stage)
    s, (block, inner) = s.split(across, tiles).with_loops
    order, part = (inner, panel) if flat else (panel, inner), block
    if depth is not None:
        s, (part, k) = s.split(k, depth).with_loops
        s = s.reorder(*c.batch, block, part, *order, k, ii, jj).decompose_reduction(c.stage)
    else:
        s = s.reorder(*c.batch, block, *order, k, ii, jj)
    s, (k, step) = s.split(k, chunk).with_loops if chunk > 1 else (s, (k, ""))
    return s, _Blocks(block, part, panel, inner, k, step, (ii, jj))


def _in_panels(
    s: lp.Schedule, c: Contraction, tile: tuple[int, int], lanes: int, tiles: int | None, flat: bool
) -> lp.Schedule:
    """Blocks of rows or, if `flat`, of columns, on threads; the operand that blocks share is copied once.

    Of a result of the program, tiles that store vectors in part are in a loop of their own. Where there are many
    others, that loop takes one step after the other, which is a quarter less to compile. Of a triangle, the tiles that
    are outside are left out.
    """
    chunk, last, triangle = _chunk(s, c), _is_last(s, c), padded(s, c.stage, c.row, c.column) is not s
    s, n = _block_loops(s, c, tile, tiles, flat, chunk)
    innermost = n.panel if flat else n.tile
    s = s.cache_write(c.stage, "local", at=innermost)
    nests = s.last.stages
    inner = next(x for x in nests if n.k in s.loops(x))
    left, right = _Panels(c.left, tile[0], chunk), _Panels(c.right, tile[1])
    own, shared = (right, left) if flat else (left, right)
    for_all = bool(c.batch) and _is_shared(s, inner, own.operand.buffer, c.batch)
    s, shared_copy = _packed(s, inner, shared, c.batch[-1] if c.batch else None)
    s, own_copy = _packed(s, inner, own, None if for_all else n.part)
    s = _tile_in_registers(s, c.stage, nests, inner, n.inside)
    many = not flat and (extent(s, n.panel) or 0) > MAX_UNIFORM_TILES
    s = whole_vectors(s, c.stage) if last and many else s
    s, k = (s.unroll(n.step), n.k) if n.step else _in_turns(s, n.k)
    s = _filled(s, own_copy, own, lanes, threads=for_all)
    s = _filled(s, shared_copy, shared, lanes, threads=not c.batch)
    if PREFETCHED(True, at=c.stage):
        over = () if flat else (k, n.tile)
        s = _prefetch_panel(s, inner, shared_copy, n.panel, over, k, shared.width * chunk * c.bytes)
        s = _ask_for_tile(s, c.stage, innermost, k)
    s = if_legal(s, "trim", innermost) if triangle else s
    s = parallel(s, c.stage, c.batch[0] if c.batch else n.block)
    return whole_vectors(s, c.stage) if last and not many else s


def _is_shared(s: lp.Schedule, stage: str, buffer: str, batch: Sequence[str]) -> bool:
    """Whether all of a batch read the same of `buffer`: its panels are then made once, and not for each."""
    return all(t.invariant(x) for t in s.accesses(stage) if t.buffer == buffer for x in batch)


def _prefetch_panel(
    s: lp.Schedule, inner: str, shared: str, panel: str, within: Sequence[str], k: str, size: int
) -> lp.Schedule:
    """`s` with the next `panel` of what is shared prefetched while the tiles of a block use this one, a part by each.

    So a step of the reduced loop `k`, which uses `size` bytes, is left as short as it can be: its 20 operations take 6
    cycles of a core that starts 6 in one, and that starts 4 where it runs two threads. Where nothing `within` may
    share a panel's lines, each step asks for what is used a little later.
    """
    for over in within:
        if s.why("prefetch", inner, shared, panel, over=over) is None:
            return s.prefetch(inner, shared, panel, over=over)
    ahead = AHEAD if lp.thread_count() == 1 else AHEAD_SHARED
    return s.prefetch(inner, shared, k, max(1, ahead // size)) if size >= LINE else s


def asks_for_tiles(s: lp.Schedule, stage: str) -> bool:
    """Whether the last recipe asks for the elements of the tiles that `stage` stores."""
    return any(x.name == "prefetch" and x.args[0] == stage for x in s.trace[-1].steps)


@lp.composite
def tile_before(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the elements of a tile that `stage`, into which a product was inlined, stores asked for before it."""
    tile = s.loops(stage)[-3]
    for inner in (x for x in s.stages if tile in s.loops(x) and s.reduced(x)):
        return _ask_for_tile(s, stage, tile, s.loops(inner)[s.loops(inner).index(tile) + 1])
    return s


def _ask_for_tile(s: lp.Schedule, stage: str, tile: str, k: str) -> lp.Schedule:
    """The elements of a tile are asked for by the steps of the reduced loop `k` before they are stored, a line now and
    then: all at once would keep what these steps need waiting.
    """
    out = result_of(s, stage)
    if s.why("prefetch", stage, out, tile, 0, over=k) is None:
        return s.prefetch(stage, out, tile, 0, over=k)
    return s.prefetch(stage, out, tile)


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
    if length is None or length <= MAX_UNSPLIT_STEPS:
        return None
    return next((length // n for n in range(-(-length // PART), 17) if length % n == 0), None)


def _chosen_depth(c: Contraction, length: int | None) -> int | None:
    """What the formula says of the reduced loop, or another part of it."""
    parts = [
        length // n
        for n in range(2, 9)
        if length is not None and length % n == 0 and length // n >= MAX_UNSPLIT_STEPS // 8
    ]
    return PART_DEPTH(_depth(length), at=c.stage, among=(None, *parts))


def _block_tiles(count: int | None, tall: int, length: int | None, size: int) -> int:
    """How many of `count` tiles make a block: those by which the busiest thread is done first.

    A part of the second cache holds the panels of a block, or a few more where that shares tiles evenly.
    """
    if count is None or length is None:
        return UNKNOWN
    threads = lp.thread_count()
    held = max(1, lp.caches()[1] // ((L2_BLOCKS if threads == 1 else L2_BLOCKS_SHARED) * tall * length * size))
    blocks = max(threads, min(BLOCKS_PER_THREAD * threads, count * tall // BLOCK_ROWS)) if threads > 1 else 1

    def cost(tiles: int) -> float:
        whole, rest = divmod(count, tiles)
        longest = -(-whole // threads) * tiles + (rest if whole % threads == 0 else 0)
        return longest * (1 + LARGER * (tiles > held)) + BLOCK_START_COST * -(-(whole + (rest > 0)) // threads)

    most = min(-(-count // blocks), held if threads == 1 else held + held // 2)
    return min(range(1, max(1, most) + 1), key=lambda n: (cost(n), n))


def _chunk(s: lp.Schedule, c: Contraction) -> int:
    """Steps of the reduced loop that lie together in panels of the left operand, as they do in its rows.

    A vector of them is then copied at once, where steps in turn would be elements from as many rows.
    """
    depth = extent(s, c.reduced)
    length = None if depth is None else _depth(depth) or depth
    if not c.left.along or length is None or extent(s, c.column) is None:
        return 1
    return next(n for n in CHUNKS if length % n == 0)


@dataclass(frozen=True)
class _Panels:
    """An operand in panels of `width` rows or columns, with `chunk` steps of the reduced loop together."""

    operand: Operand
    width: int
    chunk: int = 1


def _packed(s: lp.Schedule, stage: str, panels: _Panels, at: str | None) -> tuple[lp.Schedule, str]:
    """A copy of an operand in panels, in the type that is added up, if it can be; and what it is called."""
    kind = next(t.dtype.name for t in s.accesses(stage) if t.write)
    how = (stage, panels.operand.buffer, "global")
    wide = s.why("cache_read", *how, at=at, dtype=kind) is None
    s, copy = s.cache_read(*how, at=at, dtype=kind if wide else None).with_stage
    return s.set_layout(copy, panels.operand.panels(panels.width, panels.chunk)), copy


def _filled(s: lp.Schedule, copy: str, panels: _Panels, lanes: int, *, threads: bool = False) -> lp.Schedule:
    """The loops of a copy in panels, one panel at a time; where that would leave a row of the operand for each step of
    the reduced loop, a few steps of all panels, so that few pages are in use at once.
    """
    along, width = panels.operand.along, panels.width
    one, other = s.loops(copy)[-2:]
    x, k = (one, other) if along else (other, one)
    s, (panel, part) = s.split(x, width).with_loops
    outer = panel
    if panels.chunk > 1:
        s, (k, lane) = s.split(k, panels.chunk).with_loops
        s = s.reorder(panel, k, part, lane).unroll(part).vectorize(lane)
    elif along:
        s = s.reorder(panel, k, part).unroll(part)
    else:
        s, (outer, near) = s.split(k, PANEL_STEPS).with_loops
        s = s.reorder(outer, panel, near, part).unroll(near).vectorize(part)
    s = s.parallel(outer) if threads else s
    return s.partition(panel) if panel != outer and s.why("partition", panel) is None else s
