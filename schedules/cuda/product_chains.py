"""A product, folds of its rows, and a product of what is made of both, as one kernel of warpgroups: on Hopper.

The nest is that of `..common.product_chains`. Scores, powers, the statistics of rows and the results stay in registers:
the four lanes that hold a row's scores all hold its statistics, and the powers are the left operand of the second
product as they lie. A warpgroup of its own copies blocks of keys and values, ahead of the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import loopir as lp

from ..common.contraction import Contraction, copied_operand
from ..common.nest_queries import argument_names, batched, extent, if_legal, is_guarded, legal
from ..common.operands import NARROW
from ..common.product_chains import (
    Chain,
    Tail,
    backwards_if_legal,
    blocked,
    float_of_16_bits,
    require_chain,
    with_narrow_scores,
    with_scores,
)
from .matmul_wgmma import UNITS, Unit, boxes_of, by_warpgroups, copy_by_threads
from .recipe_table import is_lowered
from .tma_store import swizzled

GROUP_ROWS, STAGES = 64, 2
"""Rows of a warpgroup, of which a block has two where it can; blocks of keys that are there at once."""
KEYS = ((64, 192), (128, 176), (192, 112), (256, 80))
"""Of a block at most, by how deep and wide the products are at most: what registers and shared memory have room for."""
STEP = 16
"""Keys of a block are a multiple of it: what one instruction of the second product takes."""
EACH_BLOCK = 24
"""Keys whose products take as long as what there is to do for each block."""
HIDDEN = 0.8
"""Of the time of products, what instructions of dependent folds take and still run beside them in any order: a thread
issues no more than about so many of those that it could (benchmarks/notes/attention.md)."""
COPYING, COMPUTING = 24, 240
"""Registers of a thread that copies, and of any other at most."""
HELD_SUMS = "fragment(128, 4, lambda t, v: (t // 32 * 16 + t % 32 // 4 + v // 2 * 8, t % 4 * 2 + v % 2))"
HELD_ROWS = "fragment(128, 2, lambda t, v: t // 32 * 16 + t % 32 // 4 + v * 8)"
"""How the lanes of a warpgroup hold sums of products, and what the rows of these have one of."""


@lp.composite
def product_chain(
    s: lp.Schedule,
    *,
    rows: int | None = None,
    keys: int | None = None,
    stages: int = STAGES,
    in_turns: bool | None = None,
) -> lp.Schedule:
    """`s`, a chain of products of 16-bit floats, in one kernel: a block of threads for each block of `rows`, which goes
    over all blocks of `keys`; by default, the largest that there is room for, and of which few elements are left over.
    Scores after the last key are -inf. With `in_turns`, warpgroups issue the products of a block of keys in turns; by
    default, where the products are predicted not to hide what is made of the scores (`HIDDEN`)."""
    s, c = require_chain(s)
    s, unit = in_few_operations(s, c), UNITS[float_of_16_bits(s, c)]
    s, c = with_narrow_scores(s, c)
    rows = rows or _rows(s, c)
    made_of = partial(backwards_if_legal, _in_blocks, s, c, unit, rows)
    own = None if keys is not None else _keys_of_rows(s, c, rows)
    keys = keys if keys is not None else _keys(s, c)
    made = made_of(keys, stages)
    if own not in (None, keys) and 2 * own >= rows and any(x.name == "trim" for x in made.trace):
        # so that a mask cuts one block of each row of blocks
        made = made_of(own, stages)
    if in_turns is None:
        return _in_turns_if_faster(made, c) if rows > GROUP_ROWS else made
    return _in_turns(made, c) if in_turns else made


def registers(groups: int) -> tuple[int, int]:
    """Of a thread that copies, and of one of `groups` that compute: of all that a multiprocessor has, in eights."""
    left = lp.machine().registers_per_processor // 128 - COPYING
    return COPYING, min(COMPUTING, left // groups // 8 * 8)


def in_few_operations(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """Functions of scores to 16 bits, where that is enough; and their scale left to those, unless scores have 16 bits:
    it is rounded then, once for all who read them."""
    for stage in (*c.before, c.fold, *c.after):
        s = if_legal(s, "narrow_functions", stage)
    for stage in (*c.before, c.fold):
        if all(t.dtype.name not in NARROW for t in s.accesses(stage) if t.write):
            s = if_legal(s, "defer_scale", stage)
    return s


def _in_blocks(
    s: lp.Schedule,
    c: Chain,
    unit: Unit,
    rows: int,
    keys: int,
    stages: int,
    *,
    backwards: bool,
) -> lp.Schedule:
    s, c, tiles, block, outer, batch = in_one_loop(s, c, (rows, keys), (unit.depth, unit.piece), backwards=backwards)
    s = in_registers(s, block, outer, HELD_SUMS, HELD_ROWS)
    for stage in s.stages:
        if stage not in (*(x.stage for x in c.products), *tiles):
            s = by_warpgroups(s, inside(s, stage, block, outer)[0])
    s, once = copied_by_boxes(s, tiles, 1 + len(c.beside), unit, rows)
    for product in (c.first, *c.beside):
        s = product_by_warpgroups(s, product, unit, block, outer, "")
    s = product_by_warpgroups(s, c.second, unit, block, outer, "_ar")
    s = s.specialize_warps(outer, stages=stages, registers=registers(rows // GROUP_ROWS), once=once)
    return batched(_overlapped(s, c, tiles[-1], outer), batch)


ChainLoop = tuple[lp.Schedule, Chain, tuple[str, ...], str, str, list[str]]


def in_one_loop(
    s: lp.Schedule, c: Chain, size: tuple[int, int], whole: tuple[int, int], *, backwards: bool
) -> ChainLoop:
    """The chain in one loop over blocks of keys for each block of rows, of `size`, without guards on what is folded;
    tiles of rows, keys and values in shared memory, whose rows are `whole` numbers of elements, of which a product
    takes the first of `whole` at once. With it: the chain, the tiles, the loops over blocks of rows and of keys, and
    those around."""
    count = extent(s, c.first.row)
    rows = size[0] if count in (None, 1) else min(count, size[0])  # which are filled up to a tile then
    guarded = is_guarded(s, c.first.column)  # of parts, the last one is shorter
    tails = _tail(count, rows), "guard" if guarded else _tail(extent(s, c.first.column), size[1])
    s, c = with_scores(s, c) if tails[1] == "guard" else (s, c)
    s, block, outer = blocked(s, c, rows, size[1], "blockIdx.x", backwards=backwards, tails=tails)
    batch = [x for x in s.loops(s.stages[-1])[: s.loops(s.stages[-1]).index(block)] if extent(s, x) != 1]
    s, tiles = _operands(s, c, whole, size[0], block, outer)
    s = _in_whole_tiles(s, tiles, (count or size[0], size[0]), block, outer)
    cut = "guard" in tails or rows < size[0]
    s = _without_guards(s, c, tiles, block, outer) if cut else _padded(s, c)
    for stage in s.stages:
        s = s.decompose_reduction(stage, outer) if outer in s.reduced(stage) else s
    for stage in s.stages:
        s = if_legal(s, "use_exp2", stage)  # of scores as they are stored: one operation
    return s, c, tiles, block, outer, batch


def _padded(s: lp.Schedule, c: Chain) -> lp.Schedule:
    for product in (c.first, *c.beside):
        s = if_legal(s, "pad", product.stage)
    return s


def _tail(count: int | None, size: int) -> Tail:
    return "exact" if count is not None and count % size == 0 else "guard"


def _operands(
    s: lp.Schedule, c: Chain, whole: tuple[int, int], rows: int, block: str, outer: str
) -> tuple[lp.Schedule, tuple[str, ...]]:
    """Tiles in shared memory of what the products read from memory: rows once for each block, and keys and values for
    each block of these; their rows `whole` numbers of elements, of which the rest is 0. Tiles of rows come first, and
    that of values last."""
    depth, piece = whole
    made, of_scores = list[str](), (c.first, *c.beside)
    places = [*((x, x.left, block) for x in of_scores), *((x, x.right, outer) for x in of_scores)]
    places.append((c.second, c.second.right, outer))
    for product in of_scores:
        if (extent(s, product.reduced) or 0) % depth:
            s = s.split(s.loops(product.stage)[-1], depth)  # steps that are whole products, once tiles are padded
    for product, operand, at in places:
        s, copy = copied_operand(s, product.stage, operand, "shared", at)
        high, width = (extent(s, x) or 0 for x in s.loops(copy)[-2:])
        short = at == block and high < rows
        s = s.align_dim(copy, 0, rows) if short else s
        s = s.align_dim(copy, 1, piece) if width % piece else s
        s = s.pad(copy) if short or width % piece else s
        made.append(copy)
    return s, tuple(made)


def _in_whole_tiles(
    s: lp.Schedule, tiles: tuple[str, ...], sizes: tuple[int, int], block: str, outer: str
) -> lp.Schedule:
    """`s` with loops over as many rows as a tile has, and room for these, where there are fewer of them; `sizes` are
    their number and that of a tile."""
    (count, rows), results = sizes, argument_names(s)
    if count >= rows:
        return s
    for stage in (x for x in s.stages if x not in tiles):
        (made,) = (t for t in s.accesses(stage) if t.write)
        row = inside(s, stage, block, outer)[0]
        indices = made.subscripts
        dims = [n for n, d in enumerate(indices) if row in d.variables and made.buffer not in results]
        if dims and getattr(s.buffer(made.buffer).shape[dims[0]], "value", None) == count:
            s = s.align_dim(made.buffer, dims[0], rows)
        if extent(s, row) == count:
            s = s.split(row, rows)
    return s.simplify(drop_unit_loops=True)


def _without_guards(s: lp.Schedule, c: Chain, tiles: tuple[str, ...], block: str, outer: str) -> lp.Schedule:
    """`s` with guards on what is stored alone: tiles have zeros after the last row and key, and scores -inf, so that
    what is folded too much changes nothing."""
    begun = (c.first.stage, *c.before, c.fold)  # which all others go on with
    order = [*begun, *(x for x in s.stages if x not in (*begun, *tiles) and outer in s.loops(x))]
    order += [x for x in order if not s.reduced(x)]  # which what they are folded into is padded before
    for stage in (*order, *(x for x in s.stages if x not in (*order, *tiles))):
        if s.reduced(stage):
            for value in (0.0, -math.inf, math.inf):
                s = if_legal(s, "pad", stage, value=value)
        else:
            row = inside(s, stage, block, outer)[:1]
            s = if_legal(s, "pad", stage) if stage in c.after else if_legal(s, "pad", stage, *row)
    return s


def _overlapped(s: lp.Schedule, c: Chain, copy: str, outer: str) -> lp.Schedule:
    """The second product a block later, so that it and the next block's first one are under way together, and with
    what is made of that block's scores."""
    last = (c.first, *c.beside)[-1].stage
    made = next(x for x in s.stages[s.stages.index(last) + 1 :] if outer in s.loops(x))
    late = (outer, copy, c.second.stage)
    return if_legal(s, "retime", *late, before=made)  # of one block


def _in_turns(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """Both products of a block by one warpgroup after another, so that one's exponentials run beside the products of
    another one."""
    first, second = (next(y for y in s.loops(x.stage) if s.loop(y).kind == "warpgroup") for x in (c.first, c.second))
    return s.alternate(first, second)


def _in_turns_if_faster(s: lp.Schedule, c: Chain) -> lp.Schedule:
    """`s` in turns, if the instructions of its threads are predicted to take more than `HIDDEN` of the time of its
    products, which tensor cores are to be kept from waiting for: it is no gain where these are busy in any case."""
    made = legal(s, _in_turns, c)
    if made is None or not is_lowered(made):
        return s
    parts = lp.predict(
        made, "cuda"
    ).parts  # as of `s`, but for taking turns, and mostly this is what is lowered after it
    return made if parts["instructions"] > HIDDEN * parts["tensor cores"] else s


def _rows(s: lp.Schedule, c: Chain) -> int:
    """The rows of a block: of two warpgroups, unless that leaves many threads without a row."""
    count = extent(s, c.first.row)
    one, two = (-(-(count or 0) // n) * n for n in (GROUP_ROWS, 2 * GROUP_ROWS))
    return GROUP_ROWS if count is not None and (4 * two > 5 * one or count <= GROUP_ROWS) else 2 * GROUP_ROWS


def _keys(s: lp.Schedule, c: Chain) -> int:
    """The keys of a block: the most of which there is room for, and at least two blocks; whole ones, unless these are
    short."""
    whole, fitting, count = _whole_keys(s, c), _fitting(s, c), extent(s, c.first.column)
    if whole is not None and 2 * whole >= fitting[0]:
        return whole
    if count is None:
        return next(x for x in fitting if x <= 2 * GROUP_ROWS)
    some = [x for x in fitting if count > x]
    if not some:
        raise lp.ScheduleError(f"{count} keys are no two blocks of {fitting[-1]}")
    return min(some, key=lambda x: -(-count // x) * (x + EACH_BLOCK))


def _fitting(s: lp.Schedule, c: Chain) -> tuple[int, ...]:
    """Numbers of keys of which there is room for a block, from the largest."""
    size = max(sum(extent(s, x.reduced) or 0 for x in (c.first, *c.beside)), extent(s, c.second.column) or 0)
    found = next((x for widest, x in KEYS if size <= widest), None)
    if found is None:
        raise lp.ScheduleError(f"no block of keys of {size} elements fits a multiprocessor")
    return tuple(range(2 * found // (2 + len(c.beside)) // STEP * STEP, 0, -STEP))  # of scores, powers, and more scores


def _whole_keys(s: lp.Schedule, c: Chain, divided: int = 0) -> int | None:
    """The most keys of a block of which there are two whole ones or more, and that divide a number; None if there are
    none."""
    count = extent(s, c.first.column) or 0
    return next((x for x in _fitting(s, c) if count % x == 0 and count > x and divided % x == 0), None)


def _keys_of_rows(s: lp.Schedule, c: Chain, rows: int) -> int | None:
    """The most keys of a block that divide `rows`, of whole blocks if they can be; None if there are none."""
    whole, count = _whole_keys(s, c, rows), extent(s, c.first.column) or 0
    return whole or next((x for x in _fitting(s, c) if count > x and rows % x == 0), None)


def inside(s: lp.Schedule, stage: str, block: str, outer: str) -> tuple[str, ...]:
    """The loops of `stage` in a block."""
    loops = s.loops(stage)
    return loops[loops.index(outer if outer in loops else block) + 1 :]


def in_registers(
    s: lp.Schedule, block: str, outer: str, sums: str, rows: str, others: Mapping[str, str] | None = None
) -> lp.Schedule:
    """All that is made in a block in registers, in the layouts of `sums` and of what rows have one of; or of `others`,
    by their buffers."""
    results = argument_names(s)
    for stage in s.stages:
        (made,) = (t for t in s.accesses(stage) if t.write)
        if made.buffer not in results and s.buffer(made.buffer).scope not in ("fragment", "shared"):
            one = made.contiguous(inside(s, stage, block, outer)[0])  # of each row
            layout = (others or {}).get(made.buffer, rows if one else sums)
            s = _units_first(s, made.buffer).set_scope(made.buffer, "fragment").set_layout(made.buffer, layout)
    return s


def _units_first(s: lp.Schedule, buffer: str) -> lp.Schedule:
    """`s` with the dimensions of `buffer` in order that have one element before those that have more."""
    units = [getattr(n, "value", None) == 1 for n in s.buffer(buffer).shape]
    order = sorted(range(len(units)), key=lambda n: not units[n])
    return s if order == [*range(len(units))] else s.reorder_dims(buffer, *order)


def copied_by_boxes(
    s: lp.Schedule, tiles: tuple[str, ...], of_rows: int, unit: Unit, rows: int
) -> tuple[lp.Schedule, tuple[str, ...]]:
    """The copies of tiles by boxes; and those of rows, the first ones, that are such copies: others are made by all
    threads."""
    once = list[str]()
    for copy in tiles:
        s = s.set_layout(copy, swizzled(extent(s, s.loops(copy)[-2]) or 0, unit.vector))
        boxes = boxes_of(s, copy, unit, 1)
        if boxes is None and copy not in tiles[:of_rows]:
            raise lp.ScheduleError(f"{copy} is not copied in boxes")
        once += [copy] if boxes is not None and copy in tiles[:of_rows] else []
        s = boxes or copy_by_threads(s, copy, rows // GROUP_ROWS, None, unit.vector)
    return s, tuple(once)


def product_by_warpgroups(s: lp.Schedule, c: Contraction, unit: Unit, block: str, outer: str, kind: str) -> lp.Schedule:
    """A product by warpgroups, each of its rows; of `kind` "_ar", of what it has in registers."""
    i, j, *steps, k = inside(s, c.stage, block, outer)
    width = extent(s, j)
    if not steps:
        s, (*steps, k) = s.split(k, unit.depth, tail="exact").with_loops
    s, (group, i) = s.split(i, GROUP_ROWS, tail="exact").with_loops
    s = s.reorder(group, *steps, i, j, k).bind(group, "warpgroup").unroll(steps[0])
    return s.tensorize(i, f"wgmma_m64n{width}k{unit.depth}_{unit.name}{kind}{'_bt' if c.right.along else ''}")
