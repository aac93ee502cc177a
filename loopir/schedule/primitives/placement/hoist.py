"""hoist: what is the same in every iteration of a loop is done once, before it.

A statement that does the same each time moves out whole; of another one, the values that do not change move into
scalars. Neither runs where the loop has no iterations, so nothing is read that was not read before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from loopir.analysis.dependence.access import is_affine_visible, statements_of
from loopir.analysis.dependence.depend import Clash, Pair, conflicts, least_clash, order_in_loop
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    Func,
    If,
    Int,
    Load,
    Loop,
    Op,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    free_vars,
    guard_body,
    loops,
    nodes,
    replace,
    rewrite,
    statements,
)
from loopir.schedule.core.facts import Facts, rewrite_loop
from loopir.schedule.core.find import find_serial, find_stage, join_names
from loopir.schedule.core.naming import UsedNames
from loopir.schedule.legality.effects import allocates, reads, require_stable_extent, writes
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.siblings import labels
from loopir.schedule.transform.split_range import with_values


@primitive
def hoist(func: Func, stage: str, loop: str) -> Func:
    """Move `stage` out of `loop`, where it does the same in every iteration; else those of its values that do.

    Values go into scalars, `stage_h`; set_scope puts them into registers.

    before:
        def f(n: "size", A: "float32[n, n]", B: "float32[n]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    C[i, j] = A[i, j] * exp(B[i])
    call:    hoist("C", "j")
    after:
        def f(n: "size", A: "float32[n, n]", B: "float32[n]", C: "out float32[n, n]"):
            for i in range(n):
                with alloc("float32[]") as C_h:
                    C_h[()] = exp(B[i])
                    for j in range(n):
                        C[i, j] = A[i, j] * C_h[()]
    refuses: hoist("C", "i")  # nothing in C is the same in every iteration of 'i'

    before:
        def g(n: "size", A: "float32[n, 8]", w: "float32[8]", C: "out float32[n]"):
            for i in range(n):
                with alloc("float32[]") as total:
                    for k in range(8):
                        total[()] = sum(w[k], over=k, init=0.0)
                    C[i] = A[i, 0] / total[()]
    call:    hoist("total", "i")
    after:
        def g(n: "size", A: "float32[n, 8]", w: "float32[8]", C: "out float32[n]"):
            with alloc("float32[]") as total:
                if 0 < n:
                    for k in range(8):
                        total[()] = sum(w[k], over=k, init=0.0)
                for i in range(n):
                    C[i] = A[i, 0] / total[()]

    before:
        def h(n: "size", a: "inout float32[n + 1]"):
            for i in range(n):
                a[n] = a[0] * 2.0
                a[i] = 1.0
    refuses: hoist("a", "i")  # a reads a, which 'i' writes
    """
    target = find_serial(func, loop)
    inside = {x.var for x in loops(target.body)}
    place = next((p for p in find_stage(func, stage) if target in p.around), None)
    if place is None:
        around = find_stage(func, stage)[0].loops
        raise ScheduleError(f"{stage} does not stand in {target.var!r}", loop=target.var,
                            suggestion=f"a loop around it: {join_names(x.var for x in around)}")  # fmt: skip
    require_stable_extent(target)
    allocs, body = _opened(target.body)
    unit = next(s for s in body if any(x is place.stmt for x in statements((s,))))
    if not isinstance(unit, If) and target.var not in free_vars(unit):
        return _hoist_unit(func, target, allocs, body, unit)
    return _values(func, target, place, inside)


# ---------------------------------------------------------------- a statement


def _opened(body: Body) -> tuple[tuple[Alloc, ...], Body]:
    """The allocations around all of `body`, and what is in them."""
    allocs: tuple[Alloc, ...] = ()
    while len(body) == 1 and isinstance(body[0], Alloc):
        allocs, body = (*allocs, body[0]), body[0].body
    return allocs, body


def _hoist_unit(func: Func, loop: Loop, allocs: tuple[Alloc, ...], body: Body, unit: Stmt) -> Func:
    """`unit` before the loop, with the memory that it writes."""
    at = body.index(unit)
    rest = (*body[:at], *body[at + 1 :])
    _require_same(func, loop, unit, {s.buffer.name for s in allocs}, rest)
    mine = writes((unit,))
    out = [s for s in allocs if s.buffer.name in mine]
    left: Body = rest
    for s in reversed(allocs):
        left = left if s in out else (Alloc(s.buffer, left),)
    made: Body = (*_guard_nonempty(func, loop, (unit,), []), replace(loop, body=left))
    for s in reversed(out):
        made = (Alloc(s.buffer, made),)
    return rewrite_loop(func, loop, lambda: made)


def _require_same(func: Func, loop: Loop, unit: Stmt, own: set[str], rest: Body) -> None:
    """Refuse unless `unit` leaves the same each time, and nobody sees or changes what it wrote in between.

    `own` is memory that each iteration has anew, and will not: there names decide, as for where a reduction starts.
    """
    inner, name = {x.var for x in loops((unit,))}, join_names(labels((unit,)))
    again = not Facts.at(func, loop).at_least(1 - loop.extent, 0)  # else there is no other iteration
    for s in statements((unit,)):
        if isinstance(s, Reduce) and (again or loop.var in s.over if s.init is None else not set(s.over) <= inner):
            met = _dependence(func, loop, {s.label}, {b.name for b in s.buffers})
            raise _refused(
                loop,
                f"{s.label} folds into its previous result in every iteration",
                met,
            )
    mine = writes((unit,)) - allocates((unit,))
    read = reads((unit,)) - allocates((unit,))
    met = _dependence(func, loop, {*labels((unit,))}, read & mine, read=True) if again and read & mine else None
    if met is not None or read & own:
        bad = join_names([met.witness.buffer] if met is not None else sorted(read & own))
        raise _refused(loop, f"{name} reads {bad}, which {loop.var!r} writes", met)
    starting = {b.name for s in statements(rest) if isinstance(s, Reduce) and loop.var in s.over and s.init
                for b in s.buffers}  # fmt: skip
    if bad := sorted((mine & own & writes(rest)) | (accessed_buffers(unit) & starting)):
        met = _dependence(func, loop, {*labels((unit,))}, {*bad})
        raise _refused(loop, f"{join_names(bad)} is written by others in {loop.var!r}, too", met)
    if accessed_buffers(unit) & (writes(rest) | mine & reads(rest)):
        _require_hoist_order(func, loop, name, {*labels((unit,))})


def _require_hoist_order(func: Func, loop: Loop, name: str, unit: set[str]) -> None:
    """Refuse if what others in the loop do comes before the statements `unit` that depend on it.

    A write does, of what these read or write, in any iteration; a read of what they write, before they have written it.
    """
    inside = [s for s in statements_of(func) if loop.var in s.dims]
    for s, t in product((s for s in inside if s.label not in unit), (t for t in inside if t.label in unit)):
        for a, b in conflicts(s, t):
            clash = least_clash(Pair(func, s, a, t, b).clashes(order_in_loop(s, t, loop.var, first=not a.write)))
            if clash is not None:
                reason = f"{a.buffer} is read before {name} in {loop.var!r}"
                if a.write:
                    reason = f"{a.buffer} is written by others in {loop.var!r}, too"
                if not b.write:
                    reason = f"{name} reads {a.buffer}, which {loop.var!r} writes"
                raise refusal(clash, reason, loop.var, f"keep it in {loop.var!r}")


def _dependence(func: Func, loop: Loop, unit: set[str], names: set[str], *, read: bool = False) -> Clash | None:
    """The least example of an instance in the loop on which one of the statements `unit` depends, by these buffers.

    If `read`, as it reads what that has written.
    """
    inside = [s for s in statements_of(func) if loop.var in s.dims]
    pairs = ((s, t) for s, t in product(inside, inside) if t.label in unit)
    met = ((s, t, a, b) for s, t in pairs for a, b in conflicts(s, t) if a.buffer in names and not (read and b.write))
    return least_clash(c for s, t, a, b in met for c in Pair(func, s, a, t, b).clashes(order_in_loop(s, t, loop.var)))


def _refused(loop: Loop, reason: str, clash: Clash | None = None) -> ScheduleError:
    instead = f"keep it in {loop.var!r}"
    if clash is not None:
        return refusal(clash, reason, loop.var, instead)
    return ScheduleError(reason, loop=loop.var, suggestion=instead)


def _guard_nonempty(func: Func, loop: Loop, body: Body, needs: list[Cond]) -> Body:
    """`body`, if the loop has an iteration and the conditions `needs` hold."""
    some = [] if Facts.at(func, loop).at_least(loop.extent, 1) else [Cmp("<", Int(0), loop.extent)]
    return guard_body(body, (*some, *needs))


# ---------------------------------------------------------------- values


def _values(func: Func, loop: Loop, place: StmtPath, inside: set[str]) -> Func:
    stmt = place.stmt
    changing = {loop.var, *inside}
    written = writes(loop.body) | allocates(loop.body)
    parts = stmt.values if isinstance(stmt, Reduce) else (stmt.value,)
    found = dict.fromkeys(v for part in parts for v in _fixed(part, changing, written))
    if not found:
        raise ScheduleError(f"nothing in {stmt.label} is the same in every iteration of {loop.var!r}", loop=loop.var,
                            suggestion="a loop that its values do not all depend on")  # fmt: skip
    needs = _needs(loop, place, changing, written)
    taken = UsedNames.of(func)
    scalars = {v: Buffer(taken.name(f"{stmt.label}_h"), (), v.dtype) for v in found}
    stores = tuple(Store(taken.label(b.name), b, (), v) for v, b in scalars.items())
    new = with_values(stmt, {v: Load(b, ()) for v, b in scalars.items()})
    body = rewrite(loop.body, lambda s: new if s is stmt else None)

    def made() -> Body:
        out: Body = (*_guard_nonempty(func, loop, stores, needs), replace(loop, body=body))
        for b in reversed(scalars.values()):
            out = (Alloc(b, out),)
        return out

    return rewrite_loop(func, loop, made)


def _fixed(v: Value, changing: set[str], written: set[str]) -> Iterator[Value]:
    """The largest values in `v` that are worth a scalar and are always evaluated, the same in every iteration."""
    known = not free_vars(v) & changing and not reads([v]) & written
    if known and any(isinstance(n, Load | Op) for n in nodes(v)):
        yield v
    elif isinstance(v, Op):
        for x in v.args:
            yield from _fixed(x, changing, written)
    elif not isinstance(v, Select | Load) and isinstance(inner := getattr(v, "value", None), Value):
        yield from _fixed(inner, changing, written)


def _needs(loop: Loop, place: StmtPath, changing: set[str], written: set[str]) -> list[Cond]:
    """What holds in every iteration in which the statement at `place` runs, other than that the loop has one."""
    within = place.around[place.around.index(loop) + 1 :]
    needs: list[Cond] = [Cmp("<", Int(0), x.extent) for x in within if isinstance(x, Loop)]
    guards = len([s for s in place.around[: place.around.index(loop)] if isinstance(s, If)])
    for cond, held in list(place.conds())[guards:]:
        if not held:
            raise _refused(loop, f"{place.stmt.label} stands on the other side of a guard")
        needs.append(cond)
    for c in needs:
        if free_vars(c) & changing or reads([c]) & written or not is_affine_visible(c):
            raise _refused(loop, f"whether {place.stmt.label} runs depends on the iteration: {text(c)}")
    return needs
