"""Products of few rows with a matrix that lies along the reduced loop, as x @ W.T of a linear layer: W is read once.

Panels of W would be written and read once more, for a few products of each element. Here the few rows of the left
operand are the lanes, from a small panel, and each element of W, as it lies, multiplies all of them at once.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import Contraction, contraction, padded
from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, if_legal, result_of
from .threads import parallel

LEAST_ROWS = 6
"""Rows from which on lanes of rows are better than folds along the reduced loop."""
MOST_VECTORS = 2
"""Vectors of rows, at most: with more, panels are used often enough."""
TILE_COLUMNS = 8
"""Columns of a tile: rows of W that are read at a time, of which one cache set holds so many."""
TURN = 4
"""Steps of the reduced loop in one turn."""
COLUMNS_KNOB = Knob("columns", "rows of the right operand that are read at a time", octaves(4, 8), 0.1)


def few_rows(s: lp.Schedule, stage: str) -> Contraction | None:
    """What `stage` is as a product of few rows with a matrix along the reduced loop that no second cache holds."""
    c = contraction(s, stage)
    if c is None or c.batch or not c.right.along or c.bytes < 4:
        return None
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    lanes = lp.vector_unit()[0] // c.bytes
    if rows is None or columns is None or depth is None or not LEAST_ROWS <= rows <= MOST_VECTORS * lanes:
        return None
    fits = columns % TILE_COLUMNS == 0 and depth >= TURN and columns * depth * c.bytes >= lp.caches()[1] // 2
    alike = {t.dtype.bytes for t in s.accesses(stage)} == {c.bytes}
    return c if fits and alike else None


@lp.composite
def matmul_few_rows(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The product `stage` with its rows as lanes; ScheduleError if it is none of few rows."""
    c = few_rows(s, stage)
    if c is None:
        raise lp.ScheduleError(f"{stage} is no product of few rows with a large matrix along the reduced loop")
    lanes, k = lp.vector_unit()[0] // c.bytes, c.reduced
    width = -(-(extent(s, c.row) or 0) // lanes) * lanes
    height = COLUMNS_KNOB(TILE_COLUMNS, at=stage)
    s, (_, row) = s.split(c.row, width).with_loops
    s, (tile, column) = s.split(c.column, height, tail="exact").with_loops
    s = s.reorder(s.loops(stage)[0], tile, k, column, row)
    s = s.cache_write(stage, "local", at=tile)
    nests = s.last.stages
    inner = next(x for x in nests if k in s.loops(x))
    sums = result_of(s, inner)
    s = s.set_layout(sums, f"lambda x, j: j * {width} + x")
    s, panel = s.cache_read(inner, c.left.buffer, "global", at=None).with_stage
    s = padded(s.set_layout(panel, f"lambda x, k: k * {width} + x"), inner, row)
    s = s.vectorize(row).unroll(column)
    s, (_, near, *_) = s.split(k, TURN, tail="peel").with_loops
    s = s.unroll(near)
    for out in (x for x in (stage, *nests) if x != inner and x in s.stages):
        one, other = s.loops(out)[-2:]
        s = if_legal(if_legal(s, "reorder", other, one), "vectorize", one)
    return parallel(_transposed_panel(s, panel, c.left.buffer, lanes), inner, tile)


def _transposed_panel(s: lp.Schedule, panel: str, buffer: str, lanes: int) -> lp.Schedule:
    """The copy of the left operand by tiles in registers, read by vectors along its rows and written by vectors across
    them, on threads; as it is where its sides are no whole tiles."""
    row, k = s.loops(panel)
    if any((extent(s, x) or 1) % lanes for x in (row, k)):
        return s
    s, (rows, i) = s.split(row, lanes, tail="exact").with_loops
    s, (outer, j) = s.split(k, lanes, tail="exact").with_loops
    s, square = s.reorder(outer, rows, j, i).cache_read(panel, buffer, "local", at=rows).with_stage
    across, along = s.loops(square)[-2:]
    return parallel(s.vectorize(along).unroll(across).vectorize(i).unroll(j), panel, outer)
