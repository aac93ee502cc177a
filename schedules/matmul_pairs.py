"""Products of 16-bit integers on a CPU: two steps of the reduced loop in one instruction of each vector.

A processor that has no more for small integers multiplies neighbours in 16 bits and adds both products up in 32: twice
as many products in a cycle as of floats. Panels hold the steps in pairs. An int8 that is widened to int16 on the way
into its panel loses nothing, and one that is not would be widened for each product.
"""

from __future__ import annotations

import platform

import loopir as lp
from schedules.matmul import Contraction, Operand, contraction, copied, stages
from schedules.nests import extent, step

HEIGHTS = (6, 5, 4, 8, 3, 2)
"""Rows of a tile, best first: registers hold two vectors of sums for each, and two of the right operand."""
MACHINES = ("x86_64", "AMD64")
TURNS = 3
"""Blocks of rows that a thread has, where there are so many."""


def pairs(s: lp.Schedule, stage: str) -> tuple[Contraction, int, int] | None:
    """`stage` as a product of 16-bit integers in whole tiles of so many rows and lanes, or None if it is none."""
    c = contraction(s, stage) if platform.machine() in MACHINES else None
    if c is None or c.batch or {t.dtype.name for t in s.accesses(stage) if not t.write} != {"int16"}:
        return None
    lanes, registers = lp.vector_unit()[0] // 4, lp.vector_unit()[1]
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None or depth % 2 or columns % (2 * lanes):
        return None
    height = next((n for n in HEIGHTS if rows % n == 0 and 2 * n + 3 <= registers), None)
    return None if height is None else (c, height, lanes)


@lp.composite
def matmul_pairs(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The contraction `stage` of int16 into int32, in register tiles by products of pairs, threads over blocks of rows.

    Rows, columns and steps have to be known, and to make whole tiles. What the operands are widened from goes straight
    into their panels.
    """
    found = pairs(s, stage)
    if found is None:
        raise lp.ScheduleError(f"{stage} is no product of 16-bit integers in whole tiles")
    c, height, lanes = found
    width = 2 * lanes
    s, (j, jj) = step(s, "split", c.column, width)
    s, (i, ii) = step(s, "split", c.row, height)
    s, (block, tile) = step(s, "split", i, _tiles(extent(s, i) or 1))
    s, (k, kk) = step(s, "split", c.reduced, 2)
    s = s.reorder(block, j, tile, k, ii, jj, kk)
    s, (jv, lane) = step(s, "split", jj, lanes)
    s, (inner,) = stages(s, "cache_write", stage, "local", at=tile)
    for operand, tall in ((c.right, width), (c.left, height)):
        s = _packed(s, inner, operand, tall)
    s, (init,) = stages(s, "decompose_reduction", inner)
    s = s.unroll(ii).unroll(jv).tensorize(lane, f"dot2_{lanes}_int16")
    for x in (init, stage):
        one, two, last = s.loops(x)[-3:]
        s = s.vectorize(last).unroll(two).unroll(one)
    return s.parallel(block)


def _tiles(count: int) -> int:
    """How many of `count` tiles make a block, so that no block has fewer."""
    blocks = min(count, TURNS * lp.thread_count())
    return next(n for n in range(-(-count // blocks), 0, -1) if count % n == 0)


def _packed(s: lp.Schedule, inner: str, operand: Operand, width: int) -> lp.Schedule:
    """A copy of `operand` in panels of `width`, in which pairs of steps lie together."""
    s, copy = copied(s, inner, operand.buffer, "global", None)
    args = "x, k" if operand.along else "k, x"
    s = s.set_layout(copy, f"lambda {args}: (x // {width}, k // 2, x % {width}, k % 2)")
    if operand.buffer in s.stages and s.why("compute_inline", operand.buffer) is None:
        s = s.compute_inline(operand.buffer)
    outer = s.loops(copy)[0]
    return s.parallel(outer) if s.why("parallel", outer) is None else s
