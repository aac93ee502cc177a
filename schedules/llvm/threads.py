"""Loops on threads, where the time that it takes to wake them is worth it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import loopir as lp

from ..common.knobs import Knob, either
from ..common.nest_queries import extent

ON_THREADS = Knob("threads", "whether a nest runs on all threads", either, price=0.5)


def parallel_if_legal(s: lp.Schedule, stage: str, loop: str) -> lp.Schedule:
    """`s` with `loop` of `stage` on threads, if it can be, and is not chosen to stay on one."""
    if loop not in s.loops() or s.why("parallel", loop) is not None:
        return s
    return parallel(s, stage, loop)


def worth_sharing(s: lp.Schedule, stage: str, loops: Sequence[str], start: float) -> bool:
    """Whether threads that share `loops` of `stage`, which begin within `start` seconds, save more time than that.

    The time of the loops is that of their loads and stores from and to the first cache, in whole vectors: the least. A
    loop whose extent varies has half of the most on average, and is taken to have one iteration where nothing is known.
    """
    cpu = lp.local_cpu()
    count = prod(extent(s, x) or (s.longest(stage, x) or 2) // 2 for x in loops)
    moved = count * sum(t.dtype.bytes for t in s.accesses(stage))
    return moved / (cpu.loads * cpu.vector_bytes * cpu.clock) * (1 - 1 / max(2, cpu.cores)) > start


def parallel(s: lp.Schedule, stage: str, loop: str) -> lp.Schedule:
    """`s` with `loop` of `stage` on threads, unless it is chosen to stay on one; ScheduleError if it cannot be."""
    return s.parallel(loop) if lp.thread_count() == 1 or ON_THREADS(True, at=stage) else s
