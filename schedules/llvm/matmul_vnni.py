"""Products of small numbers on a CPU: two or four steps of the reduced loop in one instruction of each vector.

A processor that has no more for small integers multiplies neighbours in 16 bits and adds both products up in 32: twice
as many products in a cycle as of floats. Panels hold the steps in pairs. Integers of 8 bits are widened on the way into
their panels, which loses nothing; else they would be for each product. Where the CPU has AVX512-VNNI or AVX-VNNI, uint8
by int8 is taken by fours as it is, and with AVX-VNNI-INT8 what is of one sign. Pairs of bfloat16 are multiplied by
AVX512-BF16, which takes denormals for 0 (`loopir.intrinsics.x86.dot` has the bound), so only where this schedule is
asked for by name.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

import loopir as lp

from ..common.contraction import Contraction, Operand, contraction, padded
from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, if_legal
from .matmul_cpu import whole_vectors
from .threads import parallel

HEIGHTS = (12, 10, 14, 6, 5, 4, 8, 3, 2)
"""Rows of a tile, best first: registers hold two vectors of sums for each, and two of the right operand."""
TILE_OVERHEAD_ROWS = 1.5
"""What a tile takes besides its rows, in rows."""
MACHINES = ("x86_64", "AMD64")
BLOCKS_PER_THREAD = 3
"""Blocks of rows that a thread has, where there are so many."""
ROW_BLOCK = Knob("block", "tiles of a block of rows", octaves(1, 64), 0.05)
COPIED_STEPS, COLUMNS = 64, 16
"""Steps of the reduced loop that are copied of a panel at once, and columns that are woven by one instruction."""


@dataclass(frozen=True)
class Kind:
    """What products are taken by: so many steps at once, by what instruction, in panels of what types, what a CPU needs
    for it, one or the other, and how many sums a vector has at most. With `exact`, it gives what the product does to
    the bit."""

    steps: int
    instruction: str
    panels: tuple[str, str]
    needs: tuple[str, ...] = ()
    exact: bool = True
    most: int = 16


WIDENED = ("int8", "uint8", "int16")
"""What an int16 holds all values of."""
PAIRS = Kind(2, "dot2_{}_int16", ("int16", "int16"))
KINDS = (
    Kind(4, "dot4_{}_uint8", ("uint8", "int8"), ("avx512vnni", "avxvnni")),
    Kind(4, "dot4_{}_int8", ("int8", "uint8"), ("avx512vnni", "avxvnni")),
    Kind(4, "dot4_{}_int8_int8", ("int8", "int8"), ("avxvnniint8",), most=8),
    Kind(4, "dot4_{}_uint8_uint8", ("uint8", "uint8"), ("avxvnniint8",), most=8),
    Kind(2, "dot2_{}_bfloat16", ("bfloat16", "bfloat16"), ("avx512bf16",), exact=False),
)
"""Of operands that lie in panels as they are."""


@dataclass(frozen=True)
class Small:
    """A product of small numbers, in tiles of so many rows and two vectors."""

    c: Contraction
    height: int
    lanes: int
    kind: Kind

    @property
    def instruction(self) -> str:
        return self.kind.instruction.format(self.lanes)


def small(s: lp.Schedule, stage: str, lanes: int | None = None) -> Small | None:
    """`stage` as a product of small numbers in tiles of vectors of so many sums, or None if it is none."""
    c = contraction(s, stage) if platform.machine() in MACHINES else None
    if c is None or c.batch:
        return None
    types = {t.buffer: t.dtype.name for t in s.accesses(stage) if not t.write}
    kind = _kind((types[c.left.buffer], types[c.right.buffer]), lanes)
    host, registers = lp.vector_unit()[0] // 4, lp.vector_unit()[1]
    lanes, registers = lanes or host, registers if lanes in (None, host) else 32
    rows, columns, depth = (extent(s, x) for x in (c.row, c.column, c.reduced))
    if kind is None or rows is None or columns is None or depth is None:
        return None
    if rows < 2 or columns < lanes or depth < kind.steps:
        return None
    heights = [n for n in HEIGHTS if 2 * n + 3 <= registers]
    return Small(c, min(heights, key=lambda n: -(-rows // n) * (n + TILE_OVERHEAD_ROWS)), lanes, kind)


def _kind(types: tuple[str, str], lanes: int | None) -> Kind | None:
    """How operands of these types are multiplied on this machine; if `lanes` are told on any."""
    for kind in KINDS:
        there = lanes or not kind.exact or lp.cpu_features() & {*kind.needs}
        if kind.panels == types and there and (lanes or lp.vector_unit()[0] // 4) <= kind.most:
            return kind
    return PAIRS if all(t in WIDENED for t in types) else None


def pairs(s: lp.Schedule, stage: str) -> Small | None:
    """What `small` gives, if it gives what the product does to the bit."""
    found = small(s, stage)
    return found if found is not None and found.kind.exact else None


@lp.composite
def matmul_pairs(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """The contraction `stage` of small numbers, in register tiles by products of two or four steps at once, threads
    over blocks of rows: int16, int8 and uint8 in int32; bfloat16 in float32 but for denormal numbers.

    Rows, columns and steps have to be known; what they lack of whole tiles is 0 in the panels. What the operands are
    widened from goes straight into these. A vector has `lanes` sums; by default, as this machine's have. Whether the
    CPU has the instruction shows when it is built.
    """
    found = small(s, stage, lanes)
    if found is None:
        raise lp.ScheduleError(f"{stage} is no product of integers of 8 or 16 bits, nor of bfloat16, of known sizes")
    c, width = found.c, 2 * found.lanes
    s, (j, jj) = s.split(c.column, width).with_loops
    s, (i, ii) = s.split(c.row, found.height).with_loops
    s, (block, tile) = s.split(i, ROW_BLOCK(_block_tiles(extent(s, i) or 1), at=stage)).with_loops
    s, (k, kk) = s.split(c.reduced, found.kind.steps).with_loops
    s = s.reorder(block, j, tile, k, ii, jj, kk)
    s, (jv, lane) = s.split(jj, found.lanes).with_loops
    s, inner = s.cache_write(stage, "local", at=tile).with_stage
    sides = ((c.right, width), (c.left, found.height))
    copies: list[str] = []
    for (operand, tall), dtype in zip(sides, found.kind.panels[::-1], strict=True):
        s, copy = _packed(s, inner, operand, tall, found.kind.steps, dtype)
        copies.append(copy)
    s = padded(s, inner, ii, jv, lane, kk)
    for (operand, tall), copy in zip(sides, copies, strict=True):
        s = _filled(s, copy, operand, tall, found.kind.steps)
    s, init = s.decompose_reduction(inner).with_stage
    s = s.unroll(ii).unroll(jv).tensorize(lane, found.instruction)
    for x in (init, stage):
        one, two, last = s.loops(x)[-3:]
        s = s.vectorize(last).unroll(two).unroll(one)
    return whole_vectors(parallel(s, stage, block), stage)


def _block_tiles(count: int) -> int:
    """How many of `count` tiles make a block, so that no block has fewer."""
    blocks = min(count, BLOCKS_PER_THREAD * lp.thread_count())
    return next(n for n in range(-(-count // blocks), 0, -1) if count % n == 0)


def _packed(
    s: lp.Schedule, inner: str, operand: Operand, width: int, steps: int, dtype: str
) -> tuple[lp.Schedule, str]:
    """A copy of `operand`, as `dtype`, in panels of `width`, in which so many steps lie together."""
    s, copy = s.cache_read(inner, operand.buffer, "global", dtype=dtype).with_stage
    s = s.set_layout(copy, operand.panels(width, steps))
    return if_legal(s, "compute_inline", operand.buffer), copy


def _filled(s: lp.Schedule, copy: str, operand: Operand, width: int, steps: int) -> lp.Schedule:
    """The loops of a copy in panels."""
    x, k = s.loops(copy)[-2:] if operand.along else s.loops(copy)[-2:][::-1]
    if operand.along:
        s, (k, near) = s.split(k, steps).with_loops
        s = s.reorder(x, k, near).vectorize(near)
    else:
        s = woven(s, copy, k, x, steps, width)
    outer = s.loops(copy)[0]
    return if_legal(s, "parallel", outer)


def woven(s: lp.Schedule, copy: str, k: str, x: str, steps: int, width: int) -> lp.Schedule:
    """The loops of a copy of rows, of which so many steps come to lie together, in panels of `width`: a few rows of all
    panels at a time, vectors of them woven by one instruction where it can be."""
    rows = next(
        n
        for n in (COPIED_STEPS, COPIED_STEPS // 2, COPIED_STEPS // 4, COPIED_STEPS // 8, steps)
        if (extent(s, k) or 0) % n == 0
    )
    s, (outer, k) = s.split(k, rows).with_loops
    s, (k, near) = s.split(k, steps).with_loops
    columns = min(width, COLUMNS)
    if width % columns:
        return s.reorder(outer, k, x, near)
    s, (x, column) = s.split(x, columns).with_loops
    s = s.reorder(outer, x, k, near, column)
    made, source = (next(t.dtype.name for t in s.accesses(copy) if t.write is which) for which in (True, False))
    weave = f"weave_{steps}_{columns}_{source}" + (f"_{made}" if made != source else "")
    return if_legal(s, "tensorize", near, weave)
