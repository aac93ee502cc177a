"""Products on a GPU in tiles: which stages are worth tiles, and on which units each is multiplied.

Tensor cores take what they can, by warpgroups or warps; other products of float32 take ordinary units, in tiles of the
largest size that gives each processor a block.
"""

from __future__ import annotations

from typing import Any

import loopir as lp

from ..common.contraction import LARGE_MATRIX, Contraction, contraction, matmul_gpu, worth_tiling
from ..common.fusion import epilogue
from ..common.nest_queries import extent
from ..common.operands import alone, computed, multiplied
from ..common.products import filled, followed, several
from .deep_contraction import in_parts, part_by_threads
from .matmul_mma import matmul_mma, pairs, rounded
from .matmul_simt import matmul_simt
from .matmul_split_k import matmul_split
from .matmul_stream_k import matmul_stream
from .matmul_wgmma import along_rows, matmul_wgmma
from .recipe_table import Recipe, first_of, legal, lowered
from .tile_choice import raw_tile, shallow, sizes_of, tensor_tile, warpgroup_tile

THIN, SHORT_ROWS, HIGH, VECTOR = 16, 32, 64, 8
"""How long each loop of a contraction is at least that is worth tiles, on tensor cores and on others; rows of a tile of
warpgroups, and elements of 16 bits whose rows boxes can begin with."""
SIMT_TILES = (64, 64), (64, 32)
"""Tiles of float32 products that are no whole tiles, on ordinary units."""


def is_tiled(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a contraction whose operands are used often enough to be brought near in tiles."""
    c = contraction(s, stage)
    if c is None:
        return False
    if pairs(s, c):  # tiles of few rows, columns or steps are filled up
        return worth_tiling(s, c, 2) and sum((extent(s, x) or THIN) >= THIN for x in (c.row, c.column, c.reduced)) > 1
    return worth_tiling(s, c, THIN if rounded(s, c) else SHORT_ROWS)


def is_product(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` multiplies, over one loop or several, operands that are used often enough for tiles."""
    return is_tiled(s, stage) or several(s, stage)


def is_in_place(s: lp.Schedule, c: Contraction) -> bool:
    """Whether tensor cores take both operands of `c` from memory: 16 bits, of which nothing is made first."""
    return pairs(s, c) and multiplied(s, c.stage) >= {c.left.buffer, c.right.buffer}


def stored_operands(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with what `stage` multiplies computed by stages of their own, where tensor cores take the product then."""
    c = contraction(s, stage)
    if c is not None and (is_in_place(s, c) or rounded(s, c) or along_rows(s, c)):
        raise lp.ScheduleError(f"{stage} multiplies its operands as they are in memory")
    made = computed(s, stage)
    c = None if made is None else contraction(made, stage)
    if made is None or c is None or not pairs(made, c) or not is_tiled(made, stage):
        raise lp.ScheduleError(f"{stage} is no product for tensor cores with stored operands")
    return made


def contraction_in_parts(s: lp.Schedule, stage: str, parts: int) -> lp.Schedule:
    """A contraction of many terms as parts and their sum; those of whole tiles of float32 are scheduled at once, before
    what copies an operand is a launch."""
    known = s.stages
    s = legal(s, in_parts, stage, parts) or s
    for part in (x for x in s.stages if x not in known):
        s = lowered(s, part_by_threads, part) or s
    return s


def tensor_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of 16-bit floats, by warpgroups where it has rows for them."""
    s, stage = alone(s, stage)
    c = contraction(s, stage)
    assert c is not None
    deep = extent(s, c.reduced) or THIN
    flat = shallow(sizes_of(s, c))  # tiles of warps then write whole rows of results as fast as memory takes them
    tall = lp.machine().has("wgmma") and not flat and (extent(s, c.row) or HIGH) >= HIGH
    if tall and (deep >= THIN or deep % VECTOR == 0):
        options = warpgroup_tile(s, c)
        if "rest" in options and (made := lowered(s, matmul_stream, stage, **options)) is not None:
            return made
        options = {**warpgroup_tile(s, c, streamed=False), "whole": not _whole_vectors(s, c)}
        schedule = matmul_split if "parts" in options else matmul_wgmma
        if (made := lowered(s, schedule, stage, **options)) is not None:
            return made
    options, within = tensor_tile(s, c), producers_of_right(s, stage)
    near = raw_tile(s, c) if within else None
    made = None if near is None else lowered(s, matmul_mma, stage, **near, within=within, near=True)
    if made is not None:
        return made
    if "parts" in options and not within:
        return matmul_split(s, stage, **options)
    staged = options.pop("staged", False)
    options = _in_one(options)
    made = lowered(s, matmul_mma, stage, **options, staged=True, within=within) if staged else None
    return made or matmul_mma(s, stage, **options, within=within)


def _in_one(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `matmul_mma` among those of `matmul_split`: the reduced loop is left in one."""
    return {x: y for x, y in options.items() if x not in ("parts", "warpgroups")}


def producers_of_right(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """What makes the right operand of a product of few rows, which is made where tiles of it are copied, then."""
    c = contraction(s, stage)
    if c is None or not pairs(s, c) or not is_tiled(s, stage) or (extent(s, c.row) or HIGH) >= HIGH:
        return ()
    made = filled(s, [stage])
    return tuple(x for x in made if any(t.write and t.buffer == c.right.buffer for t in s.accesses(x)))


def is_whole_tiles(s: lp.Schedule, c: Contraction) -> bool:
    """Whether a product of float32 is known to be made of whole tiles, of which there are enough for a GPU."""
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    float32 = all(t.dtype.name == "float32" for t in s.accesses(c.stage))
    if rows is None or columns is None or depth is None or c.batch or not float32:
        return False
    return rows % 128 == columns % 128 == depth % 32 == 0 and rows * columns >= LARGE_MATRIX**2


def filled_tile(s: lp.Schedule, c: Contraction) -> dict[str, tuple[int, int]] | None:
    """The tile of a product of float32 whose sizes are no whole tiles, which are filled up: of those that give each
    processor a block the largest; None where none does."""
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    float32 = all(t.dtype.name == "float32" for t in s.accesses(c.stage))
    if rows is None or columns is None or c.batch or not float32 or min(rows, columns, depth or 0) < HIGH:
        return None
    tiles = [x for x in SIMT_TILES if -(-rows // x[0]) * -(-columns // x[1]) >= lp.machine().processors]
    return {"block": tiles[0], "part": (4, tiles[0][1] // 8)} if tiles else None


def _tf32(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product that the program asks for in TF32; vectors have half as many elements as those of 16 bits."""
    s, stage, _ = followed(s, stage)
    c = contraction(s, stage)
    assert c is not None
    options = _in_one(tensor_tile(s, c))
    options |= {"depth": options["depth"] // 2, "whole": False}
    return matmul_mma(s, stage, **options)


def _along_rows(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of int8 or of TF32 on warpgroups, whose sums are copied out if nothing else is made of them."""
    s, stage, _ = followed(s, stage)
    return matmul_wgmma(s, stage)


def _whole_vectors(s: lp.Schedule, c: Contraction) -> bool:
    """Whether no row of the operands is known to start where vectors of 16 bytes cannot."""
    vector = 16 // s.buffer(c.right.buffer).dtype.bytes
    along = (c.reduced if c.left.along else c.row, c.reduced if c.right.along else c.column)
    return all(n is None or n % vector == 0 for n in (extent(s, x) for x in along))


def _whole_tiles(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of float32 in whole tiles of ordinary units."""
    made = lowered(s, matmul_simt, stage, turn=True)
    return epilogue(made if made is not None else matmul_gpu(s, stage), stage)


def _filled_tiles(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of float32 in tiles that are filled up."""
    c = contraction(s, stage)
    tile = None if c is None else filled_tile(s, c)
    if tile is None:
        raise lp.ScheduleError(f"no tile of {stage} gives each processor a block")
    return epilogue(matmul_simt(s, stage, block=tile["block"], part=tile["part"]), stage)


def _any_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product in tiles, with its epilogue."""
    return epilogue(matmul_gpu(s, stage), stage)


def _contraction_that(holds: Any) -> Any:
    """A condition of a stage, from one of a Schedule and a contraction."""

    def matches(s: lp.Schedule, stage: str) -> bool:
        c = contraction(s, stage)
        return c is not None and bool(holds(s, c))

    return matches


def _by_warpgroups(s: lp.Schedule, c: Contraction) -> bool:
    return lp.machine().has("wgmma") and along_rows(s, c)


PRODUCTS = (
    Recipe("TF32 on tensor cores", _contraction_that(rounded), _tf32),
    Recipe("int8 and TF32 by warpgroups", _contraction_that(_by_warpgroups), _along_rows),
    Recipe("16 bits on tensor cores", _contraction_that(pairs), tensor_product),
    Recipe("whole tiles of float32", _contraction_that(is_whole_tiles), _whole_tiles, checked=False),
    Recipe("filled tiles of float32", _contraction_that(filled_tile), _filled_tiles),
    Recipe("tiles of any type", lambda s, stage: True, _any_product, checked=False),
)
"""How a contraction that is worth tiles is multiplied, the fastest units first."""
multiply = first_of(PRODUCTS)
