"""A product, folds of its rows, and a product of what is made of both, as one kernel of warpgroups: on Hopper.

The nest is that of `..common.product_chains`. Scores, powers, the statistics of rows and the results stay in registers:
the four lanes that hold a row's scores all hold its statistics, and the powers are the left operand of the second
product as they lie. A warpgroup of its own copies blocks of keys and values, ahead of the others.
"""

from __future__ import annotations

import loopir as lp

from ..common.nest_queries import batched, extent, if_legal, made_by, step
from ..common.product_chains import Chain, blocked, factored
from .matmul_wgmma import UNITS, Unit, boxes_of, by_warpgroups, copy_by_threads, swizzled

GROUP_ROWS, STAGES = 64, 2
"""Rows of a warpgroup, of which a block has two where it can; blocks of keys that are there at once."""
KEYS = ((64, (192, 128, 96, 64, 32, 16)), (128, (176, 128, 96, 64, 32, 16)), (192, (112, 96, 64, 32, 16)),
        (256, (80, 64, 48, 32, 16)))  # fmt: skip
"""Of a block, by how deep and wide the products are at most: what registers and shared memory have room for."""
REGISTERS = (24, 240)
"""Of a thread that copies, and of any other."""
HELD_SUMS = "fragment(128, 4, lambda t, v: (t // 32 * 16 + t % 32 // 4 + v // 2 * 8, t % 4 * 2 + v % 2))"
HELD_ROWS = "fragment(128, 2, lambda t, v: t // 32 * 16 + t % 32 // 4 + v * 8)"
"""How the lanes of a warpgroup hold sums of products, and what the rows of these have one of."""


@lp.composite
def product_chain(
    s: lp.Schedule, *, rows: int | None = None, keys: int | None = None, stages: int = STAGES
) -> lp.Schedule:
    """`s`, a chain of products of 16-bit floats, in one kernel: a block of threads for each block of `rows`, which goes
    over all blocks of `keys`; unless told, the largest that there is room for and that leave no part of one."""
    found = factored(s)
    if found is None:
        raise lp.ScheduleError("there are no two products with folds of the first one's rows between them")
    s, c = found
    s, unit = _in_few_operations(s, c), _unit(s, c)
    rows = rows or _rows(s, c)
    if keys is not None:
        return _backwards_or_not(s, c, unit, rows, keys, stages)
    keys, own = _keys(s, c), _keys(s, c, rows)
    made = _backwards_or_not(s, c, unit, rows, keys, stages)
    if own != keys and 2 * own >= rows and any(x.name == "trim" for x in made.trace):
        return _backwards_or_not(s, c, unit, rows, own, stages)  # so that a mask cuts one block of each row of blocks
    return made


def _backwards_or_not(s: lp.Schedule, c: Chain, unit: Unit, rows: int, keys: int, stages: int) -> lp.Schedule:
    try:
        return _in_blocks(s, c, unit, rows, keys, stages, backwards=True)
    except lp.ScheduleError:  # where it begins, a block may not be known to be there
        return _in_blocks(s, c, unit, rows, keys, stages, backwards=False)


def _in_few_operations(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """Functions of scores to 16 bits, where that is enough; and their scale left to those."""
    for stage in (*c.before, c.fold, *c.after):
        s = if_legal(s, "narrow_functions", stage)
    for stage in (*c.before, c.fold):
        s = if_legal(s, "defer_scale", stage)
    return s


def _in_blocks(
    s: lp.Schedule, c: Chain, unit: Unit, rows: int, keys: int, stages: int, *, backwards: bool
) -> lp.Schedule:
    s, block, outer = blocked(s, c, rows, keys, "blockIdx.x", backwards=backwards)
    batch = [x for x in s.loops(s.stages[-1])[: s.loops(s.stages[-1]).index(block)] if extent(s, x) != 1]
    for stage in s.stages:
        s = s.decompose_reduction(stage, outer) if outer in s.reduced(stage) else s
    for stage in s.stages if any(x.name == "defer_scale" for x in s.trace) else ():
        s = if_legal(s, "use_exp2", stage)  # of scores as they are stored: one operation
    s = _in_registers(s, block, outer)
    for stage in s.stages:
        if stage not in (c.first.stage, c.second.stage):
            s = by_warpgroups(s, _inside(s, stage, block, outer)[0])
    s, once = _first_product(s, c, unit, block, outer)
    s, copy = _second_product(s, c, unit, outer)
    s = s.specialize_warps(outer, stages=stages, registers=REGISTERS, once=once)
    return batched(_overlapped(s, c, copy, outer), batch)


def _overlapped(s: lp.Schedule, c: Chain, copy: str, outer: str) -> lp.Schedule:
    """The second product a block later, so that it and the next block's first one are under way together, and with
    what is made of that block's scores."""
    made = next(x for x in s.stages[s.stages.index(c.first.stage) + 1 :] if outer in s.loops(x))
    late = (outer, copy, c.second.stage)
    return if_legal(s, "retime", *late, before=made)  # of one block


def _unit(s: lp.Schedule, c: Chain) -> Unit:
    read = {t.dtype.name for x in (c.first, c.second) for t in s.accesses(x.stage) if not t.write}
    if read not in ({"bfloat16"}, {"float16"}):
        raise lp.ScheduleError(f"the products are of {' and '.join(sorted(read))}, and not both of one 16-bit float")
    return UNITS[read.pop()]


def _rows(s: lp.Schedule, c: Chain) -> int:
    """The rows of a block."""
    return 2 * GROUP_ROWS if (extent(s, c.first.row) or 0) % (2 * GROUP_ROWS) == 0 else GROUP_ROWS


def _keys(s: lp.Schedule, c: Chain, rows: int = 0) -> int:
    """The keys of a block: the most of which there is room for, and at least two blocks; of `rows`, a divisor."""
    size = max(extent(s, x) or 0 for x in (c.first.reduced, c.second.column))
    count = extent(s, c.first.column) or 0
    fitting = next((x for most, x in KEYS if size <= most), ())
    keys = next((x for x in fitting if count % x == 0 and count > x and rows % x == 0), None)
    if keys is None:
        raise lp.ScheduleError(f"{count} keys of {size} elements are no whole blocks that fit a multiprocessor")
    return keys


def _inside(s: lp.Schedule, stage: str, block: str, outer: str) -> tuple[str, ...]:
    """The loops of `stage` in a block."""
    loops = s.loops(stage)
    return loops[loops.index(outer if outer in loops else block) + 1 :]


def _in_registers(s: lp.Schedule, block: str, outer: str) -> lp.Schedule:
    """All that is made in a block in registers."""
    for stage in s.stages[:-1]:
        (made,) = (t for t in s.accesses(stage) if t.write)
        if s.buffer(made.buffer).scope != "fragment":
            one = made.contiguous(_inside(s, stage, block, outer)[0])  # of each row
            s = _units_first(s, made.buffer)
            s = s.set_scope(made.buffer, "fragment").set_layout(made.buffer, HELD_ROWS if one else HELD_SUMS)
    return s


def _units_first(s: lp.Schedule, buffer: str) -> lp.Schedule:
    """`s` with the dimensions of `buffer` in order that have one element before those that have more."""
    units = [getattr(n, "value", None) == 1 for n in s.buffer(buffer).shape]
    order = sorted(range(len(units)), key=lambda n: not units[n])
    return s if order == [*range(len(units))] else s.reorder_dims(buffer, *order)


def _first_product(s: lp.Schedule, c: Chain, unit: Unit, block: str, outer: str) -> tuple[lp.Schedule, tuple[str, ...]]:
    """The first product, of rows that a block of threads copies once and of a block of keys; and that copy, if it is
    made by boxes."""
    stage, (i, j, k) = c.first.stage, s.loops(c.first.stage)[-3:]
    rows, keys = extent(s, i) or 0, extent(s, j) or 0
    s, (steps, k) = step(s, "split", k, unit.depth, tail="exact")
    s, (group, i) = step(s, "split", i, GROUP_ROWS, tail="exact")
    s = s.reorder(group, steps, i, j, k).bind(group, "warpgroup").unroll(steps)
    s, copy = _staged_tile(s, stage, c.first.left.buffer, block, rows, unit)
    boxes = boxes_of(s, copy, unit, 1)
    s = boxes or copy_by_threads(s, copy, rows // GROUP_ROWS, None, unit.vector)
    s, _ = _blocks_of(s, stage, c.first.right.buffer, outer, unit)
    turned = "_bt" if c.first.right.along else ""
    return s.tensorize(i, f"wgmma_m64n{keys}k{unit.depth}_{unit.name}{turned}"), (copy,) if boxes is not None else ()


def _second_product(s: lp.Schedule, c: Chain, unit: Unit, outer: str) -> tuple[lp.Schedule, str]:
    """The second product, of what is in registers and of a block of values, and the copy of that."""
    stage, (i, j, k) = c.second.stage, s.loops(c.second.stage)[-3:]
    width = extent(s, j)
    s, (steps, k) = step(s, "split", k, unit.depth, tail="exact")
    s, (group, i) = step(s, "split", i, GROUP_ROWS, tail="exact")
    s = s.reorder(group, steps, i, j, k).bind(group, "warpgroup").unroll(steps)
    s, copy = _blocks_of(s, stage, c.second.right.buffer, outer, unit)
    turned = "_bt" if c.second.right.along else ""
    return s.tensorize(i, f"wgmma_m64n{width}k{unit.depth}_{unit.name}_ar{turned}"), copy


def _blocks_of(s: lp.Schedule, stage: str, buffer: str, outer: str, unit: Unit) -> tuple[lp.Schedule, str]:
    """Blocks of `buffer` in shared memory, copied by boxes, and that copy."""
    s, copy = _staged_tile(s, stage, buffer, outer, None, unit)
    made = boxes_of(s, copy, unit, 1)
    if made is None:
        raise lp.ScheduleError(f"{buffer} is not copied in boxes")
    return made, copy


def _staged_tile(
    s: lp.Schedule, stage: str, buffer: str, at: str, rows: int | None, unit: Unit
) -> tuple[lp.Schedule, str]:
    """The tile of `buffer` that `stage` reads in an iteration of `at` in shared memory, as products take it."""
    s, copy = made_by(s, "cache_read", stage, buffer, "shared", at=at)
    high = rows or extent(s, s.loops(copy)[-2]) or 0
    return s.set_layout(copy, swizzled(high, unit.vector)), copy
