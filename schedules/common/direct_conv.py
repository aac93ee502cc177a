"""Convolutions and their like as they are written: register tiles, whose window slides over rows that are near.

A product over several loops keeps them. On a CPU two vectors are taken of the loop that the output runs along, and of
the last loop of the other operand as many elements as leave registers for the sums; all folded loops run inside. On a
GPU a block of threads takes a tile of the output, and brings the window of the input that it needs, and the weights,
to shared memory, a few channels at a time. What fills up borders is computed where the window is, what is made of a
sum where the sum is done; and what folds over neighbours of that, a pooling, where its tile of them is.
"""

from __future__ import annotations

import loopir as lp

from .knobs import Knob, octaves
from .nest_queries import extent, fused, if_legal, reads_of, result_of, spatial_loops
from .products import filled, followed, pooled, require_product

PADDED_ROWS = 4
"""Rows of the output for which the borders of the input are filled up at once, on a CPU."""
BORDERED = Knob("rows", "rows of the output for which borders are filled up at once", octaves(1, 64), 0.05)
TILE_HEIGHT = Knob("height", "elements of a tile along the output", octaves(1, 30), 0.1)
TILE_WIDTH = Knob("width", "elements of a tile along the other operand", octaves(8, 64), 0.1)
STRIP = 8
"""Rows of a pooling that a thread takes at once: those that strips share are computed in both."""


@lp.composite
def direct_cpu(
    s: lp.Schedule, stage: str, *, lanes: int | None = None, registers: int | None = None, rows: int = PADDED_ROWS
) -> lp.Schedule:
    """The product `stage` over several loops, and what is made of it, in register tiles on threads.

    A vector has `lanes` elements, and there are `registers` of them; by default, as this machine has them.
    """
    s, stage, out = followed(s, stage)
    p = require_product(s, stage)
    pool = pooled(s, out)
    s = s if pool is None else in_strips(s, pool, out)
    bytes_, count = lp.vector_unit()
    lanes, registers = lanes or max(1, bytes_ // 4), registers or count
    around, mine = _nest(s, out, len(p.free))
    at = {x: mine[n] for n, x in enumerate(p.free)}
    row = p.left.loops[-1]
    width, rows = TILE_WIDTH(_width(extent(s, p.column), lanes), at=stage), BORDERED(rows, at=stage)
    height = TILE_HEIGHT(max(1, (registers - 3) // max(1, width // lanes)), at=stage)
    height = min(height, extent(s, row) or height)
    ahead = [x for x in mine if x not in (at[row], at[p.column])]
    s, (io, i) = split_whole(s, at[row], height).with_loops
    s, (jo, j) = split_whole(s, at[p.column], width).with_loops
    home = io
    if ahead:
        s, (home, last) = s.split(ahead[-1], rows).with_loops
        s = s.reorder(*ahead[:-1], home, last, io, jo, i, j)
        if not around:
            s, home = fused(s, (*ahead[:-1], home))
    else:
        s = s.reorder(io, jo, i, j)
    s = s.compute_at(stage, jo)
    for border in reversed(filled(s, (stage,))):
        s = if_legal(s, "compute_at", border, home)
    inner = [x for x in s.loops(stage) if x in p.free and x not in (row, p.column)]
    s = s.reorder(*inner, *p.reduced, row, p.column)
    s = s.set_scope(result_of(s, stage), "local")
    s = s.vectorize(p.column).unroll(row).vectorize(j).unroll(i)
    for loop in (io, jo):
        s = if_legal(s, "partition", loop)
    outer = s.loops(out)[0]
    return if_legal(s, "parallel", outer)


def split_whole(s: lp.Schedule, loop: str, factor: int) -> lp.Schedule:
    """`loop` by tiles of `factor`, of which the last begins early enough to be whole where it is not and may be
    computed twice in part: no lane of its sums is masked then."""
    length = extent(s, loop)
    if length is None or length % factor == 0 or s.why("split", loop, factor, tail="shift_inwards") is not None:
        return s.split(loop, factor)
    return s.split(loop, factor, tail="shift_inwards")


@lp.composite
def in_strips(s: lp.Schedule, pool: str, stage: str, *, strip: int = STRIP) -> lp.Schedule:
    """`stage` computed in strips of `strip` rows of `pool`, which reads it, for threads to take."""
    rows = spatial_loops(s, pool)
    s, (outer, _) = s.split(rows[1] if len(rows) > 2 else rows[0], strip).with_loops
    s, outer = fused(s, (rows[0], outer)) if len(rows) > 2 else (s, outer)
    return s.compute_at(stage, outer)


def _nest(s: lp.Schedule, stage: str, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The loops around `stage` that place it in another nest, and its own `count` loops."""
    loops = s.loops(stage)
    return loops[: len(loops) - count], loops[len(loops) - count :]


def _width(length: int | None, lanes: int) -> int:
    """Two vectors, if the loop has them."""
    return 2 * lanes if length is None or length >= 2 * lanes else lanes


# ---------------------------------------------------------------- GPU


@lp.composite
def direct_gpu(
    s: lp.Schedule,
    stage: str,
    *,
    tile: tuple[int, int] = (4, 8),
    lanes: int = 32,
    threads: int = 8,
    depth: int = 8,
) -> lp.Schedule:
    """The product `stage`, what is made of it, and what a pooling folds of that, in one kernel with shared windows.

    A block has `threads` x `lanes` threads and takes `tile` x `lanes` elements of the last stage, the lanes along its
    rows. `depth` steps of the last folded loop at a time are brought near.
    """
    s, stage, out = followed(s, stage)
    p = require_product(s, stage)
    pool = pooled(s, out)
    last = out if pool is None else pool
    folds = s.reduced(last)
    free = [x for x in s.loops(last) if x not in folds]
    if len(free) < 3:
        raise lp.ScheduleError(f"{last} has {len(free)} loops besides those it folds, and windows have three or more")
    *outer, a, b, c = free
    s, (ao, a) = s.split(a, tile[0]).with_loops
    s, (bo, b) = s.split(b, tile[1]).with_loops
    s, (co, c) = s.split(c, lanes).with_loops
    s = s.reorder(*outer, ao, bo, co, a, b, c, *folds)
    if pool is not None:
        s = s.compute_at(out, co).set_scope(result_of(s, out), "shared")
    s = s.compute_at(stage, co).set_scope(result_of(s, stage), "local")
    s, (ko, k) = s.split(p.reduced[-1], depth).with_loops
    s = s.reorder(ko, *p.free, *p.reduced[:-1], k)
    near: list[str] = []
    borders = filled(s, (stage,))
    for border in reversed(borders):
        s = s.compute_at(border, ko).set_scope(border, "shared")
        near.append(border)
    for touch in reads_of(s, stage):
        if s.buffer(touch.buffer).scope == "global":
            s = s.cache_read(stage, touch.buffer, "shared", at=ko)
            near += s.last.stages
    s, block = fused(s, (*outer, ao))
    s = s.bind(block, "blockIdx.z").bind(bo, "blockIdx.y").bind(co, "blockIdx.x")
    for copy in near:
        s = _copy_window(s, copy, ko, threads, lanes)
    s = _spread(s, p.free, threads)
    if pool is not None:
        s = _spread(s, s.loops(out)[-len(p.free) :], threads)
    return _spread(s, (a, b, c), threads)


def _spread(s: lp.Schedule, loops: tuple[str, ...], threads: int) -> lp.Schedule:
    """The columns of a tile along the lanes, the loop before it over `threads`, in registers what is left."""
    *turns, row, column = loops
    s, (turn, thread) = s.split(row, threads).with_loops
    s = s.bind(thread, "threadIdx.y").bind(column, "threadIdx.x")
    for loop in (*turns, turn):
        s = s.unroll(loop) if extent(s, loop) is not None and s.loop(loop).kind == "serial" else s
    return s


def _copy_window(s: lp.Schedule, copy: str, home: str, threads: int, lanes: int) -> lp.Schedule:
    """The copy of a window by all threads of a block."""
    loops = s.loops(copy)
    s, flat = fused(s, loops[loops.index(home) + 1 :])
    s, (flat, x) = s.split(flat, lanes).with_loops
    s, (_, y) = s.split(flat, threads).with_loops
    return s.bind(y, "threadIdx.y").bind(x, "threadIdx.x")
