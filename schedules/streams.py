"""Results that are larger than the caches, written past them by a CPU: nothing is read first, or pushed out."""

from __future__ import annotations

import loopir as lp
from schedules.nests import extent


@lp.composite
def streamed(s: lp.Schedule, stage: str, lane: str) -> lp.Schedule:
    """`s` with the loop `lane` of `stage`, its innermost, in a vector that is stored past the caches, if it can be."""
    writes, loops, count = [t for t in s.accesses(stage) if t.write], s.loops(stage), extent(s, lane)
    t = s.vectorize(lane)
    if len(writes) != 1 or len(loops) < 2 or s.why("cache_write", stage, "local", loops[-2]) is not None:
        return t
    apart = s.cache_write(stage, "local", loops[-2])
    copy, instruction = apart.loops(stage)[-1], f"stream_{count}_{writes[0].dtype}"
    return (
        apart.vectorize(lane).tensorize(copy, instruction) if apart.why("tensorize", copy, instruction) is None else t
    )
