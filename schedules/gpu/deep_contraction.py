"""Contractions of few results and many terms, as gradients of weights: the reduced loop in parts that fill a GPU.

A part is a member of a batch of smaller contractions, which are scheduled as any batch is, in every dtype; their sums
are float32 in global memory, and a second kernel adds them up. This is split-K with as many parts as there are
processors to fill; `matmul_split` has the form of few parts, by tiles that were chosen together with them.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import contraction
from ..common.nest_queries import extent, one_nest, step

BLOCKS = 2
"""Tiles of parts for each processor, about, that fill a GPU."""
LEAST, RATIO = 16, 16
"""Rows and columns that a tile is worth, and how many times as many terms as rows there are at least."""
TILE = 64
"""Rows and columns of a tile that are worth a block."""
DEEP = 256
"""Terms that a part has at least, and where parts of whole steps are looked for, of which multiple."""
STEPS = 64, 32, 16, 8, 1
FEW = 4
"""Parts that are not worth a batch."""


def parts_of(s: lp.Schedule, stage: str) -> int:
    """Into how many parts of one length the reduced loop of contraction `stage` is cut; 1 where it is left whole."""
    c = contraction(s, stage) if s.reduced(stage) and one_nest(s, stage) else None
    if c is None or c.batch:
        return 1
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None:
        return 1
    if min(rows, columns) < LEAST or depth < RATIO * max(rows, columns):
        return 1
    tiles = -(-rows // TILE) * -(-columns // TILE)
    wanted = min(BLOCKS * lp.machine().processors // tiles, depth // DEEP)
    if wanted <= FEW:
        return 1
    for steps in STEPS:
        fits = [n for n in range(wanted, max(FEW, wanted // 2), -1) if depth % (n * steps) == 0]
        if fits:
            return fits[0]
    return 1


@lp.composite
def in_parts(s: lp.Schedule, stage: str, parts: int) -> lp.Schedule:
    """The contraction `stage` as a batch of `parts` contractions, whose sums `stage` then folds.

    Raises ScheduleError where `parts` do not divide the reduced loop.
    """
    c = contraction(s, stage)
    length = None if c is None else extent(s, c.reduced)
    if c is None or length is None or length % parts:
        raise lp.ScheduleError(f"{stage} is no contraction over a loop that {parts} parts of one length make up")
    s, (part, _) = step(s, "split", c.reduced, length // parts, tail="exact")
    free = [x for x in s.loops(stage) if x not in s.reduced(stage)]
    return s.reorder(part, *free).rfactor(stage, part)
