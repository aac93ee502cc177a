"""Which tile of a product a block of warps takes, from a formula: no search, and no table of shapes.

A tile of m x n costs its multiprocessor, for each step of the reduced loop, the cycles in which tensor cores multiply
it and those in which its operands come from the cache; the two overlap in part. Some tiles are done one after the other
by each multiprocessor: as many as there are, divided by the multiprocessors, rounded up. So small tiles fill a GPU, and
large ones spare its memory; the least sum is taken. The numbers were measured (benchmarks/notes/gpu_matmul.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import loopir as lp

from ..common.contraction import Contraction
from ..common.knobs import Knob
from ..common.nest_queries import extent

OVERLAP = 0.8
"""What part of the time of products and of loads, added, a step of a tile takes: they overlap in part."""
START = 5000
"""Cycles before the first product of a block, and after its last."""
COPY = 10000
"""Cycles that a kernel takes which copies an operand, beside those for its bytes."""
BYTES_IN_FLIGHT = 64 * 1024
"""Bytes that a multiprocessor has to have asked for, to get its share of what memory gives."""
SHARED = 200 * 1024
"""Bytes of shared memory for the stages of a tile, at most."""
THIN, THIN_TILES_PER_PROCESSOR, LONGEST = (16, 32), 3, 6
"""A tile of few rows; how many of them a multiprocessor has side by side, and the most stages of one."""
NARROW, SHALLOW = (16, 16), (64, 64, 16)
"""The tile of few columns; that of few steps of the reduced loop, and how many of these it has."""
COPY_VECTOR = 8
"""Elements of 16 bits in a vector of 16 bytes, which is what boxes can begin with."""
RAW = (32, (512, 256, 128, 64, 32))
"""Columns of a tile whose right operand is made from other elements, and steps of the reduced loop."""
FLAT = (((128, 16), (4, 1)), ((128, 32), (4, 2)), ((64, 64), (2, 2)))
"""Tiles of products whose reduced loop is one step, by how many columns there are, and their warps."""
ONE_STEP = (16, 32, 64)
"""The steps that such a loop is filled up to; as many as the last for no more columns than a tile has."""
ENOUGH = 1024
"""Rows of which there are many."""
FEW_ROW_TILE: dict[str, Any] = {
    "block": (32, 16),
    "warps": (2, 1),
    "depth": 128,
    "stages": 4,
    "parts": 4,
    "warpgroups": False,
}
"""How up to 16 columns of many rows are made, and up to 32, with a tile as wide, of some: in parts of many steps."""
LEAST_STEPS = 128
"""Steps of the reduced loop that a part of it has at least."""
BLOCK_TILE = Knob("tile", "rows and columns of the tile of a block", lambda formula: (), 0.05)
MOST_TILES = 6
"""Tiles that are tried besides the formula's: the cheapest by it."""
WARPGROUP_TILES = ((128, 256), (128, 192), (128, 128), (64, 256), (64, 128), (128, 64))
"""Tiles of warpgroups that the tuner tries besides the formula's."""
DEEP_SIDES, DEEP_PARTS = (32, 64, 128), (1, 2, 4)
"""Of few results of many terms: rows and columns of tiles, and how many parts of tiles a processor has."""
UNKNOWN = 4096
"""What a size that is not known is taken for."""

BLOCKS = {
    (128, 256): (2, 4), (256, 128): (4, 2), (128, 128): (2, 2), (128, 64): (2, 2), (64, 128): (2, 2), (64, 64): (2, 2),
    (32, 128): (1, 4), (32, 64): (1, 2), (32, 32): (1, 2), (16, 64): (1, 2), (16, 32): (1, 2),
}  # fmt: skip
"""The warps of each tile: as few as leave each of them registers for its part."""


@dataclass(frozen=True)
class Sizes:
    """Of a product, each None where it is not known; `batch` of them."""

    rows: int | None
    columns: int | None
    depth: int | None
    batch: int = 1


def sizes_of(s: lp.Schedule, c: Contraction) -> Sizes:
    """What is known of the contraction `c`."""
    batch = 1
    for loop in c.batch:
        batch *= extent(s, loop) or 1
    return Sizes(extent(s, c.row), extent(s, c.column), extent(s, c.reduced), batch)


def tensor_tile(s: lp.Schedule, c: Contraction) -> dict[str, Any]:
    """The options of `matmul_mma` for the contraction `c`."""
    sizes = sizes_of(s, c)
    options = choice(sizes, c.right.along)
    if "group" not in options or None in (sizes.rows, sizes.columns, sizes.depth):
        return options  # there is no formula of tiles that others could be priced by
    known = replace(sizes, rows=max(sizes.rows or 0, THIN[0]))
    fits = [b for b in BLOCKS if b[0] <= (known.rows or 0) and b[1] <= (sizes.columns or 0)]
    among = sorted(fits, key=lambda b: cycles(known, b))[:MOST_TILES]
    block = BLOCK_TILE(options["block"], at=c.stage, among=among)
    if block == options["block"]:
        return options
    depth = _depth(known, block)
    fit = (sizes.depth or 0) % depth == 0 and all(
        (n or 0) % size == 0 for n, size in zip((sizes.rows, sizes.columns), block, strict=True)
    )
    return {**options, "block": block, "warps": BLOCKS[block], "depth": depth, "whole": not fit, "group": 1,
            "stages": _stages(known, block, depth)}  # fmt: skip


def raw_tile(s: lp.Schedule, c: Contraction) -> dict[str, Any] | None:
    """The options of `matmul_mma` for few rows by a matrix whose elements are made from others, tiles of which are
    copied as they lie; None where they do not come in whole tiles.

    Four warps have 8 columns each, and steps are deep: what is read is short, and each element is made by its lane.
    """
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None or columns % COPY_VECTOR:
        return None
    high = next((n for n in (16, 32) if rows <= n), 64)
    steps = next((n for n in RAW[1] if depth % n == 0), None)
    tile = {"block": (high, RAW[0]), "warps": (max(1, high // 32), 4), "depth": steps, "stages": 3}
    return tile if steps is not None else None


def choice(sizes: Sizes, along: bool = True) -> dict[str, Any]:
    """The options of `matmul_mma` for products of `sizes`, of 32 columns or more: the cheapest tile.

    A tile is no larger than the product, or has 16 rows; of two that cost the same, the larger one is taken. Thin
    tiles of a right operand whose rows do not run `along` the reduced loop are twice as wide, so that a row of them is
    whole lines of memory, and there are as many for the multiprocessors in two parts of the reduced loop, by the
    options of `matmul_split`.
    """
    if sizes.rows is None or sizes.columns is None or sizes.depth is None:
        return {"block": (128, 128), "warps": (2, 2), "depth": 32, "stages": 4}
    if (special := _special_tile(sizes, sizes.rows, sizes.columns, sizes.depth)) is not None:
        return special
    rows, columns = max(sizes.rows, THIN[0]), sizes.columns
    sides, sizes = (sizes.rows, columns), replace(sizes, rows=rows)
    narrow = [NARROW] if columns < THIN[1] else []
    fits = narrow or [b for b in BLOCKS if b[0] <= rows and b[1] <= columns] or [THIN]
    block = min(fits, key=lambda b: (cycles(sizes, b), -b[0] * b[1]))
    if block[0] == THIN[0] and not narrow:  # memory decides: twice as wide where each multiprocessor has one tile then
        wide = (THIN[0], 2 * THIN[1])
        one = wide in fits and _tile_count(sizes, wide) <= lp.machine().processors < _tile_count(sizes, THIN)
        block = wide if one else THIN
        if not along and not one and _halves(sizes):
            return {"block": wide, "warps": BLOCKS[wide], "depth": 128, "stages": 4, "parts": 2, "warpgroups": False}
    depth = _depth(sizes, block)
    return {
        "block": block, "warps": BLOCKS.get(block, (1, 1)), "depth": depth, "stages": _stages(sizes, block, depth),
        "whole": not _is_whole(sides, sizes.depth or 0, block, depth), "group": _band(rows, columns, block[0]),
    }  # fmt: skip


def _special_tile(sizes: Sizes, rows: int, columns: int, depth: int) -> dict[str, Any] | None:
    """The options for products of one step, of few columns, or of few steps; None for all others."""
    if shallow(sizes):
        block, warps = next((x for x in FLAT if columns <= x[0][1]), FLAT[-1])
        steps = next(n for n in ONE_STEP if depth <= n)
        return {"block": block, "warps": warps, "depth": steps, "stages": 1, "staged": True}
    high, wide = FEW_ROW_TILE["block"]
    if columns <= THIN[1] and rows >= ENOUGH and depth % 2048 == 0 and sizes.batch == 1:
        if columns <= wide:
            return FEW_ROW_TILE
        if rows <= 8 * ENOUGH:
            return {**FEW_ROW_TILE, "block": (high, THIN[1])}
    if depth < SHALLOW[2]:  # the output is what there is most of
        return {"block": SHALLOW[:2], "warps": BLOCKS[SHALLOW[:2]], "depth": SHALLOW[2], "stages": 1}
    return None


def _band(rows: int, columns: int, high: int) -> int:
    """Rows of tiles in a band: several, of many results whose bands are all full."""
    return 8 if rows * columns >= 1 << 22 and rows % (8 * high) == 0 else 1


def _is_whole(sides: tuple[int, int], depth: int, block: tuple[int, int], step: int) -> bool:
    """Whether whole steps and tiles make up a product; rows and columns that one tile has too many are zeros."""
    return depth % step == 0 and all(n % size == 0 or n < size for n, size in zip(sides, block, strict=True))


def alternatives(sizes: Sizes, base: dict[str, Any]) -> list[dict[str, Any]]:
    """Options of `matmul_mma`, or of `matmul_split`, that may be faster than `base` for products of `sizes`.

    Those are for products that do not come in whole tiles, whose edges are then filled up as tiles are copied, and for
    those of fewer tiles than processors, whose reduced loop is then cut in parts. Prices decide.
    """
    if sizes.rows is None or sizes.columns is None or sizes.depth is None or base.get("staged"):
        return []
    found: list[dict[str, Any]] = []
    parts, ragged = base.get("parts", 1), bool(base.get("whole"))
    for block in dict.fromkeys((base["block"], *_smaller(sizes, base["block"]))):
        tiles = _tile_count(sizes, block)
        if ragged or block != base["block"]:
            depth = 128 if min(block) <= THIN[1] else 64
            one = {"block": block, "warps": BLOCKS.get(block, (1, 1)), "depth": depth, "group": 1, "whole": False}
            found.append(one | {"stages": max(2, _stages(sizes, block, depth))})
        if 2 * tiles * parts <= lp.machine().processors and sizes.batch == 1:
            found += [_parted(sizes, block, n) for n in part_counts(sizes.depth, lp.machine().processors // tiles)]
    return found


def in_more_parts(sizes: Sizes, base: dict[str, Any]) -> list[dict[str, Any]]:
    """The options `base` with the reduced loop in parts, where there are fewer tiles than two for each processor."""
    tiles, most = tile_count(sizes, base), 2 * lp.machine().processors
    if sizes.depth is None or sizes.batch > 1 or 2 * tiles > most:
        return []
    return [base | {"parts": n, "warpgroups": False} for n in part_counts(sizes.depth, most // tiles)]


def tile_count(sizes: Sizes, options: dict[str, Any]) -> int:
    """How many tiles, or parts of tiles, a product of `sizes` has by these options."""
    return _tile_count(sizes, options.get("block", HIGH)) * options.get("parts", 1)


def _smaller(sizes: Sizes, block: tuple[int, int]) -> list[tuple[int, int]]:
    """The tile of as many rows as `sizes` need that is next smaller than `block`, where processors have none to do."""
    if 2 * _tile_count(sizes, block) > lp.machine().processors:
        return []
    rows = sizes.rows or UNKNOWN
    return [b for b in BLOCKS if b[0] <= max(rows, THIN[0]) and b[0] * b[1] * 2 == block[0] * block[1]]


def part_counts(depth: int, most: int) -> list[int]:
    """Into how many parts a reduced loop of `depth` is cut: a few, about as many as `most`, and between."""
    last = min(most, depth // LEAST_STEPS)
    return sorted({2, round((2 * last) ** 0.5), last}) if last >= 2 else []


def _parted(sizes: Sizes, block: tuple[int, int], parts: int) -> dict[str, Any]:
    """The options of `matmul_split` for tiles of `block` of `parts` of the reduced loop."""
    depth = 128 if min(block) <= THIN[1] else 64
    stages = max(2, _stages(replace(sizes, batch=parts), block, depth))
    warps = BLOCKS.get(block, (1, 1))
    return {"block": block, "warps": warps, "depth": depth, "stages": stages, "parts": parts, "warpgroups": False}


def deep_tiles(sizes: Sizes) -> list[dict[str, Any]]:
    """The options of `matmul_split` for few results of many terms: one tile of all results where it is small enough,
    so that operands are read once, or a few, and one to four parts of tiles for each processor. Prices decide."""
    if sizes.rows is None or sizes.columns is None or sizes.depth is None or sizes.batch > 1:
        return []
    found: list[dict[str, Any]] = []
    for most in DEEP_SIDES[1:]:
        high, wide = (next(n for n in DEEP_SIDES if n >= min(side, most)) for side in (sizes.rows, sizes.columns))
        block = (high, wide) if (high, wide) in BLOCKS else (high, high)
        tiles = _tile_count(sizes, block)
        counts = (n * lp.machine().processors // tiles for n in DEEP_PARTS)
        found += [_parted(sizes, block, n) | {"depth": STEP} for n in counts if 1 < n <= sizes.depth // STEP]
    return [x for n, x in enumerate(found) if x not in found[:n]]


def shallow(sizes: Sizes) -> bool:
    """Whether the reduced loop is one step, so that the output is what there is most of, in whole vectors."""
    rows, columns, depth = sizes.rows or 0, sizes.columns or 1, sizes.depth or UNKNOWN
    (high, wide), _ = FLAT[-1]
    return depth <= ONE_STEP[-1 if columns <= wide else -2] and columns % 8 == 0 and rows >= high


def _halves(sizes: Sizes) -> bool:
    """Whether two parts of the reduced loop are whole steps of thin tiles twice as wide, which make up a product."""
    return sizes.batch == 1 and (sizes.depth or 1) % 256 == 0 and (sizes.columns or 1) % (2 * THIN[1]) == 0


def cycles(sizes: Sizes, block: tuple[int, int]) -> float:
    """What a product costs in tiles of `block`."""
    rows, columns, depth = sizes.rows or UNKNOWN, sizes.columns or UNKNOWN, sizes.depth or UNKNOWN
    tiles, machine = _tile_count(sizes, block), lp.machine()
    rates = machine.tiles
    step = OVERLAP * (block[0] * block[1] / rates.mma + 2 * sum(block) / rates.cache)
    total = START + -(-tiles // machine.processors) * (depth * step + block[0] * block[1] / 8)
    k = _depth(sizes, block)
    for length, size in ((rows, block[0]), (columns, block[1])):
        if length % size or depth % k:
            total += COPY + 4 * sizes.batch * length * depth / rates.memory
    return total


def _tile_count(sizes: Sizes, block: tuple[int, int]) -> int:
    return -(-(sizes.rows or UNKNOWN) // block[0]) * -(-(sizes.columns or UNKNOWN) // block[1]) * sizes.batch


def _depth(sizes: Sizes, block: tuple[int, int]) -> int:
    """Steps of the reduced loop at a time: many for thin tiles, whose bytes are few."""
    best = 256 if block[0] == THIN[0] else 128 if min(block) <= 32 else 64
    return next((d for d in (best, 128, 64, 32) if d <= best and (sizes.depth or 0) % d == 0), 32)


def _stages(sizes: Sizes, block: tuple[int, int], depth: int) -> int:
    """Four; of thin tiles, which wait for memory, as many as leave room for a few of them side by side."""
    room, machine = _room(block, depth), lp.machine()
    most = min(SHARED, machine.shared_per_block) // room
    if min(block) > 32:
        return min(4, most)
    tiles = _tile_count(sizes, block)
    if block[0] == THIN[0]:
        beside = -(-tiles // machine.processors)
        beside = (
            beside if beside <= THIN_TILES_PER_PROCESSOR else THIN_TILES_PER_PROCESSOR - 1
        )  # of many, fewer at once: one begins as another ends
        return max(2, min(LONGEST, _shared_bytes() // beside // room))
    beside = max(1, tiles // machine.processors)
    return min(most, max(4, 1 + -(-BYTES_IN_FLIGHT // (room * beside))))


def _shared_bytes() -> int:
    """Bytes of shared memory of a multiprocessor, less what the system takes of it for each of two blocks."""
    machine = lp.machine()
    return machine.shared_per_processor - 2 * machine.shared_reserved


def _room(block: tuple[int, int], depth: int) -> int:
    return 2 * depth * sum(block)


# ---------------------------------------------------------------- warpgroups

HIGH, WIDE, STEP = (128, 64), 256, 64
"""Rows of a tile of warpgroups, the most columns, and the steps of the reduced loop that are there at once."""
BOX_BYTES_PER_CYCLE = 230
"""Bytes of a step's boxes, as they arrive, that hold products up by a cycle."""
LATENCY = 1150
"""Cycles from when a step's boxes are asked for to when they are there."""
BEGIN, RESULTS = 1700, 8
"""Cycles before the first product of a block, and after its last; results that leave it in a cycle beside these."""
LEAST_STAGES, MOST_STAGES = 4, 8
"""Steps of the reduced loop in shared memory at once, at least and at most."""
PARTS = (1, 2, 4)
"""Parts of the reduced loop that the formula considers."""
LAUNCH, SUMS = 3400, 1400
"""Cycles of another launch, and bytes of sums of parts that all multiprocessors write and read again in a cycle."""
CLOSE, WORTH = 1.03, 0.99
"""Costs are no better known than that; what is dealt out has to cost less than so much of the cheapest otherwise."""
NARROWEST: dict[str, Any] = {"block": (128, 64), "roles": True, "store": "rows"}
"""How columns that are one tile are made where multiprocessors have several: what they are read from never pauses."""
SQUARE = (192, 192)
"""The tile that is taken, too, where it makes up a product in one turn."""
LARGEST, REST = (128, 256), (128, 128)
"""Tiles of whole turns, and of what is left and dealt out."""


def warpgroup_tile(s: lp.Schedule, c: Contraction, streamed: bool = True) -> dict[str, Any]:
    """The options of `matmul_wgmma` for the contraction `c`, or, if it may be `streamed`, of `matmul_stream`; none
    where its sizes are not known."""
    sizes = sizes_of(s, c)
    options = warpgroup_choice(sizes, c.right.along, streamed)
    if options.keys() - {"block", "stages"} or None in (sizes.rows, sizes.columns, sizes.depth):
        return options
    among = [b for b in WARPGROUP_TILES if b[0] <= (sizes.rows or 0) and b[1] <= (sizes.columns or 0)]
    among.sort(key=lambda b: warpgroup_cycles(sizes, b))
    block = BLOCK_TILE(options["block"], at=c.stage, among=among[:MOST_TILES])
    return options if block == options["block"] else {"block": block, "stages": _resident(sizes, block, 1)[0]}


def warpgroup_choice(sizes: Sizes, along: bool, streamed: bool = True) -> dict[str, Any]:
    """The options of `matmul_wgmma` for products of `sizes`: the cheapest tile, of those about as cheap the largest.

    They are those of `matmul_split` where the reduced loop is better cut in parts, and those of `matmul_stream` where a
    last turn would leave most multiprocessors without a tile.
    A right operand whose rows run `along` the reduced loop may have any multiple of 8 columns in a tile, as whole
    pieces of 128 bytes are what one that lies the other way round is made of.
    """
    if sizes.rows is None or sizes.columns is None or sizes.depth is None:
        return {}
    costs = _warpgroup_costs(sizes, sizes.rows, sizes.columns, sizes.depth, along)
    found = stream_k_choice(sizes) if streamed else None
    if found is not None and found[0] < WORTH * min(costs.values()):
        return found[1]
    least = CLOSE * min(costs.values())
    block, part = max((x for x in costs if costs[x] <= least), key=lambda x: (-x[1], x[0][0] * x[0][1], x[0][1]))
    stages, _ = _resident(sizes, block, part)
    if part > 1:
        return {"block": block, "stages": stages, "parts": part, "whole_rows": False}
    aligned = all(n % 8 == 0 for n in (sizes.rows, sizes.columns, sizes.depth))
    if block[1] == STEP and aligned and _waves(sizes, NARROWEST["block"], 1) > 1:
        return NARROWEST | ({"stages": 4} if sizes.depth <= 8 * STEP else {})
    return {"block": block, "stages": stages} if stages > LEAST_STAGES else {"block": block}


def _warpgroup_costs(
    sizes: Sizes, rows: int, columns: int, depth: int, along: bool
) -> dict[tuple[tuple[int, int], int], float]:
    """What a product costs by tile of warpgroups, and by how many parts the reduced loop is cut in."""
    high = HIGH if rows > HIGH[1] else HIGH[1:]
    wide = range(32, WIDE + 1, 8) if along else range(STEP, WIDE + 1, STEP)
    most = max(wide.start, columns)
    blocks = [(m, n) for m in high for n in wide if n <= most]
    parts = [p for p in PARTS if p == 1 or (depth % (p * STEP) == 0 and sizes.batch == 1)]
    costs = {(b, p): warpgroup_cycles(sizes, b, p) for b in blocks for p in parts}
    if rows > HIGH[0] and SQUARE[1] <= most and _waves(sizes, SQUARE, 1) == 1:
        costs[SQUARE, 1] = warpgroup_cycles(sizes, SQUARE)
    return costs


def warpgroup_cycles(sizes: Sizes, block: tuple[int, int], parts: int = 1) -> float:
    """What a product costs in tiles of `block`: of all that a multiprocessor does in turn, or a few side by side.

    In `parts` of the reduced loop it has as many tiles more, whose sums are written, and added up by another launch.
    """
    rows, columns, depth = sizes.rows or UNKNOWN, sizes.columns or UNKNOWN, sizes.depth or UNKNOWN
    m, n = block
    turns = _waves(sizes, block, parts)
    stages, beside = _resident(sizes, block, parts)
    step = max(_step(m, n), LATENCY / (max(1, stages - 2) * beside))
    total = turns * -(-depth // (parts * STEP)) * step + -(-turns // beside) * (BEGIN + m * n / RESULTS)
    return total if parts == 1 else total + LAUNCH + 4 * parts * rows * columns / SUMS


def full_waves(rows: int, columns: int, block: tuple[int, int]) -> int:
    """How many rows of tiles make as many whole turns as there are."""
    across, high = -(-columns // block[1]), rows // block[0]
    processors = lp.machine().processors
    return min(high, high * across // processors * processors // across)


def stream_k_choice(sizes: Sizes) -> tuple[float, dict[str, Any]] | None:
    """What a product of `sizes` costs by `matmul_stream`, and with which options; None where it has no whole turn of
    tiles, or what is left then does not come in whole tiles.

    Of what is left each block has a part of one tile, of as few steps as is worth its sums, which it writes before
    another launch reads them.
    """
    rows, columns, depth = sizes.rows or UNKNOWN, sizes.columns or UNKNOWN, sizes.depth or UNKNOWN
    whole, (m, n) = full_waves(rows, columns, LARGEST) * LARGEST[0], REST
    if sizes.batch > 1 or whole in (0, rows) or (rows - whole) % m or columns % n or depth % STEP:
        return None
    tiles, steps = (rows - whole) // m * (columns // n), depth // STEP
    parted = [p for p in range(1, lp.machine().processors // tiles + 1) if steps % p == 0]
    costs = {p: steps // p * _step(m, n) + 8 * p * tiles * m * n / SUMS for p in parted}
    if not costs:
        return None
    parts = min(parted, key=lambda p: costs[p])
    main = warpgroup_cycles(replace(sizes, rows=whole), LARGEST)
    options = {"block": LARGEST, "rows": whole, "rest": REST, "parts": tiles * parts}
    return main + BEGIN + costs[parts] + LAUNCH, options


def _step(m: int, n: int) -> float:
    """The cycles of a step of one tile for which copies run far enough ahead."""
    stage, rates = 2 * STEP * (m + n), lp.machine().tiles
    return max(m * n * STEP / rates.wgmma + stage / BOX_BYTES_PER_CYCLE, stage / rates.cache_boxes)


def _waves(sizes: Sizes, block: tuple[int, int], parts: int) -> int:
    """The most tiles that a multiprocessor gets."""
    rows, columns = sizes.rows or UNKNOWN, sizes.columns or UNKNOWN
    return -(-(-(-rows // block[0]) * -(-columns // block[1]) * sizes.batch * parts) // lp.machine().processors)


def _resident(sizes: Sizes, block: tuple[int, int], parts: int) -> tuple[int, int]:
    """The stages of a tile that there is room for, and the tiles side by side: more than one if they are small."""
    m, n = block
    stage, results = 2 * STEP * (m + n), m * (n + 8) * 2 if parts == 1 else 0
    room, threads = _shared_bytes(), lp.machine().threads_per_processor
    fits = [b for b in range(1, 5) if (room // b - results) // stage >= LEAST_STAGES and b * 2 * m <= threads]
    beside = min(_waves(sizes, block, parts), max(fits, default=1))
    return min(MOST_STAGES, (room // beside - results) // stage), beside
