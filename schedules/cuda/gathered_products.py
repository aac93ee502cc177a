"""Products of gathered rows on a GPU: what indices from memory select is an operand like any other.

A product reads each gathered row once for every column, through an index that it loads again each time. Stored by a
stage of its own, the rows are a plain matrix, which tiles and tensor cores take. Where the copies of the tiles may
gather by themselves, the matrix never exists; prediction decides between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import loopir as lp

from ..common.contraction import contraction, require_contraction
from ..common.nest_queries import one_nest, reads_of
from .elementwise import elementwise
from .matmul_mma import matmul_mma, pairs
from .matmul_simt import matmul_simt
from .recipe_table import is_lowered, lowered
from .tile_choice import sizes_of, tensor_tile
from .tiled_products import HIGH, is_float32, is_tiled, multiply, small_tiles


def gathered_operands(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with gathered operands of product `stage` stored by stages of their own, where that is worth tiles."""
    over = s.reduced(stage)
    touches = reads_of(s, stage)
    gathered = [t for t in touches if _is_gathered(t)]
    if len(over) != 1 or not gathered or not one_nest(s, stage):
        raise lp.ScheduleError(f"{stage} is no product of gathered operands over one loop")
    made = s
    for t in gathered:
        loops = [x for x in s.loops(stage) if not t.invariant(x)]
        made = made.reindex(stage, t.buffer, *loops)
    if contraction(made, stage) is None or not is_tiled(made, stage):
        raise lp.ScheduleError(
            f"{stage} has too few rows, columns or terms to store its gathered operands and multiply them in tiles"
        )
    return made


def gathers_of(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """The stages that gather an operand of product `stage`, and nothing else."""
    read = {t.buffer for t in s.accesses(stage) if not t.write}
    makers = [x for x in s.stages if x != stage and any(t.write and t.buffer in read for t in s.accesses(x))]
    return tuple(x for x in makers if not s.reduced(x) and any(_is_gathered(t) for t in s.accesses(x)))


def gathered_product(s: lp.Schedule, stage: str) -> lp.Schedule:
    """Product `stage` in tiles, whose copies gather by themselves or read what was gathered before, by prediction."""
    gathers = gathers_of(s, stage)
    found = [x for schedule in _ways(s, stage) if (x := lowered(s, schedule, stage)) is not None]
    candidates = [y for x in found for y in _gathers_in_tiles(x, gathers)]
    if not candidates:
        raise lp.ScheduleError(f"no tiles take {stage}")
    return min(candidates, key=lambda x: lp.predict(_gathered(x, gathers), "cuda", arch=lp.machine()).seconds)


def _ways(s: lp.Schedule, stage: str) -> Iterator[Callable[[lp.Schedule, str], lp.Schedule]]:
    yield multiply
    c = contraction(s, stage)
    if c is not None and pairs(s, c):  # boxes hold neighbouring rows; copies by threads may gather
        yield _by_warps
    elif c is not None and is_float32(s, c):
        sizes = sizes_of(s, c)
        for block, part in small_tiles(sizes.rows or HIGH, sizes.columns or HIGH):
            yield partial(matmul_simt, block=block, part=part)


def _by_warps(s: lp.Schedule, stage: str) -> lp.Schedule:
    c = require_contraction(s, stage)
    options = {x: y for x, y in tensor_tile(s, c).items() if x not in ("parts", "warpgroups", "staged")}
    return matmul_mma(s, stage, **options)


def _gathers_in_tiles(s: lp.Schedule, gathers: tuple[str, ...]) -> Iterator[lp.Schedule]:
    """`s`, and `s` with each of `gathers` computed where tiles of it are copied, if all can be."""
    yield s
    made = s
    for x in gathers:
        if x in made.stages:
            if made.why("compute_inline", x) is not None:
                return
            made = made.compute_inline(x)
    if made is not s and is_lowered(made):
        yield made


def _gathered(s: lp.Schedule, gathers: tuple[str, ...]) -> lp.Schedule:
    """`s` with those of `gathers` that are left by threads of a grid, as they will be."""
    for x in gathers:
        if x in s.stages and s.why("compute_inline", x) is None:
            s = elementwise(s, x)
    return s


def _is_gathered(access: Any) -> bool:
    return bool(access.buffer) and not access.write and None in access.strides.values()
