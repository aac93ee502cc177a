"""Products of what is made of other products, which are computed again for each of these: no matrix between is stored.

Gradients of attention are of this kind, written out with the powers found again from the logarithm of their sum: three
products of what is made, element by element, of two others. Those that have the same rows are one kernel, a block of
threads for each block of rows, which goes over all blocks of columns; it computes the elements of the inner products
that it needs, in registers, where these are the left operand of the outer ones as they lie. Copies of both rings are
read by an inner and by an outer product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import loopir as lp

from ..common.contraction import Contraction, contraction, copied_operand, operands_read
from ..common.nest_queries import argument_names, batched, extent, if_legal, readers, reads_of, result_of, spatial_loops
from ..common.product_chains import Tail
from ..plan import flat
from .cheapest import cheapest
from .matmul_wgmma import UNITS, Unit, boxes_of, by_warpgroups
from .product_chains import (
    EACH_BLOCK,
    GROUP_ROWS,
    HELD_ROWS,
    HELD_SUMS,
    STAGES,
    in_registers,
    inside,
    product_by_warpgroups,
    registers,
)
from .tma_store import swizzled

BLOCK_ROWS, BLOCK_COLUMNS = (2 * GROUP_ROWS, GROUP_ROWS), (64, 48, 32)
"""Of a block, from the most."""
WIDEST, MOST_RESULTS = 256, 320
"""Elements of a row of an operand, at most, and of the rows of all results of a kernel."""
GROUP_THREADS, BARRIERS = 128, 2048
"""Of a warpgroup; bytes of shared memory for barriers, and for what swizzled rows are aligned to."""
MOST_REGISTERS = 224
"""Registers of a thread for results, and for what is made in a block of columns, at most: others are for addresses."""


Outer = tuple[str, str, tuple[str, ...]]
"""An outer product, what makes its left operand, and the inner products that this reads."""


@dataclass(frozen=True)
class Group:
    """Outer products of the same rows, what makes the left operand of each, and the inner products that these read."""

    outer: tuple[str, ...]
    made: tuple[str, ...]
    inner: tuple[str, ...]


def with_recomputed_products(s: lp.Schedule, others: Callable[[lp.Schedule], lp.Schedule]) -> lp.Schedule:
    """`recomputed_products`, or what `others` make of `s`, whichever is predicted to be faster."""
    recipes = [partial(recomputed_products, others=others), others] if _has_products_of_products(s) else []
    made = cheapest(s, recipes)
    if made is None:
        raise lp.ScheduleError("there is no product of what is made of products that is lowered")
    return made


def _has_products_of_products(s: lp.Schedule) -> bool:
    """Whether some product reads, or reads what is made of, what another one gives; and all are narrow."""
    made, outer = {result_of(s, x) for x in _contractions(s)}, False
    for x in s.stages:
        read = {t.buffer for t in reads_of(s, x)}
        if read & made:
            outer = outer or bool(s.reduced(x))
            made |= {t.buffer for t in s.accesses(x) if t.write}
    return outer


def recomputed_products(s: lp.Schedule, others: Callable[[lp.Schedule], lp.Schedule]) -> lp.Schedule:
    """`s` with a kernel for each of its groups, and what `others` make of all else."""
    s = s.simplify(drop_unit_loops=True)
    s, parts = _with_own_products(_with_results_as_computed(_with_left_operands(_by_one_loop(s))))
    whole, chosen = list[tuple[tuple[str, ...], Any]](), set[str]()
    for g in parts:
        after = tuple(r for o in g.outer for r in readers(s, o))
        stages = tuple(x for x in s.stages if x in {*g.inner, *g.made, *g.outer, *after})
        first = lp.Schedule(lp.extract(s.func, stages).func)
        whole.append((stages, flat(group_in_one_loop(first).steps_since(first) or ())))
        chosen.update(stages)
    later = _made_of(s, chosen)
    for rest in (tuple(x for x in s.stages if x not in chosen and (x in later) == after) for after in (False, True)):
        if rest:
            first = lp.Schedule(lp.extract(s.func, rest).func)
            whole.append((rest, flat(others(first).steps_since(first) or ())))
    return s.schedule_nests(*whole)


def _made_of(s: lp.Schedule, stages: set[str]) -> set[str]:
    """The stages that read what `stages` give, or what is made of that."""
    found, pending = set[str](), [*stages]
    for x in pending:  # which grows on the way
        new = [y for y in readers(s, x) if y not in found]
        found.update(new)
        pending += new
    return found


def _by_one_loop(s: lp.Schedule) -> lp.Schedule:
    """`s` with sums of products over several loops, as over heads that share keys and over their rows, in parts: each
    is over the last of these loops, and the parts are summed."""
    made = {result_of(s, x) for x in s.stages}
    for x in s.stages:
        first, reads = s.reduced(x)[:-1], reads_of(s, x)
        if len(first) == 1 and len(reads) == 2 and any(t.buffer in made for t in reads):
            s = s.reorder(*first, *(y for y in s.loops(x) if y not in first)).rfactor(x, *first)
    return s


def _with_results_as_computed(s: lp.Schedule) -> lp.Schedule:
    """`s` with a reader of each product that reads an element once and at its own loops: what is summed further, as
    over heads that share keys, is copied, rounded as it is read; and a loop that counts two dimensions is split."""
    for x, c in _contractions(s).items():
        result, of_sums = result_of(s, x), [r for r in readers(s, x) if s.reduced(r)]
        for r in of_sums:
            rows = spatial_loops(s, r)[-2:]
            asked = (r, result, *(y for y in s.loops(r) if y not in rows), *rows)
            rounded = s.buffer(c.right.buffer).dtype.name
            s = s.reindex(*asked, dtype=rounded if s.why("reindex", *asked, dtype=rounded) is None else None)
        for r in [r for r in readers(s, x) if not s.reduced(r)]:
            for at in dict.fromkeys(x for t in reads_of(s, r) if t.buffer == result for x in t.subscripts):
                loop, _, size = at.partition(" % ")
                if loop in s.loops(r) and size.isdigit():
                    s = s.split(loop, int(size))
    return s


def _contractions(s: lp.Schedule) -> dict[str, Contraction]:
    found = {x: contraction(s, x, of_one_buffer=True) for x in s.stages}
    return {x: c for x, c in found.items() if c is not None}


def _with_left_operands(s: lp.Schedule) -> lp.Schedule:
    """`s` with a stage of its own for the left operand of each product that is made of others, which computes all that
    is done to these element by element."""
    args, made = argument_names(s), set[str]()
    for x in [x for x in s.stages if len(s.reduced(x)) == 1 and contraction(s, x, of_one_buffer=True) is None]:
        s, operand = _with_operand_of_several(s, x)
        made |= {operand} if operand is not None else set()
    results = {result_of(s, x) for x in made}
    for x, c in _contractions(s).items():
        if c.left.buffer not in args | results:
            asked = (x, c.left.buffer, *c.batch, c.row, c.reduced)
            rounded = s.buffer(c.right.buffer).dtype.name
            dtype = rounded if s.why("reindex", *asked, dtype=rounded) is None else None
            s, operand = s.reindex(*asked, dtype=dtype).with_stage
            made.add(operand)
    for x in s.stages:
        if x in s.stages and not s.reduced(x) and x not in made and result_of(s, x) not in args:
            s = s.compute_inline(x)
    return s


def _with_operand_of_several(s: lp.Schedule, stage: str) -> tuple[lp.Schedule, str | None]:
    """`s` with a stage for what the sum `stage` computes of several buffers, in the type of the one more whose elements
    it is multiplied with; and that stage, if there is one."""
    stored, reads = [t for t in s.accesses(stage) if t.write], reads_of(s, stage)
    column = next((x for x in reversed(s.loops(stage)) if all(t.contiguous(x) for t in stored)), None)
    left = [t for t in reads if column is not None and t.invariant(column)]
    others = [t for t in reads if t not in left]
    names = tuple(dict.fromkeys(t.buffer for t in left))
    if len(names) < 2 or len(others) != 1:
        return s, None
    asked = (stage, names, *(x for x in s.loops(stage) if not all(t.invariant(x) for t in left)))
    dtype = others[0].dtype.name
    return s.reindex(*asked, dtype=dtype).with_stage if s.why("reindex", *asked, dtype=dtype) is None else (s, None)


def _groups_by_rows(s: lp.Schedule) -> list[Group]:
    """The outer products of `s` by the loop that is their row: by which they find rows or columns of the inner ones."""
    products, args = _contractions(s), argument_names(s)
    found: dict[object, list[Outer]] = {}
    for x, c in products.items():
        made = next((y for y in s.stages if y not in products and c.left.buffer == result_of(s, y)), None)
        if made is None or c.left.buffer in args or s.reduced(made):
            continue
        inner, place = _read_alike(s, made, products)
        if place is not None:
            found.setdefault(place, []).append((x, made, inner))
    each = [(*zip(*g, strict=True),) for some in found.values() for g in _that_fit(s, some)]
    return [Group(outer, made, tuple(dict.fromkeys(y for some in inner for y in some))) for outer, made, inner in each]


def _read_alike(s: lp.Schedule, stage: str, products: Iterable[str]) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Those of `products` whose results `stage` reads, and the dimensions of these that its loops count; None if they
    are not the same of all, or two elements of one are read, of which no loop is the row."""
    results = {result_of(s, y): y for y in products}
    reads = [t for t in reads_of(s, stage) if t.buffer in results]
    read = {t.buffer for t in reads}
    places = {_dimensions_counted_by(t.subscripts, s.loops(stage)) for t in reads}
    alike = len(places) == 1 and len(read) == len(reads)
    return tuple(y for x, y in results.items() if x in read), places.pop() if alike else None


def _that_fit(s: lp.Schedule, outer: list[Outer]) -> list[list[Outer]]:
    """`outer` as one group, or each as one where registers have no room for all results."""
    widths = [extent(s, s.loops(x)[-2]) or 0 for x, _, _ in outer]
    return [outer] if sum(widths) <= MOST_RESULTS else [[x] for x in outer]


def _dimensions_counted_by(subscripts: tuple[str, ...], loops: tuple[str, ...]) -> tuple[int, ...]:
    """The dimensions that each of `loops` counts alone."""
    return tuple(subscripts.index(x) if x in subscripts else -1 for x in loops)


def _with_own_products(s: lp.Schedule) -> tuple[lp.Schedule, list[Group]]:
    """`s` with inner products of its own for each group."""
    own = list[Group]()
    for n, g in enumerate(_groups_by_rows(s)):
        inner = list[str]()
        for x in g.inner:
            if n:
                s, x = s.clone(x, *(m for m in g.made if _reads_result_of(s, m, x))).with_stage
            inner.append(x)
        own.append(Group(g.outer, g.made, tuple(inner)))
    if not own:
        raise lp.ScheduleError("there is no product of what is made of products")
    return s, own


def _reads_result_of(s: lp.Schedule, stage: str, producer: str) -> bool:
    return result_of(s, producer) in {t.buffer for t in reads_of(s, stage)}


@lp.composite
def group_in_one_loop(s: lp.Schedule, *, rows: int | None = None, columns: int | None = None) -> lp.Schedule:
    """`s`, outer products of the same rows and all that these need, in one kernel: a block of threads for each block of
    `rows`, which goes over all blocks of `columns`."""
    found = _groups_by_rows(s)
    if len(found) != 1:
        raise lp.ScheduleError("these are no outer products of the same rows of what is made of inner ones")
    g = found[0]
    s = _in_order(s, g)
    products = _contractions(s)
    unit = UNITS[_type_of_products(s, (*g.inner, *g.outer))]
    for c in products.values():
        wide = extent(s, c.reduced if c.stage in g.inner else c.column)
        if wide is None or wide > WIDEST or wide % unit.vector:
            raise lp.ScheduleError(f"rows of {wide} elements are no vectors of {unit.vector}, or more than {WIDEST}")
    if rows is None or columns is None:
        rows, columns = _block_sizes(s, g, products)
    s, computed = _computed_once(s, g)
    tails = _tail(s, products[g.outer[0]].row, rows), _tail(s, products[g.outer[0]].reduced, columns)
    s, block = _in_blocks_of_rows(s, g, rows, tails[0])
    s, outer = _in_blocks_of_columns(s, g, block, columns, tails[1])
    for x in (*(x for x, _ in computed), *reversed(g.inner)):
        s = s.compute_at(x, outer)
    s = s.simplify(drop_unit_loops=True)
    for x, reader in computed:
        s = if_legal(s, "compute_once", x, reader)
    s = if_legal(s, "trim", outer)
    batch = s.loops(s.stages[-1])[: s.loops(s.stages[-1]).index(block)]
    s, tiles = _tiles_of_operands(s, g, products, unit, block, outer)
    for x in g.outer:
        s = s.decompose_reduction(x, outer)
    s = in_registers(s, block, outer, HELD_SUMS, HELD_ROWS)
    for x in s.stages:
        if x not in (*g.inner, *g.outer, *tiles):
            s = by_warpgroups(s, inside(s, x, block, outer)[0])
    s = _copied_in_boxes(s, tiles, unit)
    for x in g.inner:
        s = product_by_warpgroups(s, products[x], unit, block, outer, "")
    for x in g.outer:
        s = product_by_warpgroups(s, products[x], unit, block, outer, "_ar")
    once = tuple(x for x, at in tiles.items() if at == block)
    s = s.specialize_warps(outer, stages=STAGES, registers=registers(rows // GROUP_ROWS), once=once)
    return batched(s, batch)


def _type_of_products(s: lp.Schedule, products: tuple[str, ...]) -> str:
    read = {t.dtype.name for x in products for t in operands_read(s, x)}
    if read not in ({"bfloat16"}, {"float16"}):
        raise lp.ScheduleError(f"the products are of {' and '.join(sorted(read))}, and not all of one 16-bit float")
    return read.pop()


def _block_sizes(s: lp.Schedule, g: Group, products: dict[str, Contraction]) -> tuple[int, int]:
    """Rows and columns of a block that registers and shared memory have room for, of which there are two blocks or
    more: those that leave the least over, with what each block takes by itself."""
    row, column = (extent(s, x) for x in (products[g.outer[0]].row, products[g.outer[0]].reduced))
    found = [
        (x, y)
        for x in BLOCK_ROWS
        for y in BLOCK_COLUMNS
        if row is not None and column is not None and row > x and column > y and _have_room(s, g, products, x, y)
    ]
    if not found:
        told = f"{row} rows and {column} columns are no two blocks of {BLOCK_ROWS[-1]} and {BLOCK_COLUMNS[-1]}"
        raise lp.ScheduleError(told)
    cost = {
        (x, y): -(-(row or 0) // x) * (x + EACH_BLOCK) * -(-(column or 0) // y) * (y + EACH_BLOCK) for x, y in found
    }
    return min(found, key=cost.__getitem__)


def _have_room(s: lp.Schedule, g: Group, products: dict[str, Contraction], rows: int, columns: int) -> bool:
    """Whether registers and shared memory have room for blocks of `rows` and `columns`."""
    piece = UNITS[_type_of_products(s, (*g.inner, *g.outer))].piece
    deep = sum(-(-(extent(s, products[x].reduced) or 0) // piece) * piece for x in g.inner)
    results = sum(extent(s, products[x].column) or 0 for x in g.outer)
    registers_each = (results + columns * len(g.inner) + columns * len(g.made) // 2) * GROUP_ROWS // GROUP_THREADS
    shared = 2 * (rows + STAGES * columns) * deep
    return registers_each <= MOST_REGISTERS and shared <= lp.machine().shared_per_block - BARRIERS


def _tail(s: lp.Schedule, loop: str, size: int) -> Tail:
    """That of a split of `loop` in parts of `size`."""
    return "exact" if (extent(s, loop) or 1) % size == 0 else "guard"


def _in_order(s: lp.Schedule, g: Group) -> lp.Schedule:
    """`s` with inner products, and their memory, in the order of rows and columns of the outer ones."""
    for x in g.inner:
        reader = next(m for m in g.made if _reads_result_of(s, m, x))
        (read,) = (t for t in reads_of(s, reader) if t.buffer == result_of(s, x))
        (made,) = (t for t in s.accesses(x) if t.write)
        order = _dimensions_counted_by(read.subscripts, s.loops(reader))
        s = s.reorder(*(made.subscripts[n] for n in order), *s.reduced(x))
        if [*order] != sorted(order):
            s = s.reorder_dims(made.buffer, *(n for n in range(len(made.subscripts)) if n not in order), *order)
    return s


def _computed_once(s: lp.Schedule, g: Group) -> tuple[lp.Schedule, list[tuple[str, str]]]:
    """`s` with a stage for what one of `g.made` computes of the same buffers as another one does, and that other."""
    found, dtype = list[tuple[str, str]](), s.buffer(result_of(s, g.inner[0])).dtype.name
    for x in g.made:
        mine = {t.buffer for t in reads_of(s, x)}
        for y in g.made:
            asked = (y, tuple(sorted(mine)), *s.loops(y))
            if mine < {t.buffer for t in reads_of(s, y)} and s.why("reindex", *asked, dtype=dtype) is None:
                s, stage = s.reindex(*asked, dtype=dtype).with_stage
                found.append((stage, x))
    return s, found


def _in_blocks_of_rows(s: lp.Schedule, g: Group, rows: int, tail: Tail) -> tuple[lp.Schedule, str]:
    """The outer products, and what is made of these, in one loop over blocks of rows, and that loop."""
    last = sorted((x for o in g.outer for x in readers(s, o)), key=s.stages.index)
    if len(last) != len(g.outer):
        raise lp.ScheduleError("an outer product is no stage's alone")
    if s.stages[-len(last) :] != tuple(last):
        s = s.schedule_nests((tuple(last), ()))
    for x in last:
        s = s.split(s.loops(x)[-2], rows, tail=tail)
    if len(last) > 1:
        s = s.merge(*(s.loops(x)[0] for x in last))
        for loop in reversed(s.loops(last[-1])[-2:]):
            for x in (x for x in last[:-1] if loop in s.loops(x)):
                s = s.distribute(loop, x)
    block = s.loops(last[-1])[-3]
    s = s.bind(block, "blockIdx.x")
    for x in (*reversed(g.outer), *reversed(g.made)):
        s = s.compute_at(x, block)
    return s.simplify(drop_unit_loops=True), block


def _in_blocks_of_columns(s: lp.Schedule, g: Group, block: str, columns: int, tail: Tail) -> tuple[lp.Schedule, str]:
    """The outer products in one loop over blocks of columns, with their left operands, and that loop."""
    products, loops = [x for x in s.stages if x in g.outer], list[str]()
    for x in products:
        *free, reduced = inside(s, x, block, block)
        s, (outer, inner) = s.split(reduced, columns, tail=tail).with_loops
        s = s.reorder(outer, *free, inner)
        s = s.compute_at(next(m for m in g.made if _reads_result_of(s, x, m)), outer)
        loops.append(outer)
    return (s.merge(*loops) if len(loops) > 1 else s), loops[0]


def _tiles_of_operands(
    s: lp.Schedule, g: Group, products: dict[str, Contraction], unit: Unit, block: str, outer: str
) -> tuple[lp.Schedule, dict[str, str]]:
    """Tiles in shared memory of what products read from memory, and the loop that each is filled in; outer products
    read the tiles of inner ones where they can. Rows of tiles are whole pieces, with zeros at their ends."""
    tiles, of = dict[str, str](), dict[str, str]()
    for x in g.inner:
        s, copy = copied_operand(s, x, products[x].left, "shared", block)
        tiles[copy] = block
        s, copy = copied_operand(s, x, products[x].right, "shared", outer)
        tiles[copy] = outer
        of[products[x].right.buffer] = copy
    for x in g.outer:
        read = products[x].right.buffer
        if read in of and s.why("compute_once", of[read], x) is None:
            s = s.compute_once(of[read], x)
        else:
            s, copy = copied_operand(s, x, products[x].right, "shared", outer)
            tiles[copy] = outer
    for x in g.inner:
        if (extent(s, products[x].reduced) or 0) % unit.depth:
            s = s.split(s.loops(x)[-1], unit.depth)
    for copy in tiles:
        s = _in_whole_pieces(s, copy, unit)
    for x in (*g.inner, *g.outer):
        s = if_legal(s, "pad", x)
    return s, tiles


def _in_whole_pieces(s: lp.Schedule, copy: str, unit: Unit) -> lp.Schedule:
    """`s` with rows of the tile `copy` that are whole pieces, and zeros after what is copied."""
    if (extent(s, s.loops(copy)[-1]) or 0) % unit.piece:
        s = s.align_dim(copy, 1, unit.piece).pad(copy)
    return s


def _copied_in_boxes(s: lp.Schedule, tiles: dict[str, str], unit: Unit) -> lp.Schedule:
    """`s` with copies of `tiles` by boxes."""
    for copy in tiles:
        s = s.set_layout(copy, swizzled(extent(s, s.loops(copy)[-2]) or 0, unit.vector))
        boxes = boxes_of(s, copy, unit, 1)
        if boxes is None:
            raise lp.ScheduleError(f"{copy} is not copied in boxes")
        s = boxes
    return s
