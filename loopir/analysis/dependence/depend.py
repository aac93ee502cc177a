"""Dependence analysis: which statement instances depend on one another, and do they change order?

Every question, here and in `reordering`, is the same: is there a pair of accesses to one element, at least one a write,
whose instances are in one order now and would be in another after the step? The sizes are unknowns, and the answer is
the least pair: smallest sizes first, then earliest iterations. An answer is a Witness; None is a proof. What analysis
cannot see counts as touching everything, so errors are on the side of refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from loopir.analysis.dependence.access import Access, Statement, When, conflicting_pairs, statements_in
from loopir.analysis.dependence.access_groups import Asks, access_groups, unresolved_pairs
from loopir.analysis.dependence.distance_vectors import (
    NOTHING,
    DistanceVectors,
    Order as Order,
    allowed_orders,
    distance_vectors,
    element_determines_loops,
    order_sign,
)
from loopir.analysis.presburger.constraints import SIZE, ConstraintSystem, Names, combine
from loopir.analysis.presburger.infeasible import Linear
from loopir.errors import Witness
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Cmp, Cond, Func, Index, Var
from loopir.ir.layout.layouts import evaluate, evaluated
from loopir.ir.traverse.memo import cached
from loopir.ir.traverse.walk import loop_of, nests_declaring

SMALL_SIZES = 4
"""Sizes below this are tried one by one where an index is not affine."""


@dataclass(frozen=True, slots=True)
class Clash:
    """A dependent pair in the wrong order, of the statements labelled `first` and `second`.

    `unsure` says why the pair need not really depend, where analysis cannot tell; `fold`: both are folds of one
    reduction.
    """

    witness: Witness
    first: str
    second: str
    inexact: str | None = None
    fold: bool = False


# ---------------------------------------------------------------- the questions


def loop_carried(func: Func, loop: str, *, together: bool = False) -> Clash | None:
    """Two dependent instances in different iterations of `loop`, in the same iteration of the loops around it.

    None means that the iterations may run in any order, or at once. A reduction's folds into one element count,
    but `together`, for iterations that fold as one, those of a reduction over `loop` do not.
    """

    def found() -> Iterator[Clash]:
        for s, t, orders in _in_loop(func, loop):
            yield from _concurrent(func, s, t, orders, folds_commute=together and loop in s.over and s.key == t.key)

    return least_clash(found())


def dependences(func: Func, loop: str) -> list[Clash]:
    """What `loop` carries: the least example of each two accesses that depend on one another across iterations.

    Folds into one element count, and say that they are.
    """
    return [c for s, t, orders in _in_loop(func, loop) for c in _concurrent(func, s, t, orders)]


def carries_dependence(func: Func, loop: str) -> bool:
    """Whether `loop` carries any of its `dependences`, or may; which ones these are takes far longer to find."""
    pairs = ((p, orders) for s, t, orders in _in_loop(func, loop) for p in _unresolved(func, s, t, orders))
    return any(p.possible(orders) for p, orders in pairs)


def lockstep(func: Func, loop: str) -> Clash | None:
    """Two dependent instances that running all iterations of `loop` together would put in the wrong order.

    Together means: statement after statement, each for all lanes at once, its reads before its writes.
    """

    def found() -> Iterator[Clash]:
        for s, t, now in _in_loop(func, loop):
            one = instance_times([x for x in s.when if x != loop], "s")
            other = instance_times([x for x in t.when if x != loop], "t")
            for a, b in conflicts(s, t):
                then = before((*other, int(b.write)), (*one, int(a.write)), ties=True)
                yield from Pair(func, s, a, t, b).clashes(joint_orders(now, then))

    return least_clash(found())


def concurrent_conflict(
    func: Func, s: Statement, t: Statement, *, same: Sequence[str], differ: str | Sequence[str]
) -> Clash | None:
    """Two dependent instances of `s` and `t` with equal `same` loops and different values of each loop in `differ`.

    Nothing is asked of their order: it is what concurrent iterations of `differ` lack.
    """
    return least_clash(_concurrent(func, s, t, _differing(same, differ)))


def conflicting_accesses(func: Func, s: Statement, t: Statement) -> tuple[Pair, ...]:
    """The accesses of `s` and `t` that may clash where these run at once, for `may_conflict` to be asked about them."""
    return tuple([Pair(func, s, a, t, b) for a, b in conflicts(s, t, at_once=True)])


def may_conflict(pairs: Sequence[Pair], *, same: Sequence[str], differ: str | Sequence[str]) -> bool:
    """Whether there are two instances of `pairs` that are `concurrent_conflict`; which ones these are takes far
    longer to find."""
    orders = _differing(same, differ) if pairs else []
    return any(p.possible(orders) for p in pairs)


def _differing(same: Sequence[str], differ: str | Sequence[str]) -> list[Order]:
    equal: Order = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in same]
    steps = [
        [({f"s.{v}": sign, f"t.{v}": -sign, "": -1}, False) for sign in (1, -1)]
        for v in ((differ,) if isinstance(differ, str) else differ)
    ]
    return [[*equal, *chosen] for chosen in product(*steps)]


# ---------------------------------------------------------------- orders


def instance_times(when: Iterable[int | str], prefix: str) -> When:
    """When an instance runs, with its loops as the dimensions that they are in a system."""
    return tuple(x if isinstance(x, int) else f"{prefix}.{x}" for x in when)


def before(a: When, b: When, *, ties: bool = False, apart: DistanceVectors = NOTHING) -> list[Order]:
    """When what runs at `a` comes before what runs at `b`: a union of conjunctions over dimensions.

    With `ties`, vectors equal to their ends count as before. Loops that are known to be `concurrent_conflict` are not
    compared.
    """
    out: list[Order] = []
    equal: Order = []
    for x, y in zip(a, b, strict=False):
        later = y - x if isinstance(x, int) and isinstance(y, int) else order_sign(y, x, apart)
        if later is not None:
            if later:
                return [*out, equal] if later > 0 else out
            continue
        u, v = ({"": w} if isinstance(w, int) else {w: 1} for w in (x, y))
        out.append([*equal, (combine(combine(v, u, -1), {"": -1}), False)])
        equal = [*equal, (combine(v, u, -1), True)]
    return [*out, equal] if ties else out


def may_precede(a: When, b: When) -> bool:
    """Whether something that runs at `a` may come before what runs at `b`, by their places in the nest alone."""
    for x, y in zip(a, b, strict=False):
        if not isinstance(x, int) or not isinstance(y, int):
            return True
        if x != y:
            return x < y
    return False


def order_in_loop(s: Statement, t: Statement, loop: str, *, first: bool = False) -> list[Order]:
    """When an instance of `s` comes before one of `t` in one run of `loop`, around both; `first`: as it starts."""
    end = s.when.index(loop)
    if s.when[:end] != t.when[:end]:
        return []
    same: Order = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in s.when[:end] if isinstance(v, str)]
    start: Order = [({f"{side}.{loop}": 1}, True) for side in "st"] if first else []
    return [[*same, *start, *o] for o in before(instance_times(s.when[end:], "s"), instance_times(t.when[end:], "t"))]


def joint_orders(now: Sequence[Order], then: Sequence[Order]) -> list[Order]:
    """Where `now` and `then` hold: what can be both, if one puts s before t and the other t before s."""
    left, right = ([(o, *_strict_and_equal(o)) for o in orders] for orders in (now, then))
    return [
        [*a, *b]
        for a, up, same in left
        for b, down, alike in right
        if not (up and down and up == down[::-1]) and up not in alike and down not in same
    ]


def _strict_and_equal(order: Order) -> tuple[tuple[str, ...], set[tuple[str, ...]]]:
    """The dimensions (less, more) of the strict last comparison, and the equal pairs before it, in both orders."""
    named = [(_less_and_more(linear), equal) for linear, equal in order]
    equal = {x for pair, eq in named if eq for x in (pair, pair[::-1])}
    return (() if not named or named[-1][1] else named[-1][0]), equal


def _less_and_more(linear: Linear) -> tuple[str, ...]:
    """The dimensions of a row that compares two, the one with the smaller coefficient first."""
    named = tuple([k for k in linear if k])
    return named if len(named) < 2 or linear[named[0]] <= linear[named[1]] else named[::-1]


def _in_loop(func: Func, loop: str) -> Iterator[tuple[Statement, Statement, list[Order]]]:
    """Pairs of statements in `loop`, with the order in which an iteration of it comes before another.

    The stores that start a reduction stand in nests of their own, which have that loop, too.
    """
    nest = loop_of(func, loop)
    if nest is not None and element_determines_loops(func, nest, [loop]):
        return
    inside = [s for s in statements_in(func, nests_declaring(loop)) if loop in s.dims]
    own = {a.buffer for s in inside for a in s.accesses if loop in a.private} | _indexed_by(inside, loop)
    for s, t in conflicting_pairs(inside):
        end = s.when.index(loop) + 1
        meet = (s.writes & t.touches) | (s.touches & t.writes)
        if s.when[:end] == t.when[:end] and not meet <= own:
            yield s, t, before(instance_times(s.when[:end], "s"), instance_times(t.when[:end], "t"))[-1:]


def _indexed_by(inside: Sequence[Statement], loop: str) -> set[str]:
    """The buffers of which each iteration of `loop` has elements of its own: one index of all accesses is the loop."""
    dims: dict[str, set[int]] = {}
    for a in (a for s in inside for a in s.accesses):
        here = {n for n, x in enumerate(a.at) if isinstance(x, Var) and x.name == loop}
        dims[a.buffer] = dims.get(a.buffer, here) & here
    return {buffer for buffer, found in dims.items() if found}


# ---------------------------------------------------------------- the search


def least_clash(found: Iterable[Clash]) -> Clash | None:
    """The clash at the smallest sizes, of those the one with the earliest iterations."""

    def key(c: Clash) -> tuple[list[int], ...]:
        return tuple([*values.values()] for values in (c.witness.sizes, c.witness.first, c.witness.second))

    return min(found, key=key, default=None)


def conflicts(
    s: Statement, t: Statement, *, folds_commute: bool = False, at_once: bool = False
) -> Iterator[tuple[Access, Access]]:
    """Pairs of accesses to one buffer, one at least a write; the same two bundles of places are asked once.

    Folds by one monoid into the same buffers may commute, be they of one reduction or of two. Of what runs `at_once`,
    atomic updates by one monoid do not clash.
    """
    for first, second in access_groups(s, t, conflict_filter(s, t, folds_commute=folds_commute, at_once=at_once)):
        yield from product(first, second)


def conflict_filter(s: Statement, t: Statement, *, folds_commute: bool = False, at_once: bool = False) -> Asks:
    """Which pairs of accesses are `conflicts`."""
    folds = folds_commute and s.folds_with(t)

    def asks(a: Access, b: Access) -> bool:
        free = (folds and a.fold and b.fold) or (at_once and a.atomic and a.atomic == b.atomic)
        return (a.write or b.write) and not free

    return asks


def _concurrent(
    func: Func, s: Statement, t: Statement, orders: Sequence[Order], *, folds_commute: bool = False
) -> Iterator[Clash]:
    for pair in _unresolved(func, s, t, orders, folds_commute=folds_commute):
        yield from pair.clashes(orders)


def _unresolved(
    func: Func, s: Statement, t: Statement, orders: Sequence[Order], *, folds_commute: bool = False
) -> Iterator[Pair]:
    """The accesses that may clash in one of `orders`, as groups of accesses tell."""

    def clear(s: Statement, a: Access, t: Statement, b: Access) -> bool:
        return not Pair(func, s, a, t, b).possible(orders)

    if orders:
        for a, b in unresolved_pairs(s, t, clear, conflict_filter(s, t, folds_commute=folds_commute, at_once=True)):
            yield Pair(func, s, a, t, b)


@dataclass(frozen=True)
class Pair:
    """Two accesses to one buffer, of any instance of `s` and any of `t`. What no order changes is worked out once."""

    func: Func
    s: Statement
    a: Access
    t: Statement
    b: Access

    def clashes(self, orders: Sequence[Order]) -> Iterator[Clash]:
        """The least instances, in one of `orders`, that touch the same element, if there are any."""
        yield from self.among([] if self.apart is None else allowed_orders(orders, self.apart))

    def among(self, orders: Sequence[Order]) -> Iterator[Clash]:
        """`clashes`, of orders that the offsets of the two are known to allow."""
        if not orders:
            return
        base = self.base
        points = [p for order in orders if (p := self.least(base, order)) is not None]
        if not points:
            return
        point = min(points, key=lambda p: [*p.values()])
        unsure = self.memory()
        if unsure is None and base.inexact is not None and not self.happens(point):
            exact = next(self.at_small_sizes(orders), None)
            point = exact or point
            unsure = None if exact else base.inexact_reason
        yield self.clash(point, unsure)

    def possible(self, orders: Sequence[Order]) -> bool:
        """Whether there are such instances, or may be."""
        return self.apart is not None and self.possible_among(allowed_orders(orders, self.apart))

    def possible_among(self, orders: Sequence[Order]) -> bool:
        """`possible`, of orders that the offsets of the two are known to allow."""
        left = [order for order in orders if not self.base.refutes(order)]
        return any(self.base.solvable(self.dims(), order) for order in left)

    def least(self, base: ConstraintSystem, order: Order) -> dict[str, int] | None:
        return base.smallest(self.dims(), order)

    def dims(self) -> list[str]:
        sizes = (f"{SIZE}{n}" for n in self.func.sizes)
        return [*sizes, *(f"s.{v}" for v in self.s.dims), *(f"t.{v}" for v in self.t.dims)]

    def at_small_sizes(self, orders: Sequence[Order]) -> Iterator[dict[str, int]]:
        """With the sizes fixed, products of sizes are numbers and nothing is left that is not affine."""
        names = self.func.sizes
        for values in product(range(SMALL_SIZES), repeat=len(names)) if len(names) <= 3 else ():
            sizes = dict(zip(names, values, strict=True))
            if all(cond_holds(c, sizes) for c in self.func.assumes):
                base = self.system(sizes)
                points = [p for order in orders if (p := self.least(base, order)) is not None]
                yield from (p for p in sorted(points, key=lambda p: [*p.values()]) if self.happens(p))

    # ------------------------------------------------------------ the system

    @cached
    def apart(self) -> DistanceVectors | None:
        """How far apart instances that touch one element are; None if there are none."""
        return distance_vectors(self.s, self.a, self.t, self.b)

    @cached
    def base(self) -> ConstraintSystem:
        """What holds in every order, at any size."""
        return self.system({})

    def system(self, sizes: Mapping[str, int]) -> ConstraintSystem:
        """Both instances run and touch the same element; `sizes` may be fixed."""
        system = ConstraintSystem()
        shared: dict[str, str | int] = {n: sizes.get(n, f"{SIZE}{n}") for n in self.func.sizes}
        for n in self.func.sizes:
            fixed = n in sizes
            system.constraints.append(({f"{SIZE}{n}": 1, "": -sizes.get(n, 0)}, fixed))
        for c in self.func.assumes:
            system.require(c, "n", shared)
        left = {**shared, **{v: f"s.{v}" for v in self.s.dims}}
        right = {**shared, **{v: f"t.{v}" for v in self.t.dims}}
        first = domain(system, self.s, self.a, "s", left)
        second = domain(system, self.t, self.b, "t", right)
        for x, y in zip(first, second, strict=True):
            if x is not None and y is not None:
                system.constraints.append((combine(x, y, -1), True))
        for loop in self.a.private:
            if loop in self.s.dims and loop in self.t.dims:
                system.constraints.append(({f"s.{loop}": 1, f"t.{loop}": -1}, True))
        return system

    # ------------------------------------------------------------ the answer

    def memory(self) -> str | None:
        """Why the clash need not happen, where something that comes from memory decides."""
        for access in (self.a, self.b):
            if None in access.at:
                return f"{access.buffer} is indexed from memory, which analysis takes to touch every element"
        for s, access in ((self.s, self.a), (self.t, self.b)):
            if s.maybe or access.maybe:
                return f"whether {s.label} runs is read from memory, and analysis takes it to run"
        return None

    def happens(self, point: Mapping[str, int]) -> bool:
        """Whether both instances run and touch the same element, by evaluation; none runs where a divisor is 0."""
        try:
            return self._happens(point)
        except ZeroDivisionError:
            return False

    def _happens(self, point: Mapping[str, int]) -> bool:
        elements: list[list[int]] = []
        for s, access, env in ((self.s, self.a, self.env(point, "s")), (self.t, self.b, self.env(point, "t"))):
            extents = [evaluate(x, env) for x in s.extents if x is not None]
            if not all(env[v] < n for v, n in zip(s.dims, extents, strict=True)):
                return False
            if not all(cond_holds(c, env) for c in (*s.conds, *access.conds)):
                return False
            elements.append([evaluate(x, env) for x in access.at if x is not None])
        return elements[0] == elements[1]

    def env(self, point: Mapping[str, int], prefix: str) -> dict[str, int]:
        dims = self.s.dims if prefix == "s" else self.t.dims
        sizes = {n: point[f"{SIZE}{n}"] for n in self.func.sizes}
        return {**sizes, **{v: point[f"{prefix}.{v}"] for v in dims}}

    def clash(self, point: Mapping[str, int], unsure: str | None) -> Clash:
        s, a, t, b = self.s, self.a, self.t, self.b
        sizes = {n: point[f"{SIZE}{n}"] for n in self.func.sizes}
        first = {v: point[f"s.{v}"] for v in s.dims}
        second = {v: point[f"t.{v}"] for v in t.dims}
        kind = ("RAW" if a.write else "WAR") if a.write != b.write else "WAW"
        seen = unsure is None or None not in (*a.at, *b.at)
        element = evaluated(a.at, self.env(point, "s")) if seen else None
        witness = Witness(kind, a.buffer, element, s.name, first, t.name, second, sizes)
        return Clash(witness, s.label, t.label, unsure, s.key == t.key and a.fold and b.fold)


@dataclass(frozen=True, slots=True)
class Instances:
    """Iterations of a nest: its loops with their extents (None: not seen), and the conditions that are seen."""

    dims: tuple[str, ...]
    extents: tuple[Index | None, ...]
    conds: tuple[Cond, ...]


def domain(
    system: ConstraintSystem, s: Statement | Instances, access: Access | None, prefix: str, names: Names
) -> list[Linear | None]:
    """An instance of `s` runs, and does `access`, of whose element the subscripts are given back."""
    at, given = (access.at, access.conds) if access is not None else ((), ())
    element = [None if x is None else system.linear(x, prefix, names) for x in at]
    conds = (*s.conds, *given)
    for c in conds:
        system.require(c, prefix, names)
    for var, extent in zip(s.dims, s.extents, strict=True):  # now that divisions are known, of which bounds may speak
        system.inside(var, extent, prefix, names)
    for c in conds:
        if isinstance(c, Cmp) and c.op == "<" and system.pairs:
            system.bound(c.a, c.b, prefix, names)  # a guard `e < X * d` bounds `e // d`, too
    if system.inexact is None:
        return element
    return [None if x is None else system.linear(x, prefix, names) for x in at]  # of `i ^ j` ends tell how many bits
