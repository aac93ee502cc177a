"""Dependences between statement instances, and whether a step would put two dependent ones in the wrong order.

Every question is the same one: is there a pair of accesses to one element, at least one a write, whose instances are
ordered in one way now and would not be so after the step? The pair is looked for with the sizes as unknowns, and the
answer is the least one: smallest sizes first, then the earliest iterations. An answer is a Witness; None is a proof.
What analysis cannot see through counts as touching everything, so errors are on the side of refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from loopir.analysis.access import Access, Statement, sees, statements_of
from loopir.analysis.system import Constraint, System, combine
from loopir.errors import Witness
from loopir.ir.grammar import Cmp, Cond, Func, Mul, Var
from loopir.ir.verify import evaluate
from loopir.ir.walk import nodes

When = tuple[int | str, ...]
Order = list[Constraint]


@dataclass(frozen=True, slots=True)
class Clash:
    """A dependent pair in the wrong order; `fold`: of one reduction; `opaque`: a buffer that is not seen into."""

    witness: Witness
    first: str
    second: str
    opaque: str | None = None
    fold: bool = False


# ---------------------------------------------------------------- the questions


def carried(func: Func, loop: str) -> Clash | None:
    """Two dependent instances in different iterations of `loop`, in the same iteration of the loops around it.

    None means that the iterations may run in any order, or at once. A reduction's folds into one element count.
    """
    inside = [s for s in statements_of(func) if loop in s.dims]
    for s, t in _both_ways(inside):
        depth = s.dims.index(loop)
        if s.dims[: depth + 1] != t.dims[: depth + 1]:
            continue
        cut = s.when[: s.when.index(loop) + 1]
        found = _search(func, s, t, [o for o in _before(cut, cut, s, t) if _carried_last(o, loop)])
        if found is not None:
            return found
    return None


def reversed_by(func: Func, new: Func) -> Clash | None:
    """Two dependent instances whose order in `func` is the opposite in `new`.

    `new` has the same statements by label, with the same loops around each, perhaps in another order. The folds of
    one reduction commute, so their mutual order is free.
    """
    after = {s.key: s for s in statements_of(new)}
    every = statements_of(func)
    moved = {s.key for s in every if s.when != after[s.key].when}
    for s, t in _both_ways(every):
        if s.key not in moved and t.key not in moved:
            continue
        now = _before(s.when, t.when, s, t)
        then = _before(after[t.key].when, after[s.key].when, t, s)
        found = _search(func, s, t, [[*a, *_flip(b)] for a, b in product(now, then)], folds_commute=True)
        if found is not None:
            return found
    return None


def lockstep(func: Func, loop: str) -> Clash | None:
    """Two dependent instances that running all iterations of `loop` together would put in the wrong order.

    Together means: statement after statement, each for all lanes at once, its reads before its writes.
    """
    inside = [s for s in statements_of(func) if loop in s.dims]
    for s, t in _both_ways(inside):
        where = s.when.index(loop)
        if s.when[:where] != t.when[:where]:
            continue
        carried_here = [o for o in _before(s.when[: where + 1], t.when[: where + 1], s, t) if _carried_last(o, loop)]
        without = [tuple(x for x in w if x != loop) for w in (t.when, s.when)]
        for a, b in _conflicts(s, t):
            phases = (1 if b.write else 0, 1 if a.write else 0)
            then = _before((*without[0], phases[0]), (*without[1], phases[1]), t, s, ties=True)
            orders = [[*x, *_flip(y)] for x, y in product(carried_here, then)]
            found = _search_pair(func, s, a, t, b, orders)
            if found is not None:
                return found
    return None


def apart(func: Func, s: Statement, t: Statement, *, same: Sequence[str], differ: str) -> Clash | None:
    """Two dependent instances of `s` and `t` with equal `same` loops and different values of loop `differ`.

    Nothing is asked of their order: it is what concurrent iterations of `differ` lack.
    """
    equal: Order = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in same]
    steps = [({f"s.{differ}": sign, f"t.{differ}": -sign, "": -1}, False) for sign in (1, -1)]
    return _search(func, s, t, [[*equal, step] for step in steps])


# ---------------------------------------------------------------- orders


def _both_ways(statements: Sequence[Statement]) -> Iterator[tuple[Statement, Statement]]:
    return ((s, t) for s in statements for t in statements)


def _before(a: When, b: When, s: Statement, t: Statement, *, ties: bool = False) -> list[Order]:
    """When an instance of `s` at vector `a` runs before one of `t` at `b`: a union of conjunctions.

    With `ties`, vectors equal to their ends count as before.
    """
    out: list[Order] = []
    equal: Order = []
    for x, y in zip(a, b, strict=False):
        if isinstance(x, int) and isinstance(y, int):
            if x != y:
                return [*out, equal] if x < y else out
            continue
        u = {"": x} if isinstance(x, int) else {f"s.{x}": 1}
        v = {"": y} if isinstance(y, int) else {f"t.{y}": 1}
        out.append([*equal, (combine(combine(v, u, -1), {"": -1}), False)])
        equal = [*equal, (combine(v, u, -1), True)]
    return [*out, equal] if ties else out


def _flip(order: Order) -> Order:
    """The same order with the two instances' names exchanged."""
    swap = {"s": "t", "t": "s"}
    return [({(swap[k[0]] + k[1:] if k else k): c for k, c in linear.items()}, eq) for linear, eq in order]


def _carried_last(order: Order, loop: str) -> bool:
    """Whether the strict step of `order` is at `loop`."""
    return bool(order) and not order[-1][1] and f"s.{loop}" in order[-1][0]


# ---------------------------------------------------------------- the search


def _conflicts(s: Statement, t: Statement) -> Iterator[tuple[Access, Access]]:
    """Pairs of accesses to one buffer, one at least a write; the same pair of places is asked once."""
    seen: set[tuple[object, ...]] = set()
    pairs = [(a, b) for a in s.accesses for b in t.accesses if a.buffer == b.buffer and (a.write or b.write)]
    pairs.sort(key=lambda p: (not (p[0].write and not p[1].write), p[0].write and p[1].write))
    for a, b in pairs:
        key = (a.buffer, a.at, b.at, a.conds, b.conds, a.write and b.write)
        if (*key[:5], False) in seen or key in seen:
            continue
        seen.add(key)
        yield a, b


def _search(
    func: Func, s: Statement, t: Statement, orders: Sequence[Order], *, folds_commute: bool = False
) -> Clash | None:
    if not orders:
        return None
    for a, b in _conflicts(s, t):
        if folds_commute and s.key == t.key and a.fold and b.fold:
            continue
        found = _search_pair(func, s, a, t, b, orders)
        if found is not None:
            return found
    return None


def _search_pair(func: Func, s: Statement, a: Access, t: Statement, b: Access, orders: Sequence[Order]) -> Clash | None:
    best: dict[str, int] | None = None
    dims = [*(f"n.{n}" for n in func.sizes), *(f"s.{v}" for v in s.dims), *(f"t.{v}" for v in t.dims)]
    for order in orders:
        system = System()
        _sizes(system, func)
        for p, x, access in (("s", s, a), ("t", t, b)):
            _domain(system, func, x, access, p)
        _same_element(system, func, s, a, t, b)
        system.constraints += order
        found = system.smallest(dims)
        if found is not None and (best is None or list(found.values()) < list(best.values())):
            best = found
    return None if best is None else _clash(func, s, a, t, b, best)


def _names(func: Func, s: Statement, prefix: str) -> dict[str, str]:
    return {**{n: f"n.{n}" for n in func.sizes}, **{v: f"{prefix}.{v}" for v in s.dims}}


def _sizes(system: System, func: Func) -> None:
    names = {n: f"n.{n}" for n in func.sizes}
    for n in func.sizes:
        system.constraints.append(({f"n.{n}": 1}, False))
    for c in func.assumes:
        system.require(c, "n", names)


def _domain(system: System, func: Func, s: Statement, access: Access, prefix: str) -> None:
    names = _names(func, s, prefix)
    for x in access.at:
        if sees(x):
            system.linear(x, prefix, names)  # divisions first, so that bounds can speak of them
    for loop in s.loops:
        system.constraints.append(({f"{prefix}.{loop.var}": 1}, False))
        if sees(loop.extent):
            system.bound(Var(loop.var), loop.extent, prefix, names)
    for c in (*s.conds, *access.conds):
        if sees(c):
            _product_bound(system, c, prefix, names)
            system.require(c, prefix, names)


def _product_bound(system: System, c: Cond, prefix: str, names: dict[str, str]) -> None:
    """A guard `e < X * d` bounds `e // d`, too."""
    if isinstance(c, Cmp) and c.op == "<" and any(isinstance(n, Mul) for n in nodes(c.b)):
        system.bound(c.a, c.b, prefix, names)


def _same_element(system: System, func: Func, s: Statement, a: Access, t: Statement, b: Access) -> None:
    left, right = _names(func, s, "s"), _names(func, t, "t")
    for x, y in zip(a.at, b.at, strict=True):
        if sees(x) and sees(y):
            difference = combine(system.linear(x, "s", left), system.linear(y, "t", right), -1)
            system.constraints.append((difference, True))
    for loop in a.private:
        if loop in s.dims and loop in t.dims:
            system.constraints.append(({f"s.{loop}": 1, f"t.{loop}": -1}, True))


def _clash(func: Func, s: Statement, a: Access, t: Statement, b: Access, point: dict[str, int]) -> Clash:
    sizes = {n: point[f"n.{n}"] for n in func.sizes}
    first = {v: point[f"s.{v}"] for v in s.dims}
    second = {v: point[f"t.{v}"] for v in t.dims}
    kind = ("RAW" if a.write else "WAR") if a.write != b.write else "WAW"
    unseen = next((access.buffer for access in (a, b) if not all(map(sees, access.at))), None)
    element = None if unseen else tuple(evaluate(x, {**sizes, **first}) for x in a.at)
    witness = Witness(kind, a.buffer, element, s.name, first, t.name, second, sizes)
    return Clash(witness, s.label, t.label, unseen, s.key == t.key and a.fold and b.fold)
