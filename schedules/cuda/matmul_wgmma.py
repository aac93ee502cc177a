"""Contractions of 16-bit floats on Hopper's tensor cores: a block of warpgroups for each tile of the output.

Written with primitives alone. Each warpgroup has 64 rows of the tile's sums, all of its columns, in registers through
all of the reduced loop; `wgmma` takes both operands from shared memory, in swizzled rows of 128 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import loopir as lp

from ..common.contraction import Contraction
from ..common.nest_queries import batched, extent, if_legal, indices_of, iterations, reads_of, result_of
from .matmul_mma import both_whole, contraction_in, read_contraction, shared_tile, tile_of_rows, tiles, vectors
from .row_threads import WARP
from .tile_choice import COPY_VECTOR
from .tma_store import result_bytes, store_boxes, swizzled, tile_of_results

BLOCKS, ENOUGH = ((128, 256), (128, 128), (64, 64)), 120
"""Tiles from the largest, and of how many a GPU of some 130 multiprocessors has enough."""
LEAST_STAGES, MOST_STAGES = 3, 6
"""Steps of the reduced loop that are there at once."""
REGISTERS = {1: (40, 232), 2: (40, 232), 3: (32, 160), 4: (32, 112)}
"""Of a thread that copies and of one that multiplies, by how many warpgroups multiply."""
ROWS_AT_ONCE = 4
"""Rows of results that a warp has under way from shared memory."""
LARGE_TILE = 128
"""Rows and columns of a tile of which a multiprocessor has one at a time."""
WGMMA_ROWS, WARPS, BOX, LEAST_BOX = 64, 4, 256, 8
"""Of one product (PTX ISA, `wgmma.m64`); warps of a warpgroup; rows of a box."""


@dataclass(frozen=True)
class Unit:
    """How elements of a type are called by copies and by products, and how many make 16 bytes."""

    short: str
    name: str
    vector: int

    @property
    def depth(self) -> int:
        """Steps of the reduced loop in one product."""
        return 2 * self.vector

    @property
    def piece(self) -> int:
        """Elements in 128 bytes."""
        return 8 * self.vector


UNITS = {
    "bfloat16": Unit("bf16", "bf16", 8), "float16": Unit("f16", "f16", 8), "float32": Unit("f32", "tf32", 4),
    "int8": Unit("i8", "s8", 16), "float8_e4m3fn": Unit("e4m3", "e4m3", 16), "float8_e5m2": Unit("e5m2", "e5m2", 16),
}  # fmt: skip
"""By dtype. Elements of float32 are those that the program cuts off to TF32; their rows run along the reduced loop, and
those of int8 do."""


def along_rows(s: lp.Schedule, c: Contraction) -> bool:
    """Whether warpgroups multiply the elements of `c` as they lie, which are not of 16 bits."""
    reads = reads_of(s, c.stage)
    kinds = {(t.dtype.name, t.by) for t in reads}
    whole = ({("float32", "tf32_below")}, *({(x, "mul")} for x in ("int8", "float8_e4m3fn", "float8_e5m2")))
    return c.left.along and c.right.along and kinds in whole


def _block(rows: int | None, columns: int | None) -> tuple[int, int]:
    """The largest tile of which there is one for each multiprocessor; 128 x 128 if the sizes are not known."""
    if rows is None or columns is None:
        return BLOCKS[1]
    enough = (b for b in BLOCKS if -(-rows // b[0]) * -(-columns // b[1]) >= ENOUGH)
    return next(enough, BLOCKS[-1])


def _band(rows: int | None, high: int) -> int:
    """Rows of tiles in a band: as many as leave no band half empty."""
    return next(g for g in (8, 4, 2, 1) if g == 1 or (rows is not None and -(-rows // high) % g == 0))


def _stages(block: tuple[int, int], depth: int, results: int) -> int:
    """As many as there is room for of rows of `depth` bytes beside so many bytes of results."""
    shared = lp.machine().shared_per_block - 1024  # barriers, and what swizzled rows are aligned to
    return min(MOST_STAGES, (shared - results) // (sum(block) * depth))


def _fewest(s: lp.Schedule, reduced: str, depth: int, fitting: int, blocks: int) -> int:
    """As many stages as are `fitting`; where `blocks` share multiprocessors, no more than steps of `depth`."""
    length = extent(s, reduced)
    if length is None or blocks <= lp.machine().processors:
        return fitting
    return min(fitting, max(2, -(-length // depth)))


@lp.composite
def matmul_wgmma(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] | None = None,
    depth: int | None = None,
    stages: int | None = None,
    group: int | None = None,
    blocks: int | None = None,
    whole_rows: bool = True,
    whole: bool = False,
    roles: bool | None = None,
    cluster: int = 1,
    alternate: bool = False,
    store: str | None = None,
    within: tuple[str, ...] = (),
) -> lp.Schedule:
    """The contraction `stage`, sums of products of bf16, f16, int8 or TF32, in tiles of `block`, for sm_90a; by
    default the largest of which there are enough for a GPU.

    `stage` is an intermediate that one other stage reads, element by element: its nest gets the blocks and the
    warpgroups, one for each 64 rows, and the sums are made in it, `depth` steps of the reduced loop at a time. The
    operands may lie either way, transposed or not. So many `stages` are in shared memory at once, by default as many as
    fit, or, where blocks share a multiprocessor, as there are steps; copies run two fewer ahead, so that products wait
    for nothing. `group` and `blocks` are those of `matmul_mma.tiles`.

    Results go through shared memory, if there is room, from where rows are written whole, unless `whole_rows` is False.
    If `store` is "boxes", one thread has boxes copied instead, slice by slice, which takes less room; that is the
    default with `roles`, where the array has a tensor map. With `whole`, both operands are first copied into whole
    tiles, with zeros at the edges, so that rows of any length begin where boxes can.

    With `roles`, a warpgroup of its own makes the copies, and each multiprocessor has one block, which takes tile after
    tile; so the copies for a tile begin while the one before it is made and stored. It is the default where copies are
    of boxes, and tiles so large that a multiprocessor has one at a time. The blocks of a `cluster` share the copies of
    columns. With `alternate`, two warpgroups take whole tiles in turn, so that one stores while the other multiplies.
    The stages `within`, which the operands are computed from, are computed in the copies of their tiles, and tiles of
    results are counted as their rows are.
    """
    c, out = read_contraction(s, stage)
    unit, size = _unit_of(s, c)
    depth = depth or unit.piece
    *batch, row, column = s.loops(out)
    rows, columns = extent(s, row), extent(s, column)
    block = block or _block(rows, columns)
    large = stages != 1 and not whole and min(block) >= LARGE_TILE and _boxed(s, c)
    s, (bi, i) = s.split(row, block[0]).with_loops
    s, (bj, j) = s.split(column, block[1]).with_loops
    s = s.reorder(bi, bj, i, j)
    count = iterations(s, (*batch, bi, bj)) or 0
    roles = large and count > 0 if roles is None else roles
    blocks = blocks or (_blocks(count) if roles else None)
    s, at = _on_grid(s, (bi, bj), group or _band(rows, block[0]), blocks, batch, cluster, alternate)
    s = s.compute_at(stage, at).set_scope(stage, "fragment")
    results = 0
    if not alternate:
        store = (store or ("boxes" if roles else "rows")) if whole_rows else None
        vectors = None if within else (columns or 0) % COPY_VECTOR == 0
        s, results = _results_stored(s, stage, out, (at, i), block, store, depth * size, vectors)
    if stages is None:
        stages = _fewest(s, c.reduced, depth, _stages(block, depth * size, results), count * (not roles))
    s = batched(s, batch)
    s, _ = s.split(s.loops(stage)[-1], depth).with_loops
    *_, i, j, ko, kk = s.loops(stage)
    s = steps(s.reorder(ko, i, j, kk), stage, Steps(block, unit, stages, roles, whole, cluster, alternate, within))
    return s.bind(at, "warpgroup") if alternate else s


def _unit_of(s: lp.Schedule, c: Contraction) -> tuple[Unit, int]:
    """How instructions call what `c` multiplies, and the bytes of an element; ScheduleError if none takes these."""
    (dtype,) = {t.dtype for t in s.accesses(c.stage) if t.buffer == c.left.buffer}
    unit = UNITS.get(dtype.name)
    if unit is None or (unit.short == "f32" and any(t.by != "tf32_below" for t in reads_of(s, c.stage))):
        raise lp.ScheduleError(f"{c.stage} multiplies elements that tensor cores do not take in pairs of 16 bits")
    return unit, dtype.bytes


def _results_stored(
    s: lp.Schedule, stage: str, out: str, loops: tuple[str, str], block: tuple[int, int], how: str | None,
    step_bytes: int, vectors: bool | None,
) -> tuple[lp.Schedule, int]:  # fmt: skip
    """`s` with what `out` makes of the sums stored by warpgroups, and the bytes of shared memory that this takes.

    `loops` are that over tiles, in which the sums are made, and that over rows of one. Where `how` is "boxes" or
    "rows", results go through shared memory, if there is room for enough steps of `step_bytes` a row or column of a
    tile beside them. Rows are whole `vectors` or not, or None where several loops of `out` count them.
    """
    at, rows = loops
    (made,) = {t.dtype.bytes for t in s.accesses(out) if t.write}
    boxes = store_boxes(s, stage, out, at, block[0], by_warpgroups, WGMMA_ROWS) if how == "boxes" else None
    if boxes is not None:
        return boxes, result_bytes(*block, made)
    size = block[0] * (block[1] + COPY_VECTOR) * made
    if how is None or _stages(block, step_bytes, size) < LEAST_STAGES:
        return by_warpgroups(s, rows), 0
    return _staged(s, out, at, block) if vectors is None else _results(s, stage, out, at, block, vectors), size


def _boxed(s: lp.Schedule, c: Contraction) -> bool:
    """Whether the rows of both operands are known to begin where boxes can."""
    along = (c.reduced if c.left.along else c.row, c.reduced if c.right.along else c.column)
    return all((extent(s, x) or 1) % COPY_VECTOR == 0 for x in along)


def _blocks(count: int) -> int | None:
    """So many blocks that `count` tiles take as few turns as with one for each multiprocessor, and few of them idle;
    None where there are not more tiles than that."""
    turns = -(-count // lp.machine().processors)
    if turns <= 1:
        return None
    return -(-count // turns)


def _on_grid(
    s: lp.Schedule, loops: tuple[str, str], group: int, blocks: int | None, batch: Sequence[str], cluster: int,
    alternate: bool,
) -> tuple[lp.Schedule, str]:  # fmt: skip
    """As `matmul_mma.tiles`, with `cluster` tiles below one another for the blocks of a cluster."""
    row, column = loops
    if cluster == 1 and not alternate:
        return tiles(s, row, column, group, blocks, batch)
    s, (band, inner) = s.split(row, group).with_loops
    s, (inner, rank) = s.split(inner, cluster, tail="exact").with_loops
    s = s.reorder(band, column, inner, rank)
    s, (tile,) = s.fuse(band, column).with_loops
    s, (tile,) = s.fuse(tile, inner).with_loops
    if blocks is None:
        return s.bind(tile, "blockIdx.x").bind(rank, "cluster"), rank
    s, (turn, tile) = s.split(tile, blocks // cluster).with_loops
    s = s.reorder(tile, rank, turn).bind(tile, "blockIdx.x")
    s = s.bind(rank, "cluster") if cluster > 1 else s
    if not alternate:
        return s, turn
    s, (turn, mine) = s.split(turn, 2).with_loops
    return s, mine


def by_warpgroups(s: lp.Schedule, rows: str) -> lp.Schedule:
    """The nest of loop `rows` by warpgroups, each of as many rows as a product has."""
    s, (warpgroup, _) = s.split(rows, WGMMA_ROWS).with_loops
    return s.bind(warpgroup, "warpgroup")


def _results(s: lp.Schedule, stage: str, out: str, at: str, block: tuple[int, int], whole_vectors: bool) -> lp.Schedule:
    """Results put in shared memory by the warpgroups and copied from there in whole rows: in vectors, or element by
    element where rows do not begin at whole vectors."""
    s, made, copy = tile_of_results(s, stage, out, at)
    tile = result_of(s, made)
    s = s.set_layout(tile, f"lambda x, y: x * {block[1] + COPY_VECTOR} + y")  # rows apart by other banks
    s = by_warpgroups(s, s.loops(made)[-2])
    if not whole_vectors:
        return _row_by_warp(s, copy, block[0] // WGMMA_ROWS)
    s = copy_by_threads(s, copy, block[0] // WGMMA_ROWS, None)
    rows = next(x for x in s.loops(copy) if x not in s.loops(made) and s.loop(x).kind == "serial")
    if (count := extent(s, rows)) is not None and count > ROWS_AT_ONCE and count % ROWS_AT_ONCE == 0:
        s, (_, rows) = s.split(rows, ROWS_AT_ONCE, tail="exact").with_loops
    return s.unroll(rows) if extent(s, rows) is not None else s


def _staged(s: lp.Schedule, out: str, at: str, block: tuple[int, int]) -> lp.Schedule:
    """`_results` of a tile whose rows are several loops of the output, counted together."""
    i, j = s.loops(out)[-2:]
    s, (rows, _) = tile_of_rows(s, out, at, i, j, block[1])
    return copy_by_threads(by_warpgroups(s, rows), out, block[0] // WGMMA_ROWS, None)


def _row_by_warp(s: lp.Schedule, copy: str, groups: int) -> lp.Schedule:
    """The copy of a tile, a row for each warp, whose lanes have neighbouring elements."""
    x, y = s.loops(copy)[-2:]
    s, (x, warp) = s.split(x, WARPS).with_loops
    s, (x, warpgroup) = s.split(x, groups).with_loops
    s, (y, lane) = s.split(y, WARP).with_loops
    s = s.reorder(x, warpgroup, warp, y, lane)
    return s.bind(warpgroup, "warpgroup").bind(warp, "warp.x").bind(lane, "lane").unroll(y)


@dataclass(frozen=True)
class Steps:
    """How the sums of a tile are made: its rows and columns, the elements, and the steps that are in memory at once.

    With `roles`, a warpgroup of its own makes the copies. With `whole`, operands are copied into whole tiles first. As
    many blocks as `cluster` share copies. With `alternate`, each warpgroup has a tile of its own. The stages `within`
    are computed in the copies.
    """

    block: tuple[int, int]
    unit: Unit
    stages: int
    roles: bool
    whole: bool = False
    cluster: int = 1
    alternate: bool = False
    within: tuple[str, ...] = ()

    @property
    def warpgroups(self) -> int:
        """How many multiply a tile."""
        return self.block[0] // WGMMA_ROWS


def steps(s: lp.Schedule, stage: str, how: Steps) -> lp.Schedule:
    """The sums of a tile, whose loops are steps, rows, columns and what is reduced in a step: copies to shared memory,
    and the products."""
    *_, ko, i, j, kk = s.loops(stage)
    unit, stages, depth = how.unit, how.stages, extent(s, kk) or 0
    s, (ki, k) = s.split(kk, unit.depth, tail="exact").with_loops
    s, (wi, i) = s.split(i, WGMMA_ROWS).with_loops  # fewer rows than that are filled up with zeros by `pad`
    s = s.reorder(ko, wi, ki, i, j, k).unroll(ki)
    s = s.unroll(wi) if how.alternate else s.bind(wi, "warpgroup")
    s = both_whole(s, stage) if how.whole else s
    c = contraction_in(s, stage)
    copies: list[str] = []
    for operand in c:
        s, copy = shared_tile(s, stage, operand, ko)
        copies.append(copy)
    for name in how.within:
        s = if_legal(s, "compute_inline", name)
    s = if_legal(s, "pad", stage)  # at the edges: zeros in the tiles, and no guard around a product
    lengths = [n if operand.along else depth for n, operand in zip(how.block, c, strict=True)]
    boxed = True
    for copy, length in zip(copies, lengths, strict=True):
        s = s.set_layout(copy, swizzled(length, unit.vector))
        boxes = boxes_of(s, copy, unit, how.cluster)
        boxed = boxed and boxes is not None
        by = f"cp_async_{unit.short}" if stages > 1 else None
        s = boxes or copy_by_threads(s, copy, how.warpgroups, by, unit.vector, bool(how.within))
    ways = ("" if c[0].along else "_at") + ("_bt" if c[1].along else "")
    s = s.tensorize(i, f"wgmma_m64n{how.block[1]}k{unit.depth}_{unit.name}{ways}")
    if how.roles and boxed and stages > 1:
        registers = REGISTERS[2 if how.alternate else how.warpgroups]
        return s.specialize_warps(ko, stages=stages, registers=registers)
    if stages == 1:
        return s
    # a stage less ahead than there is room for: products are waited for an iteration later, if there are enough stages
    ahead = stages - 1 if extent(s, ko) == stages else max(1, stages - 2)  # where none is filled again
    return s.pipeline(ko, stages=stages, ahead=ahead)


def boxes_of(s: lp.Schedule, copy: str, unit: Unit, cluster: int) -> lp.Schedule | None:
    """The copy of a tile as boxes of 128 bytes a row, begun by one thread; None if it is no such copy.

    Boxes are as high as they can be: rows that pages hold so many of, at places found by indices, are boxes of a page.
    """
    s = _multicast_copy(s, copy, cluster, unit.piece) if cluster > 1 else s
    x, y = s.loops(copy)[-2:]
    s, (piece, y) = s.split(y, unit.piece, tail="exact").with_loops
    for high in _heights(s, copy, x):
        made, (part, inner) = s.split(x, high, tail="exact").with_loops
        made = made.reorder(piece, part, inner, y).unroll(piece).unroll(part)
        box = f"tma_load_{high}x{unit.piece}_{unit.short}"
        if made.why("tensorize", inner, box) is None:
            return made.tensorize(inner, box)
    return None


def _heights(s: lp.Schedule, copy: str, row: str) -> list[int]:
    """The heights that boxes of a copy of rows `row` may have, from the most: all rows, or those of a page, where an
    index in memory that is found by the page says where its rows are."""
    rows, reads = extent(s, row) or BOX, reads_of(s, copy)
    indexed = any(indices_of(t, reads) for t in reads)
    digits = [x for t in reads for d in t.subscripts for x in d.digits] if indexed else []
    pages = {x.weight for x in digits if x.loop == row and x.weight < rows and rows % x.weight == 0}
    return [min(rows, BOX), *sorted((x for x in pages if x <= BOX and x % LEAST_BOX == 0), reverse=True)]


def _multicast_copy(s: lp.Schedule, copy: str, cluster: int, piece: int) -> lp.Schedule:
    """The copy of a tile in as many parts as a cluster has blocks, if all copy the same: each makes one for all."""
    x, y = s.loops(copy)[-2:]
    for loop, least in ((y, piece), (x, COPY_VECTOR)):
        size = (extent(s, loop) or 0) // cluster
        if size and size % least == 0:
            parted, (share, inner) = s.split(loop, size, tail="exact").with_loops
            parted = parted.reorder(share, x, inner) if loop == y else parted
            if parted.why("multicast", share) is None:
                return parted.multicast(share)
    return s


def copy_by_threads(
    s: lp.Schedule, copy: str, groups: int, instruction: str | None, vector: int = COPY_VECTOR, filled: bool = False
) -> lp.Schedule:
    """The copy of a tile by all threads, a vector each at a time, perhaps by an instruction; vectors of a border are
    `filled` with zeros, each as a whole."""
    s, (flat,) = s.fuse(*s.loops(copy)[-2:]).with_loops
    s, (flat, element) = s.split(flat, vector, tail="exact").with_loops
    s, (flat, lane) = s.split(flat, WARP).with_loops
    s, (flat, warp) = s.split(flat, WARPS).with_loops
    s, (_, warpgroup) = s.split(flat, groups).with_loops
    s = s.bind(warpgroup, "warpgroup").bind(warp, "warp.x").bind(lane, "lane")
    return vectors(s, element, instruction, filled=filled)
