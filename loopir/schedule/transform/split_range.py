"""Split a loop's range into parts with the same body.

The parts run in the order of their ranges, so nothing changes its order; a reduction over the loop starts in the first
part and goes on in the others. One part keeps the names of what is inside, the others are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard, cast

from loopir.analysis.regions.retile import Retiling
from loopir.arith.poly import Poly, expand_index, poly_add, poly_add_to, to_index
from loopir.arith.simplify import Context, extreme, simplify
from loopir.arith.simplify_func import Known
from loopir.ir.grammar import (
    Body,
    Buffer,
    Cond,
    FloorDiv,
    Index,
    Int,
    Loop,
    Max,
    Min,
    Mod,
    Node,
    Reduce,
    Stmt,
    Store,
    Value,
    Var,
)
from loopir.ir.traverse.walk import free_vars, rebuild, replace, rewrite
from loopir.schedule.core.naming import UsedNames

DecidedConds = Mapping[Cond, tuple[bool, bool]]
"""How conditions turn out if they are decided, and whether that is sure."""


def loop_part(
    loop: Loop,
    start: Index,
    extent: Index,
    var: str,
    known: Known,
    *,
    goes_on: bool,
    copy: UsedNames | None = None,
    decided: DecidedConds | None = None,
    begins: bool | None = None,
) -> Loop:
    """The `extent` iterations of `loop` from `start` on, as a loop over `var`, where `known` holds.

    What speaks of the loop is simplified; what does not is left as it is. `goes_on`: an earlier part has started the
    reductions over the loop. With `copy`, what is inside gets new names. What is `decided` of conditions is so in all;
    who knows that much has asked, too, which side of an extreme the start is. `begins`: whether the part begins where
    the loop does; if not, it ends there; None for neither.
    """
    inner = continued(loop.body, loop.var) if goes_on else loop.body
    size = simplify(extent, known.within(inner))
    inside = known.loop(var, size, inner, was=loop.var)
    position = _shift(simplify(start, known.within(inner)), Var(var), lambda: inside.within(inner), decided is None)
    parts = {} if begins is None else {var: begins}
    moved = Retiling({loop.var: position}, {loop.var: (var,)}, size != Int(0), decided or {}, parts)
    body = moved.body(inner, inside)
    if free_vars(start):
        body = drop_unused_over(body)
    return Loop(var, size, loop.kind, body if copy is None else copy.copy(body))


def _shift(start: Index, v: Var, ask: Callable[[], Context], extremes: bool) -> Index:
    """`start + v` in its shortest form, for a start in its own; what is known is asked for where that may differ."""
    p = expand_index(start)
    kinds = {type(a) for m in p for a in m}
    if not kinds <= {Var, FloorDiv, Mod, Min, Max}:
        return simplify(start + v, ask())
    whole: Poly = {}
    for m, c in p.items():  # a loop that runs may tell which side of an extreme it is
        if extremes and len(m) == 1 and isinstance(a := m[0], Min | Max):
            poly_add_to(whole, extreme(dict(expand_index(a.a)), dict(expand_index(a.b)), isinstance(a, Min), ask()), c)
        else:
            poly_add_to(whole, {m: c}, 1)
    return to_index(poly_add(whole, {(v,): 1}))


def continued(body: Body, loop: str) -> Body:
    """`body` where another part of `loop` starts the reductions over it."""
    return rewrite(body, lambda s: replace(s, init=None) if _starts_over(s, loop) else None)


def _starts_over(s: Stmt, name: str) -> TypeGuard[Reduce]:
    return isinstance(s, Reduce) and s.init is not None and name in s.over


def drop_unused_over(body: Body) -> Body:
    """`body` with no fold over a loop that its element speaks of."""
    return rewrite(body, lambda s: without_unused_over(s) if isinstance(s, Reduce) else None)


def without_unused_over(s: Reduce) -> Reduce:
    """`s` over those of its loops alone that its element does not speak of; as it is if it starts outside of them."""
    spoken = frozenset[str]().union(*map(free_vars, s.at)).intersection(s.over)
    return replace(s, over=tuple(v for v in s.over if v not in spoken)) if spoken and s.init is None else s


def with_values(stmt: Store | Reduce, new: Mapping[Value, Value]) -> Store | Reduce:
    """`stmt` with the values in `new` replaced; the element and the init of a reduction stay."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        return new[n] if isinstance(n, Value) and n in new else rebuild(n, visit)

    if isinstance(stmt, Reduce):
        return replace(stmt, values=tuple(cast(Value, visit(v)) for v in stmt.values))
    return replace(stmt, value=cast(Value, visit(stmt.value)))
