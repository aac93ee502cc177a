"""Nests of several statements under one independent loop, on a CPU: an iteration of it in each lane of vectors.

A sorting network or an elimination of each row of a batch moves elements about in a row, so that vectors along the row
would be put together element by element. Where each lane has a row of its own, these are whole vectors of the
intermediates, which lie lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loopir as lp

from ..common.nest_queries import extent, if_legal, legal, one_nest, reader, readers, written_by
from ..common.operands import is_move, is_view
from ..common.row_intermediates import own_buffers, statements_beside, with_own_rows
from .register_transpose import register_tiles
from .split_reduction import lanes_of
from .threads import parallel_if_legal


def shuffles_rows(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` moves elements of the intermediates of its nest across the direction in which they lie."""
    loop, own = s.loops(stage)[-1], own_buffers(s, stage)
    return any(t.buffer in own and not (t.contiguous(loop) or t.invariant(loop)) for t in s.accesses(stage))


@lp.composite
def rows_in_lanes(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """The nest of `stage` with `lanes` iterations of its outermost loop at once, by default as many as a vector has
    elements of the widest type; threads over what is left of it.

    A nest of one statement, one that shuffles no rows of intermediates or whose outermost loop is not independent,
    or is short or of unknown length, or that has more of them than the second cache holds, is left as it is. Rows
    that fill no vector are taken one by one.
    """
    loops = s.loops(stage)
    if one_nest(s, stage) or not loops or s.loop(loops[0]).kind != "serial":
        return s
    row, nest = loops[0], statements_beside(s, stage)
    length, width = extent(s, row), lanes or min(lanes_of(s, x) for x in nest)
    if (length or 0) < width or not any(shuffles_rows(s, x) for x in nest):
        return s
    t = legal(_moved_once(s, nest), with_own_rows, stage, lp.caches()[1] // (2 * width))
    tail = "exact" if (length or 0) % width == 0 else "peel"
    if t is None or t.why("split", row, width, tail=tail) is not None:
        return s
    t = t.split(row, width, tail=tail)
    outer, lane = t.last.loops[:2]
    if t.why("vectorize", lane) is not None:
        return s
    t, turned = _lane_by_lane(t, statements_beside(t, stage), outer, lane)
    t = t.vectorize(lane)
    for copy in turned:
        t = legal(t, register_tiles, copy) or t
    return parallel_if_legal(t, stage, outer)


def _moved_once(s: lp.Schedule, nest: Sequence[str]) -> lp.Schedule:
    """`s` with what stages before the statements of `nest`, and after them, move as it is moved by these themselves."""
    for x in nest:
        if x not in s.stages or not is_move(s, x) or len(s.loops(x)) > 2:
            continue  # in a loop of steps, it moves elements again and again
        for source in [y for y in s.stages if is_view(s, y) and readers(s, y) == [x]]:
            s = if_legal(s, "compute_inline", source)
        after = reader(s, x)
        if after is not None and is_view(s, after):
            s = if_legal(s, "reverse_compute_inline", after)
    return s


def _lane_by_lane(s: lp.Schedule, nest: Sequence[str], outer: str, lane: str) -> tuple[lp.Schedule, list[str]]:
    """`s` with copies, made in each iteration of `outer`, of what `nest` reads and writes along its innermost loops and
    not along `lane`: in these, lanes lie side by side. And the stages that copy."""
    copies = list[str]()
    for x in nest:
        for t in [t for t in s.accesses(x) if _lies_across(t, s.loops(x)[-1], lane)]:
            if t.write and s.why("cache_write", x, "global", outer) is None:
                before, s = set(s.stages), s.cache_write(x, "global", outer)
                copies.append(x)
                (inside,) = set(s.stages) - before
                s = _lanes_last(s, inside, next(iter(written_by(s, inside))), lane)
            elif not t.write and s.why("cache_read", x, t.buffer, "global", at=outer) is None:
                s, copy = s.cache_read(x, t.buffer, "global", at=outer).with_stage
                copies.append(copy)
                s = _lanes_last(s, x, next(iter(written_by(s, copy))), lane)
    return s, copies


def _lies_across(access: Any, inner: str, lane: str) -> bool:
    """Whether what is touched lies along the loop `inner`, and apart along `lane`."""
    return access.contiguous(inner) and not (access.contiguous(lane) or access.invariant(lane))


def _lanes_last(s: lp.Schedule, stage: str, buffer: str, lane: str) -> lp.Schedule:
    """`s` with the dimension of `buffer` last that `stage` indexes by `lane`."""
    at = next(t.subscripts for t in s.accesses(stage) if t.buffer == buffer)
    dims = sorted(range(len(at)), key=lambda d: at[d] == lane)
    return if_legal(s, "reorder_dims", buffer, *dims)
