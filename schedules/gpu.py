"""A GPU schedule for any nest: an index of the grid for every independent iteration."""

from __future__ import annotations

import loopir as lp
from schedules.nests import free_loops

THREADS = 256


def gpu(s: lp.Schedule, threads: int = THREADS) -> lp.Schedule:
    """`s` with the independent outer loops of every stage fused, split into blocks of `threads`, and bound.

    A stage without an independent outer loop runs on one thread: right, and slow.
    """
    for stage in s.stages:
        if stage not in s.stages:
            continue  # a step showed that it never runs
        loops = list(free_loops(s, stage))
        if not loops:
            continue
        fused = loops[0]
        for loop in loops[1:]:
            if s.why("fuse", fused, loop) is not None:
                break
            before = set(s.loops())
            s = s.fuse(fused, loop)
            fused = next(x for x in s.loops() if x not in before)
        if s.why("split", fused, threads) is not None:
            continue
        before = set(s.loops())
        t = s.split(fused, threads)
        block, thread = (x for x in t.loops() if x not in before)
        if t.why("bind", block, "blockIdx.x") is None:
            s = t.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")
    return s
