"""Sweeps whose two innermost loops both carry dependences, as tables of alignments and summed areas have them, on a
GPU: the elements of a diagonal at the same time.

In tiles, those along a diagonal of tiles are blocks of a launch, and in each the threads take a diagonal of elements
after the other; sweeps of a batch go side by side. A batch of small ones has a block for each, which takes all of it.
"""

from __future__ import annotations

from functools import partial

import loopir as lp

from ..common.nest_queries import extent, free_loops, fused
from .cheapest import cheapest
from .elementwise import elementwise
from .row_threads import WARP
from .steps_in_blocks import MOST_THREADS

TILE_ROWS = (WARP, 2 * WARP, 4 * WARP)
"""Rows and columns of a tile: a thread for each row. Larger ones are fewer launches, smaller ones more blocks."""
STEEPEST = 2
"""The largest skew of columns that is tried, for rows that read beyond what is above them."""


def has_diagonals(s: lp.Schedule, stage: str) -> bool:
    """Whether the two innermost loops of `stage` both carry dependences, and no step has placed any."""
    loops = s.loops(stage)
    if len(loops) < 2 or set(loops[-2:]) & set(s.reduced(stage)) or any(s.loop(x).kind != "serial" for x in loops):
        return False
    return all(s.why("parallel", x) is not None for x in loops[-2:])


def diagonal_tiles(s: lp.Schedule, stage: str, *, threads: int = 256) -> lp.Schedule:
    """`s` with the sweep of `stage` by diagonals, in tiles or a block for each of a batch; or the batch on `threads` of
    a block, one sweep by each. The cheapest of them by prediction; ScheduleError where no step takes it by diagonals.
    """
    recipes = [partial(in_tiles, stage=stage, tile=n) for n in TILE_ROWS]
    if free_loops(s, stage):
        recipes = [partial(elementwise, stage=stage, threads=threads), partial(in_a_block, stage=stage), *recipes]
    made = cheapest(s, recipes, part=(stage,))
    if made is None:
        raise lp.ScheduleError(f"{stage} is a sweep whose diagonals no step takes")
    return made


@lp.composite
def in_tiles(s: lp.Schedule, stage: str, *, tile: int) -> lp.Schedule:
    """Tiles of `tile` by `tile`: a launch for each diagonal of tiles, a block for each tile of it, and for each of a
    batch. ScheduleError where the loops cannot be tiled so."""
    batch = free_loops(s, stage)
    *outer, row, column = s.loops(stage)
    skewed = (s if n == 0 else s.skew(row, column, n) for n in range(STEEPEST + 1))
    s = next((t for t in skewed if t.why("tile", row, column, tile, tile) is None), s).tile(row, column, tile, tile)
    _, _, inner_row, inner_column = s.loops(stage)[len(outer) :]
    s = s.wavefront(inner_row, inner_column)
    thread = s.loops(stage)[-1]
    tile_row, tile_column = s.loops(stage)[len(outer) : len(outer) + 2]
    s = s.wavefront(tile_row, tile_column)
    diagonal, block = s.loops(stage)[len(outer) : len(outer) + 2]
    s = s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")
    if not batch:
        return s
    s = s.reorder(diagonal, *outer)
    s, sweep = fused(s, outer)
    return s.bind(sweep, "blockIdx.y")


@lp.composite
def in_a_block(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A block for each sweep of a batch, whose threads take its diagonals one after the other."""
    batch, rows = free_loops(s, stage), extent(s, s.loops(stage)[-2])
    if len(batch) != len(s.loops(stage)) - 2:
        raise lp.ScheduleError(f"{stage} is no batch of sweeps")
    row, column = s.loops(stage)[-2:]
    s = s.wavefront(row, column)
    width = MOST_THREADS if rows is None else min(MOST_THREADS, -(-rows // WARP) * WARP)
    s, (_, thread) = s.split(s.loops(stage)[-1], width).with_loops
    s, sweep = fused(s.bind(thread, "threadIdx.x"), batch)
    return s.bind(sweep, "blockIdx.x")
