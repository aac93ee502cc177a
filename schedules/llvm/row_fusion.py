"""Several stages a row at a time: what a row of the result needs is computed in its iteration, in memory of its own.

For softmax, layernorm and the like: stages whose rows depend on the same row of the stages before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import loopir as lp

from ..common.knobs import Knob, either
from ..common.nest_queries import extent, free_loops, in_lanes, innermost
from .nontemporal_stores import past_caches, streamed
from .split_reduction import PARTIAL_VECTORS, folded, lanes_of, several
from .threads import parallel_if_legal

STREAMED = Knob("streamed", "whether results are stored past the caches", either, 0.2)

RECOMPUTED = 1.5
"""How many times as often a stage may run where it is read: borders of windows are computed twice."""


@lp.composite
def rows(s: lp.Schedule, loop: str | None = None, *, lanes: int | None = None) -> lp.Schedule:
    """`s` with all stages that can be placed there computed in `loop`, the outermost of the last stage by default.

    The rows run on threads, and the loops along a row in vectors of `lanes`, by default those of this machine; what
    is folded along a row is folded by vectors.
    """
    if not s.stages or not s.loops(s.stages[-1]):
        raise lp.ScheduleError("the last stage has no rows, as it stands in no loop")
    last = s.stages[-1]
    loop = s.loops(last)[0] if loop is None else loop
    s = gathered(s, loop)
    for stage in s.stages:
        inner = innermost(s, stage)
        if inner in (None, loop) or s.loop(inner).kind != "serial":
            continue
        if s.reduced(stage):
            t = windows_in_lanes(s, stage, loop, lanes=lanes)
            s = folded(s, stage, lanes=lanes) if t is s else t
        else:
            past = stage == last and STREAMED(past_caches(s), at=stage)
            s = vectors(s, inner, lanes or several(s, stage), last if past else None)
    return parallel_if_legal(s, last, loop)


@lp.composite
def windows_in_lanes(s: lp.Schedule, stage: str, row: str | None = None, *, lanes: int | None = None) -> lp.Schedule:
    """`s` with the fold `stage` of sliding windows, such as `x[i, j + k]` over k, in vectors of `lanes` windows.

    Windows that begin side by side also go on side by side, so a vector of sums is folded in a register, and no vector
    has to be folded into one number. A fold that is not of this form, or has no loop over windows but `row`, is left as
    it is.
    """
    window, width = free_loops(s, stage)[-1:], lanes or lanes_of(s, stage)
    length = extent(s, window[0]) if window else None
    if not window or window[0] == row or (length is not None and length < width):
        return s
    width *= (
        PARTIAL_VECTORS if length is None or length >= 2 * PARTIAL_VECTORS * width else 1
    )  # sums that do not wait for one another
    touched = s.accesses(stage)
    if not all(t.contiguous(window[0]) or (t.invariant(window[0]) and not t.write) for t in touched):
        return s
    inside = s.loops(stage)[s.loops(stage).index(window[0]) + 1 :]
    return _shifted_lanes(s, window[0], width, inside) or in_lanes(s, window[0], width, inside)


def _shifted_lanes(s: lp.Schedule, loop: str, lanes: int, inside: Sequence[str]) -> lp.Schedule | None:
    """`loop` in vectors of `lanes` inside the loops `inside` it, the last of which begins early enough to be whole:
    sums of masked lanes would be in memory. None where it is whole anyway, or a step is refused."""
    length = extent(s, loop)
    if length is None or length % lanes == 0 or s.why("split", loop, lanes, tail="shift_inwards") is not None:
        return None
    t, (outer, lane) = s.split(loop, lanes, tail="shift_inwards").with_loops
    order = (outer, *inside, lane)
    if inside and t.why("reorder", *order) is not None:
        return None
    t = t.reorder(*order) if inside else t
    return t.vectorize(lane) if t.why("vectorize", lane) is None else None


@lp.composite
def gathered(s: lp.Schedule, loop: str) -> lp.Schedule:
    """`s` with each stage before it computed in `loop`, the last ones first, if it can be placed there and its
    iterations remain as many: what does not depend on `loop`, such as a statistic of all rows, is computed once."""
    for stage in reversed(s.stages):
        if loop not in s.loops(stage) and s.why("compute_at", stage, loop) is None:
            t = s.compute_at(stage, loop)
            s = t if stage not in t.stages or not recomputed(s, t, stage) else s
    return s


def recomputed(s: lp.Schedule, t: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is known to run more than RECOMPUTED times as often in `t` as in `s`. Loops whose lengths are
    not known count alike in both."""
    before, after = ([extent(x, loop) for loop in x.loops(stage)] for x in (s, t))
    unknown = after.count(None) - before.count(None)
    known = prod(n for n in after if n is not None) > RECOMPUTED * prod(n for n in before if n is not None)
    return unknown > 0 or (unknown == 0 and known)


@lp.composite
def vectors(s: lp.Schedule, loop: str, lanes: int, past: str | None = None) -> lp.Schedule:
    """`s` with `loop` in vectors of `lanes`, if its iterations are independent; what is left over goes one by one.

    Those of the stage `past` are stored past the caches.
    """
    length = extent(s, loop)
    if (length is not None and length < lanes) or s.why("split", loop, lanes, tail="peel") is not None:
        return s
    t, (_, inner, *_) = s.split(loop, lanes, tail="peel").with_loops
    if t.why("vectorize", inner) is not None:
        return s
    return t.vectorize(inner) if past is None else streamed(t, past, inner)
