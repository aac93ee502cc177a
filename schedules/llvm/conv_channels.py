"""Convolutions on a CPU with the channels of the output in lanes, however the output lies.

Where an image lies channel by channel, vectors along its rows waste lanes of short rows, and gaps between elements that
are read need copies. Channels of the output do neither: their weights are copied into panels, a vector of them is
multiplied by one element of the image as it lies, and the sums of a few neighbours along a row stay in registers. They
are stored across the lanes, a row of the output for each channel, along which runs what is made of the sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import loopir as lp

from ..common.contraction import padded
from ..common.nest_queries import fused, if_legal, iterations, result_of
from ..common.products import Product, followed, product
from .im2col import matrix_columns, worth_matrices
from .matmul_cpu import TILE_VECTORS, WORD_BYTES, tile_cycles
from .threads import parallel_if_legal

STORED_ACROSS = 1
"""Cycles in which an element of a tile is stored across the lanes."""
PANEL, ROW, WINDOW = 2, 0.5, 2
"""Cycles in which a weight is copied into panels across its rows, or along them, and an element of all windows."""
UNPACKED = 1.5
"""How many times as long tiles take that read the weights as they lie, rows far apart."""
GAIN = 0.9
"""What of the cycles of another form this one takes at most, as both are estimates."""


class _Unit(NamedTuple):
    """Lanes of a vector, how many vectors there are, and the bytes of a lane."""

    lanes: int
    registers: int
    bytes: int


class _Sizes(NamedTuple):
    """Channels, elements of a row, rows of all outputs, and terms of a sum."""

    channels: int
    length: int
    rows: int
    depth: int


class _Tile(NamedTuple):
    """A tile of so many elements along a row by so many channels, `lanes` of them in a vector; and the cycles in which
    all tiles are done."""

    cycles: float
    height: int
    width: int
    lanes: int


def worth_channels(s: lp.Schedule, stage: str, lanes: int | None = None) -> bool:
    """Whether `stage` is a convolution that is cheaper with channels in lanes than along the rows of the output."""
    t, inner, _ = followed(s, stage)
    p = product(t, inner)
    tile = None if p is None else _cheapest_tile(t, inner, p, lanes)
    if p is None or tile is None:
        return False
    matrices = worth_matrices(s, stage, lanes or _unit(t, inner).lanes)
    return tile.cycles <= GAIN * _otherwise(t, inner, p, lanes, matrices=matrices)


@lp.composite
def conv_channels(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """The convolution `stage`, and what is made of it, with channels in vectors of `lanes`, on threads.

    Unless told, a vector is one of this machine. ScheduleError where `stage` is no product of an image with weights,
    which lie along the loops that are folded, and as many channels as a vector has lanes.
    """
    s, stage, out = followed(s, stage)
    p = product(s, stage)
    tile = None if p is None else _cheapest_tile(s, stage, p, lanes)
    if p is None or tile is None:
        raise lp.ScheduleError(f"{stage} is no product of an image with weights that lie along what it folds")
    return _by_channels(s, stage, out, p, tile)


def _by_channels(s: lp.Schedule, stage: str, out: str, p: Product, tile: _Tile) -> lp.Schedule:
    """The product `stage` in tiles, where `out` takes its sums one by one."""
    channel, column = p.left.loops[0], p.column
    own = dict(zip(p.free, s.loops(out)[-len(p.free) :], strict=True))
    s, weights = _as_matrix(s, stage, p)
    rest = [own[x] for x in p.free if x not in (channel, column)]
    s, (panel, lane) = s.split(own[channel], tile.width).with_loops
    s = s.reorder(panel, *rest, lane, own[column])
    s, outer = fused(s, (panel, *rest[:1]))
    s = s.compute_at(stage, rest[-1] if len(rest) > 1 else outer)
    s, (tiles, near) = s.split(column, tile.height, tail="shift_inwards").with_loops
    s = s.reorder(*(x for x in p.free if x not in (channel, column)), tiles, *p.reduced, near, channel)
    s = s.cache_write(stage, "local", at=tiles)
    nests = s.last.stages
    inner = next(x for x in nests if p.reduced[-1] in s.loops(x))
    sums = result_of(s, inner)
    s = s.set_layout(sums, f"lambda x, j: j * {tile.width} + x")
    s, copy = _panels(s, inner, weights, tile.width)
    s = padded(s, inner, channel).vectorize(channel).unroll(near)
    for x in (stage, *(x for x in nests if x != inner)):
        s = s.vectorize(s.loops(x)[-1]).unroll(s.loops(x)[-2])
    s = _in_vectors(_fill_panels(s, copy, tile.width, tile.lanes), out, tile.lanes)
    return parallel_if_legal(s, out, outer)


def _as_matrix(s: lp.Schedule, stage: str, p: Product) -> tuple[lp.Schedule, str]:
    """A copy of the weights as a matrix, a row for each channel; and its stage."""
    weights = next(t for t in s.accesses(stage) if t.buffer == p.left.buffer)
    groups = [x for x in p.free if x not in p.left.loops and not weights.invariant(x)]
    s, copy = s.reindex(stage, p.left.buffer, *groups, *p.left.loops, *p.reduced).with_stage
    buffer = result_of(s, copy)
    return s.fuse_dims(buffer, len(groups) + 1, len(p.reduced)) if len(p.reduced) > 1 else s, copy


def _panels(s: lp.Schedule, inner: str, matrix: str, width: int) -> tuple[lp.Schedule, str]:
    """The copy `matrix` of the weights in panels of `width` channels, in each of which the terms come first."""
    buffer = result_of(s, matrix)
    s, copy = s.cache_read(inner, buffer, "global").with_stage
    s = s.compute_inline(matrix)
    groups = "".join(f"g{n}, " for n in range(len(s.loops(copy)) - 2))
    return s.set_layout(copy, f"lambda {groups}x, k: ({groups}x // {width}, k, x % {width})"), copy


def _fill_panels(s: lp.Schedule, copy: str, width: int, lanes: int) -> lp.Schedule:
    """The copy of the weights by tiles in registers: read by vectors along the terms, written by vectors of channels;
    threads over panels. It is left as it is where it has less than a tile."""
    *groups, channel, k = s.loops(copy)
    s, (panel, x) = s.split(channel, width).with_loops
    s, (part, x) = s.split(x, lanes).with_loops
    s, (terms, k) = s.split(k, lanes).with_loops
    s = s.reorder(*groups, panel, terms, part, k, x)
    s = s.cache_write(copy, "local", at=part)
    s = s.reorder(x, k).vectorize(k).unroll(x)
    k, x = s.loops(copy)[-2:]
    return parallel_if_legal(s.vectorize(x).unroll(k), copy, panel)


def _in_vectors(s: lp.Schedule, out: str, lanes: int) -> lp.Schedule:
    """What takes the sums, by vectors along the rows of the output."""
    s, (whole, lane) = s.split(s.loops(out)[-1], lanes).with_loops
    return if_legal(if_legal(s, "vectorize", lane), "partition", whole)


# ---------------------------------------------------------------- what it takes


def _sizes(s: lp.Schedule, p: Product) -> _Sizes | None:
    """The sizes of `p`; None if one is not known."""
    found = [iterations(s, x) for x in (p.left.loops, (p.column,), p.free, p.reduced)]
    if None in found or 0 in found:
        return None
    channels, length, outputs, depth = (n or 0 for n in found)
    return _Sizes(channels, length, outputs // (channels * length), depth)


def _cheapest_tile(s: lp.Schedule, stage: str, p: Product, lanes: int | None) -> _Tile | None:
    """The tile by which all of `p` takes the fewest cycles; None if its sizes are not known, its channels are fewer
    than a vector has lanes, or the weights do not lie along the reduced loops."""
    if len(p.left.loops) != 1 or p.left.along not in p.reduced or len({t.dtype for t in s.accesses(stage)}) != 1:
        return None
    n, unit = _sizes(s, p), _unit(s, stage, lanes)
    if n is None or n.channels < unit.lanes:
        return None
    moved = n.channels * (n.depth * PANEL + n.rows * n.length * STORED_ACROSS)
    grouped = len(p.left.loops) + len(p.right.loops) < len(p.free)  # each group then has whole tiles
    each = (x for x in _register_tiles(n.length, n.channels, n.depth, unit) if not (grouped and n.channels % x.width))
    return min((t._replace(cycles=n.rows * t.cycles + moved) for t in each), default=None)


def _otherwise(s: lp.Schedule, stage: str, p: Product, lanes: int | None, *, matrices: bool) -> float:
    """About the cycles of `p` by vectors along its rows: as matrices, or as it lies."""
    n, unit = _sizes(s, p), _unit(s, stage, lanes)
    if n is None:
        return 0
    if matrices:
        columns = iterations(s, matrix_columns(s, stage, p)) or 1
        each = n.rows * n.length // columns * min(_register_tiles(n.channels, columns, n.depth, unit)).cycles
        return each + n.depth * (n.channels * ROW + n.rows * n.length * WINDOW)
    return n.rows * UNPACKED * min(_register_tiles(n.channels, n.length, n.depth, unit)).cycles


def _register_tiles(rows: int, columns: int, depth: int, unit: _Unit) -> Iterator[_Tile]:
    """The tiles that the registers hold, of a product of so many rows, columns and terms, whose columns are in lanes:
    no wider than all of these, if that is a vector."""
    for vectors in (v for v in TILE_VECTORS if v == 1 or v * unit.lanes <= columns):
        for height in range(1, min(rows, (unit.registers - 1) // vectors - 1) + 1):
            cycles = tile_cycles((rows, columns, depth), height, vectors, unit.lanes, unit.bytes)
            yield _Tile(cycles, height, vectors * unit.lanes, unit.lanes)


def _unit(s: lp.Schedule, stage: str, lanes: int | None = None) -> _Unit:
    """The vectors of the sums of `stage`, of `lanes` if that is given: floats of 16 bits add up in 32."""
    size = max(WORD_BYTES, *(t.dtype.bytes for t in s.accesses(stage) if t.write))
    bytes_, registers = lp.vector_unit()
    return _Unit(lanes or max(1, bytes_ // size), registers, size)
