"""A product, folds of its rows, and a product of what is made of both, as one kernel of warps: on any GPU of sm_80 on.

As `.product_chains`, with products of one warp: each has 16 rows of scores, powers and results in registers; tiles of
keys and values, copied by all threads, are read by `ldmatrix`.
"""

from __future__ import annotations

import loopir as lp

from ..common.contraction import Contraction
from ..common.nest_queries import batched, extent, if_legal, reads_of
from ..common.product_chains import Chain, backwards_if_legal, float_of_16_bits, require_chain
from .matmul_mma import MMA_COLUMNS, MMA_ROWS, UNITS, Unit, copy_by_warps, load_fragments, swizzled
from .product_chains import in_few_operations, in_one_loop, in_registers, inside

WARPS = 4
"""Of a block."""
KEYS = ((128, (64, 32, 16)), (256, (32, 16)))
"""Of a block, by how deep and wide the products are at most: what registers have room for."""
HELD_SUMS = "fragment(32, 4, lambda t, v: (t // 4 + v // 2 * 8, t % 4 * 2 + v % 2))"
HELD_POWERS = "fragment(32, 8, lambda t, v: (t // 4 + v // 2 % 2 * 8, t % 4 * 2 + v % 2 + v // 4 * 8))"
HELD_ROWS = "fragment(32, 2, lambda t, v: t // 4 + v * 8)"
"""How the lanes of a warp hold sums of products, the left operand of one, and what the rows of these have one of."""


@lp.composite
def product_chain_mma(s: lp.Schedule, *, warps: int = WARPS, keys: int | None = None) -> lp.Schedule:
    """`s`, a chain of products of 16-bit floats, in one kernel: a block of `warps` for each block of 16 rows a warp,
    which goes over all blocks of `keys`; by default, as many as there is room for."""
    s, c = require_chain(s)
    s, unit = in_few_operations(s, c), UNITS[float_of_16_bits(s, c)]
    keys = keys or _warp_keys(s, c)
    return backwards_if_legal(_in_warp_blocks, s, c, unit, warps, keys)


def _warp_keys(s: lp.Schedule, c: Chain) -> int:
    """The keys of a block: the most of which there is room for, and at least two blocks."""
    size = max(sum(extent(s, x.reduced) or 0 for x in (c.first, *c.beside)), extent(s, c.second.column) or 0)
    found = next((x for most, x in KEYS if size <= most), None)
    if found is None:
        raise lp.ScheduleError(f"no block of keys of {size} elements fits the registers of a warp")
    count = extent(s, c.first.column)
    keys = next((x for x in found if count is None or count > x), None)
    if keys is None:
        raise lp.ScheduleError(f"{count} keys are no two blocks of {found[-1]}")
    return keys


def _in_warp_blocks(s: lp.Schedule, c: Chain, unit: Unit, warps: int, keys: int, *, backwards: bool) -> lp.Schedule:
    s, c, tiles, block, outer, batch = in_one_loop(
        s, c, (warps * MMA_ROWS, keys), (unit.depth, unit.depth), backwards=backwards
    )
    products = tuple(x.stage for x in c.products)
    left = next(t.buffer for t in s.accesses(c.second.stage) if not t.write and t.buffer != tiles[-1])
    s = in_registers(s, block, outer, HELD_SUMS, HELD_ROWS, {left: HELD_POWERS})
    for stage in s.stages:
        if stage not in (*products, *tiles):
            s, (warp, _) = s.split(inside(s, stage, block, outer)[0], MMA_ROWS, tail="exact").with_loops
            s = s.bind(warp, "warp.y")
    for product in c.products:
        s = _warp_product(s, product, unit, block, outer)
    for tile in tiles:
        s = s.set_layout(tile, swizzled(extent(s, s.loops(tile)[-1]) or 0, unit.vector))
        s = copy_by_warps(
            s,
            tile,
            (warps, 1),
            f"cp_async_{unit.short}" if tile not in tiles[: 1 + len(c.beside)] else None,
            unit.vector,
        )
    late = [x for x in s.stages if outer in s.loops(x) and x not in tiles]
    s = if_legal(s, "retime", outer, *late)  # copies run a block ahead
    return batched(s, batch)


def _warp_product(s: lp.Schedule, c: Contraction, unit: Unit, block: str, outer: str) -> lp.Schedule:
    """A product by warps, each of its rows; operands in shared memory go to registers for each step."""
    i, j, *steps, k = inside(s, c.stage, block, outer)
    if not steps:
        s, (*steps, k) = s.split(k, unit.depth, tail="exact").with_loops
    s, (warp, i) = s.split(i, MMA_ROWS, tail="exact").with_loops
    s, (columns, j) = s.split(j, MMA_COLUMNS, tail="exact").with_loops
    s = s.reorder(warp, *steps, columns, i, j, k).bind(warp, "warp.y").unroll(columns)
    for t in reads_of(s, c.stage):
        if s.buffer(t.buffer).scope == "shared":
            kind = ("a" if t.invariant(columns) else "b") + ("t" if t.contiguous(k) != t.invariant(columns) else "")
            s, mine = s.cache_read(c.stage, t.buffer, "fragment", steps[0]).with_stage
            s = _aligned(s, mine)
            s = load_fragments(s, mine, f"ldmatrix_{kind}_{unit.short}", unit.depth)
    s = s.tensorize(i, f"{unit.product}{'_bt' if c.right.along else ''}")
    return s.unroll(steps[0])


def _aligned(s: lp.Schedule, copy: str) -> lp.Schedule:
    """`s` with a fragment made of whole tiles, as `ldmatrix` fills: of a tile in shared memory that is, too."""
    for dim, loop in enumerate(s.loops(copy)[-2:]):
        if (extent(s, loop) or 0) % MMA_ROWS:
            s = s.align_dim(copy, dim, MMA_ROWS).pad(copy)
    return s
