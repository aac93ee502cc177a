"""Contractions whose reduced loop is cut in parts, so that products of few tiles fill a GPU (split-K).

Each part makes tiles of sums on its own, kept as float32 in global memory; a second kernel adds the parts up, in order,
and does what follows. It pays where a tile for each multiprocessor would be too small to spare the cache.
"""

from __future__ import annotations

from typing import Any

import loopir as lp

from ..common.contraction import contraction
from ..common.nest_queries import extent, reader, step
from .elementwise import elementwise
from .matmul_mma import matmul_mma
from .matmul_wgmma import matmul_wgmma


@lp.composite
def matmul_split(s: lp.Schedule, stage: str, *, parts: int, warpgroups: bool = True, **options: Any) -> lp.Schedule:
    """The contraction `stage` in `parts` of its reduced loop, whose length they divide, by `matmul_wgmma` with
    `options`, or by `matmul_mma` where products are not those of `warpgroups`; then the sum of the parts.

    The parts are float32 of the shape (parts, rows, columns), written and read once.
    """
    c = contraction(s, stage)
    length = None if c is None else extent(s, c.reduced)
    if c is None or length is None or length % parts:
        raise lp.ScheduleError(f"{stage} is no contraction over a loop that {parts} parts of one length make up")
    s, (part, _) = step(s, "split", c.reduced, length // parts, tail="exact")
    free = [x for x in s.loops(stage) if x not in s.reduced(stage)]
    s = s.reorder(part, *free).rfactor(stage, part)
    (partial,) = (x for x in s.stages if x.startswith(f"{stage}_rf"))
    own = s.loops(stage)
    s = s.reorder(*own[1:], own[0])
    s = s.cache_write(partial, "global")
    made = next(x for x in s.stages if x in (partial, *s.last.stages))
    s = (matmul_wgmma if warpgroups else matmul_mma)(s, made, **options)
    out = reader(s, stage)
    if out is None:
        return elementwise(s, stage)
    s = elementwise(s, out)
    thread = next((x for x in reversed(s.loops(out)) if s.loop(x).kind == "threadIdx.x"), None)
    if thread is None or s.why("compute_at", stage, thread) is not None:
        return elementwise(s, stage)
    s = s.compute_at(stage, thread).set_scope(stage, "local")
    *_, column, part = s.loops(stage)
    s = s.reorder(part, column)
    s = s.cache_read(stage, partial, "local", at=part)
    (near,) = s.last.stages
    return s.vectorize(s.loops(near)[-1]).unroll(part).vectorize(column)
