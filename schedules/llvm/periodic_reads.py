"""Stages that find elements by quotients and remainders of a loop, on a CPU: the loop is split there.

Lanes of `x[j // 24] * y[j % 24]` would each divide and gather. In loops over the quotient and the remainder all that is
read is one element, or lies side by side.
"""

from __future__ import annotations

from itertools import pairwise
from math import lcm

import loopir as lp

from ..common.nest_queries import extent, if_legal

MOST_LANES = 64
"""Of a vector loop."""


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


def lanes_for_periods(s: lp.Schedule, stage: str, loop: str, lanes: int) -> int:
    """How many lanes along `loop` take whole runs of what subscripts divide by small numbers, as in `x[i // 3]`.

    Then what each lane reads is as far from the first one's in every iteration, so that it is picked from whole
    vectors. That is `lanes` or half of them so many times; `lanes` if there is no such number, or more lanes than a
    vector loop may have.
    """
    sizes = lcm(*(n for n in _loop_divisors(s, stage, loop) if n <= MOST_LANES))
    if lanes % sizes == 0:
        return lanes
    length = extent(s, loop)
    made = (lcm(n, sizes) for n in (lanes, lanes // 2) if n)
    return next((n for n in made if n <= MOST_LANES and (length is None or n <= length)), lanes)


def _divisors(s: lp.Schedule, stage: str, loop: str) -> list[int]:
    """The numbers by which subscripts of `stage` divide `loop`, the largest first; none if one divides not the next."""
    whole = extent(s, loop) or 0
    inside = sorted((n for n in _loop_divisors(s, stage, loop) if n < whole), reverse=True)
    return [] if any(x % y for x, y in pairwise((whole, *inside))) else inside


def _loop_divisors(s: lp.Schedule, stage: str, loop: str) -> set[int]:
    """The numbers by which subscripts of `stage` divide `loop`."""
    touched = [t for t in s.accesses(stage) if t.strides.get(loop, 0) is None]
    found = [d for t in touched for x in t.subscripts for d in x.digits if d.loop == loop]
    return {n for d in found for n in (d.weight, d.weight * (d.base or 1)) if n > 1}
