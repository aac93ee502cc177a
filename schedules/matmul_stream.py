"""Contractions whose tiles are dealt out in even parts of all steps (stream-K), for a few more tiles than processors.

Each block makes as many steps as any other, of the tiles that follow one another; the sums of its pieces of tiles are
float32 in global memory, and a second kernel adds the pieces of each tile up, in order, and does what follows.
"""

from __future__ import annotations

import loopir as lp
from schedules.matmul import contraction
from schedules.matmul_tiles import PROCESSORS
from schedules.matmul_wgmma import UNITS, by_warpgroups, steps
from schedules.nests import extent, reader, step

VECTOR, THREADS = 4, 256


@lp.composite
def matmul_stream(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] = (128, 256),
    parts: int = PROCESSORS,
    stages: int = 4,
    roles: bool = True,
) -> lp.Schedule:
    """The contraction `stage` of 16-bit floats, of whole tiles of `block` and of whole steps of 128 bytes, in `parts`
    of as many steps, for sm_90a.

    The pieces' sums are float32 of the shape (parts, pieces, *block), written and read once.
    """
    c = contraction(s, stage)
    out = None if c is None else reader(s, stage)
    if c is None or out is None or c.batch:
        raise lp.ScheduleError(f"{stage} is no contraction of two operands over one loop that one other stage reads")
    (dtype,) = {t.dtype for t in s.accesses(stage) if t.buffer == c.left.buffer}
    unit = UNITS[dtype.name]
    lengths = [extent(s, x) for x in (c.row, c.column, c.reduced)]
    if any(n is None or n % size for n, size in zip(lengths, (*block, unit.piece), strict=True)):
        raise lp.ScheduleError(f"{stage} is not made of whole tiles of {block} and steps of {unit.piece}")
    s, tile = _tiles(s, stage, block)
    s, (ko, kk) = step(s, "split", c.reduced, unit.piece, tail="exact")
    i, j = (x for x in s.loops(stage) if x not in (tile, ko, kk))
    across = (lengths[1] or 0) // block[1]
    s = s.reorder(tile, ko, i, j, kk).stream_k(stage, tile, ko, parts)
    (partial,) = (x for x in s.stages if x.startswith(f"{stage}_sk"))
    part, piece, *_ = s.loops(partial)
    before = set(s.stages)
    s = s.bind(part, "blockIdx.x").cache_write(partial, "fragment", at=piece)
    both = [x for x in s.stages if x == partial or x not in before]
    (made,) = (x for x in both if s.reduced(x))
    (copy,) = (x for x in both if x != made)
    s = by_warpgroups(s, s.loops(copy)[-2])
    s = steps(s, made, block, unit, stages, False, roles)
    return _added(s, stage, partial, out, block, across)


def _tiles(s: lp.Schedule, stage: str, block: tuple[int, int]) -> tuple[lp.Schedule, str]:
    """`stage` in tiles, which one loop counts."""
    over = s.reduced(stage)
    row, column = (x for x in s.loops(stage) if x not in over)
    s, (bi, i) = step(s, "split", row, block[0], tail="exact")
    s, (bj, j) = step(s, "split", column, block[1], tail="exact")
    s = s.reorder(bi, bj, i, j, *over)
    s, (tile,) = step(s, "fuse", bi, bj)
    return s, tile


def _added(s: lp.Schedule, stage: str, partial: str, out: str, block: tuple[int, int], across: int) -> lp.Schedule:
    """The pieces of each element added up where it is needed, vectors of them by a thread."""
    s, _ = step(s, "split", s.loops(stage)[0], across, tail="exact")  # rows and columns of tiles
    row, column = s.loops(out)
    s, (bi, i) = step(s, "split", row, block[0], tail="exact")
    s, (bj, j) = step(s, "split", column, block[1], tail="exact")
    s = s.reorder(bi, bj, i, j).compute_at(stage, bj).simplify(bj, drop_unit_loops=True)
    s, (j, element) = step(s, "split", j, VECTOR, tail="exact")
    s, (i, thread) = step(s, "split", i, min(block[0], THREADS * VECTOR // block[1]), tail="exact")
    s = s.compute_at(stage, j).set_scope(stage, "local")
    s = s.bind(bi, "blockIdx.z").bind(bj, "blockIdx.y").bind(i, "blockIdx.x")
    s = s.bind(thread, "threadIdx.y").bind(j, "threadIdx.x").vectorize(element)
    *_, piece, _, column = s.loops(stage)
    before = set(s.stages)
    s = s.cache_read(stage, partial, "local", at=piece)
    (near,) = (x for x in s.stages if x not in before)
    return s.vectorize(s.loops(near)[-1]).vectorize(column)
