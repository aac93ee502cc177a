"""A product, folds of its rows, and a product of what is made of both, in one loop over blocks of keys: on a CPU.

The nest is that of `..common.product_chains`; here it gets vectors, tiles of registers, and threads. Where lengths are
no whole blocks, or not known, operands are copied with zeros after their ends, so that tiles need no guards.
"""

from __future__ import annotations

import math

import loopir as lp

from ..common.contraction import Operand, copied_operand
from ..common.nest_queries import extent, fused, if_legal, in_lanes
from ..common.product_chains import Chain, blocked, factored, with_own_sums, with_scores, with_shared_powers
from .matmul_cpu import WORD_BYTES
from .split_reduction import folded, lanes_of

CHAIN_ROWS, CHAIN_KEYS = 64, 128
"""Of a block: its scores are 32 KiB of float32."""
SHORT = 4
"""Blocks of keys that a row has at least: scores of shorter rows stay in the caches."""
MAX_UNPACKED_CHAIN_ROWS = 4
"""Rows for which it does not pay to copy the operands."""
MOST_VECTORS = 4
"""In one row of a tile."""
LONGEST_ROW = 256
"""Bytes from row to row from which on the lines of a panel that lies in rows meet in few sets of the first cache."""
TILE_VECTORS = 16 if lp.vector_unit()[1] >= 32 else 8
"""Vectors of sums of a tile of registers."""


def product_chain(s: lp.Schedule) -> lp.Schedule | None:
    """`s` with its chain of products in one loop for each block of rows, on threads and vectors; None if it has none
    of float32, or is short."""
    try:
        found = factored(with_own_sums(s))
        if found is None or not _fits(*found):
            return None
        s, c = with_shared_powers(*found)
        if not _is_whole(extent(s, c.first.column), CHAIN_KEYS):
            s, c = with_scores(s, c)
        return _by_rows(s, c) if _are_few(s, c) else _tiled(s, c)
    except lp.ScheduleError:  # a fold that has no correction, or stages that do not lie as they have to
        return None


def _fits(s: lp.Schedule, c: Chain) -> bool:
    keys = extent(s, c.first.column)
    float32 = all(t.dtype.name == "float32" for x in s.stages for t in s.accesses(x))
    alone = not c.beside and len(c.first.batch) == len(c.second.batch)
    return alone and float32 and (keys is None or keys >= SHORT * CHAIN_KEYS)


def _is_whole(length: int | None, size: int) -> bool:
    return length is not None and length % size == 0


def _are_few(s: lp.Schedule, c: Chain) -> bool:
    """Whether there are too few rows for copies of the operands to pay, which lie as rows of vectors."""
    rows = extent(s, c.first.row)
    lie = c.first.right.along and not c.second.right.along
    return lie and rows is not None and rows <= MAX_UNPACKED_CHAIN_ROWS


def _by_rows(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """A few rows, for which the operands are read once, as they lie: scores fold vectors of a row of the right one."""
    rows, keys, width = (extent(s, x) or 0 for x in (c.first.row, c.first.column, c.second.column))
    s, _, _ = blocked(s, c, rows, CHAIN_KEYS, tails=("exact", "exact" if _is_whole(keys, CHAIN_KEYS) else "guard"))
    s = _without_guards(s, c)
    lanes = lanes_of(s, c.first.stage)
    around = [x for x in s.loops(s.stages[-1]) if x in s.loops(c.first.stage)]
    s = folded(s, c.first.stage, lanes=lanes)
    s = s.decompose_reduction(c.second.stage)
    e, j = s.loops(c.second.stage)[-2:]
    i = s.loops(c.second.stage)[-3] if rows > 1 else None
    vectors = max(1, min(TILE_VECTORS // rows, width // lanes, MOST_VECTORS))
    s = _register_tiles(s, c.second.stage, (i, e, j), (rows, vectors * lanes))
    return _rest(s, c, around, lanes)


def _without_guards(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """`s` with what is folded along rows filled up with what changes nothing, in place of guards."""
    for stage in (c.fold, *c.after):
        if s.reduced(stage):
            for value in (0.0, -math.inf, math.inf):
                s = if_legal(s, "pad", stage, value=value)
    return s


def _register_tile(s: lp.Schedule, stage: str, columns: int | None) -> tuple[int, int]:
    """The rows and columns of a tile of registers: two vectors in a row, unless that leaves one over."""
    lanes = lanes_of(s, stage)
    vectors = 1 if columns is not None and 0 < columns % (2 * lanes) <= lanes else 2
    return TILE_VECTORS // vectors, vectors * lanes


def _in_blocks(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """All stages in one loop over blocks, without guards on what is folded."""
    rows, keys = (extent(s, x) for x in (c.first.row, c.first.column))
    whole = [_is_whole(n, size) for n, size in ((rows, CHAIN_ROWS), (keys, CHAIN_KEYS))]
    by_rows, by_keys = ("exact" if whole[0] else "guard"), ("exact" if whole[1] else "guard")
    s, block, outer = blocked(s, c, CHAIN_ROWS, CHAIN_KEYS, tails=(by_rows, by_keys))
    if not whole[0]:  # whole tiles of rows, of which the last ones are zeros
        s, _ = copied_operand(s, c.first.stage, c.first.left, "global", block)
    s = _in_panels(s, c.first.stage, c.first.right, _register_tile(s, c.first.stage, CHAIN_KEYS)[1], outer)
    return _without_guards(s, c)


def _tiled(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """Products in tiles of registers, folds and what is made of scores in vectors, blocks of rows on threads."""
    keys = extent(s, c.first.column)
    s = _in_blocks(s, c)
    lanes = lanes_of(s, c.first.stage)
    around = [x for x in s.loops(s.stages[-1]) if x in s.loops(c.first.stage)]  # of batches and blocks, if many
    i, j, d = s.loops(c.first.stage)[-3:]
    s = _register_tiles(s, c.first.stage, (i, j, d), _register_tile(s, c.first.stage, CHAIN_KEYS))
    s = s.decompose_reduction(c.second.stage)
    i, e, j = s.loops(c.second.stage)[-3:]
    width = extent(s, e)
    tile = _register_tile(s, c.second.stage, width)
    panels = (
        width is None or width % tile[1] != 0 or width * WORD_BYTES > LONGEST_ROW or not _is_whole(keys, CHAIN_KEYS)
    )
    outer = next(x for x in s.loops(c.second.stage) if x in s.loops(c.first.stage) and x not in around)
    right = c.second.right if panels else None
    s = _register_tiles(s, c.second.stage, (i, e, j), tile, right, outer)
    return _rest(s, c, around, lanes)


def _rest(s: lp.Schedule, c: Chain, around: list[str], lanes: int) -> lp.Schedule:
    """Folds and what is made of scores in vectors, and the loops `around` blocks of rows on threads."""
    for stage in (c.fold, *c.after):
        if s.reduced(stage):
            s = s.decompose_reduction(stage)
            s = s.cache_write(stage, "local", at=s.loops(stage)[-2])
            (fold,) = (x for x in (stage, *s.last.stages) if s.reduced(x))
            s = folded(s, fold, lanes=lanes)
        else:
            s, (_, lane) = s.split(s.loops(stage)[-1], lanes, tail="exact").with_loops
            s = s.vectorize(lane)
    for stage in s.stages:  # what stands beside: starts, corrections, the end
        lane = s.loops(stage)[-1]
        alone = len(s.loop(lane).body) == 1 and s.loop(lane).kind == "serial" and not s.reduced(stage)
        s = in_lanes(s, lane, lanes, partition=False) if alone else s
    if around:
        s, outer = fused(s, around)
        s = s.parallel(outer)
    return s


def _in_panels(s: lp.Schedule, stage: str, right: Operand, width: int, outer: str) -> lp.Schedule:
    """The right operand of a product in panels of `width` columns, with zeros in place of guards: as a whole and by
    threads; or what an iteration of `outer` needs of it, where lengths are not known, or heads share it."""
    t, panels = copied_operand(s, stage, right, "global", None)
    t = _batch_first(t, stage, panels, outer)
    shape = t.buffer(panels).shape
    whole = len(shape) > 1 and all(hasattr(d, "value") for d in shape)
    before = if_legal(s, "pad", stage)
    s, panels = (t, panels) if whole else copied_operand(s, stage, right, "global", outer)
    if len(s.buffer(panels).shape) < 2:  # rows one after the other, which are shorter than their tiles
        return before
    layout, batch = right.panels(width), "".join(f"b{n}, " for n in range(len(s.buffer(panels).shape) - 2))
    s = if_legal(s, "pad", stage)
    s = s.set_layout(panels, layout.replace("lambda ", f"lambda {batch}").replace("(", f"({batch}", 1))
    wide, deep = s.loops(panels)[-2:] if right.along else s.loops(panels)[:-3:-1]
    s, (outer, inner) = s.split(wide, width, tail="exact").with_loops
    s = s.reorder(outer, deep, inner)
    s = s.unroll(inner) if right.along else s.vectorize(inner)
    return s.parallel(s.loops(panels)[0]) if whole else s


def _batch_first(s: lp.Schedule, stage: str, copy: str, outer: str) -> lp.Schedule:
    """`s` with the dimensions of `copy` that loops around `outer` alone count before those of a matrix."""
    read = next(t for t in s.accesses(stage) if t.buffer == copy and not t.write)
    around = set(s.loops(stage)[: s.loops(stage).index(outer)])
    dims = [d.variables for d in read.subscripts]
    order = sorted(range(len(dims)), key=lambda n: not dims[n] <= around)
    if order == [*range(len(dims))]:
        return s
    s = s.reorder_dims(copy, *order)
    loops = s.loops(copy)
    return s.reorder(*(loops[n] for n in order)) if len(loops) == len(order) else s


def _register_tiles(
    s: lp.Schedule,
    stage: str,
    loops: tuple[str | None, str, str],
    tile: tuple[int, int],
    right: Operand | None = None,
    outer: str = "",
) -> lp.Schedule:
    """A contraction in tiles, their rows unrolled and their columns vectors, made in registers; of panels of `right`,
    if it is given, or of what an iteration of `outer` needs of it."""
    row, column, over = loops
    s, (j, jj) = s.split(column, tile[1]).with_loops
    around = j
    if row is None:
        s = s.reorder(j, over, jj)
    else:
        s, (around, ii) = s.split(row, tile[0], tail="exact").with_loops
        s = s.reorder(j, around, over, ii, jj)
    s = s.cache_write(stage, "local", at=around)
    made = (stage, *s.last.stages)
    inner = next(x for x in made if over in s.loops(x))
    s = if_legal(s, "pad", inner) if right is None else _in_panels(s, inner, right, tile[1], outer)
    for x in made:
        s = s.vectorize(s.loops(x)[-1])
        s = s.unroll(s.loops(x)[-2]) if row is not None else s
    return s
