"""A product, folds of its rows, and a product of what is made of both, in one loop over blocks of keys: on a CPU.

The nest is that of `..common.product_chains`; here it gets vectors, tiles of registers, and threads.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import Contraction
from ..common.nest_queries import extent, fused, step
from ..common.product_chains import Chain, blocked, factored
from .split_reduction import folded, lanes_of

ROWS, KEYS = 64, 128
"""Of a block: its scores are 32 KiB of float32."""
SHORT = 4
"""Blocks of keys that a row has at least: scores of shorter rows stay in the caches."""


def product_chain(s: lp.Schedule) -> lp.Schedule | None:
    """`s` with its chain of products in one loop for each block of rows, on threads and vectors; None if it has none
    of float32, is of odd sizes, or is short."""
    try:
        found = factored(s)
        if found is None or not _fits(*found):
            return None
        s, c = found
        s, _, _ = blocked(s, c, ROWS, KEYS)
        return _tiled(s, c)
    except lp.ScheduleError:  # a fold that has no correction, or stages that do not lie as they have to
        return None


def _fits(s: lp.Schedule, c: Chain) -> bool:
    rows, keys, width = (extent(s, x) or 0 for x in (c.first.row, c.first.column, c.second.column))
    lanes = lanes_of(s, c.first.stage)
    float32 = all(t.dtype.name == "float32" for x in s.stages for t in s.accesses(x))
    whole = rows % ROWS == 0 and keys % KEYS == 0 and width % (2 * lanes) == 0 and KEYS % (4 * lanes) == 0
    return float32 and whole and keys >= SHORT * KEYS and len(c.first.batch) == len(c.second.batch)


def _tiled(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """Products in tiles of registers, folds and what is made of scores in vectors, blocks of rows on threads."""
    lanes = lanes_of(s, c.first.stage)
    tile = (8 if lp.vector_unit()[1] >= 32 else 4, 2 * lanes)
    around = [x for x in s.loops(s.stages[-1]) if x in s.loops(c.first.stage)]  # of batches and blocks, if many
    s = _in_panels(s, c.first, tile[1])
    i, j, d = s.loops(c.first.stage)[-3:]
    s = _register_tiles(s, c.first.stage, (i, j, d), tile)
    for stage in (c.fold, *c.after):
        if s.reduced(stage):
            s = s.decompose_reduction(stage)
            s = s.cache_write(stage, "local", at=s.loops(stage)[-2])
            (fold,) = (x for x in (stage, *s.last.stages) if s.reduced(x))
            s = folded(s, fold, lanes=lanes)
        else:
            s, (_, lane) = step(s, "split", s.loops(stage)[-1], lanes, tail="exact")
            s = s.vectorize(lane)
    s = s.decompose_reduction(c.second.stage)
    i, e, j = s.loops(c.second.stage)[-3:]
    s = _register_tiles(s, c.second.stage, (i, e, j), tile)
    for stage in s.stages:  # what stands beside: starts, corrections, the end
        lane = s.loops(stage)[-1]
        alone = len(s.loop(lane).body) == 1 and s.loop(lane).kind == "serial" and not s.reduced(stage)
        if alone and (extent(s, lane) or 1) % lanes == 0 and s.why("vectorize", lane) is None:
            s, (_, lane) = step(s, "split", lane, lanes, tail="exact")
            s = s.vectorize(lane)
    if around:
        s, outer = fused(s, around)
        s = s.parallel(outer)
    return s


def _in_panels(s: lp.Schedule, c: Contraction, width: int) -> lp.Schedule:
    """The right operand of a contraction once, in panels of `width` columns, by threads."""
    s = s.cache_read(c.stage, c.right.buffer, "global")
    (panels,) = s.last.stages
    layout, batch = c.right.panels(width), "".join(f"b{n}, " for n in range(len(s.loops(panels)) - 2))
    s = s.set_layout(panels, layout.replace("lambda ", f"lambda {batch}").replace("(", f"({batch}", 1))
    wide, deep = s.loops(panels)[-2:] if c.right.along else s.loops(panels)[:-3:-1]
    s, (outer, inner) = step(s, "split", wide, width, tail="exact")
    s = s.reorder(outer, deep, inner).unroll(inner)
    return s.parallel(s.loops(panels)[0])


def _register_tiles(s: lp.Schedule, stage: str, loops: tuple[str, str, str], tile: tuple[int, int]) -> lp.Schedule:
    """A contraction in tiles, their rows unrolled and their columns vectors, made in registers."""
    row, column, over = loops
    s, (i, ii) = step(s, "split", row, tile[0], tail="exact")
    s, (j, jj) = step(s, "split", column, tile[1], tail="exact")
    s = s.reorder(i, j, over, ii, jj)
    s = s.cache_write(stage, "local", at=j)
    for x in (stage, *s.last.stages):
        s = s.vectorize(s.loops(x)[-1]).unroll(s.loops(x)[-2])
    return s
