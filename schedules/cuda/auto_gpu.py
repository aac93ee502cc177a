"""A GPU schedule for any nest: what is cheap is fused, and every independent iteration gets an index of the grid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import loopir as lp

from ..common.contraction import LARGE_MATRIX, Contraction, contraction, matmul_gpu, separate_operands, worth_tiling
from ..common.direct_conv import direct_gpu
from ..common.fusion import epilogue, inlined
from ..common.nest_queries import extent, free_loops, one_nest
from ..common.operands import alone, computed, multiplied
from ..common.products import filled, followed, several
from ..common.transpose import find_transposed_read, transpose, worth_turning
from ..common.view_loops import join_views, with_views_split
from .batched_scan import batched_scan, is_recurrence, is_scan, recurrence
from .carried_loops import carried_loops
from .column_blocks import along_columns, column_blocks
from .conv import conv_mma, conv_wgmma
from .deep_contraction import in_parts, part_by_threads, parts_of
from .elementwise import elementwise
from .matmul_mma import matmul_mma, pairs, rounded
from .matmul_simt import matmul_simt
from .matmul_split_k import matmul_split
from .matmul_stream_k import matmul_stream
from .matmul_wgmma import along_rows, matmul_wgmma
from .product_chains import product_chain
from .reduction import reduction, streams
from .row_blocks import crowded, row_blocks
from .short_folds import short_fold, short_folds
from .stencil_rows import neighbours, reaches
from .tile_choice import raw_tile, shallow, sizes_of, tensor_tile, warpgroup_tile

THREADS = 256
THIN, SHORT_ROWS, HIGH, VECTOR = 16, 32, 64, 8
"""How long each loop of a contraction is at least that is worth tiles, on tensor cores and on others; rows of a tile of
warpgroups, and elements of 16 bits whose rows boxes can begin with."""
SIMT_TILES = (64, 64), (64, 32)
"""Tiles of float32 products that are no whole tiles, on ordinary units."""


def gpu(s: lp.Schedule, threads: int = THREADS, arch: str | lp.Machine | None = None) -> lp.Schedule:
    """`s` with cheap stages inlined, and the independent outer loops of each stage spread over blocks of `threads`.

    Stages along the same rows become one kernel, and threads fold reductions that read their data once together. Any
    other stage without an independent outer loop runs on one thread: right, and slow. What only some GPUs have is used
    if `arch`, as `lp.machine` takes it, says that it is there; without it, what all GPUs of sm_80 and later have.
    """
    with lp.scheduling_for(lp.machine("portable" if arch is None else arch)):
        if lp.machine().has("wgmma") and (chained := with_views_split(s, partial(_lowered, schedule=product_chain))):
            return chained
        s = s if s.trace else join_views(s)
        made = _spread(s, threads)
        # where memory that threads write decides what they run, or they read it, each stage is looked at by itself
        return made if _lowered(made, _same) is not None else _spread(s, threads, each=True)


def _same(s: lp.Schedule) -> lp.Schedule:
    return s


def _spread(s: lp.Schedule, threads: int, *, each: bool = False) -> lp.Schedule:
    """What `gpu` makes of `s`; with `each`, lowering is asked about every stage."""
    s = inlined(s)
    for stage in s.stages:
        if (t := separate_operands(s, stage)) is not s and (_tiled(t, stage) or several(t, stage)):
            s = t
    s = _plain(s)
    for stage in s.stages:
        if stage in s.stages and (parts := parts_of(s, stage)) > 1:
            s = _in_parts(s, stage, parts)
    products = any(_tiled(s, x) or several(s, x) for x in s.stages)
    if not products and along_columns(s) and (made := _lowered(s, column_blocks)) is not None:
        return made
    s = _folded(s)
    tiled = any(_tiled(s, stage) or several(s, stage) for stage in s.stages)
    along_rows = (_lowered(s, row_blocks) or _lowered(s, row_blocks, keep=False)) if crowded(s) and not tiled else None
    if along_rows is not None:
        return along_rows
    for stage in s.stages:  # first what takes the stages that it reads along
        if stage in s.stages and not _tiled(s, stage) and several(s, stage) and one_nest(s, stage):
            made = _lowered(s, conv_wgmma, stage) if lp.machine().has("wgmma") else None
            s = made or _lowered(s, conv_mma, stage) or _lowered(s, direct_gpu, stage) or s
        elif stage in s.stages and _taken_along(s, stage):
            s = _lowered(s, _of_pairs, stage) or s
    for stage in s.stages:
        if stage not in s.stages:
            continue  # a step may show that a stage never runs
        if _tiled(s, stage) and one_nest(s, stage) and free_loops(s, stage):
            s = _product(s, stage)
            continue
        if (made := _rows_of(s, stage)) is not None:
            return made
        if streams(s, stage) and one_nest(s, stage):
            s = _lowered(s, reduction, stage) or s
        if stage in s.stages and not free_loops(s, stage):
            s = _lowered(s, carried_loops, stage, threads=threads) or s
            continue
        if stage not in s.stages:
            continue
        try:
            t = find_transposed_read(s, stage) if one_nest(s, stage) else None
            large = t is not None and worth_turning(s, t)
            near = _lowered(s, neighbours, stage) if not large and one_nest(s, stage) and reaches(s, stage) else None
            across = _lowered(s, transpose, stage) if large else None
            if one_nest(s, stage) and not each:
                s = across or near or elementwise(s, stage, threads=threads)
            else:  # blocks of one launch may have to wait for those of a stage beside it, which nothing orders
                s = across or near or _lowered(s, elementwise, stage, threads=threads) or s
        except lp.ScheduleError:
            continue  # what stands in one nest with it has the grid already
    return s


def _folded(s: lp.Schedule) -> lp.Schedule:
    """`s` with folds of few elements in registers, and running folds, before what starts them takes the grid."""
    for stage in s.stages:
        if stage in s.stages and short_fold(s, stage):
            s = _lowered(s, short_folds, stage) or s
    for stage in s.stages:
        if stage in s.stages and is_scan(s, stage):
            s = _lowered(s, batched_scan, stage) or s
        elif stage in s.stages and is_recurrence(s, stage):
            s = _lowered(s, recurrence, stage) or s
    return s


def _rows_of(s: lp.Schedule, stage: str) -> lp.Schedule | None:
    """`s` with `stage` and all that follows it as one launch of blocks that take rows of what a product gave, if they
    are no products themselves."""
    before = s.stages[: s.stages.index(stage)]
    rest = s.stages[len(before) :]
    if not before or not crowded(s, before) or any(_tiled(s, x) or several(s, x) for x in rest):
        return None
    return _lowered(s, row_blocks, after=before)


def _tiled(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a contraction whose operands are used often enough to be brought near in tiles."""
    c = contraction(s, stage)
    if c is None:
        return False
    if pairs(s, c):  # tiles of few rows, columns or steps are filled up
        return worth_tiling(s, c, 2) and sum((extent(s, x) or THIN) >= THIN for x in (c.row, c.column, c.reduced)) > 1
    return worth_tiling(s, c, THIN if rounded(s, c) else SHORT_ROWS)


def _plain(s: lp.Schedule) -> lp.Schedule:
    """`s` with operands that products compute in stages of their own, where tensor cores take them then."""
    for stage in s.stages:
        c = contraction(s, stage)
        if not s.reduced(stage) or (c is not None and (_as_they_lie(s, c) or rounded(s, c) or along_rows(s, c))):
            continue
        made = computed(s, stage)
        c = None if made is None else contraction(made, stage)
        if made is not None and c is not None and pairs(made, c) and _tiled(made, stage):
            s = made
    return s


def _in_parts(s: lp.Schedule, stage: str, parts: int) -> lp.Schedule:
    """A contraction of many terms as parts and their sum; those of whole tiles of float32 are scheduled at once, before
    what copies an operand is a launch."""
    known = s.stages
    s = _taken(s, in_parts, stage, parts) or s
    for part in (x for x in s.stages if x not in known):
        s = _lowered(s, part_by_threads, part) or s
    return s


def _as_they_lie(s: lp.Schedule, c: Contraction) -> bool:
    """Whether tensor cores take both operands of `c` from memory: 16 bits, of which nothing is made first."""
    return pairs(s, c) and multiplied(s, c.stage) >= {c.left.buffer, c.right.buffer}


def _product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A contraction in tiles, on tensor cores where they take its elements."""
    c = contraction(s, stage)
    if c is not None and rounded(s, c) and (made := _lowered(s, _tf32, stage)) is not None:
        return made
    wide = c is not None and lp.machine().has("wgmma") and along_rows(s, c)
    if wide and (made := _lowered(s, _along_rows, stage)) is not None:
        return made
    made = _lowered(s, _of_pairs, stage) if c is not None and pairs(s, c) else None
    if made is None and c is not None and _whole_tiles(s, c):
        made = _lowered(s, matmul_simt, stage, turn=True)
        return epilogue(made, stage) if made is not None else epilogue(matmul_gpu(s, stage), stage)
    if made is None and c is not None and (tile := _filled_tile(s, c)) is not None:
        made = _lowered(s, matmul_simt, stage, **tile)
        made = made and epilogue(made, stage)
    return made or epilogue(matmul_gpu(s, stage), stage)


def _of_pairs(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A product of 16-bit floats, by warpgroups where it has rows for them."""
    s, stage = alone(s, stage)
    c = contraction(s, stage)
    assert c is not None
    deep = extent(s, c.reduced) or THIN
    flat = shallow(sizes_of(s, c))  # tiles of warps then write whole rows of results as fast as memory takes them
    tall = lp.machine().has("wgmma") and not flat and (extent(s, c.row) or HIGH) >= HIGH
    if tall and (deep >= THIN or deep % VECTOR == 0):
        options = warpgroup_tile(s, c)
        if "rest" in options and (made := _lowered(s, matmul_stream, stage, **options)) is not None:
            return made
        options = {**warpgroup_tile(s, c, streamed=False), "whole": not _whole_vectors(s, c)}
        schedule = matmul_split if "parts" in options else matmul_wgmma
        if (made := _lowered(s, schedule, stage, **options)) is not None:
            return made
    options, within = tensor_tile(s, c), _taken_along(s, stage)
    near = raw_tile(s, c) if within else None
    made = None if near is None else _lowered(s, matmul_mma, stage, **near, within=within, near=True)
    if made is not None:
        return made
    if "parts" in options and not within:
        return matmul_split(s, stage, **options)
    staged = options.pop("staged", False)
    options = _in_one(options)
    made = _lowered(s, matmul_mma, stage, **options, staged=True, within=within) if staged else None
    return made or matmul_mma(s, stage, **options, within=within)


def _in_one(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `matmul_mma` among those of `matmul_split`: the reduced loop is left in one."""
    return {x: y for x, y in options.items() if x not in ("parts", "warpgroups")}


def _taken_along(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """What makes the right operand of a product of few rows, which is made where tiles of it are copied, then."""
    c = contraction(s, stage)
    if c is None or not pairs(s, c) or not _tiled(s, stage) or (extent(s, c.row) or HIGH) >= HIGH:
        return ()
    made = filled(s, [stage])
    return tuple(x for x in made if any(t.write and t.buffer == c.right.buffer for t in s.accesses(x)))


def _whole_tiles(s: lp.Schedule, c: Contraction) -> bool:
    """Whether a product of float32 is known to be made of whole tiles, of which there are enough for a GPU."""
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    float32 = all(t.dtype.name == "float32" for t in s.accesses(c.stage))
    if rows is None or columns is None or depth is None or c.batch or not float32:
        return False
    return rows % 128 == columns % 128 == depth % 32 == 0 and rows * columns >= LARGE_MATRIX**2


def _filled_tile(s: lp.Schedule, c: Contraction) -> dict[str, tuple[int, int]] | None:
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


def _taken(s: lp.Schedule, schedule: Callable[..., lp.Schedule], *args: Any) -> lp.Schedule | None:
    """What `schedule` makes of `s`, if it takes it."""
    try:
        return schedule(s, *args)
    except lp.ScheduleError:
        return None


def _lowered(s: lp.Schedule, schedule: Callable[..., lp.Schedule], *args: Any, **options: Any) -> lp.Schedule | None:
    """What `schedule` makes of `s`, if it takes it and lowering takes that."""
    try:
        made = schedule(s, *args, **options)
        lp.lower(made, "cuda")
    except (lp.ScheduleError, lp.LowerError, lp.TargetError):
        return None
    return made
