"""Loops on threads, where the time that it takes to wake them is worth it."""

from __future__ import annotations

import loopir as lp

from ..common.knobs import Knob, either

THREADS = Knob("threads", "whether a nest runs on all threads", either, price=0.5)


def parallel_if_legal(s: lp.Schedule, stage: str, loop: str) -> lp.Schedule:
    """`s` with `loop` of `stage` on threads, if it can be, and is not chosen to stay on one."""
    if loop not in s.loops() or s.why("parallel", loop) is not None:
        return s
    return parallel(s, stage, loop)


def parallel(s: lp.Schedule, stage: str, loop: str) -> lp.Schedule:
    """`s` with `loop` of `stage` on threads, unless it is chosen to stay on one; ScheduleError if it cannot be."""
    return s.parallel(loop) if lp.thread_count() == 1 or THREADS(True, at=stage) else s
