"""Legality of reordering: does a rewrite keep the order of every two dependent instances?

All primitives that move loops ask one question, given the old nest, the new one, and the origin of each new statement.
The old loops are written as indices over the new ones, so shifts, skews, tiles and partitions have one form; the
analysis looks for dependent old instances whose new instances are in the opposite order. That each old instance runs
exactly once is not checked here: it holds by the form of the rewrite, and each primitive says why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf

from loopir.analysis.dependence.access import Access, Statement, When, conflicting_pairs, statements_in
from loopir.analysis.dependence.access_groups import unresolved_pairs
from loopir.analysis.dependence.depend import (
    SIZE,
    Clash,
    Order,
    Pair,
    before,
    conflict_filter,
    conflicts,
    domain,
    joint_orders,
    least_clash,
    may_precede,
)
from loopir.analysis.dependence.distance_vectors import (
    NOTHING,
    allowed_orders,
    distance_vectors,
    element_determines_loops,
)
from loopir.analysis.presburger.constraints import ConstraintSystem, combine
from loopir.arith.poly import Poly
from loopir.arith.simplify import EMPTY, poly
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Func, Index, Int, Loop, Var
from loopir.ir.traverse.walk import enclosing_nest, nests, nests_declaring, nodes, replace, substitute
from loopir.ir.verify.verify import evaluate


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a statement of the new nest: its old label, and the old loops as indices over the new ones.

    A loop that is not in `loops` is unchanged.
    """

    label: str
    loops: Mapping[str, Index] = field(default_factory=dict[str, Index])


Origins = Mapping[str, Origin]
"""By the label in the new nest; a statement that is not in it has kept its label and its loops."""
Asks = Callable[[str, str, str], bool]
"""Of the buffer and the labels of the two statements."""
_NOTHING_MOVED: Origins = {}


def violated_dependence(
    func: Func,
    new: Func,
    origin: Origins = _NOTHING_MOVED,
    *,
    asks: Asks = lambda *_: True,
    moving: Collection[str] | None = None,
    past: tuple[Collection[str], Collection[str]] | None = None,
) -> Clash | None:
    """Two dependent instances of `func` whose order is the opposite in `new`; the witness speaks of the old loops.

    Folds by one monoid commute, so their mutual order is free. An instance may run several times in `new`, where
    its old loops do not tell these apart: then each time counts. `asks` says which dependences matter.
    If only statements called `moving` move, all others keep their order, and are not looked at two at a time. If two
    nests, with statements of these names, move `past` one another, each in its order, only a first instance in the one
    and a second in the other are looked at.
    """
    images = _Images(func, new, origin, None if past is None else frozenset().union(*past))

    def moves(s: Statement) -> bool:
        return not images.kept(s) if moving is None else s.label in moving

    def pairs() -> Iterable[tuple[Statement, Statement]]:
        if past is None:
            return conflicting_pairs(images.near, moves)
        one, other = ([s for s in images.near if s.label in labels] for labels in past)
        return ((s, t) for s in one for t in other if s.meets(t))

    def found() -> Iterator[Clash]:
        for s, t in pairs():
            if not may_precede(s.when, t.when):
                continue
            turned = [(x, y) for x, y in product(images.of(s), images.of(t)) if x.may_turn(y)]
            if turned:
                turning = _Turning(func, turned)
                for a, b in unresolved_pairs(s, t, turning.clear, _selected_conflicts(s, t, asks)):
                    for pair, orders in turning.ways(s, a, t, b):
                        yield from pair.among(orders)

    return least_clash(found())


def _selected_conflicts(s: Statement, t: Statement, asks: Asks) -> Callable[[Access, Access], bool]:
    conflict = conflict_filter(s, t, folds_commute=True)
    return lambda a, b: conflict(a, b) and asks(a.buffer, s.label, t.label)


@dataclass(frozen=True, slots=True)
class _Turning:
    """What two statements become, of which the later one may come first then."""

    func: Func
    images: Sequence[tuple[_Image, _Image]]

    def ways(self, s: Statement, a: Access, t: Statement, b: Access) -> Iterator[tuple[_MovedPair, list[Order]]]:
        """The orders in which `a` and then `b` touch one element now, and the other way round afterwards."""
        shared = not frozenset(s.dims).isdisjoint(t.dims)
        apart = distance_vectors(s, a, t, b) if shared else NOTHING
        if apart is None:
            return
        now = before(s.as_s, t.as_t, apart=apart)
        for one, other in self.images if now else ():
            x, y = one.widened(s), other.widened(t)
            if x.turns(a, y, b):
                orders = joint_orders(now, before(y.times("t"), x.times("s"), apart=apart))
                yield _MovedPair(self.func, s, a, t, b, x, y), allowed_orders(orders, apart)

    def clear(self, s: Statement, a: Access, t: Statement, b: Access) -> bool:
        """Whether there is no such way."""
        return not any(pair.possible_among(orders) for pair, orders in self.ways(s, a, t, b))


def permutation_invariant(
    func: Func, nest: Loop, loops: Collection[str], *, folds_commute: bool = True, onward: bool = False
) -> bool:
    """Whether two dependent instances in `nest` always have the same values of those of `loops` that both stand in.

    Then no other order of the loops, or of tiles of them, changes which of the two runs first, if `nest` starts with
    them and holds nothing between them but guards: what is left to tell the two apart stands inside all of them, or is
    that one starts a reduction, which it does before all that is inside the outermost loop that the reduction is over,
    wherever that is now. Of two that start reductions, this has to be one loop. If folds do not count as commuting,
    instances at different values may even run at once.

    `onward`: or the one that comes first is not behind in any of the loops, so that it comes first in every order of
    them, and of tiles of them; but for what starts a reduction, which does not stand in all loops of what it starts.
    """
    if element_determines_loops(func, nest, loops, folds_commute=folds_commute):
        return True
    near = statements_in(func, nests_declaring(nest.var))
    inside = [s for s in near if s.place.is_in(nest)]
    done: set[tuple[tuple[str, bool], tuple[str, bool]]] = set()
    for s, t in conflicting_pairs(inside):
        if (t.key, s.key) in done:
            continue
        done.add((s.key, t.key))
        if s.init and t.init and not (s.gone ^ t.gone).isdisjoint(loops):
            return False
        shared = [v for v in loops if v in s.dims and v in t.dims]

        def clear(s: Statement, a: Access, t: Statement, b: Access, shared: Collection[str] = shared) -> bool:
            apart = distance_vectors(s, a, t, b)
            if apart is None or all(apart.get(v) == (0, 0) for v in shared):
                return True
            by = [apart.get(v, (-inf, inf)) for v in shared]
            first, last = all(most <= 0 for _, most in by), all(least >= 0 for least, _ in by)
            return onward and not s.init and not t.init and (first or last)

        pairs = unresolved_pairs(s, t, clear, conflict_filter(s, t, folds_commute=folds_commute))
        if not all(clear(s, a, t, b) for a, b in pairs):
            return False
    return True


def distances(func: Func, nest: Loop, loops: Sequence[str]) -> set[tuple[int, ...]] | None:
    """How far apart in `loops` two dependent instances in `nest` are, folds of one element among them.

    None if that is not the same number for any two of a pair of accesses, or something in `nest` stands not in all of
    `loops`, or starts a reduction.
    """
    near = statements_in(func, nests_declaring(nest.var))
    inside = [s for s in near if s.place.is_in(nest)]
    found: set[tuple[int, ...]] = set()
    for s, t in conflicting_pairs(inside):
        if s.init or t.init or not {*loops} <= {*s.dims} & {*t.dims}:
            return None
        for a, b in conflicts(s, t):
            if (apart := distance_vectors(s, a, t, b)) is not None:
                ends = [apart.get(v, (-inf, inf)) for v in loops]
                if any(least != most for least, most in ends):
                    return None
                found.add(tuple([int(least) for least, _ in ends]))
    return found


@dataclass(frozen=True, slots=True)
class _Image:
    """What the instances of `old` are in the new nest; `moved` where not all of its loops are as they were.

    `whole`: every instance of `old` is in it, and at one place, so that where the new loops end need not be known.
    """

    old: Statement
    now: Statement
    moved: bool
    came: Origin
    whole: bool = False
    kept: bool = False
    """Whether it is the same nest, one of those that a step left alone, and in their order."""
    moved_by: dict[int, Access] = field(default_factory=dict[int, Access], compare=False)
    """Accesses over the new loops, by those that they were."""

    @property
    def new(self) -> Statement | None:
        return self.now if self.moved else None

    @property
    def when(self) -> When:
        return self.now.when

    @property
    def still(self) -> bool:
        """Whether the instances run when they ran."""
        return not self.moved and self.now.when == self.old.when

    def may_turn(self, other: _Image) -> bool:
        """Whether `other` may come first now, which came second, by the places of the two alone."""
        return may_precede(other.when, self.when) and not ((self.kept and other.kept) or (self.still and other.still))

    def widened(self, s: Statement) -> _Image:
        """What `s` is, which is the old statement, or that with dimensions beside its loops."""
        if s is self.old:
            return self
        beside = dict(zip(s.dims, s.extents, strict=True))
        by = {v: n.value for v, n in beside.items() if v not in self.old.dims and isinstance(n, Int)}
        return replace(self, old=s, now=self.now.widened(by), moved_by={})

    def names(self, prefix: str) -> Mapping[str, str | int]:
        """The dimensions of the new loops: a loop that was kept is the old one's."""
        dims = self.new.dims if self.new is not None else self.old.dims
        return {v: f"{prefix}.{v}" if self.there(v) else f"{prefix}'.{v}" for v in dims}

    def there(self, v: str) -> bool:
        """Whether loop `v` is the old one."""
        return v in self.old.dims and self.came.loops.get(v, Var(v)) == Var(v)

    def times(self, prefix: str) -> When:
        if self.new is None:
            return self.now.as_s if prefix == "s" else self.now.as_t
        names = self.names(prefix)
        return tuple(x if isinstance(x, int) else str(names[x]) for x in self.when)

    def turns(self, a: Access, other: _Image, b: Access) -> bool:
        """Whether `other` may come first in the new nest, doing `b` to an element that `a` is done to here.

        It may not where the subscripts, over the new loops, say how far apart these are, and that it is the wrong way.
        """
        apart = distance_vectors(self.now, self.moves(a), other.now, other.moves(b))
        return apart is not None and bool(allowed_orders(before(other.now.as_t, self.now.as_s, apart=apart), apart))

    def moves(self, a: Access) -> Access:
        """`a` over the new loops."""
        if not self.came.loops and set(a.private) <= set(self.now.dims):
            return a
        if id(a) not in self.moved_by:
            at = tuple([None if x is None else substitute(x, self.came.loops) for x in a.at])
            kept = tuple(v for v in a.private if v in self.now.dims and self.there(v))
            self.moved_by[id(a)] = replace(a, at=at, private=kept)
        return self.moved_by[id(a)]

    def own(self, prefix: str) -> list[str]:
        """The dimensions that the old nest does not have."""
        return [d for v, d in self.names(prefix).items() if not self.there(v) and isinstance(d, str)]


class _Images:
    """What each statement of `func` has become in `new`: one statement, or several that share its instances."""

    def __init__(self, func: Func, new: Func, origin: Origins, asked: frozenset[str] | None) -> None:
        if asked is None:
            self._left, passed = _unchanged_nests(func, new)
            near = lambda nest: id(nest) not in passed  # noqa: E731
        else:
            self._left, near = set[int](), nests_declaring(*asked)
        self.near = statements_in(func, near)
        """All but what nests hold that were left alone and that nothing moved past, or that have nothing `asked`."""
        self._became: dict[tuple[str, bool], list[tuple[Statement, Origin | None]]] = {}
        self._found: dict[tuple[str, bool], list[_Image]] = {}
        for s in statements_in(new, near) if self.near else ():
            came = origin.get(s.label)
            key = (s.label if came is None else came.label, s.init)
            self._became.setdefault(key, []).append((s, came))

    def kept(self, s: Statement) -> bool:
        """Whether the nest of `s` is one of those that the step left alone."""
        return id(enclosing_nest(s.place)) in self._left

    def of(self, s: Statement) -> list[_Image]:
        found = self._found.get(s.key)
        if found is None:
            became, kept = self._became.get(s.key, []), self.kept(s)
            found = [_Image(s, x, c is not None, c or Origin(s.label), kept=kept) for x, c in became]
            if len(found) == 1 and (not found[0].moved or _solvable(found[0])):
                found = [replace(found[0], whole=True)]
            self._found[s.key] = found
        return found


def _unchanged_nests(func: Func, new: Func) -> tuple[set[int], set[int]]:
    """The nests, by identity, that are in both and in the same order; none if there are some in another order.

    And of these the ones that stand before all that is not in both, or after it: nothing has moved past them.
    """
    old, now = ([id(s) for s in nests(f.body)] for f in (func, new))
    first = _common_prefix(old, now)
    last = _common_prefix(old[first:][::-1], now[first:][::-1])
    passed = {*old[:first], *old[len(old) - last :]}
    common = set(old).intersection(now)
    same = [n for n in old if n in common] == [n for n in now if n in common]
    return common if same else passed, passed


def _common_prefix(old: Sequence[int], now: Sequence[int]) -> int:
    """How many the two have in common at the start."""
    return next((n for n, (x, y) in enumerate(zip(old, now, strict=False)) if x != y), min(len(old), len(now)))


def _solvable(image: _Image) -> bool:
    """Whether the old loops give the new ones: one after the other stands alone in an old one, as it is or negated."""
    unknown = {v for v in image.new.dims if not image.there(v)} if image.new is not None else set[str]()
    forms = [poly(image.came.loops[v], EMPTY) for v in image.old.dims if v in image.came.loops]
    while unknown:
        found = next((v for p in forms if (v := _unit_variable(p, unknown)) is not None), None)
        if found is None:
            return False
        unknown.discard(found)
    return True


def _unit_variable(p: Poly, unknown: set[str]) -> str | None:
    """The one variable in `unknown` that `p` speaks of, if its coefficient is 1 or -1."""
    spoken = {n.name for m in p for a in m for n in nodes(a) if isinstance(n, Var)} & unknown
    if len(spoken) != 1:
        return None
    (v,) = spoken
    whole = sum(any(n == Var(v) for a in m for n in nodes(a)) for m in p) == 1
    return v if whole and p.get((Var(v),)) in (1, -1) else None


@dataclass(frozen=True, slots=True)
class _MovedPair(Pair):
    """Two accesses as in a Pair, with the instances that do them in the new nest."""

    one: _Image
    other: _Image

    def _sides(self) -> Iterator[tuple[str, Statement, _Image]]:
        yield "s", self.s, self.one
        yield "t", self.t, self.other

    def system(self, sizes: Mapping[str, int]) -> ConstraintSystem:
        system = Pair.system(self, sizes)
        shared: dict[str, str | int] = {n: sizes.get(n, f"{SIZE}{n}") for n in self.func.sizes}
        for prefix, s, image in self._sides():
            if image.new is not None:
                names = {**shared, **image.names(prefix)}
                system.constraints += [({dim: 1}, False) for dim in image.own(prefix)]
                if not image.whole:
                    domain(system, image.new, None, f"{prefix}'", names)
                for v in s.dims:
                    came = system.linear(image.came.loops.get(v, Var(v)), f"{prefix}'", names)
                    system.constraints.append((combine(came, {f"{prefix}.{v}": 1}, -1), True))
        return system

    def dims(self) -> list[str]:
        return [*Pair.dims(self), *self.one.own("s"), *self.other.own("t")]

    def happens(self, point: Mapping[str, int]) -> bool:
        """Whether both instances touch the same element, and run in the new nest, the later one first."""
        try:
            return Pair.happens(self, point) and self._turned(point)
        except ZeroDivisionError:
            return False

    def _turned(self, point: Mapping[str, int]) -> bool:
        ran: list[list[int]] = []
        for prefix, s, image in self._sides():
            names = image.names(prefix)
            env = {n: point[f"{SIZE}{n}"] for n in self.func.sizes} | {v: point[str(d)] for v, d in names.items()}
            if image.new is not None and not _runs(image.new, env):
                return False
            if any(evaluate(image.came.loops.get(v, Var(v)), env) != point[f"{prefix}.{v}"] for v in s.dims):
                return False
            ran.append([x if isinstance(x, int) else env[x] for x in image.when])
        return ran[1] < ran[0]


def _runs(s: Statement, env: Mapping[str, int]) -> bool:
    inside = all(n is None or env[v] < evaluate(n, env) for v, n in zip(s.dims, s.extents, strict=True))
    return inside and all(cond_holds(c, env) for c in s.conds)
