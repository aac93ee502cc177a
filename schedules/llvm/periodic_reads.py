"""Stages that find elements by quotients and remainders of a loop, on a CPU: the loop is split there.

Lanes of `x[j // 24] * y[j % 24]` would each divide and gather. In loops over the quotient and the remainder all that is
read is one element, or lies side by side.
"""

from __future__ import annotations

from itertools import pairwise

import loopir as lp

from ..common.nest_queries import extent, if_legal


@lp.composite
def split_periods(s: lp.Schedule, stage: str, *, least: int = 1) -> lp.Schedule:
    """`s` with each loop of `stage` split by the numbers by which subscripts divide it, if each divides the next one.

    Whatever else is in the subscript: `x[i // 64, i % 64 + 1]` makes two loops of `i`. What moves by a known step along
    the loop asks for no split. The innermost loop of the stage keeps `least` iterations or more.
    """
    for loop in s.loops(stage):
        rest = loop
        for size in _divisors(s, stage, loop):
            if size >= least or loop != s.loops(stage)[-1]:
                t = if_legal(s, "split", rest, size, tail="exact")
                if t is not s:
                    (_, rest), s = t.last.loops, t
    return s


def _divisors(s: lp.Schedule, stage: str, loop: str) -> list[int]:
    """The numbers by which subscripts of `stage` divide `loop`, the largest first; none if one divides not the next."""
    touched = [t for t in s.accesses(stage) if t.strides.get(loop, 0) is None]
    found = [d for t in touched for x in t.subscripts for d in x.digits if d.loop == loop]
    numbers = {d.weight for d in found} | {d.weight * (d.base or 1) for d in found}
    whole = extent(s, loop) or 0
    inside = sorted((n for n in numbers if 1 < n < whole), reverse=True)
    return [] if any(x % y for x, y in pairwise((whole, *inside))) else inside
