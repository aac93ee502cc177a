"""Products on a GPU in tiles: which stages are worth tiles, and on which units each is multiplied.

Tensor cores take what they can, by warpgroups or warps; other products of float32 take ordinary units, in tiles of the
largest size that gives each processor a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import loopir as lp

from ..common.contraction import LARGE_MATRIX, Contraction, contraction, matmul_gpu, require_contraction, worth_tiling
from ..common.fusion import epilogue
from ..common.nest_queries import extent, if_legal, iterations, legal, one_nest, reader, readers, result_of
from ..common.operands import (
    alone,
    is_moved,
    is_plain_copy,
    is_view,
    multiplied,
    own_part,
    summed_along_one,
    two_matrices,
)
from ..common.products import filled, followed, several
from ..common.transpose import transpose
from ..common.view_loops import is_viewed
from .cheapest import cheapest
from .deep_contraction import in_parts, is_deep_enough, part_by_threads, parts_of
from .elementwise import elementwise
from .matmul_mma import in_bytes, matmul_mma, pairs, rounded
from .matmul_simt import matmul_simt
from .matmul_split_k import matmul_simt_split, matmul_split
from .matmul_stream_k import matmul_stream
from .matmul_wgmma import along_rows, matmul_wgmma
from .recipe_table import Recipe, first_of, lowered
from .reduction import reduction
from .row_blocks import crowded, row_blocks
from .tile_choice import (
    COPY_VECTOR,
    UNKNOWN,
    alternatives,
    deep_tiles,
    in_more_parts,
    part_counts,
    raw_tile,
    shallow,
    sizes_of,
    tensor_tile,
    tile_count,
    warpgroup_tile,
)

THIN, SHORT_ROWS, HIGH = 16, 32, 64
"""How long each loop of a contraction is at least that is worth tiles, on tensor cores and on others; rows of a tile of
warpgroups."""
MADE_ROWS = 256
"""Rows of a product up to which its right operand may be made anew for each tile of them."""
SIMT_TILES = (64, 64), (64, 32)
"""Tiles of float32 products that are no whole tiles, on ordinary units."""
SMALL_SIMT_TILES = ((64, 64), (8, 4)), ((64, 32), (8, 4)), ((32, 32), (4, 4))
"""The same where there are few, each with the part of a thread."""
MANY_STEPS, BUSY_WARPS = 1024, 16
"""Steps of sums that are long, and warps of a processor that keep it busy."""
SIMT_BLOCKS = 4
"""Blocks of such tiles for each processor, about, where sums are cut into parts."""
LARGE_SIMT_TILE = (128, 64), (8, 8)
"""The same where rows and columns fill one: more products for each load from shared memory."""
WARP_TILE: dict[str, Any] = {"block": (64, 32), "part": (8, 8), "depth": 16}
"""A tile for each warp, which loads fewer elements for each product; of few columns, so that fewer are filled up, and
of so few steps at a time that many tiles share a processor."""
NEARLY_SHORT = 24
"""How long rows or columns are at least that are worth a tile of 32, where there are several tiles."""
FEW_STEPS = 2
"""Steps of sums that are worth a tile then: of one, operands are read no more often than results are stored."""
SHORT_SIMT_TILES = ((32, 32), (4, 4)), ((32, 32), (4, 8))
"""The same where all rows and columns are in one tile."""


def is_tiled(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a contraction whose operands are used often enough to be brought near in tiles."""
    c = contraction(s, stage)
    if c is None:
        return False
    if pairs(s, c) or in_bytes(s, c):  # tiles of few rows, columns or steps are filled up
        return worth_tiling(s, c, 2) and sum((extent(s, x) or THIN) >= THIN for x in (c.row, c.column, c.reduced)) > 1
    if rounded(s, c):
        return worth_tiling(s, c, THIN)
    if is_deep(s, c):
        return worth_tiling(s, c, 2)
    batch = iterations(s, c.batch) or UNKNOWN
    several_tiles = batch >= lp.machine().processors or any((extent(s, x) or HIGH) >= HIGH for x in (c.row, c.column))
    return worth_tiling(s, c, NEARLY_SHORT, FEW_STEPS) if several_tiles else worth_tiling(s, c, SHORT_ROWS)


def is_deep(s: lp.Schedule, c: Contraction) -> bool:
    """Whether `c` has long sums of float32, and fewer of them than threads that a GPU runs: a thread for each would
    leave it idle, and tiles that are mostly zeros do not."""
    results, depth = iterations(s, (*c.batch, c.row, c.column)), extent(s, c.reduced)
    few = results is not None and results < 32 * BUSY_WARPS * lp.machine().processors
    return few and depth is not None and depth >= MANY_STEPS and is_float32(s, c)


def is_product(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` multiplies, over one loop or several, operands that are used often enough for tiles."""
    return is_tiled(s, stage) or several(s, stage)


def is_in_place(s: lp.Schedule, c: Contraction) -> bool:
    """Whether tensor cores take both operands of `c` from memory: 16 bits, of which nothing is made first."""
    return pairs(s, c) and multiplied(s, c.stage) >= {c.left.buffer, c.right.buffer}


def stored_operands(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with what `stage` multiplies computed by stages of their own, where it is a product in tiles then."""
    c = contraction(s, stage)
    if c is not None and (is_in_place(s, c) or rounded(s, c) or along_rows(s, c)):
        raise lp.ScheduleError(f"{stage} multiplies its operands as they are in memory")
    made = two_matrices(summed_along_one(s, stage), stage)
    c = None if made is None else contraction(made, stage)
    if made is None or c is None or not is_tiled(made, stage):
        raise lp.ScheduleError(f"{stage} is no product in tiles with stored operands")
    if not pairs(made, c) and not worth_tiling(made, c):
        raise lp.ScheduleError(f"{stage} takes too few rows to store its operands first")
    return made


def contraction_in_parts(s: lp.Schedule, stage: str, parts: int) -> lp.Schedule:
    """A contraction of many terms as parts and their sum; those of whole tiles of float32 are scheduled at once, before
    what copies an operand is a launch."""
    known = s.stages
    s = legal(s, in_parts, stage, parts) or s
    for part in (x for x in s.stages if x not in known):
        s = lowered(s, part_by_threads, part) or s
    return s


def has_few_results(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a product of 16-bit floats of few results and many terms: of tiles that are too few."""
    c = contraction(s, stage) if s.reduced(stage) and one_nest(s, stage) else None
    if c is None or c.batch or not pairs(s, c):
        return False
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None or not is_deep_enough(rows, columns, depth):
        return False
    return 2 * -(-rows // HIGH) * -(-columns // HIGH) <= lp.machine().processors


def deep_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of 16-bit floats of few results and many terms: tiles of parts of its reduced loop, or a batch of
    contractions that are its parts, and the sum of these."""
    s, stage = alone(s, stage)
    c = contraction(s, stage)
    if c is None or not pairs(s, c):
        raise lp.ScheduleError(f"{stage} is no contraction of 16-bit floats")
    within = _copies_for(s, stage)
    options = [x | {"within": within} for x in deep_tiles(sizes_of(s, c))]
    recipes = _ways(stage, options[0], options[1:]) if options else []
    if (parts := parts_of(s, stage)) > 1:
        recipes.append(partial(_by_batches, stage=stage, parts=parts, within=within))
    return _cheapest_of(s, stage, recipes, within)


def _by_batches(s: lp.Schedule, stage: str, parts: int, within: tuple[str, ...]) -> lp.Schedule:
    """The product `stage` as a batch of `parts` products of what the stages `within` store, and their sum."""
    known = s.stages
    s = in_parts(s, stage, parts)
    for part in (x for x in s.stages if x not in known):
        s = multiply(s, part)
    for x in within:
        s = elementwise(s, x)
    return reduction(s, stage)


def tensor_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of 16-bit floats, whose right operand is made where tiles of it are copied, or stored first."""
    within = producers_of_right(s, stage)
    if not within:
        return _of_stored_pairs(s, stage)
    stored = partial(_stored_first, stage=stage, within=within)
    c = contraction(s, stage)
    few = c is not None and (extent(s, c.row) or HIGH) < HIGH
    made = partial(_made_in_tiles, stage=stage, within=within)
    return _cheapest_of(s, stage, (made, stored) if few else (stored, made), within)


def views_of(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """The stages that store a view of an array, or several as one, as an operand of the product `stage` of 16-bit
    floats, and of it alone."""
    c = contraction(s, stage)
    if c is None or not pairs(s, c) or not is_tiled(s, stage) or not is_in_place(s, c):
        return ()
    operands = {c.left.buffer, c.right.buffer}
    made = (x for x in s.stages if is_moved(s, x) and readers(s, x) == [stage])
    return tuple(x for x in made if any(t.write and t.buffer in operands for t in s.accesses(x)))


def has_flat_operand(s: lp.Schedule, stage: str) -> bool:
    """Whether the product `stage` of 16-bit floats finds elements of an operand by two loops as one."""
    c = contraction(s, stage)
    if c is None or not is_tiled(s, stage) or not pairs(s, c) or not is_in_place(s, c):
        return False
    return any(not t.write and is_viewed(s, t) for t in s.accesses(stage))


def product_of_views(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The product `stage` of 16-bit floats, of operands that are seen in another shape: these are found in the arrays
    where tiles are copied, or stored first."""
    if has_flat_operand(s, stage):
        s, _ = _with_copies(s, stage)
    within = views_of(s, stage)
    if not within:
        raise lp.ScheduleError(f"{stage} reads no operand in another shape than it is stored in")
    recipes = (partial(f, stage=stage, within=within) for f in (_found_in_tiles, _stored_first))
    return _cheapest_of(s, stage, recipes, within)


def _found_in_tiles(s: lp.Schedule, stage: str, within: tuple[str, ...]) -> lp.Schedule:
    """The product `stage` whose operands the stages `within` view, which copies of tiles compute: by warpgroups where
    it has rows for them, or by warps."""
    s, stage = alone(s, stage)
    c = require_contraction(s, stage)
    recipes: list[Callable[[lp.Schedule], lp.Schedule]] = []
    if lp.machine().has("wgmma") and (extent(s, c.row) or HIGH) >= HIGH:
        options = {x: y for x, y in warpgroup_tile(s, c, streamed=False).items() if x in ("block", "stages", "group")}
        options |= {"within": within, "roles": False}
        recipes.append(partial(_by_warps, stage=stage, how=matmul_wgmma, options=options))
    options = _in_one(tensor_tile(s, c)) | {"within": within, "staged": True}
    recipes.append(partial(_by_warps, stage=stage, how=matmul_mma, options=options))
    return _cheapest_of(s, stage, recipes, within)


def _stored_first(s: lp.Schedule, stage: str, within: Sequence[str]) -> lp.Schedule:
    """The product `stage` after launches that store what its right operand is made by."""
    for x in within:
        s = elementwise(s, x)
    return _of_stored_pairs(s, stage)


def _made_in_tiles(s: lp.Schedule, stage: str, within: tuple[str, ...]) -> lp.Schedule:
    """The product `stage` of few rows, whose right operand the stages `within` make, where its tiles are copied or its
    fragments are; the reduced loop in parts where there are too few tiles otherwise."""
    s, stage = _alone_by_rows(s, stage)
    c = require_contraction(s, stage)
    recipes: list[Callable[[lp.Schedule], lp.Schedule]] = []
    if (near := raw_tile(s, c)) is not None:
        near |= {"within": within, "near": True}
        recipes = _ways(stage, near, in_more_parts(sizes_of(s, c), near))
    options = tensor_tile(s, c)
    staged = bool(options.pop("staged", False))
    options = _in_one(options) | {"within": within}
    recipes += _ways(stage, options | {"staged": staged}, [options] if staged else [])
    return _cheapest_of(s, stage, recipes, within)


def _alone_by_rows(s: lp.Schedule, stage: str) -> tuple[lp.Schedule, str]:
    """`alone`, with rows and columns innermost in both nests, where several loops count either."""
    s, stage = alone(s, stage)
    c, out = contraction(s, stage), reader(s, stage)
    if c is None or out is None or len(s.loops(out)) != len(s.loops(stage)) - 1:
        return s, stage
    there = dict(zip((x for x in s.loops(stage) if x != c.reduced), s.loops(out), strict=True))
    order = (*c.batch, c.row, c.column)
    (sums,) = (t for t in s.accesses(stage) if t.write)
    places = sums.subscripts
    if sorted(places) != sorted(order) or places[-2:] == (c.row, c.column):
        return s, stage
    s = if_legal(s, "reorder_dims", sums.buffer, *map(places.index, order))
    for loops in (order, tuple(there[x] for x in order)):
        s = if_legal(s, "reorder", *loops)
    return s, stage


def _of_stored_pairs(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of 16-bit floats, by warpgroups where it has rows for them."""
    s, stage = _alone_by_rows(s, stage)
    c = require_contraction(s, stage)
    deep = extent(s, c.reduced) or THIN
    flat = shallow(sizes_of(s, c))  # tiles of warps then write whole rows of results as fast as memory takes them
    tall = lp.machine().has("wgmma") and not flat and (extent(s, c.row) or HIGH) >= HIGH
    if tall and (deep >= THIN or deep % COPY_VECTOR == 0):
        options = warpgroup_tile(s, c)
        if "rest" in options and (made := lowered(s, matmul_stream, stage, **options)) is not None:
            return made
        options = {**warpgroup_tile(s, c, streamed=False), "whole": not _whole_vectors(s, c)}
        schedule = matmul_split if "parts" in options else matmul_wgmma
        recipes = [partial(_by_warps, stage=stage, how=schedule, options=options)]
        if 2 * tile_count(sizes_of(s, c), options) <= lp.machine().processors:
            by_warps = tensor_tile(s, c)
            recipes += _ways(stage, by_warps, alternatives(sizes_of(s, c), by_warps))
        if (made := cheapest(s, recipes, part=own_part(s, stage))) is not None:
            return made
    options = tensor_tile(s, c)
    recipes = _ways(stage, options, alternatives(sizes_of(s, c), options))
    if (found := cheapest(s, (*recipes, *_of_few_rows(s, c)), part=own_part(s, stage))) is not None:
        return found
    options.pop("staged", False)
    return matmul_mma(s, stage, **_in_one(options))


def _ways(
    stage: str, base: dict[str, Any], others: Iterable[dict[str, Any]]
) -> list[Callable[[lp.Schedule], lp.Schedule]]:
    """The product `stage` by `matmul_mma`, or, where the options have parts, by `matmul_split`: first with `base`."""
    split, one = (partial(_by_warps, stage=stage, how=x) for x in (matmul_split, matmul_mma))
    return [partial(split if "parts" in x else one, options=x) for x in (base, *others)]


def _by_warps(s: lp.Schedule, stage: str, how: Callable[..., lp.Schedule], options: dict[str, Any]) -> lp.Schedule:
    return how(s, stage, **options)


def _bytes_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of elements of 8 bits, by warpgroups or by warps; operands whose rows do not run along the reduced loop
    as they lie, or copied so that they do, and rows that are no whole vectors filled up in copies."""
    c = require_contraction(s, stage)
    many, turned = (extent(s, c.row) or HIGH) >= SHORT_ROWS, not (c.left.along and c.right.along)
    wide = lp.machine().has("wgmma") and many and (turned or along_rows(s, c))
    along: list[Callable[..., lp.Schedule]] = [*([_along_rows] if wide else []), _bytes_by_warps]
    if (extent(s, c.reduced) or 0) % _vector(s, c):
        along = [partial(_in_whole_rows, recipe=along[0]), _bytes_by_warps]
    if not turned:
        recipes = [partial(x, stage=stage) for x in along]
    else:
        recipes = [partial(_bytes_by_warps, stage=stage)]
        recipes += [partial(_turned_along, stage=stage, recipe=x) for x in along]
    return _cheapest_of(s, stage, (*recipes, *_of_few_rows(s, c)))


def _cheapest_of(
    s: lp.Schedule,
    stage: str,
    recipes: Iterable[Callable[[lp.Schedule], lp.Schedule]],
    within: Sequence[str] = (),
) -> lp.Schedule:
    """The cheapest that `recipes` make of the product `stage`, and of `within`; ScheduleError where all refuse."""
    found = cheapest(s, recipes, part=own_part(s, stage, within))
    if found is None:
        raise lp.ScheduleError(f"{stage} is no product that these units take in tiles")
    return found


def _of_few_rows(s: lp.Schedule, c: Contraction) -> list[Callable[[lp.Schedule], lp.Schedule]]:
    """A product of few rows, and all that is made of it, by blocks each of which folds one result."""
    few = (extent(s, c.row) or HIGH) < (THIN if pairs(s, c) else SHORT_ROWS)
    return [row_blocks] if few and crowded(s) else []


def _turned_along(s: lp.Schedule, stage: str, recipe: Callable[[lp.Schedule, str], lp.Schedule]) -> lp.Schedule:
    """The product `stage` by `recipe`, of copies of the operands whose rows do not run along the reduced loop, so that
    those of the copies do."""
    c = require_contraction(s, stage)
    for operand, loop in ((c.left, c.row), (c.right, c.column)):
        if not operand.along:
            s, copy = s.reindex(stage, operand.buffer, *c.batch, loop, c.reduced).with_stage
            s = transpose(s, copy)
    return recipe(s, stage)


def _in_whole_rows(s: lp.Schedule, stage: str, recipe: Callable[[lp.Schedule, str], lp.Schedule]) -> lp.Schedule:
    """The product `stage` by `recipe`, of copies of the operands whose rows are filled up with zeros to whole vectors,
    as boxes want them; both copies are one launch."""
    s, stage, _ = followed(s, stage)
    c = require_contraction(s, stage)
    s, steps = s.split(c.reduced, _vector(s, c)).with_loops
    copies: list[str] = []
    for operand in (c.left, c.right):
        s, copy = s.cache_read(stage, operand.buffer, "global", None).with_stage
        copies.append(copy)
    s = s.pad(stage)
    s, _ = s.fuse(*steps).with_loops
    for copy in copies:
        s = elementwise(s, copy)
    s = recipe(s, stage)
    return if_legal(s, "merge", *(s.loops(x)[0] for x in copies), side_by_side=True)


def _bytes_by_warps(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of elements of 8 bits by warps, twice as many steps of the reduced loop at a time as of 16 bits."""
    s, stage, _ = followed(s, stage)
    c = require_contraction(s, stage)
    options = tensor_tile(s, c)
    others = alternatives(sizes_of(s, c), options)
    every = [x | {"depth": 2 * x["depth"], "whole": False} for x in (_in_one(options), *others)]
    return _cheapest_of(s, stage, _ways(stage, every[0], every[1:]))


def _floats_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product on ordinary units: in tiles that are filled up; where these are fewer than processors, in smaller ones,
    and with the reduced loop in parts."""
    c = require_contraction(s, stage)
    known = filled_tile(s, c)
    one = partial(_with_epilogue, stage=stage, how=matmul_simt if known else matmul_gpu, options=known or {})
    recipes = [one, *_in_small_tiles(s, c, known)]
    if (extent(s, c.reduced) or NEARLY_SHORT) < NEARLY_SHORT:
        recipes.append(partial(_with_epilogue, stage=stage, how=elementwise, options={}))
    return _cheapest_of(s, stage, recipes)


def _converts_to_float32(s: lp.Schedule, c: Contraction) -> bool:
    """Whether a product adds up float32, and an operand is of another type in memory."""
    return s.buffer(result_of(s, c.stage)).dtype.name == "float32" and not is_float32(s, c)


def _converted_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product whose operands are converted to float32 where small tiles are copied; or by launches before, where
    there are larger tiles for each processor, which are copied while others are multiplied."""
    c, copies = require_contraction(s, stage), list[str]()
    for operand, loop in ((c.left, c.row), (c.right, c.column)):
        if s.buffer(operand.buffer).dtype.name != "float32":
            mine = [x for x in c.batch if not _is_invariant(s, stage, operand.buffer, x)]
            order = (loop, c.reduced) if operand.along else (c.reduced, loop)
            s, copy = s.reindex(stage, operand.buffer, *mine, *order, dtype="float32").with_stage
            copies.append(copy)
    within, c = tuple(copies), require_contraction(s, stage)
    if not is_float32(s, c):
        raise lp.ScheduleError(f"{stage} multiplies in another type than float32")
    if is_whole_tiles(s, c) or filled_tile(s, c):
        for x in within:
            s = elementwise(s, x)
        return multiply(s, stage)
    return _cheapest_of(s, stage, _in_small_tiles(s, c, within=within), within)


def _in_small_tiles(
    s: lp.Schedule, c: Contraction, known: dict[str, tuple[int, int]] | None = None, within: tuple[str, ...] = ()
) -> list[Callable[[lp.Schedule], lp.Schedule]]:
    """The product `c` of float32 in small tiles other than those of the `known` options, and in parts of these. The
    stages `within` are computed where tiles are copied."""
    sizes, processors = sizes_of(s, c), lp.machine().processors
    if sizes.rows is None or sizes.columns is None or sizes.depth is None:
        return []
    recipes: list[Callable[[lp.Schedule], lp.Schedule]] = []
    for block, part in small_tiles(sizes.rows, sizes.columns):
        options: dict[str, Any] = {"block": block, "part": part}
        tiles, made = tile_count(sizes, options), {"within": within} if within else {}
        if options != known:
            recipes.append(partial(_with_epilogue, stage=c.stage, how=matmul_simt, options=options | made))
        if tiles <= processors and sizes.batch == 1:
            recipes += [
                partial(_by_warps, stage=c.stage, how=matmul_simt_split, options=options | made | {"parts": n})
                for n in part_counts(sizes.depth, SIMT_BLOCKS * processors // tiles)
            ]
    (high, wide), made = WARP_TILE["block"], {"within": within} if within else {}
    if sizes.rows >= high and sizes.columns >= wide and tile_count(sizes, WARP_TILE) >= processors:
        recipes.append(partial(_with_epilogue, stage=c.stage, how=matmul_simt, options=WARP_TILE | made))
    return recipes


def has_copied_operands(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a product of float32, of few results and many terms, of a copy that it alone reads."""
    c = contraction(s, stage)
    return c is not None and is_deep(s, c) and bool(_copies_for(s, stage))


def product_of_copies(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of float32 in small tiles, which are copied from where the copies of its operands are."""
    c = require_contraction(s, stage)
    within = _copies_for(s, stage)
    return _cheapest_of(s, stage, _in_small_tiles(s, c, within=within), within)


def has_plain_copies(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a product in tiles, of float32 or of 16 bits, of an array that is copied for it as it lies, as
    one that is both its operands is."""
    c = contraction(s, stage)
    taken = c is not None and (is_float32(s, c) or pairs(s, c))
    return taken and is_tiled(s, stage) and bool(_plain_copies_for(s, stage))


def product_without_copies(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The product `stage` whose tiles are copied from the arrays that it has plain copies of, which are left out."""
    copies = _plain_copies_for(s, stage)
    s = _of_stored_pairs(s, stage) if pairs(s, require_contraction(s, stage)) else multiply(s, stage)
    for copy in copies:
        s = s.compute_inline(copy)
    return s


def _plain_copies_for(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    return tuple(x for x in _copies_for(s, stage) if is_plain_copy(s, x))


def _copies_for(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """The stages that copy elements of an array, as they are, for `stage` alone."""
    return tuple(x for x in filled(s, [stage]) if is_view(s, x))


def small_tiles(rows: int, columns: int) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """The small tiles that are worth trying for a product of float32, each with the part of a thread."""
    if max(rows, columns) <= SHORT_SIMT_TILES[0][0][0]:
        return SHORT_SIMT_TILES
    (high, wide), _ = LARGE_SIMT_TILE
    middle = SMALL_SIMT_TILES[0][0]
    many = -(-rows // middle[0]) * -(-columns // middle[1]) >= lp.machine().processors
    small = SMALL_SIMT_TILES[:-1] if many else SMALL_SIMT_TILES
    return (*small, LARGE_SIMT_TILE) if rows >= high and columns >= wide else small


def _with_epilogue(s: lp.Schedule, stage: str, how: Callable[..., lp.Schedule], options: dict[str, Any]) -> lp.Schedule:
    return epilogue(how(s, stage, **options), stage)


def _in_one(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `matmul_mma` among those of `matmul_split`: the reduced loop is left in one."""
    return {x: y for x, y in options.items() if x not in ("parts", "warpgroups")}


def producers_of_right(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """What makes the right operand of a product of few rows, which is made where tiles of it are copied, then."""
    c = contraction(s, stage)
    if c is None or not pairs(s, c) or not is_tiled(s, stage) or (extent(s, c.row) or UNKNOWN) > MADE_ROWS:
        return ()
    made = filled(s, [stage])
    return tuple(x for x in made if any(t.write and t.buffer == c.right.buffer for t in s.accesses(x)))


def is_float32(s: lp.Schedule, c: Contraction) -> bool:
    """Whether a product is one of float32, with float32 sums."""
    return all(t.dtype.name == "float32" for t in s.accesses(c.stage))


def is_whole_tiles(s: lp.Schedule, c: Contraction) -> bool:
    """Whether a product of float32 is known to be made of whole tiles, of which there are enough for a GPU."""
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None or c.batch or not is_float32(s, c):
        return False
    return rows % 128 == columns % 128 == depth % 32 == 0 and rows * columns >= LARGE_MATRIX**2


def filled_tile(s: lp.Schedule, c: Contraction) -> dict[str, tuple[int, int]] | None:
    """The tile of a product of float32 whose sizes are no whole tiles, which are filled up: of those that give each
    processor a block the largest; None where none does."""
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or c.batch or not is_float32(s, c) or min(rows, columns, depth or 0) < HIGH:
        return None
    tiles = [x for x in SIMT_TILES if -(-rows // x[0]) * -(-columns // x[1]) >= lp.machine().processors]
    return {"block": tiles[0], "part": SMALL_SIMT_TILES[0][1]} if tiles else None


def _tf32(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product that the program asks for in TF32; vectors have half as many elements as those of 16 bits."""
    s, stage, _ = followed(s, stage)
    c = require_contraction(s, stage)
    options = tensor_tile(s, c)
    others = alternatives(sizes_of(s, c), options)
    every = [x | {"depth": x["depth"] // 2, "whole": False} for x in (_in_one(options), *others)]
    return _cheapest_of(s, stage, _ways(stage, every[0], every[1:]))


def _along_rows(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of int8 or of TF32 on warpgroups, whose sums are copied out if nothing else is made of them."""
    s, stage, _ = followed(s, stage)
    return matmul_wgmma(s, stage)


def _whole_vectors(s: lp.Schedule, c: Contraction) -> bool:
    """Whether no row of the operands is known to start where vectors of 16 bytes cannot."""
    vector = _vector(s, c)
    along = (c.reduced if c.left.along else c.row, c.reduced if c.right.along else c.column)
    return all(n is None or n % vector == 0 for n in (extent(s, x) for x in along))


def _vector(s: lp.Schedule, c: Contraction) -> int:
    """Elements of the operands in 16 bytes."""
    return 16 // s.buffer(c.right.buffer).dtype.bytes


def _whole_tiles(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of float32 in whole tiles of ordinary units."""
    made = lowered(s, matmul_simt, stage, turn=True)
    return epilogue(made if made is not None else matmul_gpu(s, stage), stage)


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


def _rounded_for_warps(s: lp.Schedule, c: Contraction) -> bool:
    return rounded(s, c) and not _by_warpgroups(s, c)


PRODUCTS = (
    Recipe("TF32 on tensor cores", _contraction_that(_rounded_for_warps), _tf32),
    Recipe("8 bits on tensor cores", _contraction_that(in_bytes), _bytes_product),
    Recipe("TF32 by warpgroups", _contraction_that(_by_warpgroups), _along_rows),
    Recipe("16 bits on tensor cores", _contraction_that(pairs), tensor_product),
    Recipe("whole tiles of float32", _contraction_that(is_whole_tiles), _whole_tiles, checked=False),
    Recipe("float32 in the cheapest tiles", _contraction_that(is_float32), _floats_product),
    Recipe("float32 of converted operands", _contraction_that(_converts_to_float32), _converted_product),
    Recipe("tiles of any type", lambda s, stage: True, _any_product, checked=False),
)
"""How a contraction that is worth tiles is multiplied, the fastest units first."""
multiply = first_of(PRODUCTS)


def multiply_copies(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The product `stage` of copies of the operands that it finds by quotients and remainders, as it does rows of a
    reshaped array of which tiles are no boxes, or by two loops as one, as it does a flat array."""
    s, copies = _with_copies(s, stage)
    if not copies:
        raise lp.ScheduleError(f"{stage} reads no operand by quotients, or by two loops as one")
    for copy in copies:
        s = elementwise(s, copy)
    return multiply(s, stage)


def _with_copies(s: lp.Schedule, stage: str) -> tuple[lp.Schedule, list[str]]:
    """`s` with copies of the operands of the product `stage` that it sees in another shape, and the copies' stages."""
    c = require_contraction(s, stage)
    views = {t.buffer for t in s.accesses(stage) if not t.write and is_viewed(s, t)}
    copies: list[str] = []
    for operand, loop in ((c.left, c.row), (c.right, c.column)):
        if operand.buffer in views:
            mine = [x for x in c.batch if not _is_invariant(s, stage, operand.buffer, x)]
            order = (loop, c.reduced) if operand.along else (c.reduced, loop)
            s, copy = s.reindex(stage, operand.buffer, *mine, *order).with_stage
            copies.append(copy)
    return s, copies


def _is_invariant(s: lp.Schedule, stage: str, buffer: str, loop: str) -> bool:
    return all(t.invariant(loop) for t in s.accesses(stage) if t.buffer == buffer)
