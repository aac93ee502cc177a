"""Nests of several statements under one independent loop, in steps that depend on one another: a block an iteration.

A sorting network, an elimination or a time loop of each row of a batch: the threads of a block take the innermost
loops side by side, and wait for one another between steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp

from ..common.nest_queries import extent, one_nest
from .row_threads import WARP


def in_steps(s: lp.Schedule, stage: str) -> bool:
    """Whether the nest of `stage` has several statements under an independent loop, and a loop of steps in it."""
    if one_nest(s, stage) or not s.loops(stage) or s.loop(s.loops(stage)[0]).kind != "serial":
        return False
    nest = _statements_beside(s, stage)
    around = dict.fromkeys(x for y in nest for x in s.loops(y)[1:-1])
    return (
        all(len(s.loops(x)) > 1 and s.why("parallel", s.loops(x)[-1]) is None for x in nest)
        and any(s.why("parallel", x) is not None for x in around)
        and s.why("bind", s.loops(stage)[0], "blockIdx.x") is None
    )


@lp.composite
def steps_in_blocks(s: lp.Schedule, stage: str, *, threads: int = 256) -> lp.Schedule:
    """The nest of `stage` with a block for each iteration of its outermost loop, and at most `threads` threads for the
    innermost loops, in whole warps. ScheduleError if one of them cannot be on threads."""
    inner = dict.fromkeys(s.loops(x)[-1] for x in _statements_beside(s, stage))
    longest = max((extent(s, x) or threads for x in inner), default=threads)
    width = min(threads, -(-longest // WARP) * WARP)
    s = s.bind(s.loops(stage)[0], "blockIdx.x")
    for loop in inner:
        s, (_, thread) = s.split(loop, width).with_loops
        s = s.bind(thread, "threadIdx.x")
    return s


def _statements_beside(s: lp.Schedule, stage: str) -> Sequence[str]:
    """The statements in the outermost loop of `stage`."""
    return [x for x in s.stages if s.loops(x)[:1] == s.loops(stage)[:1]]
