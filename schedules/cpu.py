"""A CPU schedule for any nest: threads over the outermost independent loop, vectors over an inner one."""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp
from schedules.direct import direct_cpu
from schedules.fusion import epilogue
from schedules.matmul import contraction, matmul_cpu, worth_tiling
from schedules.nests import extent, free_loops, one_nest
from schedules.products import several

LANES = 8
CHUNK = 8192
"""Iterations of a one-dimensional loop that a thread takes at once: 32 KiB of float32 an array."""


def cpu(s: lp.Schedule, lanes: int = LANES) -> lp.Schedule:
    """`s` with each stage run by threads over its outermost loop, by vectors of `lanes` over its innermost free one.

    A contraction of two operands runs in register tiles, as does a convolution. In another reduction the lanes are
    brought inside the reduced loops, so that a vector of sums stays in a register.
    """
    for stage in s.stages:  # first what takes the stages that it reads along
        if stage in s.stages and contraction(s, stage) is None and several(s, stage) and one_nest(s, stage):
            s = _direct(s, stage)
    for stage in s.stages:
        if stage not in s.stages or not one_nest(s, stage):
            continue
        c = contraction(s, stage)
        if c is not None and worth_tiling(s, c):
            s = epilogue(matmul_cpu(s, stage), stage)
            continue
        loops = free_loops(s, stage)
        if len(loops) == 1 and loops == s.loops(stage):
            s = _line(s, loops[0], lanes)
        elif loops:
            s = _grid(s, stage, loops, lanes)
    return s


def _direct(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A convolution in register tiles, if it can be."""
    try:
        return direct_cpu(s, stage)
    except lp.ScheduleError:
        return s


def _line(s: lp.Schedule, loop: str, lanes: int) -> lp.Schedule:
    """One loop over independent elements: whole chunks for the threads, what is left in a loop of its own."""
    length = extent(s, loop)
    if length is not None and length < 2 * CHUNK:
        return _vectors(s, loop, lanes)
    if s.why("split", loop, CHUNK, tail="peel") is not None:
        return s
    before = set(s.loops())
    s = s.split(loop, CHUNK, tail="peel")
    outer, inner = [x for x in s.loops() if x not in before][:2]
    return _vectors(s.parallel(outer), inner, lanes)


def _grid(s: lp.Schedule, stage: str, loops: Sequence[str], lanes: int) -> lp.Schedule:
    """Several loops: the last free one inside all others, for the lanes; the first for the threads."""
    if len(loops) > 1:
        s = _vectors(s, loops[-1], lanes)
        if stage not in s.stages:
            return s  # a step showed that it never runs
        lane = next((x for x in s.loops(stage) if s.loop(x).kind == "vectorize"), None)
        if lane is not None:
            order = (*(x for x in s.loops(stage) if x != lane), lane)
            if order != s.loops(stage) and s.why("reorder", *order) is None:
                s = s.reorder(*order)
    return s.parallel(loops[0]) if s.why("parallel", loops[0]) is None else s


def _vectors(s: lp.Schedule, loop: str, lanes: int) -> lp.Schedule:
    length = extent(s, loop)
    if (length is not None and length < lanes) or s.why("split", loop, lanes) is not None:
        return s
    before = set(s.loops())
    t = s.split(loop, lanes)
    inner = [x for x in t.loops() if x not in before][-1]
    return t.vectorize(inner) if t.why("vectorize", inner) is None else s
