"""Products that are not plain as they are written, as plain ones: computed operands and sums with several uses.

Tensor cores multiply elements of 16 bits that lie in memory, and a tile's sums are taken by one stage, one by one. So
what a product makes of an operand first, a conversion, a scale, becomes a matrix of its own: it is computed by a launch
before, or where tiles of it are copied. What others than one such stage read of the sums becomes a stage of its own,
too: the largest part of 16 bits that is made of a sum alone, what all of them round it to, or else the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loopir as lp

from .nest_queries import one_nest
from .view_loops import is_viewed

NARROW = ("bfloat16", "float16")


def readers(s: lp.Schedule, stage: str) -> list[str]:
    """The other stages that read what `stage` writes."""
    written = {t.buffer for t in s.accesses(stage) if t.write}
    return [x for x in s.stages if x != stage and any(t.buffer in written and not t.write for t in s.accesses(x))]


def own_part(s: lp.Schedule, stage: str, within: Sequence[str] = ()) -> tuple[str, ...]:
    """The stages that are scheduled with the product `stage`: its only reader, if that folds nothing, and `within`."""
    found = readers(s, stage)
    return (*within, stage, *(found if len(found) == 1 and not s.reduced(found[0]) else ()))


def is_reshaped_operand(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` copies an array as it lies, in another shape, and reductions alone read the copy."""
    if not is_view(s, stage):
        return False
    touches = s.accesses(stage)
    alike = all(touches[0].strides.get(x) == touches[1].strides.get(x) is not None for x in s.loops(stage))
    found = readers(s, stage) if alike else []
    return bool(found) and all(map(s.reduced, found))


def is_view(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` stores elements of one array as they are, in another order or shape."""
    if s.reduced(stage) or len(s.accesses(stage)) != 2 or not one_nest(s, stage) or not s.loops(stage):
        return False
    body: Any = s.loop(s.loops(stage)[-1]).body
    return any(getattr(x, "label", "") == stage and hasattr(getattr(x, "value", None), "buffer") for x in body)


def multiplied(s: lp.Schedule, stage: str) -> frozenset[str]:
    """The buffers whose elements `stage` multiplies as they lie, or converted once: of a product of two factors."""
    body: Any = s.loop(s.loops(stage)[-1]).body
    folded: Any = next((x.values[0] for x in body if getattr(x, "label", "") == stage and hasattr(x, "monoid")), None)
    if getattr(getattr(folded, "fn", None), "name", "") != "mul":
        return frozenset()
    factors = [getattr(x, "value", x) for x in folded.args]  # what is converted, or the factor itself
    return frozenset(x.buffer.name for x in factors if hasattr(x, "buffer"))


def computed(s: lp.Schedule, stage: str) -> lp.Schedule | None:
    """`s` with what `stage`, a sum over one loop, multiplies as two matrices of 16 bits; None if it is no such product.

    The operands are told apart by the loop that the output runs along: the right one speaks of it. Each is computed
    by a stage before, along its rows as the array lies that it is computed from.
    """
    sides = _sides(s, stage)
    if sides is None:
        return None
    reads = [t for side in sides for t in side]
    kinds = [x for x in NARROW if any(t.dtype.name == x for t in reads)] or [*NARROW]
    for kind in kinds:
        made = s
        for side in sides:
            in_place = [t.dtype.name for t in side] == [kind] and side[0].buffer in multiplied(s, stage)
            if in_place and not is_viewed(s, side[0]):
                continue
            names, loops = _matrix(s, stage, side)
            if made.why("reindex", stage, names, *loops, dtype=kind) is not None:
                break
            made = made.reindex(stage, names, *loops, dtype=kind)
        else:
            return None if made is s else made
    return None


def materialized(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with what `stage`, a sum over one loop of products of two factors, computes of an operand as a matrix of its
    own: once for each element, and not for each product; so, too, an operand that is read in another shape than it
    has, as heads that are merged. `s` itself if there is nothing of either kind."""
    sides = _sides(s, stage)
    for side in sides if sides is not None else ():
        plain = len(side) == 1 and not is_viewed(s, side[0])
        if plain and side[0].buffer in multiplied(s, stage):
            continue
        names, loops = _matrix(s, stage, side)
        if s.why("reindex", stage, names, *loops) is None:
            s = s.reindex(stage, names, *loops)
    return s


def _sides(s: lp.Schedule, stage: str) -> tuple[list[Any], list[Any]] | None:
    """What `stage`, a sum over one loop, reads for its left operand and for its right one, which speaks of the loop
    along the output; None if it is no such sum."""
    over, touches = s.reduced(stage), s.accesses(stage)
    reads, writes = [t for t in touches if not t.write], [t for t in touches if t.write]
    free = [x for x in s.loops(stage) if x not in over]
    column = next((x for x in reversed(free) if len(writes) == 1 and writes[0].contiguous(x)), None)
    if len(over) != 1 or column is None or len(reads) < 2 or not one_nest(s, stage):
        return None
    right = [t for t in reads if not t.invariant(column)]
    left = [t for t in reads if t not in right]
    return (left, right) if _moves(left, over[0]) and _moves(right, over[0]) else None


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
    found, (written,) = readers(s, stage), (t.buffer for t in s.accesses(stage) if t.write)
    free = [x for x in s.loops(stage) if x not in s.reduced(stage)]
    many = False
    if len(found) == 1:
        (out,) = found
        loops = list(s.loops(out))
        texts = list(dict.fromkeys(t.text for t in s.accesses(out) if t.buffer == written))
        in_order = len(loops) == len(free) and texts == [f"{written}[{', '.join(loops)}]"]
        apart = not s.reduced(out) and one_nest(s, out) and not _folds(s, out, stage)
        if in_order and apart:
            return s, stage
        many = len(texts) > 1  # its halves, say, side by side
        order = _places(texts[0], loops) if len(texts) == 1 else []
        if order and apart and (made := _in_common_order(s, stage, out, order)) is not None:
            return made, stage
        for kind in NARROW if order else ():
            if s.why("reindex", out, written, *order, dtype=kind) is None:
                return s.reindex(out, written, *order, dtype=kind), stage
    for kind in NARROW if len(found) > 1 or many else ():
        if s.why("cache_read", tuple(found), written, "global", dtype=kind) is None:
            return s.cache_read(tuple(found), written, "global", dtype=kind), stage
    s = s.cache_write(stage, "global")
    return s, s.last.stages[0]


def _in_common_order(s: lp.Schedule, stage: str, out: str, order: list[str]) -> lp.Schedule | None:
    """`s` with `stage` and `out`, which finds its elements by the loops `order`, in one order of loops: that of
    `stage`, if `out` stores along the innermost of these; else that of `out`, rows and columns changing places."""
    loops, over = list(s.loops(out)), s.reduced(stage)
    if order[-1] == loops[-1]:
        return s.reorder(*order) if s.why("reorder", *order) is None else None
    if order[:-2] != loops[:-2] or order[:-3:-1] != loops[-2:]:
        return None
    *batch, row, column = (x for x in s.loops(stage) if x not in over)
    (sums,) = {t.buffer for t in s.accesses(stage) if t.write}
    dims = (*range(len(batch)), len(batch) + 1, len(batch))
    if s.why("reorder_dims", sums, *dims) is not None:
        return None
    s = s.reorder_dims(sums, *dims)
    return s.reorder(column, row) if s.why("reorder", column, row) is None else None


def _folds(s: lp.Schedule, out: str, stage: str) -> bool:
    """Whether `out` reads the sums of another product, whose tiles have to be made first."""
    given = {t.buffer for t in s.accesses(out) if not t.write}
    others = [x for x in s.stages if x not in (stage, out) and s.reduced(x) and one_nest(s, x)]
    return any(t.write and t.buffer in given for x in others for t in s.accesses(x))


def _places(text: str, loops: list[str]) -> list[str]:
    """The loops that an element is found by, written `text`, in order; none if it is found in another way."""
    found = text.partition("[")[2].removesuffix("]").split(", ")
    return found if sorted(found) == sorted(loops) else []
