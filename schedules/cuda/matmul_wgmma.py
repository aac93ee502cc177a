"""Contractions of 16-bit floats on Hopper's tensor cores: a block of warpgroups for each tile of the output.

Written with primitives alone. Each warpgroup has 64 rows of the tile's sums, all of its columns, in registers through
all of the reduced loop; `wgmma` takes both operands from shared memory, in swizzled rows of 128 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import loopir as lp

from ..common.contraction import Contraction
from ..common.nest_queries import batched, extent, if_legal, iterations, reads_of, result_of
from .matmul_mma import both_whole, contraction_in, read_contraction, shared_tile, tile_of_rows, tiles, vectors
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
ROWS, WARP_LANES, WARPS, COPY_VECTOR, BOX = 64, 32, 4, 8, 256
"""Of one product; lanes of a warp, warps of a warpgroup; elements of 16 bits in a vector; rows of a box."""


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
    """The contraction `stage`, sums of products of bf16, f16, int8 or TF32, in tiles of `block`, for sm_90a; unless
    told, the largest of which there are enough for a GPU.

    `stage` is an intermediate that one other stage reads, element by element: its nest gets the blocks and the
    warpgroups, one for each 64 rows, and the sums are made in it, `depth` steps of the reduced loop at a time. The
    operands may lie either way, transposed or not. As many `stages` as there is room for,
    unless told, are there at once, and copies run two fewer ahead, so that products wait for nothing. `group` and
    `blocks` are those of `matmul_mma.tiles`. What is made of the sums goes through shared memory, if there is room,
    from where rows are written whole, unless `whole_rows` is False; or one thread has boxes copied, slice by slice,
    which takes less room: if `store` is "boxes", and not "rows", and unless told with `roles`, where a tensor map tells
    of the array. With `whole`, both operands are first copied into whole tiles, with
    zeros at the edges, so that rows of any length begin where boxes can.

    With `roles`, a warpgroup of its own makes the copies, and each multiprocessor has one block, which takes tile after
    tile; so the copies for a tile begin while the one before it is made and stored. That is so unless told for tiles so
    large that a multiprocessor has one at a time, if copies are of boxes. With a `cluster`, that many blocks share the
    copies of columns. With `alternate`, two warpgroups have tiles in turn, each a whole one, so that what is made of
    one's sums is made while the other multiplies. The stages `within`, which the operands are computed from, are
    computed in the copies of their tiles, and tiles of results are counted as their rows are.
    """
    c, out = read_contraction(s, stage)
    (dtype,) = {t.dtype for t in s.accesses(stage) if t.buffer == c.left.buffer}
    unit = UNITS.get(dtype.name)
    if unit is None or (unit.short == "f32" and any(t.by != "tf32_below" for t in s.accesses(stage) if not t.write)):
        raise lp.ScheduleError(f"{stage} multiplies elements that tensor cores do not take in pairs of 16 bits")
    depth = depth or unit.piece
    *batch, row, column = s.loops(out)
    block = block or _block(extent(s, row), extent(s, column))
    (made,) = {t.dtype.bytes for t in s.accesses(out) if t.write}
    whole_vectors = (extent(s, column) or COPY_VECTOR) % COPY_VECTOR == 0
    group = group or _band(extent(s, row), block[0])
    large = min(block) >= LARGE_TILE and stages != 1 and not whole and _boxed(s, c)
    s, (bi, i) = s.split(row, block[0]).with_loops
    s, (bj, j) = s.split(column, block[1]).with_loops
    s = s.reorder(bi, bj, i, j)
    there = iterations(s, (*batch, bi, bj)) or 0
    roles = large and there > 0 if roles is None else roles
    blocks = _blocks(there) if roles and blocks is None and there > lp.machine().processors else blocks
    if cluster > 1 or alternate:
        s, at = _clustered(s, bi, bj, group, blocks, cluster, alternate)
    else:
        s, at = tiles(s, bi, bj, group, blocks, batch)
    whole_rows = whole_rows and not alternate
    s = s.compute_at(stage, at).set_scope(stage, "fragment")
    wanted = whole_rows and (store == "boxes" or (store is None and roles))
    boxes = store_boxes(s, stage, out, at, block[0], by_warpgroups, ROWS) if wanted else None
    results = result_bytes(*block, made) if boxes else block[0] * (block[1] + COPY_VECTOR) * made
    whole_rows = whole_rows and _stages(block, depth * dtype.bytes, results) >= LEAST_STAGES
    stages = stages or _stages(block, depth * dtype.bytes, results if boxes or whole_rows else 0)
    if boxes is not None:
        s = boxes
    elif whole_rows:
        s = _staged(s, out, at, block) if within else _results(s, stage, out, at, block, whole_vectors)
    elif not alternate:
        s = by_warpgroups(s, i)
    s = batched(s, [x for x in batch if x in s.loops(out)])
    s = _sums(s, stage, block, depth, unit, stages, whole, roles, cluster, alternate, within)
    return s.bind(at, "warpgroup") if alternate else s


def _boxed(s: lp.Schedule, c: Contraction) -> bool:
    """Whether the rows of both operands are known to begin where boxes can."""
    along = (c.reduced if c.left.along else c.row, c.reduced if c.right.along else c.column)
    return all((extent(s, x) or 1) % COPY_VECTOR == 0 for x in along)


def _blocks(count: int) -> int:
    """So many blocks that `count` tiles take as few turns as with one for each multiprocessor, and few of them idle."""
    turns = -(-count // lp.machine().processors)
    return -(-count // turns)


def _clustered(
    s: lp.Schedule, row: str, column: str, group: int, blocks: int | None, cluster: int, alternate: bool
) -> tuple[lp.Schedule, str]:
    """As `matmul_mma.tiles`, with `cluster` tiles below one another for the blocks of a cluster."""
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
    s, (warpgroup, _) = s.split(rows, ROWS).with_loops
    return s.bind(warpgroup, "warpgroup")


def _results(s: lp.Schedule, stage: str, out: str, at: str, block: tuple[int, int], whole_vectors: bool) -> lp.Schedule:
    """What is made of the sums, put in shared memory by those who hold them and copied from there in whole rows, in
    vectors, or element by element where rows do not begin right."""
    s, made, copy = tile_of_results(s, stage, out, at)
    tile = result_of(s, made)
    s = s.set_layout(tile, f"lambda x, y: x * {block[1] + COPY_VECTOR} + y")  # rows apart by other banks
    s = by_warpgroups(s, s.loops(made)[-2])
    if not whole_vectors:
        return _row_by_warp(s, copy, block[0] // ROWS)
    s = copy_by_threads(s, copy, block[0] // ROWS, None)
    rows = next(x for x in s.loops(copy) if x not in s.loops(made) and s.loop(x).kind == "serial")
    if (count := extent(s, rows)) is not None and count > ROWS_AT_ONCE and count % ROWS_AT_ONCE == 0:
        s, (_, rows) = s.split(rows, ROWS_AT_ONCE, tail="exact").with_loops
    return s.unroll(rows) if extent(s, rows) is not None else s


def _staged(s: lp.Schedule, out: str, at: str, block: tuple[int, int]) -> lp.Schedule:
    """`_results` of a tile whose rows are several loops of the output, counted together."""
    i, j = s.loops(out)[-2:]
    s, (rows, _) = tile_of_rows(s, out, at, i, j, block[1])
    return copy_by_threads(by_warpgroups(s, rows), out, block[0] // ROWS, None)


def _row_by_warp(s: lp.Schedule, copy: str, groups: int) -> lp.Schedule:
    """The copy of a tile, a row for each warp, whose lanes have neighbouring elements."""
    x, y = s.loops(copy)[-2:]
    s, (x, warp) = s.split(x, WARPS).with_loops
    s, (x, warpgroup) = s.split(x, groups).with_loops
    s, (y, lane) = s.split(y, WARP_LANES).with_loops
    s = s.reorder(x, warpgroup, warp, y, lane)
    return s.bind(warpgroup, "warpgroup").bind(warp, "warp.x").bind(lane, "lane").unroll(y)


def _sums(
    s: lp.Schedule,
    stage: str,
    block: tuple[int, int],
    depth: int,
    unit: Unit,
    stages: int,
    whole: bool,
    roles: bool,
    cluster: int,
    alternate: bool,
    within: tuple[str, ...],
) -> lp.Schedule:
    """The tile of sums: copies to shared memory, and the products."""
    s, (_, _) = s.split(s.loops(stage)[-1], depth).with_loops
    *_, i, j, ko, kk = s.loops(stage)
    return steps(s.reorder(ko, i, j, kk), stage, block, unit, stages, whole, roles, cluster, alternate, within)


def steps(
    s: lp.Schedule,
    stage: str,
    block: tuple[int, int],
    unit: Unit,
    stages: int,
    whole: bool,
    roles: bool,
    cluster: int = 1,
    alternate: bool = False,
    within: tuple[str, ...] = (),
) -> lp.Schedule:
    """The sums of a tile, whose loops are steps, rows, columns and what is reduced in a step: copies to shared memory,
    and the products."""
    *_, ko, i, j, kk = s.loops(stage)
    depth = extent(s, kk) or 0
    s, (ki, k) = s.split(kk, unit.depth, tail="exact").with_loops
    s, (wi, i) = s.split(i, ROWS).with_loops  # fewer rows than that are filled up with zeros by `pad`
    s = s.reorder(ko, wi, ki, i, j, k).unroll(ki)
    s = s.unroll(wi) if alternate else s.bind(wi, "warpgroup")
    s = both_whole(s, stage) if whole else s
    c = contraction_in(s, stage)
    copies: list[str] = []
    for operand in c:
        s, copy = shared_tile(s, stage, operand, ko)
        copies.append(copy)
    for name in within:
        s = if_legal(s, "compute_inline", name)
    s = if_legal(s, "pad", stage)  # at the edges: zeros in the tiles, and no guard around a product
    for operand, copy in zip(c, copies, strict=True):
        s = s.set_layout(copy, swizzled(block[copies.index(copy)] if operand.along else depth, unit.vector))
        boxes = boxes_of(s, copy, unit, cluster)
        roles = roles and boxes is not None
        by = f"cp_async_{unit.short}" if stages > 1 else None
        s = boxes or copy_by_threads(s, copy, block[0] // ROWS, by, unit.vector, bool(within))
    ways = ("" if c[0].along else "_at") + ("_bt" if c[1].along else "")
    s = s.tensorize(i, f"wgmma_m64n{block[1]}k{unit.depth}_{unit.name}{ways}")
    if roles and stages > 1:
        return s.specialize_warps(ko, stages=stages, registers=REGISTERS[2 if alternate else block[0] // ROWS])
    # a stage less ahead than there is room for: products are waited for an iteration later, if there are enough stages
    return s.pipeline(ko, stages=stages, ahead=max(1, stages - 2)) if stages > 1 else s


def boxes_of(s: lp.Schedule, copy: str, unit: Unit, cluster: int) -> lp.Schedule | None:
    """The copy of a tile as boxes of 128 bytes a row, begun by one thread; None if it is no such copy."""
    s = _shared(s, copy, cluster, unit.piece) if cluster > 1 else s
    x, y = s.loops(copy)[-2:]
    s, (piece, y) = s.split(y, unit.piece, tail="exact").with_loops
    s, (part, x) = s.split(x, high := min(extent(s, x) or BOX, BOX), tail="exact").with_loops
    s = s.reorder(piece, part, x, y).unroll(piece).unroll(part)
    box = f"tma_load_{high}x{unit.piece}_{unit.short}"
    return s.tensorize(x, box) if s.why("tensorize", x, box) is None else None


def _shared(s: lp.Schedule, copy: str, cluster: int, piece: int) -> lp.Schedule:
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
    s, (flat, lane) = s.split(flat, WARP_LANES).with_loops
    s, (flat, warp) = s.split(flat, WARPS).with_loops
    s, (_, warpgroup) = s.split(flat, groups).with_loops
    s = s.bind(warpgroup, "warpgroup").bind(warp, "warp.x").bind(lane, "lane")
    return vectors(s, element, instruction, filled=filled)
