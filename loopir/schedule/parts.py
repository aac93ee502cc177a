"""A loop in parts: the same body over one range of its iterations after the other.

The parts run in the order of their ranges, so nothing changes its order; a reduction over the loop starts in the first
part and goes on in the others. One part keeps the names of what is inside, the others are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from loopir.analysis.affine import Poly, add_to, plain, plus, to_index
from loopir.analysis.relabel import Relabelling
from loopir.analysis.simplify import Context, extreme, simplify
from loopir.analysis.simplify_func import Known
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    Body,
    Buffer,
    Cond,
    FloorDiv,
    Func,
    Index,
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
from loopir.ir.walk import loaded, loops, rebuild, replace, replaced, rewrite, sees, statements, substitute, variables
from loopir.schedule.find import listing
from loopir.schedule.naming import Taken

NOTHING_TOLD: Mapping[Cond, bool] = {}


def tidy_part(
    loop: Loop,
    start: Index,
    extent: Index,
    var: str,
    known: Known,
    *,
    goes_on: bool,
    copy: Taken | None = None,
    told: Mapping[Cond, bool] = NOTHING_TOLD,
) -> Loop:
    """The `extent` iterations of `loop` from `start` on, as a loop over `var`, where `known` holds.

    What speaks of the loop is simplified; what does not is left as it is. `goes_on`: an earlier part has started the
    reductions over the loop. With `copy`, what is inside gets new names. What is `told` of conditions is so in all.
    """
    inner = _folded(loop, var, goes_on=goes_on)
    size = simplify(extent, known.within(inner))
    inside = known.loop(var, size, inner)
    position = _moved(simplify(start, known.within(inner)), Var(var), lambda: inside.within(inner))
    body = Relabelling({loop.var: position}, {}, decides=True, told=told).body(inner, inside)
    if variables(start):
        body = unspoken(body)
    return Loop(var, size, loop.kind, body if copy is None else copy.copy(body))


def _moved(start: Index, v: Var, ask: Callable[[], Context]) -> Index:
    """`start + v` in its shortest form, for a start in its own; what is known is asked for where that may differ."""
    p = plain(start)
    kinds = {type(a) for m in p for a in m}
    if not kinds <= {Var, FloorDiv, Mod, Min, Max}:
        return simplify(start + v, ask())
    whole: Poly = {}
    for m, c in p.items():  # a loop that runs may tell which side of an extreme it is
        if len(m) == 1 and isinstance(a := m[0], Min | Max):
            add_to(whole, extreme(dict(plain(a.a)), dict(plain(a.b)), isinstance(a, Min), ask()), c)
        else:
            add_to(whole, {m: c}, 1)
    return to_index(plus(whole, {(v,): 1}))


def _folded(loop: Loop, var: str, *, goes_on: bool) -> Body:
    """The body of `loop` with the reductions over it over `var`."""

    def visit(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or loop.var not in s.over:
            return None
        over = replaced(s.over, {loop.var: (var,)})
        return replace(s, over=over, init=None if goes_on else s.init)

    return rewrite(loop.body, visit)


def require_starts(func: Func, new: Func, loop: Loop) -> None:
    """Refuse if a reduction over `loop` no longer starts in `new`, where the first part has nothing of it left."""
    starting = [s.label for s in statements(loop.body) if isinstance(s, Reduce) and _starts_over(s, {loop.var})]
    if starting:
        parts = {x.var for x in loops(new.body)} - {x.var for x in loops(func.body)} | {loop.var}
        if sum(_starts_over(s, parts) for s in statements(new.body)) < len(starting):
            reason = f"{listing(starting)} starts where {loop.var!r} does, of which the first part has nothing to do"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"decompose_reduction({starting[0]!r}) first")
    _require_starts_apart(loop)


def _require_starts_apart(loop: Loop) -> None:
    """Refuse if reductions that start outside of `loop` start in an order that matters: each part has starts of its
    own, those of the first part before those of the next."""
    inner = {loop.var, *(x.var for x in loops(loop.body))}
    outside = [s for s in statements(loop.body) if isinstance(s, Reduce) and s.init and not inner >= {*s.over}]
    if len(outside) == 1 and loop.var in outside[0].over:  # the first part alone starts it
        return
    written = [b.name for s in outside for b in s.buffers]
    for s in outside:
        told = {v for x in s.at if (v := _only(x, inner)) is not None}
        read = frozenset[str]().union(*map(loaded, s.init or ()))
        asked = set[str]().union(*map(variables, s.init or ()))
        if read & {*written} or not asked & inner <= told or any(written.count(b.name) > 1 for b in s.buffers):
            reason = f"{s.label} starts outside of {loop.var!r}, from values that depend on the order of its starts"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"decompose_reduction({s.label!r}) first")


def _only(x: Index, inner: set[str]) -> str | None:
    """The one of `inner` that `x` tells, if it is a number of times that and something that speaks of none."""
    if not sees(x):
        return None
    terms = [m for m in plain(x) if any(variables(a) & inner for a in m)]
    (first, *others) = terms[0] if len(terms) == 1 else (x,)
    return first.name if terms and not others and isinstance(first, Var) else None


def _starts_over(s: Stmt, names: set[str]) -> bool:
    return isinstance(s, Reduce) and s.init is not None and not names.isdisjoint(s.over)


def moved_to(body: Body, position: Mapping[str, Index]) -> Body:
    """`body` with loops at other positions. A fold whose element comes to speak of a loop is not over it any more."""
    return unspoken(tuple(substitute(s, position) for s in body))


def unspoken(body: Body) -> Body:
    """`body` with no fold over a loop that its element speaks of."""

    def visit(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or s.init is not None:
            return None
        spoken = {v for x in s.at for v in variables(x)}
        return replace(s, over=tuple(v for v in s.over if v not in spoken)) if spoken & set(s.over) else None

    return rewrite(body, visit)


def with_values(stmt: Store | Reduce, new: Mapping[Value, Value]) -> Store | Reduce:
    """`stmt` with the values in `new` replaced; the element and the init of a reduction stay."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        return new[n] if isinstance(n, Value) and n in new else rebuild(n, visit)

    if isinstance(stmt, Reduce):
        return replace(stmt, values=tuple(cast(Value, visit(v)) for v in stmt.values))
    return replace(stmt, value=cast(Value, visit(stmt.value)))
