"""Stages that read along one loop and write along another, on a CPU: by tiles in registers.

A tile is read by vectors along the rows of the input and written by vectors along those of the output. All that a line
of the caches has is used while it is near, also where rows lie so that no two of them have room there.
"""

from __future__ import annotations

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, if_legal
from ..common.transpose import TransposedRead, find_transposed_read, tiled
from .threads import parallel_if_legal

PAGE = 4096
"""Bytes whose addresses are looked up together."""
MAX_ROWS = 16
"""Rows of a tile at most: each is a register."""
REGISTER_TILE = Knob("tile", "rows and columns of a tile in registers", octaves(2, 32), 0.1)


def transposed_tile(s: lp.Schedule, stage: str) -> int | None:
    """Rows and columns of a tile of `stage`, if it reads across the direction it writes in, and more than a tile.

    What is read in two ways, as in A + A.T, lies in no one tile.
    """
    t = find_transposed_read(s, stage)
    if t is None or sum(x.buffer == t.buffer for x in s.accesses(stage)) > 1:
        return None
    rows = min(MAX_ROWS, lp.vector_unit()[0] // t.bytes)
    return rows if all(n is None or n >= rows for n in (extent(s, t.row), extent(s, t.column))) else None


@lp.composite
def transpose_cpu(s: lp.Schedule, stage: str, *, rows: int | None = None) -> lp.Schedule:
    """`stage`, which reads an input across the direction it writes in, by tiles of `rows` x `rows`, by default as many
    as a vector has elements; threads over tiles. ScheduleError if `stage` is no such stage."""
    s = register_tiles(s, stage, rows)
    outside = s.loops(stage)[:-3]  # a batch, and tiles one below the other
    outer = next((x for x in outside if (extent(s, x) or lp.thread_count()) >= lp.thread_count()), outside[-1])
    return parallel_if_legal(s, stage, outer)


def _rows_on_pages(s: lp.Schedule, stage: str, t: TransposedRead) -> bool:
    """Whether rows of the input lie a page or more apart, and those of the output closer: tiles one after another along
    a row of the output would then each read other pages, whose addresses a core has forgotten when it comes back."""
    read, written = (
        getattr(x.strides.get(loop), "value", 0) * x.dtype.bytes
        for x, loop in (
            (next(x for x in s.accesses(stage) if x.buffer == t.buffer), t.column),
            (next(x for x in s.accesses(stage) if x.write), t.row),
        )
    )
    return 0 < written < PAGE <= read


def register_tiles(s: lp.Schedule, stage: str, rows: int | None = None) -> lp.Schedule:
    """`transpose_cpu` on one thread."""
    t, rows = find_transposed_read(s, stage), rows or transposed_tile(s, stage)
    rows = None if rows is None else REGISTER_TILE(rows, at=stage)
    if t is None or rows is None:
        raise lp.ScheduleError(f"{stage} reads nothing across the direction that it writes in, or less than a tile")
    down = _rows_on_pages(s, stage, t)
    s, copy, _, (high, wide, i, j) = tiled(s, stage, t, rows, "local")
    s = if_legal(s, "reorder", wide, high) if down else s
    along, across = s.loops(copy)[-1], s.loops(copy)[-2]
    s = s.vectorize(along).unroll(across).vectorize(j).unroll(i)
    for loop in (wide, high):
        s = if_legal(s, "partition", loop)
    return s
