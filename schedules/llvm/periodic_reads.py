"""Stages that find elements by quotients and remainders of a loop, on a CPU: the loop is split there.

Lanes of `x[j // 24] * y[j % 24]` would each divide and gather. In loops over the quotient and the remainder all that is
read is one element, or lies side by side.
"""

from __future__ import annotations

import re

import loopir as lp

from ..common.nest_queries import extent, if_legal

_DIGIT = re.compile(r"\b(\w+) (?://|%) (\d+)\b")


@lp.composite
def split_periods(s: lp.Schedule, stage: str, *, least: int = 1) -> lp.Schedule:
    """`s` with each loop of `stage` split by the one number by which subscripts divide it, if what it reads then moves
    by a known step along both loops, and the innermost loop keeps `least` iterations or more."""
    for loop in s.loops(stage):
        reads = [t for t in s.accesses(stage) if t.strides.get(loop, 0) is None]
        numbers = {int(n) for t in reads for d in t.subscripts for x, n in _DIGIT.findall(d) if x == loop}
        if len(numbers) != 1:
            continue
        (size,) = numbers
        t = if_legal(s, "split", loop, size, tail="exact")
        if t is s or (loop == s.loops(stage)[-1] and size < least):
            continue
        known = all(x.strides.get(made) is not None for x in t.accesses(stage) for made in t.last.loops)
        s = t if known and extent(t, t.last.loops[0]) != 1 else s
    return s
