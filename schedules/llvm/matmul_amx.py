"""Products of int8, uint8 and bfloat16 on a CPU with AMX: four tiles of sums, of 32 rows by 32 columns, in registers.

Operands are copied into panels, tile after tile: a row of a tile that begins inside a line of the caches takes four
times as long to load. A tile of each operand is used twice while it is in a register.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import loopir as lp

from ..common.contraction import Contraction, contraction, padded
from ..common.knobs import Knob, octaves
from ..common.nest_queries import argument_names, extent, if_legal, result_of
from .matmul_vnni import woven
from .threads import parallel

SIDE, PAIR = 16, 2
"""Rows and columns of a tile of sums, and how many tiles there are along each."""
NEEDS = {"int8": "amx-int8", "uint8": "amx-int8", "bfloat16": "amx-bf16"}
SUMS = {"int8": "int32", "uint8": "int32", "bfloat16": "float32"}
BLOCKS_PER_THREAD = 3
"""Blocks of rows that a thread has, where there are so many threads and tiles."""
ROW_BLOCK = Knob("block", "tiles of a block of rows", octaves(1, 64), 0.05)
FILLED = 0.5
"""What of all tiles has to be product, and not 0."""


@dataclass(frozen=True)
class Tiled:
    """A product in tiles: its operands' types, and the type of its sums."""

    c: Contraction
    left: str
    right: str
    sums: str

    @property
    def near(self) -> int:
        """Steps of the reduced loop that are taken together."""
        return 2 if self.sums == "float32" else 4

    @property
    def dot(self) -> str:
        return f"tile_dot_{self.left}" + (f"_{self.right}" if self.right != self.left else "")


def tiled(s: lp.Schedule, stage: str) -> Tiled | None:
    """What `small` gives, if this machine has what it needs."""
    found = small(s, stage)
    needs = {"amx-tile", NEEDS[found.left], NEEDS[found.right]} if found is not None else set[str]()
    return found if needs <= lp.cpu_features() else None


def small(s: lp.Schedule, stage: str) -> Tiled | None:
    """`stage` as a product of such numbers of known sizes that fill their tiles, but for a few; None if it is none."""
    c = contraction(s, stage)
    if c is None or c.batch:
        return None
    types = {t.buffer: t.dtype.name for t in s.accesses(stage)}
    out = next(t.dtype.name for t in s.accesses(stage) if t.write)
    left, right = types[c.left.buffer], types[c.right.buffer]
    if SUMS.get(left) != out or SUMS.get(right) != out:
        return None
    found = Tiled(c, left, right, out)
    parts = {c.row: PAIR * SIDE, c.column: PAIR * SIDE, c.reduced: SIDE * found.near}
    filled = [n / (-(-n // part) * part) for n, part in ((extent(s, x) or 0, part) for x, part in parts.items()) if n]
    return found if len(filled) == len(parts) and prod(filled) >= FILLED else None


@lp.composite
def matmul_amx(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The contraction `stage` of integers of 8 bits in int32, or of bfloat16 in float32 but for denormal numbers, in
    tiles of AMX, threads over blocks of rows.

    Rows, columns and steps have to be known; what they lack of tiles, of 32 and 32 and of 64, of bfloat16 of 32, is 0
    in the panels, and sums are then stored by vectors from memory that is near, as are those that others go on with.
    Whether the CPU has tiles shows when it is built.
    """
    found = small(s, stage)
    if found is None:
        raise lp.ScheduleError(f"{stage} is no product of integers of 8 bits, nor of bfloat16, that fills tiles of AMX")
    c, side = found.c, PAIR * SIDE
    result = result_of(s, stage) in argument_names(s)
    straight = result and all((extent(s, x) or 1) % side == 0 for x in (c.row, c.column))
    s, (j, jj) = s.split(c.column, side).with_loops
    s, (i, ii) = s.split(c.row, side).with_loops
    tiles = ROW_BLOCK(_block_tiles(extent(s, i) or 1, (extent(s, c.reduced) or 1) * 4 // found.near), at=stage)
    s, (block, tile) = s.split(i, tiles).with_loops
    s, (k, kk) = s.split(c.reduced, SIDE * found.near).with_loops
    s, (jt, jl) = s.split(jj, SIDE).with_loops
    s, (it, il) = s.split(ii, SIDE).with_loops
    s = s.reorder(block, j, tile, k, it, jt, il, jl, kk)
    s, sums = (s, stage) if straight else s.cache_write(stage, "local", at=tile).with_stage
    s, right = _copied(s, sums, c.right.buffer, turned=c.right.along)
    s, left = _copied(s, sums, c.left.buffer, turned=not c.left.along)
    s = padded(s, sums, it, jt, il, jl, kk)
    s, inner = s.cache_write(sums, "tiles", at=tile).with_stage
    s = s.set_layout(result_of(s, inner), f"lambda x, y: (x // {SIDE}, y // {SIDE}, x % {SIDE}, y % {SIDE})")
    s = _right(s, inner, right, found, k)
    s = _left(s, inner, left, found, k)
    s, init = s.decompose_reduction(inner).with_stage
    s = s.unroll(it).unroll(jt).tensorize(il, found.dot)
    for part, instruction in ((init, f"tile_zero_{found.sums}"), (sums, f"tile_store_{found.sums}")):
        one, two, row, _ = s.loops(part)[-4:]
        s = s.unroll(one).unroll(two).tensorize(row, instruction)
    if not straight:
        s = s.vectorize(s.loops(stage)[-1])
    return parallel(s, stage, block)


def _block_tiles(count: int, row: int) -> int:
    """How many of `count` tiles, whose rows take so many bytes, make a block, so that no block has fewer: what half of
    the second cache holds, and each thread has some of."""
    blocks = min(count, BLOCKS_PER_THREAD * lp.thread_count() if lp.thread_count() > 1 else 1)
    held = max(1, lp.caches()[1] // (2 * PAIR * SIDE * row))
    return next(n for n in range(min(-(-count // blocks), held), 0, -1) if count % n == 0)


def _whole_tiles(s: lp.Schedule, stage: str, instruction: str, rows: int, columns: int) -> lp.Schedule:
    """The last two loops of `stage`, in tiles of so many `rows` and `columns`, each by one instruction."""
    outer: list[str] = []
    inner: list[str] = []
    for loop, size in zip(s.loops(stage)[-2:], (rows, columns), strict=True):
        s, (o, i) = s.split(loop, size).with_loops
        outer.append(o)
        inner.append(i)
    s = s.reorder(*outer, *inner)
    for loop in outer:
        s = s.unroll(loop)
    return s.tensorize(inner[0], instruction)


def _right(s: lp.Schedule, inner: str, panels: str, found: Tiled, k: str) -> lp.Schedule:
    """The right operand in panels of tiles as they are wanted, and from there in tiles."""
    operand, near, side, deep = found.c.right, found.near, PAIR * SIDE, SIDE * found.near
    at = f"x % {side} // {SIDE}, k % {deep} // {near}, x % {SIDE}, k % {near}"
    s = s.set_layout(panels, f"lambda k, x: (x // {side}, k // {deep}, {at})")
    s, tiles = s.cache_read(inner, panels, "tiles", at=k).with_stage
    s = s.set_layout(tiles, f"lambda k, x: (x // {SIDE}, k // {near}, x % {SIDE}, k % {near})")
    s = _whole_tiles(s, tiles, f"tile_load_{found.right}_right", deep, SIDE)
    one, other = s.loops(panels)[-2:]
    if not operand.along:
        s = woven(s, panels, one, other, near, side)
        return if_legal(s, "parallel", s.loops(panels)[0])
    s, (outer, _) = s.split(one, side).with_loops
    s, (_, part) = s.split(other, near).with_loops
    return if_legal(s.vectorize(part), "parallel", outer)


def _left(s: lp.Schedule, inner: str, panels: str, found: Tiled, k: str) -> lp.Schedule:
    """The left operand in panels whose rows begin with lines of the caches, and from there in tiles."""
    operand, side, deep = found.c.left, PAIR * SIDE, SIDE * found.near
    s = s.set_layout(panels, f"lambda x, k: (x // {side}, k // {deep}, x % {side}, k % {deep})")
    s, tiles = s.cache_read(inner, panels, "tiles", at=k).with_stage
    s = s.set_layout(tiles, f"lambda x, k: (x // {SIDE}, x % {SIDE}, k)")
    s = _whole_tiles(s, tiles, f"tile_load_{found.left}", SIDE, deep)
    one, other = s.loops(panels)[-2:]
    s, (outer, one) = s.split(one, side if operand.along else deep).with_loops
    if operand.along:
        s, (other, line) = s.split(other, deep).with_loops
        return if_legal(s.vectorize(line), "parallel", outer)
    s, (other, column) = s.split(other, SIDE).with_loops
    return if_legal(s.reorder(outer, other, column, one), "parallel", outer)


def _copied(s: lp.Schedule, stage: str, buffer: str, *, turned: bool) -> tuple[lp.Schedule, str]:
    """A copy of an operand, `turned` so that its dimensions are the product's; what it is made of goes into it."""
    s, copy = s.cache_read(stage, buffer, "global").with_stage
    s = s.reorder_dims(copy, 1, 0) if turned else s
    return if_legal(s, "compute_inline", buffer), copy
