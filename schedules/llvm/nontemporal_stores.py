"""Results that do not stay in the caches, written past them by a CPU: nothing is read first, or pushed out."""

from __future__ import annotations

from math import prod

import loopir as lp

from ..common.nest_queries import extent


def past_caches(s: lp.Schedule) -> bool:
    """Whether the arrays that `s` is given and makes are known to take more than half of the last cache.

    Then a result is not there any more when it is read next, or has pushed out what others were about to read.
    """
    sizes = [a.buffer.dtype.bytes * prod(getattr(d, "value", 0) for d in a.buffer.shape) for a in s.func.args]
    return 2 * sum(sizes) > lp.caches()[2]


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
