"""Contractions without tensor cores on a GPU: float32 by fused multiply-adds, a block of warps for each tile.

What bounds it is what is issued: for each step of the reduced loop a thread folds a part of 8 x 8 sums, by 64
instructions, and loads 16 elements from shared memory for them, by 4 more. So loads are vectors of four along the
tile's rows and columns, of which the lanes of a warp, 8 by 4 of them, meet every bank once; and copies, some steps
ahead, pass the registers by. An operand whose rows run along the reduced loop is turned around by its copy, an element
at a time.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import Contraction, Operand, require_contraction
from ..common.nest_queries import batched, extent, if_legal
from ..common.transpose import transpose
from .matmul_mma import copy_by_warps
from .row_threads import WARP

FLOAT32_VECTOR, ACROSS, DOWN = 4, 4, 8
"""Elements of a vector of 16 bytes; lanes of a warp along columns, and along rows."""
RUN = 8
"""Elements of 4 bytes in a sector, which lanes copy from memory together."""


@lp.composite
def matmul_simt(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] = (128, 128),
    part: tuple[int, int] = (8, 8),
    depth: int = 32,
    stages: int = 3,
    piece: int = 32,
    turn: bool = False,
    within: tuple[str, ...] = (),
    runs: tuple[bool, bool] | None = None,
) -> lp.Schedule:
    """The contraction `stage` of float32 in tiles of `block`, `part` of it for each thread, `depth` steps at a time.

    A thread's part is made of squares of 4 x 4, as far apart as lets lanes load neighbours. Copies to shared memory run
    `stages` less one steps ahead. A `piece` is how many steps of a tile are code without a loop: more are faster, and
    take longer to compile. With `turn`, operands whose rows run along the reduced loop are first copied so that they
    run along the tile, of which a thread then holds fewer elements at a time. The stages `within`, which the operands
    are computed from, are computed in the copies of their tiles. With `runs`, tiles are copied element by element, by
    lanes that lie along the reduced loop for those operands of which it says so, as their elements do in memory.
    """
    c = require_contraction(s, stage)
    if turn:
        s = _transposed_copies(s, c)
        c = require_contraction(s, stage)
    if any(t.dtype.bytes != FLOAT32_VECTOR for t in s.accesses(stage)):
        raise lp.ScheduleError(f"{stage} folds elements of other than 4 bytes, of which four make a vector")
    warps = (block[0] // (DOWN * part[0]), block[1] // (ACROSS * part[1]))
    s, (bi, i) = s.split(c.row, block[0]).with_loops
    s, (bj, j) = s.split(c.column, block[1]).with_loops
    s, (ko, k) = s.split(c.reduced, depth).with_loops
    stages = min(stages, extent(s, ko) or stages)  # no more than there are to copy
    s, (kv, k) = s.split(k, FLOAT32_VECTOR, tail="exact").with_loops
    s = s.reorder(*c.batch, bi, bj, ko, kv, k, i, j).bind(bi, "blockIdx.y").bind(bj, "blockIdx.x")
    s = batched(s, c.batch)
    s, inner = s.cache_write(stage, "local", at=bj).with_stage
    *_, i, j = s.loops(stage)
    apart = (c.left.along, c.right.along)
    s = _parts(s, (i, j), part, apart, ())
    *_, kv, k, i, j = s.loops(inner)
    copies: list[str] = []
    for operand in (c.left, c.right):
        s, copy = s.cache_read(inner, operand.buffer, "shared", at=ko).with_stage
        copies.append(copy)
    for name in within:
        s = if_legal(s, "compute_inline", name)
    s = if_legal(s, "pad", inner)
    s = _parts(s, (i, j), part, apart, (kv, k))
    for n, (operand, copy) in enumerate(zip((c.left, c.right), copies, strict=True)):
        if runs is None:
            s = _copy_by_lanes(s, copy, operand, depth, warps, stages)
        else:
            s = _copy_elements(s, copy, block[n], runs[n], warps, stages)
    *_, i2, j2, _, _, _ = s.loops(inner)
    for copy, at in zip(copies, (i2, j2), strict=True):
        s, mine = s.cache_read(inner, copy, "local", at=at).with_stage
        *_, x, y = s.loops(mine)
        s = s.unroll(x).vectorize(y)
    s, (_, kv) = s.split(kv, piece // FLOAT32_VECTOR, tail="exact").with_loops if piece < depth else (s, ("", kv))
    s = s.unroll(kv).unroll(k)
    return s.pipeline(ko, stages=stages) if stages > 1 else s


def _transposed_copies(s: lp.Schedule, c: Contraction) -> lp.Schedule:
    """Copies of the operands whose rows run along the reduced loop, the other loop along theirs."""
    for operand, loop in ((c.left, c.row), (c.right, c.column)):
        if operand.along:
            s, copy = s.reindex(c.stage, operand.buffer, *c.batch, c.reduced, loop).with_stage
            s = transpose(s, copy)
    return s


def _parts(
    s: lp.Schedule, tile: tuple[str, str], part: tuple[int, int], apart: tuple[bool, bool], steps: tuple[str, ...]
) -> lp.Schedule:
    """The two loops over a `tile` as warps, lanes, and the squares of 4 x 4 of a thread, each for `steps`, if any.

    The elements of a square are neighbours, or `apart`: then lanes have neighbours, where rows are loaded along steps.
    """
    names: list[tuple[str, str, str, str]] = []
    for loop, own, lanes, far in zip(tile, part, (DOWN, ACROSS), apart, strict=True):
        s, (warp, x) = s.split(loop, lanes * own, tail="exact").with_loops
        s, (square, x) = s.split(x, lanes * FLOAT32_VECTOR, tail="exact").with_loops
        s, (outer, inner) = s.split(x, lanes if far else FLOAT32_VECTOR, tail="exact").with_loops
        names.append((warp, square, *((inner, outer) if far else (outer, inner))))
    (wi, si, li, ei), (wj, sj, lj, ej) = names
    s = s.reorder(wi, wj, li, lj, *steps[:1], si, sj, *steps[1:], ei, ej)
    s, (lane,) = s.fuse(li, lj).with_loops
    s = s.bind(wi, "warp.y").bind(wj, "warp.x").bind(lane, "lane")
    s = s.unroll(si).unroll(sj).unroll(ei)
    return s.unroll(ej) if steps or apart[1] else s.vectorize(ej)


def _copy_by_lanes(
    s: lp.Schedule, copy: str, operand: Operand, depth: int, warps: tuple[int, int], stages: int
) -> lp.Schedule:
    """The copy of a tile by all lanes, in vectors; of rows along the reduced loop, these change places by the row."""
    if operand.along:
        n = min(8, depth // FLOAT32_VECTOR)
        at = f"(y // {FLOAT32_VECTOR} ^ x // {8 // n} % {n}) * {FLOAT32_VECTOR} + y % {FLOAT32_VECTOR}"
        s = s.set_layout(copy, f"lambda x, y: x * {depth} + {at}")
    return copy_by_warps(s, copy, warps, "cp_async_f32" if stages > 1 else None, FLOAT32_VECTOR)


def _copy_elements(
    s: lp.Schedule, copy: str, width: int, along: bool, warps: tuple[int, int], stages: int
) -> lp.Schedule:
    """The copy of a tile of `width` columns and a row for each step by all lanes, each an element at a time.

    Lanes are neighbours in a row; where elements lie `along` the reduced loop in memory, RUN of them are below one
    another, and rows are a vector longer, so that they meet every bank once.
    """
    k, x = s.loops(copy)[-2:]
    if along:
        s = s.set_layout(copy, f"lambda k, x: k * {width + FLOAT32_VECTOR} + x")
        s, (k, below) = s.split(k, RUN, tail="exact").with_loops
        s, (x, side) = s.split(x, WARP // RUN, tail="exact").with_loops
        s, (below, element) = s.split(below, 1).with_loops
        s = s.reorder(k, x, side, below, element)
        s, (lane,) = s.fuse(side, below).with_loops
    else:
        s, (x, lane) = s.split(x, WARP, tail="exact").with_loops
        s, (lane, element) = s.split(lane, 1).with_loops
    s, (flat,) = s.fuse(k, x).with_loops
    s, (flat, across) = s.split(flat, warps[1]).with_loops
    s, (turn, down) = s.split(flat, warps[0]).with_loops
    s = s.bind(down, "warp.y").bind(across, "warp.x").bind(lane, "lane").unroll(turn)
    if stages == 1:
        return s.unroll(element)
    if s.why("specialize", element) is None:  # zeros of a border are stored
        s, (filling,) = s.specialize(element).with_loops
        s = s.unroll(filling)
    return s.tensorize(element, "cp_async_f32x1")
