"""Stages that find elements by quotients and remainders of a loop, on a CPU: the loop is split there.

Lanes of `x[j // 24] * y[j % 24]` would each divide and gather. In loops over the quotient and the remainder all that is
read is one element, or lies side by side.
"""

from __future__ import annotations

import re
from itertools import pairwise

import loopir as lp

from ..common.nest_queries import extent, if_legal

_DIGIT = re.compile(r"\b(\w+)(?: // (\d+))?(?: % (\d+))?(?!\w)")


@lp.composite
def split_periods(s: lp.Schedule, stage: str, *, least: int = 1) -> lp.Schedule:
    """`s` with each loop of `stage` split by the numbers by which subscripts divide it, if each divides the next one.

    Whatever else is in the subscript: `x[i // 64, i % 64 + 1]` makes two loops of `i`. The innermost loop of the stage
    keeps `least` iterations or more.
    """
    for loop in s.loops(stage):
        subscripts = [d for t in s.accesses(stage) for d in t.subscripts if " // " in d or " % " in d]
        found = [(int(q or 1), int(r or 1)) for d in subscripts for x, q, r in _DIGIT.findall(d) if x == loop]
        numbers = sorted({q for q, _ in found} | {q * r for q, r in found}, reverse=True)
        whole = extent(s, loop) or 0
        if any(x % y for x, y in pairwise((whole, *numbers))):
            continue
        rest = loop
        for size in numbers:
            if 1 < size < whole and (size >= least or loop != s.loops(stage)[-1]):
                t = if_legal(s, "split", rest, size, tail="exact")
                if t is not s:
                    (_, rest), s = t.last.loops, t
    return s
