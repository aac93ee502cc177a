"""Contractions of a few more tiles than fill the processors in whole turns, whose rest is dealt out in even parts.

After Osama et al., "Stream-K" (2023), its data-parallel hybrid: whole turns of tiles are made as `matmul_wgmma` makes
them, by blocks that are at the same step at the same time, so that what they read is in the cache. Only the steps of
the rows that are left are dealt out (`stream_k`): each block makes as many of them as any other, the sums of its pieces
of tiles are float32 in global memory, and a second kernel adds the pieces of each tile up, in order, and does what
follows. Both kinds of blocks are of one grid: processors that have no whole tile begin with the pieces.
"""

from __future__ import annotations

from typing import Any

import loopir as lp

from ..common.contraction import Contraction, contraction
from ..common.nest_queries import extent, reader, result_of
from .matmul_mma import read_contraction
from .matmul_simt import FLOAT32_VECTOR
from .matmul_wgmma import UNITS, Steps, by_warpgroups, matmul_wgmma, steps
from .tile_choice import full_waves

BLOCK_THREADS = 256


@lp.composite
def matmul_stream(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] = (128, 256),
    rows: int | None = None,
    rest: tuple[int, int] = (128, 128),
    parts: int | None = None,
    stages: int | None = None,
    **options: Any,
) -> lp.Schedule:
    """The contraction `stage` of 16-bit floats, for sm_90a: its first `rows` in tiles of `block`, by `matmul_wgmma`
    with `options`, and the others in tiles of `rest`, in `parts` of as many steps of 128 bytes each, one for each
    multiprocessor by default.

    By default, as many rows as make whole turns of all multiprocessors are made in tiles; 0 deals out all. What is
    left has to be whole tiles and whole steps. The pieces' sums are float32 of the shape (parts, pieces, *rest),
    written and read once, by blocks with `stages` steps there at once. It pays where a last turn of tiles is nearly
    empty: 1.3 times as fast on an H200 at 2304 x 2048 x 8192 (benchmarks/notes/gpu_matmul.md).
    """
    c = contraction(s, stage)
    out = None if c is None else reader(s, stage)
    if c is None or out is None or c.batch:
        raise lp.ScheduleError(f"{stage} is no contraction of two operands over one loop that one other stage reads")
    high, columns = (extent(s, x) or 0 for x in (c.row, c.column))
    parts = parts or lp.machine().processors
    whole = full_waves(high, columns, block) * block[0] if rows is None else rows
    _require_whole(s, c, high - whole, rest)
    if not whole:
        return _in_parts(s, stage, rest, parts, stages, True)[0]
    s = s.compute_at(stage, s.loops(out)[0])
    s = s.simplify(s.loops(out)[0], drop_unit_loops=True).peel(s.loops(out)[0], last=high - whole)
    (left,) = (x for x in s.last.stages if s.reduced(x))
    for x in (stage, left):
        sums = result_of(s, x)
        s = s.compute_root(x).fuse_dims(sums, 0)
    tiles = whole // block[0] * -(-columns // block[1])
    if tiles <= lp.machine().processors:  # else there are as many blocks as processors, anyway
        options.setdefault("blocks", tiles)
    s = matmul_wgmma(s, stage, block=block, **options)
    roles = options.get("roles", True)
    s, part = _in_parts(s, left, rest, parts, stages, roles)
    return s.merge(s.loops(stage)[0], part, side_by_side=True)


def _require_whole(s: lp.Schedule, c: Contraction, left: int, rest: tuple[int, int]) -> None:
    """Refuse unless the `left` rows are whole tiles of `rest`, and made of whole steps."""
    (dtype,) = {t.dtype.name for t in s.accesses(c.stage) if t.buffer == c.left.buffer}
    columns, depth = (extent(s, x) or 0 for x in (c.column, c.reduced))
    sizes = zip((left, columns, depth), (*rest, UNITS[dtype].piece if dtype in UNITS else 1), strict=True)
    if dtype not in UNITS or any(n <= 0 or n % size for n, size in sizes):
        raise lp.ScheduleError(f"{left} rows of {c.stage} are not made of whole tiles of {rest} and whole steps")


def _in_parts(
    s: lp.Schedule, stage: str, block: tuple[int, int], parts: int, stages: int | None, roles: bool
) -> tuple[lp.Schedule, str]:
    """`stage` in tiles of `block`, whose steps are dealt out in `parts`, and the fold of their pieces; with the loop
    over parts, which are blocks."""
    c, out = read_contraction(s, stage)
    (dtype,) = {t.dtype for t in s.accesses(stage) if t.buffer == c.left.buffer}
    unit, across = UNITS[dtype.name], (extent(s, c.column) or 0) // block[1]
    s, tile = _tiles(s, stage, block)
    s, (ko, kk) = s.split(c.reduced, unit.piece, tail="exact").with_loops
    i, j = (x for x in s.loops(stage) if x not in (tile, ko, kk))
    s = s.reorder(tile, ko, i, j, kk).stream_k(stage, tile, ko, parts)
    (partial,) = (x for x in s.stages if x.startswith(f"{stage}_sk"))
    part, piece, *_ = s.loops(partial)
    s = s.bind(part, "blockIdx.x").cache_write(partial, "fragment", at=piece)
    both = (partial, *s.last.stages)
    (made,) = (x for x in both if s.reduced(x))
    (copy,) = (x for x in both if x != made)
    s = by_warpgroups(s, s.loops(copy)[-2])
    s = steps(s, made, Steps(block, unit, stages or (4 if sum(block) > 256 else 6), roles))
    return _added(s, stage, partial, out, block, across), part


def _tiles(s: lp.Schedule, stage: str, block: tuple[int, int]) -> tuple[lp.Schedule, str]:
    """`stage` in tiles, which one loop counts."""
    over = s.reduced(stage)
    row, column = (x for x in s.loops(stage) if x not in over)
    s, (bi, i) = s.split(row, block[0], tail="exact").with_loops
    s, (bj, j) = s.split(column, block[1], tail="exact").with_loops
    s = s.reorder(bi, bj, i, j, *over)
    s, (tile,) = s.fuse(bi, bj).with_loops
    return s, tile


def _added(s: lp.Schedule, stage: str, partial: str, out: str, block: tuple[int, int], across: int) -> lp.Schedule:
    """The pieces of each element added up where it is needed, vectors of them by a thread."""
    if extent(s, s.loops(stage)[0]) != across:  # rows and columns of tiles
        s = s.split(s.loops(stage)[0], across, tail="exact")
    row, column = s.loops(out)
    s, (bi, i) = s.split(row, block[0], tail="exact").with_loops
    s, (bj, j) = s.split(column, block[1], tail="exact").with_loops
    s = s.reorder(bi, bj, i, j).compute_at(stage, bj).simplify(bj, drop_unit_loops=True)
    s, (j, element) = s.split(j, FLOAT32_VECTOR, tail="exact").with_loops
    s, (i, thread) = s.split(i, min(block[0], BLOCK_THREADS * FLOAT32_VECTOR // block[1]), tail="exact").with_loops
    s = s.compute_at(stage, j).set_scope(stage, "local")
    s = s.bind(bi, "blockIdx.z").bind(i, "blockIdx.x")
    s = s.bind(bj, "blockIdx.y") if across > 1 else s
    s = s.bind(thread, "threadIdx.y").bind(j, "threadIdx.x").vectorize(element)
    *_, piece, _, column = s.loops(stage)
    s, near = s.cache_read(stage, partial, "local", at=piece).with_stage
    return s.vectorize(s.loops(near)[-1]).vectorize(column)
