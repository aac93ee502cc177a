"""A stencil that is swept again and again: time skewed and tiled, so that a tile's rows stay in cache for many sweeps.

The nest is a time loop around one sweep (in place) or several (from one array to another and back). The sweeps are
fused with the least shift that keeps their order, the rows are skewed by time as far as tiles of both need, and the
guards that this takes are partitioned off: inner tiles have none.
"""

from __future__ import annotations

import loopir as lp

from .nest_queries import if_legal

STEEPEST = 4
"""The largest shift and skew that are tried: how far a sweep reaches, or twice that."""


def time_tiled(s: lp.Schedule, sweeps: int = 8, rows: int = 32) -> lp.Schedule:
    """`s` with its outermost loop, over time, and the rows of its sweeps in tiles of `sweeps` by `rows`.

    A nest of another form, or one whose dependences no shift or skew up to STEEPEST turns forward, stays as it is.
    """
    tiled = _tiled(s, sweeps, rows)
    if tiled is None:
        return s
    s, (time, row, *_) = tiled
    for loop in (time, row):  # inner tiles need no guards
        s = if_legal(s, "partition", loop)
    return s


def time_tiled_gpu(s: lp.Schedule, sweeps: int = 8, rows: int = 32, threads: int = 128) -> lp.Schedule:
    """The same tiles on a GPU: those along a diagonal at once, a block for each, and one launch a diagonal.

    The threads of a block share the columns of a row, if these do not depend on one another.
    """
    tiled = _tiled(s, sweeps, rows)
    if tiled is None:
        return s
    s, (time, row, _, row_in_tile) = tiled
    s = s.wavefront(time, row).bind(time, "blockIdx.x")
    inner = s.loops().index(row_in_tile) + 1
    for column in dict.fromkeys(s.loops(stage)[inner] for stage in s.stages if len(s.loops(stage)) > inner):
        split, (_, thread) = s.split(column, threads).with_loops
        if split.why("bind", thread, "threadIdx.x") is None:
            s = split.bind(thread, "threadIdx.x")
    return s


def _tiled(s: lp.Schedule, sweeps: int, rows: int) -> tuple[lp.Schedule, tuple[str, ...]] | None:
    """`s` in tiles of time and rows, and the loops over tiles, then those in them."""
    fused = _one_sweep(s)
    if fused is None:
        return None
    s, time, row = fused
    for factor in range(1, STEEPEST + 1):
        t = s.skew(time, row, factor)
        if t.why("tile", time, row, sweeps, rows) is None:
            return t.tile(time, row, sweeps, rows).with_loops
    return None


def _one_sweep(s: lp.Schedule) -> tuple[lp.Schedule, str, str] | None:
    """The sweeps inside the loop over time as one, and the loops over time and over rows."""
    if not s.stages or any(len(s.loops(stage)) < 2 for stage in s.stages):
        return None
    time, *more = {s.loops(stage)[0] for stage in s.stages}
    if more:
        return None
    first, *others = dict.fromkeys(s.loops(stage)[1] for stage in s.stages)
    for other in others:
        shifts = range(STEEPEST + 1)
        shift = next((k for k in shifts if s.why("fuse_loops", first, other, shift=k, tail="guard") is None), None)
        if shift is None:
            return None
        s = s.fuse_loops(first, other, shift=shift, tail="guard")
    return s, time, first
