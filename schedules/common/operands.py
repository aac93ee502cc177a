"""Products that are not plain as they are written, as plain ones: computed operands and sums with several uses.

Tensor cores multiply elements of 16 bits that lie in memory, and a tile's sums are taken by one stage, one by one. So
what a product makes of an operand first, a conversion, a scale, becomes a matrix of its own: it is computed by a launch
before, or where tiles of it are copied. What others than one such stage read of the sums becomes a stage of its own,
too: the largest part of 16 bits that is made of a sum alone, what all of them round it to, or else the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import loopir as lp

from .contraction import operands_read
from .nest_queries import extent, one_nest, readers, reads_of, result_of, spatial_loops
from .view_loops import contiguous_pair, fuse_viewed_dims, is_viewed

NARROW = ("bfloat16", "float16")


def own_part(s: lp.Schedule, stage: str, within: Sequence[str] = ()) -> tuple[str, ...]:
    """The stages that are scheduled with the product `stage`: its only reader, if that folds nothing, and `within`."""
    found = readers(s, stage)
    return (*within, stage, *(found if len(found) == 1 and not s.reduced(found[0]) else ()))


def is_reshaped_operand(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` copies an array as it lies, in another shape, and reductions alone read the copy."""
    found = readers(s, stage) if is_plain_copy(s, stage) else []
    return bool(found) and all(map(s.reduced, found))


def is_plain_copy(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` copies an array as it lies."""
    if not is_view(s, stage):
        return False
    touches = s.accesses(stage)
    return all(touches[0].strides.get(x) == touches[1].strides.get(x) is not None for x in s.loops(stage))


def is_view(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` stores elements of one array as they are, in another order or shape."""
    return bool(s.loops(stage)) and one_nest(s, stage) and is_move(s, stage)


def is_move(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage`, which stands in a loop, stores elements of one array as they are."""
    return len(s.accesses(stage)) == 2 and _stores_elements(s, stage)


def is_moved(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` stores elements of arrays as they are: of one, or of one or another, as a concatenation does."""
    return bool(s.loops(stage)) and one_nest(s, stage) and _stores_elements(s, stage)


def _stores_elements(s: lp.Schedule, stage: str) -> bool:
    if s.reduced(stage):
        return False
    body: Any = s.loop(s.loops(stage)[-1]).body
    return any(getattr(x, "label", "") == stage and _is_element(getattr(x, "value", None)) for x in body)


def _is_element(value: Any) -> bool:
    """Whether a value is an element of memory, or one or another of these, as a condition says."""
    if hasattr(value, "cond"):
        return _is_element(value.a) and _is_element(value.b)
    return hasattr(value, "buffer")


def multiplied(s: lp.Schedule, stage: str) -> frozenset[str]:
    """The buffers whose elements `stage` multiplies as they lie, or converted once: of a product of two factors."""
    body: list[Any] = [*s.loop(s.loops(stage)[-1]).body]
    for x in body:
        body += getattr(x, "then", ())  # of a guard
    folded: Any = next((x.values[0] for x in body if getattr(x, "label", "") == stage and hasattr(x, "monoid")), None)
    if getattr(getattr(folded, "fn", None), "name", "") != "mul":
        return frozenset()
    factors = [getattr(x, "value", x) for x in folded.args]  # what is converted, or the factor itself
    return frozenset(x.buffer.name for x in factors if hasattr(x, "buffer"))


TILE = 128
"""Rows, or columns, of a tile: what is no whole number of tiles, nor goes evenly into one, is no box in two of them."""


@lp.composite
def fuse_product_loops(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with neighbouring loops of the product `stage` as one, over rows, columns or what is summed, where all that
    it touches goes on from one to the next; so, too, the dimensions of its sums, if they are an intermediate."""
    if not multiplied(s, stage) or not one_nest(s, stage):
        return s
    while (pair := _product_pair(s, stage)) is not None:
        s = s.fuse(*pair)
    return fuse_viewed_dims(s, stage, stored=True)


def _product_pair(s: lp.Schedule, stage: str) -> tuple[str, str] | None:
    over, reads = s.reduced(stage), reads_of(s, stage)

    def may_be_one(outer: str, inner: str) -> bool:
        batch = outer not in over and not any(t.invariant(outer) for t in reads)
        size = extent(s, inner)
        fits = bool(size) and (TILE % size == 0 or size % TILE == 0)
        return not batch and fits and (outer in over) is (inner in over)

    return contiguous_pair(s, stage, may_be_one)


def computed(s: lp.Schedule, stage: str, *, stored_views: bool = True) -> lp.Schedule | None:
    """`s` with what `stage`, a sum over one loop, multiplies as two matrices of 16 bits; None if it is no such product.

    The operands are told apart by the loop that the output runs along: the right one speaks of it. Each is computed
    by a stage before, along its rows as the array lies that it is computed from. What is read in another shape than it
    has is stored, too, with `stored_views`.
    """
    reads = reads_of(s, stage)
    kinds = [x for x in NARROW if any(t.dtype.name == x for t in reads)] or [*NARROW]
    for kind, sides in product(kinds, _sides(s, stage)):
        made = _as_matrices(s, stage, sides, kind, stored_views)
        if made is not None and made is not s and len(operands_read(made, stage)) == 2:
            return made
    return None


def summed_along_one(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with what `stage` sums over several loops of computed factors as a sum over one, as of blocks that have a
    scale each; windows, whose subscripts add a loop of the sum to one of the result, stay as they are."""
    over, reads = s.reduced(stage), operands_read(s, stage)
    if len(over) < 2 or len(reads) < 3 or not one_nest(s, stage) or s.loops(stage)[-len(over) :] != over:
        return s
    if any(0 < len(d.variables.intersection(over)) < len(d.variables) for t in reads for d in t.subscripts):
        return s
    fused = over[0]
    for loop in over[1:]:
        if s.why("fuse", fused, loop) is not None:
            return s
        s, (fused,) = s.fuse(fused, loop).with_loops
    return s


def _as_matrices(s: lp.Schedule, stage: str, sides: Sides, kind: str, stored_views: bool) -> lp.Schedule | None:
    """`s` with both operands as matrices of `kind`, computed or as they lie; None if one is no such matrix."""
    for side in sides:
        in_place = [t.dtype.name for t in side] == [kind] and side[0].buffer in multiplied(s, stage)
        if in_place and not (stored_views and is_viewed(s, side[0])):
            continue
        names, loops = _matrix(s, stage, side)
        if s.why("reindex", stage, names, *loops, dtype=kind) is not None:
            return None
        s = s.reindex(stage, names, *loops, dtype=kind)
    return s


def two_matrices(s: lp.Schedule, stage: str) -> lp.Schedule | None:
    """`s` with what `stage` multiplies as two matrices, of 16 bits where that loses nothing; None if it multiplies two
    as they lie, or no two."""
    made = computed(s, stage)
    reads = reads_of(s, stage)
    if made is None and (len(reads) != 2 or any(is_strided(s, stage, t) for t in reads)):
        made = materialized(s, stage)
    return made if made is not None and len(reads_of(made, stage)) == 2 else None


def materialized(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with what `stage`, a sum over one loop of products of two factors, computes of an operand as a matrix of its
    own: once for each element, and not for each product; so, too, an operand that is read in another shape than it
    has, as heads that are merged, and one of which no neighbours are read. `s` itself if there is nothing of a kind."""
    made = [_each_once(s, stage, sides) for sides in _sides(s, stage)]
    return next((t for t in made if len(reads_of(t, stage)) == 2), made[0] if made else s)


def _each_once(s: lp.Schedule, stage: str, sides: Sides) -> lp.Schedule:
    """`s` with what is computed of each of the two operands as a matrix, where that may be."""
    for side in sides:
        plain = len(side) == 1 and not is_viewed(s, side[0]) and not is_strided(s, stage, side[0])
        if plain and side[0].buffer in multiplied(s, stage):
            continue
        names, loops = _matrix(s, stage, side)
        folded = next(t.dtype.name for t in s.accesses(stage) if t.write)
        for kind in (None, folded):  # as its elements are, or as they are multiplied
            if s.why("reindex", stage, names, *loops, dtype=kind) is None:
                s = s.reindex(stage, names, *loops, dtype=kind)
                break
    return s


def is_strided(s: lp.Schedule, stage: str, read: Any) -> bool:
    """Whether neighbours in none of the loops of `stage` that `read` depends on, which are several, lie side by side:
    each element is a sector of its own, as of one of the numbers of a pair."""
    loops = [x for x in s.loops(stage) if not read.invariant(x) and extent(s, x) != 1]
    return len(loops) > 1 and not any(read.contiguous(x) for x in loops)


Sides = tuple[list[Any], list[Any]]


def _sides(s: lp.Schedule, stage: str) -> Iterator[Sides]:
    """What `stage`, a sum over one loop, reads for its left operand and for its right one, which speaks of the loop
    along the output; nothing if it is no such sum. What speaks of the folded loop alone, as weights do, may belong to
    either."""
    over, reads, column = s.reduced(stage), operands_read(s, stage), _column(s, stage)
    if len(over) != 1 or column is None or len(reads) < 2 or not one_nest(s, stage):
        return
    free = [x for x in s.loops(stage) if x not in over]
    right = [t for t in reads if not t.invariant(column)]
    left = [t for t in reads if t not in right]
    weights = [t for t in left if all(map(t.invariant, free))]
    apart = [t for t in left if t not in weights]
    for sides in ((left, right), (apart, [*right, *weights])):
        if all(_moves(side, over[0]) for side in sides):
            yield sides
        if not weights:
            return


def _column(s: lp.Schedule, stage: str) -> str | None:
    """The innermost loop of those that `stage` does not fold over along which the one buffer lies that it writes."""
    writes, over = [t for t in s.accesses(stage) if t.write], s.reduced(stage)
    along = (x for x in reversed(s.loops(stage)) if x not in over and writes[0].contiguous(x))
    return next(along, None) if len(writes) == 1 else None


def _moves(side: list[Any], loop: str) -> bool:
    return any(not t.invariant(loop) for t in side)


def _matrix(s: lp.Schedule, stage: str, side: list[Any]) -> tuple[tuple[str, ...], list[str]]:
    """The buffers that an operand is computed from, and its loops, in the order in which the largest of them lies."""
    (reduced,) = s.reduced(stage)
    loops = [x for x in s.loops(stage) if x != reduced and any(not t.invariant(x) for t in side)]
    whole = max(side, key=lambda t: sum(not t.invariant(x) for x in s.loops(stage)))
    across = bool(loops) and whole.contiguous(loops[-1])
    loops = [*loops[:-1], reduced, loops[-1]] if across else [*loops, reduced]
    return tuple(dict.fromkeys(t.buffer for t in side)), loops


def alone(s: lp.Schedule, stage: str) -> tuple[lp.Schedule, str]:
    """`s` with one stage that takes the sums of `stage`, one by one in their order, in a nest of its own; and the fold.

    That is so as it stands, or a stage is made.
    """
    found, written = readers(s, stage), result_of(s, stage)
    elements = [t.subscripts for t in reads_of(s, found[0]) if t.buffer == written] if len(found) == 1 else []
    if len({*elements}) == 1 and (made := _one_by_one(s, stage, found[0], elements[0])) is not None:
        return made, stage
    for kind in NARROW if len(found) > 1 or len({*elements}) > 1 else ():  # its halves, say, side by side
        if s.why("cache_read", tuple(found), written, "global", dtype=kind) is None:
            return s.cache_read(tuple(found), written, "global", dtype=kind), stage
    s = s.cache_write(stage, "global")
    return s, s.last.stages[0]


def _one_by_one(s: lp.Schedule, stage: str, out: str, element: tuple[str, ...]) -> lp.Schedule | None:
    """`s` with one stage that takes the sums of `stage` in their order, where `out` reads that `element` of them alone:
    `out` itself, where it folds nothing, or a stage of 16 bits; None where it is neither."""
    apart = not s.reduced(out) and one_nest(s, out) and not _reads_product(s, out, stage)
    loops = s.loops(out)
    if apart and element == loops and len(loops) == len(spatial_loops(s, stage)) > 0:
        return s
    if not loops or sorted(element) != sorted(loops):
        return None
    if apart and (made := _in_common_order(s, stage, out, [*element])) is not None:
        return made
    for kind in NARROW:
        if s.why("reindex", out, result_of(s, stage), *element, dtype=kind) is None:
            return s.reindex(out, result_of(s, stage), *element, dtype=kind)
    return None


def _in_common_order(s: lp.Schedule, stage: str, out: str, order: list[str]) -> lp.Schedule | None:
    """`s` with `stage` and `out`, which finds its elements by the loops `order`, in one order of loops: that of
    `stage`, if `out` stores along the innermost of these; else that of `out`, rows and columns changing places."""
    loops, over = list(s.loops(out)), s.reduced(stage)
    if order[-1] == loops[-1]:
        return s.reorder(*order) if s.why("reorder", *order) is None else None
    if order[:-2] != loops[:-2] or order[:-3:-1] != loops[-2:]:
        return None
    *batch, row, column = (x for x in s.loops(stage) if x not in over)
    sums = result_of(s, stage)
    dims = (*range(len(batch)), len(batch) + 1, len(batch))
    if s.why("reorder_dims", sums, *dims) is not None:
        return None
    s = s.reorder_dims(sums, *dims)
    return s.reorder(column, row) if s.why("reorder", column, row) is None else None


def _reads_product(s: lp.Schedule, out: str, stage: str) -> bool:
    """Whether `out` reads the sums of another product, whose tiles have to be made first."""
    given = {t.buffer for t in s.accesses(out) if not t.write}
    others = [x for x in s.stages if x not in (stage, out) and s.reduced(x) and one_nest(s, x)]
    return any(t.write and t.buffer in given for x in others for t in s.accesses(x))
