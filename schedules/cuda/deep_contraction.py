"""Contractions of few results and many terms, as gradients of weights: the reduced loop in parts that fill a GPU.

A part is a member of a batch of smaller contractions, which are scheduled as any batch is, in every dtype; their sums
are float32 in global memory, and a second kernel adds them up. This is split-K with as many parts as there are
processors to fill; `matmul_split` has the form of few parts, by tiles that were chosen together with them.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import Contraction, contraction, partial_sums
from ..common.nest_queries import argument_names, extent, one_nest
from .matmul_simt import matmul_simt

MIN_BLOCKS = 2
"""Tiles of parts for each processor, about, that fill a GPU."""
LEAST, RATIO = 16, 16
"""Rows and columns that a tile is worth, and how many times as many terms as rows there are at least."""
TILE = 64
"""Rows and columns of a tile that are worth a block."""
SIMT_TILE, SIMT_DEPTH = (128, 64), 32
"""Rows and columns of a block's tile of float32, and the steps of it that are in shared memory at a time."""
MIN_PART_TERMS = 256
"""Terms that a part has at least, and where parts of whole steps are looked for, of which multiple."""
TILED = 2
"""Rows and columns from which on float32 is taken by tiles that are filled up."""
STEP_CHOICES = 64, 32, 16, 8, 1
"""Lengths of which a part may be made, the best first: steps of tiles in their dtypes."""
FEW_RESULTS = 4
"""Parts that are not worth a batch."""


def parts_of(s: lp.Schedule, stage: str) -> int:
    """Into how many parts of one length the reduced loop of contraction `stage` is cut; 1 where it is left whole."""
    c = contraction(s, stage) if s.reduced(stage) and one_nest(s, stage) else None
    if c is None or c.batch:
        return 1
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if rows is None or columns is None or depth is None:
        return 1
    if not is_deep_enough(rows, columns, depth) or _has_ragged_tiles(s, c):
        return 1
    simt = whole_simt_tiles(s, c)
    tiles = -(-rows // (SIMT_TILE[0] if simt else TILE)) * -(-columns // (SIMT_TILE[1] if simt else TILE))
    wanted = min(MIN_BLOCKS * lp.machine().processors // tiles, depth // MIN_PART_TERMS)
    if wanted <= FEW_RESULTS:
        return 1
    for steps in (SIMT_DEPTH,) if simt else STEP_CHOICES:
        fits = [n for n in range(wanted, max(FEW_RESULTS, wanted // 2), -1) if depth % (n * steps) == 0]
        if fits:
            return fits[0]
    return wanted if simt else 1  # tiles of which are filled up


def is_deep_enough(rows: int, columns: int, depth: int) -> bool:
    """Whether so many rows and columns are worth tiles, and there are many times as many terms."""
    return min(rows, columns) >= LEAST and depth >= RATIO * max(rows, columns)


def _has_ragged_tiles(s: lp.Schedule, c: Contraction) -> bool:
    """Whether `c` folds float32 in tiles that are filled up, which `matmul_simt_split` cuts in parts of any length."""
    float32 = all(t.dtype.name == "float32" for t in s.accesses(c.stage))
    many = all((extent(s, x) or 0) >= TILED for x in (c.row, c.column))
    return float32 and many and not whole_simt_tiles(s, c)


def whole_simt_tiles(s: lp.Schedule, c: Contraction) -> bool:
    """Whether `c` folds float32 that runs along rows and columns, which whole tiles of `SIMT_TILE` make up."""
    rows, columns = extent(s, c.row), extent(s, c.column)
    if rows is None or columns is None or c.left.along or c.right.along:
        return False
    float32 = all(t.dtype.name == "float32" for t in s.accesses(c.stage))
    return float32 and rows % SIMT_TILE[0] == columns % SIMT_TILE[1] == 0


def part_by_threads(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The parts of a contraction of float32 in tiles of `SIMT_TILE`, two blocks of which a processor has.

    A copy of an operand that was made to tell two uses of one array apart is taken back: tiles are read as they lie.
    """
    c = contraction(s, stage)
    steps = None if c is None else extent(s, c.reduced)
    if c is None or not c.batch or steps is None or steps % SIMT_DEPTH or not whole_simt_tiles(s, c):
        raise lp.ScheduleError(f"{stage} has no parts that whole tiles of float32 make up")
    s = matmul_simt(s, stage, block=SIMT_TILE, depth=SIMT_DEPTH)
    given = argument_names(s)
    for x in s.stages:
        copied = [t for t in s.accesses(x) if t.write and t.buffer in (c.left.buffer, c.right.buffer)]
        if copied and copied[0].buffer not in given and s.why("compute_inline", x) is None:
            s = s.compute_inline(x)
    return s


@lp.composite
def in_parts(s: lp.Schedule, stage: str, parts: int) -> lp.Schedule:
    """The contraction `stage` as a batch of `parts` contractions, whose sums `stage` then folds.

    Tiles of float32 are filled up, so that the last of their parts may be shorter; else ScheduleError where `parts` do
    not divide the reduced loop.
    """
    c = contraction(s, stage)
    ragged = c is not None and whole_simt_tiles(s, c) and (extent(s, c.reduced) or 0) % parts > 0
    return partial_sums(s, stage, parts, SIMT_DEPTH if ragged else 1)[0]
