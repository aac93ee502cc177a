"""Contractions whose reduced loop is cut in parts, so that products of few tiles fill a GPU (split-K).

Each part makes tiles of sums on its own, kept in global memory; a second kernel adds the parts up, in order, and does
what follows. It pays where a tile for each multiprocessor would be too small to spare the cache.
"""

from __future__ import annotations

from typing import Any

import loopir as lp

from ..common.contraction import partial_sums
from ..common.nest_queries import extent, free_loops, one_nest, reader
from .elementwise import elementwise
from .matmul_mma import matmul_mma
from .matmul_simt import matmul_simt
from .matmul_wgmma import matmul_wgmma
from .reduction import reduction

MOST_LANES, MOST_PARTS = 8, 8
"""Columns that a thread sums the parts of at once, and how many parts."""


@lp.composite
def matmul_split(s: lp.Schedule, stage: str, *, parts: int, warpgroups: bool = True, **options: Any) -> lp.Schedule:
    """The contraction `stage` in `parts` of its reduced loop by `matmul_wgmma` with `options`, or by `matmul_mma` where
    products are not those of `warpgroups`; then the sum of the parts.

    Parts are of one length where they divide the loop in steps of the `depth` that is among the options, or where there
    is none; else all but the last are whole steps, which are filled up. The parts have the type of the sums and the
    shape (parts, rows, columns), and are written and read once.
    """
    s, partial = partial_sums(s, stage, parts, 1 if warpgroups else options.get("depth", 1))
    s = s.cache_write(partial, "global")
    made = next(x for x in s.stages if x in (partial, *s.last.stages))
    return _sum_of_parts((matmul_wgmma if warpgroups else matmul_mma)(s, made, **options), stage, partial)


@lp.composite
def matmul_simt_split(s: lp.Schedule, stage: str, *, parts: int, depth: int = 32, **options: Any) -> lp.Schedule:
    """As `matmul_split`, of float32 on the ordinary units: by `matmul_simt`, `depth` steps at a time."""
    s, partial = partial_sums(s, stage, parts, depth)
    return _sum_of_parts(matmul_simt(s, partial, depth=depth, **options), stage, partial)


def _sum_of_parts(s: lp.Schedule, stage: str, partial: str) -> lp.Schedule:
    """The sum of the parts, made where it is read, by threads that have vectors of columns; that of many parts by
    threads that fold it together."""
    out, parts = reader(s, stage), extent(s, s.reduced(stage)[-1])
    if parts is not None and parts > MOST_PARTS:
        s = reduction(s, stage, chunk=0)
        return elementwise(s, out) if out is not None and one_nest(s, out) and free_loops(s, out) else s
    if out is None:
        return elementwise(s, stage)
    s = elementwise(s, out)
    thread = next((x for x in reversed(s.loops(out)) if s.loop(x).kind == "threadIdx.x"), None)
    if thread is None or s.why("compute_at", stage, thread) is not None:
        return elementwise(s, stage)
    t = s.compute_at(stage, thread).set_scope(stage, "local")
    *_, column, part = t.loops(stage)
    if (extent(t, column) or 2 * MOST_LANES) > MOST_LANES:  # a thread's elements are of two rows, or more
        return elementwise(s, stage)
    t = t.reorder(part, column)
    t, near = t.cache_read(stage, partial, "local", at=part).with_stage
    return t.vectorize(t.loops(near)[-1]).unroll(part).vectorize(column)
