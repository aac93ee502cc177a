"""Nests of several statements under one independent loop, in steps that depend on one another: a block an iteration.

A sorting network, an elimination or a time loop of each row of a batch: the threads of a block take the innermost
loops side by side, and wait for one another between steps. Intermediates of a row lie in the block's shared memory,
where they fit.
"""

from __future__ import annotations

import loopir as lp

from ..common.nest_queries import extent, if_legal, one_nest
from ..common.row_intermediates import own_buffers, statements_beside, with_own_rows
from .row_threads import WARP

MOST_THREADS = 1024
"""Threads of a block at most, where a processor has one block at most and its threads alone hide its latency."""


def in_steps(s: lp.Schedule, stage: str) -> bool:
    """Whether the nest of `stage` has several statements under an independent loop, and a loop of steps in it."""
    if one_nest(s, stage) or not s.loops(stage) or s.loop(s.loops(stage)[0]).kind != "serial":
        return False
    nest = statements_beside(s, stage)
    around = dict.fromkeys(x for y in nest for x in s.loops(y)[1:-1])
    return (
        all(len(s.loops(x)) > 1 and s.why("parallel", s.loops(x)[-1]) is None for x in nest)
        and any(s.loops(like=x, carried=True) for x in around)
        and s.why("bind", s.loops(stage)[0], "blockIdx.x") is None
    )


@lp.composite
def own_intermediates(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The nest of `stage` with a row of its intermediates for each iteration of its outermost loop, and no more.

    ScheduleError where it has none, or a block's shared memory does not hold them.
    """
    return with_own_rows(s, stage, lp.machine().shared_per_block)


@lp.composite
def steps_in_blocks(s: lp.Schedule, stage: str, *, threads: int = 256) -> lp.Schedule:
    """The nest of `stage` with a block for each iteration of its outermost loop, and at most `threads` threads for the
    innermost loops, in whole warps, or as many as there are where blocks are few; its own intermediates lie in shared
    memory. ScheduleError if one of the loops cannot be on threads."""
    rows, own = s.loops(stage)[0], own_buffers(s, stage)
    inner = dict.fromkeys(s.loops(x)[-1] for x in statements_beside(s, stage))
    longest = max((extent(s, x) or threads for x in inner), default=threads)
    few = lp.machine().processors
    most = threads if (extent(s, rows) or few) >= few else MOST_THREADS
    width = min(most, -(-longest // WARP) * WARP)
    s = s.bind(rows, "blockIdx.x")
    for loop in inner:
        s, (_, thread) = s.split(loop, width).with_loops
        s = s.bind(thread, "threadIdx.x")
    for buffer in own:
        s = if_legal(s, "set_scope", buffer, "shared")
    return s
