"""A GPU schedule for any nest: what is cheap is fused, and every independent iteration gets an index of the grid."""

from __future__ import annotations

import loopir as lp
from schedules.elementwise import elementwise
from schedules.fusion import inlined
from schedules.matmul import contraction, matmul_gpu, worth_tiling
from schedules.nests import free_loops, one_nest
from schedules.transpose import transpose, turned, worth_turning

THREADS = 256


def gpu(s: lp.Schedule, threads: int = THREADS) -> lp.Schedule:
    """`s` with cheap stages inlined, and the independent outer loops of each stage spread over blocks of `threads`.

    A stage without an independent outer loop runs on one thread: right, and slow.
    """
    s = inlined(s)
    for stage in s.stages:
        if stage not in s.stages or not free_loops(s, stage):
            continue  # a step may show that a stage never runs
        c = contraction(s, stage)
        if c is not None and worth_tiling(s, c) and one_nest(s, stage):
            s = matmul_gpu(s, stage)
            continue
        try:
            t = turned(s, stage) if one_nest(s, stage) else None
            large = t is not None and worth_turning(s, t)
            s = transpose(s, stage) if large else elementwise(s, stage, threads=threads)
        except lp.ScheduleError:
            continue  # what stands in one nest with it has the grid already
    return s
