"""Which tile of a product a block of warps takes, from a formula: no search, and no table of shapes.

A tile of m x n costs its multiprocessor, for each step of the reduced loop, the cycles in which tensor cores multiply
it and those in which its operands come from the cache; the two overlap in part. Some tiles are done one after the other
by each multiprocessor: as many as there are, divided by the multiprocessors, rounded up. So small tiles fill a GPU, and
large ones spare its memory; the least sum is taken. The numbers were measured (benchmarks/notes/gpu_matmul.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import loopir as lp
from schedules.matmul import Contraction
from schedules.nests import extent

PROCESSORS = 132
PRODUCTS = 1330
"""Multiplications with additions of 16-bit floats that a multiprocessor does in a cycle by mma.sync."""
BYTES = 38
"""What a multiprocessor gets from the level-2 cache in a cycle while all do."""
OVERLAP = 0.8
START = 5000
"""Cycles before the first product of a block, and after its last."""
COPY = 10000
"""Cycles that a kernel takes which copies an operand, beside those for its bytes."""
MEMORY = 2400
"""What all multiprocessors together get from memory in a cycle."""
SHARED = 200 * 1024
UNKNOWN = 4096
"""What a size that is not known is taken for."""

BLOCKS = {
    (128, 256): (2, 4), (256, 128): (4, 2), (128, 128): (2, 2), (128, 64): (2, 2), (64, 128): (2, 2), (64, 64): (2, 2),
    (32, 128): (1, 4), (32, 64): (1, 2), (32, 32): (1, 2), (16, 64): (1, 2), (16, 32): (1, 2),
}  # fmt: skip
"""The warps of each tile: as few as leave each of them registers for its part."""


@dataclass(frozen=True)
class Sizes:
    """Of a product, each None where it is not known; `batch` of them."""

    rows: int | None
    columns: int | None
    depth: int | None
    batch: int = 1


def tensor_tile(s: lp.Schedule, c: Contraction) -> dict[str, Any]:
    """The options of `matmul_mma` for the contraction `c`."""
    batch = 1
    for loop in c.batch:
        batch *= extent(s, loop) or 1
    return choice(Sizes(extent(s, c.row), extent(s, c.column), extent(s, c.reduced), batch))


def choice(sizes: Sizes) -> dict[str, Any]:
    """The options of `matmul_mma` for products of `sizes`, of 16 rows and 32 columns or more: the cheapest tile.

    A tile is no larger than the product; of two that cost the same, the larger one is taken.
    """
    if sizes.rows is None or sizes.columns is None or sizes.depth is None:
        return {"block": (128, 128), "warps": (2, 2), "depth": 32, "stages": 4}
    fits = [b for b in BLOCKS if b[0] <= sizes.rows and b[1] <= sizes.columns] or [(16, 32)]
    block = min(fits, key=lambda b: (cycles(sizes, b), -b[0] * b[1]))
    depth = _depth(sizes, block)
    stages = min(4, SHARED // _room(block, depth))
    bands = sizes.rows * sizes.columns >= 1 << 22
    return {
        "block": block, "warps": BLOCKS[block], "depth": depth, "stages": stages, "whole": True,
        "group": 8 if bands and sizes.rows % (8 * block[0]) == 0 else 1,
    }  # fmt: skip


def cycles(sizes: Sizes, block: tuple[int, int]) -> float:
    """What a product costs in tiles of `block`."""
    rows, columns, depth = sizes.rows or UNKNOWN, sizes.columns or UNKNOWN, sizes.depth or UNKNOWN
    tiles = -(-rows // block[0]) * -(-columns // block[1]) * sizes.batch
    step = OVERLAP * (block[0] * block[1] / PRODUCTS + 2 * sum(block) / BYTES)
    total = START + -(-tiles // PROCESSORS) * (depth * step + block[0] * block[1] / 8)
    k = _depth(sizes, block)
    for length, size in ((rows, block[0]), (columns, block[1])):
        if length % size or depth % k:
            total += COPY + 4 * sizes.batch * length * depth / MEMORY
    return total


def _depth(sizes: Sizes, block: tuple[int, int]) -> int:
    """Steps of the reduced loop at a time: many for thin tiles, whose bytes are few."""
    best = 128 if min(block) <= 32 else 64
    return next((d for d in (best, 64, 32) if (sizes.depth or 0) % d == 0), 32)


def _room(block: tuple[int, int], depth: int) -> int:
    return 2 * depth * sum(block)
