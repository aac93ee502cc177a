"""Reductions into elements that memory chooses, such as histograms: atomic updates from every thread."""

from __future__ import annotations

import loopir as lp

from .nest_queries import fused, step


@lp.composite
def scatter(s: lp.Schedule, stage: str, target: str, *, threads: int = 256, chunk: int = 4096) -> lp.Schedule:
    """`s` with the reduction `stage` folded by atomic updates: on a GPU by a thread each, on a CPU by `chunk` each.

    For a nest whose iterations clash by these updates alone; ScheduleError, with the clash, for any other.
    """
    s = s.atomic(stage)
    s, loop = fused(s, s.loops(stage))
    s, (outer, inner) = step(s, "split", loop, threads if target == "cuda" else chunk)
    return s.bind(outer, "blockIdx.x").bind(inner, "threadIdx.x") if target == "cuda" else s.parallel(outer)
