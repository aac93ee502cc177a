"""Chains along one loop that read what was there before the first step, as smoothing and filters write them, on a GPU.

A thread goes along a chain, several steps at a time, so that what these read is on its way together. Where chains lie
along memory, the threads of a warp load a tile of what theirs read side by side, and keep it in shared memory.
"""

from __future__ import annotations

from functools import partial

import loopir as lp

from ..common.nest_queries import extent, fused, if_legal, iterations
from .batched_scan import chain_loop, sources_along, stores_along
from .carried_loops import carried_loops
from .cheapest import cheapest
from .row_threads import WARP
from .scan import by_threads, moved_copy

STEPS_IN_FLIGHT = 8
"""Steps of a chain whose loads a thread has in flight."""


def is_chain(s: lp.Schedule, stage: str) -> bool:
    """Whether the iterations of `stage` depend on one another along one of its loops alone, and there are others."""
    return chain_loop(s, stage) is not None and len(s.loops(stage)) > 1


def chains_in_place(s: lp.Schedule, stage: str, *, threads: int = 256) -> lp.Schedule:
    """`s` with the chains of `stage` by a thread each, or a step of all of them after the other: the cheapest of both
    by prediction. ScheduleError where no step takes it."""
    recipes = [partial(chain_by_thread, stage=stage, threads=n) for n in (WARP, threads)]
    made = cheapest(s, [*recipes, partial(carried_loops, stage=stage, threads=threads)], part=(stage,))
    if made is None:
        raise lp.ScheduleError(f"{stage} has no chains that are independent of one another")
    return made


@lp.composite
def chain_by_thread(s: lp.Schedule, stage: str, *, threads: int) -> lp.Schedule:
    """A thread for each chain, STEPS_IN_FLIGHT steps at a time; chains along memory read tiles in shared memory.

    ScheduleError where `stage` is no chain, or there is only one.
    """
    step = chain_loop(s, stage)
    free = [x for x in s.loops(stage) if x != step]
    if step is None or not free:
        raise lp.ScheduleError(f"{stage} has no chains that are independent of one another")
    s = s if s.loops(stage)[-1] == step else s.reorder(*free, step)
    sources = sources_along(s, stage, step) if stores_along(s, stage, step) else []
    s, chain = fused(s, free)
    if chain != s.loops(stage)[0]:
        raise lp.ScheduleError(f"the chains of {stage} are in several loops that cannot be fused")
    s, (block, thread) = s.split(chain, threads).with_loops
    s, (turn, step) = s.split(step, WARP).with_loops
    s = s.reorder(block, turn, thread, step)
    for source in sources if threads == WARP else ():
        s = _tile_of(s, stage, source, turn)
    s, (_, several) = s.split(step, STEPS_IN_FLIGHT, tail="exact").with_loops
    return s.unroll(several).bind(thread, "threadIdx.x").bind(block, "blockIdx.x")


def _tile_of(s: lp.Schedule, stage: str, source: str, turn: str) -> lp.Schedule:
    """What the chains of a block read of `source` in `turn`, in shared memory, loaded along memory; `s` itself if that
    is no box of a row of WARP elements or a little more for each chain."""
    if s.why("cache_read", stage, source, "shared", turn) is not None:
        return s
    t, copy, moved = moved_copy(s.cache_read(stage, source, "shared", turn))
    lengths = [extent(t, x) for x in moved]
    count = iterations(t, moved)
    if len(moved) != 2 or count is None or count > 2 * WARP * WARP:
        return s
    t, _ = by_threads(t, moved, WARP, 1)
    return if_legal(t, "set_layout", copy, f"lambda i, j: i * {(lengths[1] or 0) | 1} + j")
