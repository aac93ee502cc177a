"""Liveness: may elements of a buffer share memory?

The question has three instances in it: a write of one element, a read of another one that would lie in the same
place, and, if that is to be harmless, a write of the element that is read in between. So the pairs of the first two
are a set, from which the pairs that a third makes good are taken away; isl says what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from loopir.analysis.dataflow.concrete_instances import Done, precedes, time_of, touches_between
from loopir.analysis.dependence.access import Access, Statement, When, statements_in
from loopir.analysis.dependence.depend import Order, before
from loopir.analysis.dependence.distance_vectors import allowed_orders, distance_vectors
from loopir.analysis.presburger.constraints import SIZE, ConstraintSystem, Names, combine, least_point
from loopir.analysis.presburger.infeasible import Constraint
from loopir.analysis.presburger.solver import asking, isl, nothing
from loopir.analysis.regions.bounds import instance_of
from loopir.analysis.regions.footprint import RegionAccess, ends_of, outer_facts, poly_variables, proved, upper_sides
from loopir.arith.poly import constant_poly, poly_add, poly_scale, to_index
from loopir.arith.simplify import Context, poly
from loopir.errors import Witness
from loopir.ir.grammar import Func, Var
from loopir.ir.layout.layouts import evaluated
from loopir.ir.traverse.walk import nests_touching, replace, substitute


@dataclass(frozen=True, slots=True)
class LifetimeClash:
    """`writer` puts element `new` where element `old`, which `reader` is still to read, would lie; one that has no
    number, as a divisor is 0 there, is empty."""

    writer: str
    writing: dict[str, int]
    new: tuple[int, ...]
    reader: str
    reading: dict[str, int]
    old: tuple[int, ...]
    sizes: dict[str, int]
    inexact: str | None = None
    """Why the two need not share a place, where a subscript is not affine."""

    def reason(self, clash: str) -> str:
        """The sentence `clash`, and why it need not be so, if that is the case."""
        return clash if self.inexact is None else f"{clash}; {self.inexact}"

    def witness(self, new: str, old: str) -> Witness:
        """The two iterations, with the elements that they touch: `new` is the buffer of the one, `old` of the other."""
        ends = self.writer, self.writing, self.reader, self.reading, self.sizes
        told = bool(self.old) and (new, self.new) != (old, self.old)
        return Witness("RAW", new, self.new, *ends, (old, self.old) if told else None)


def lifetime_clash(func: Func, buffer: str, dim: int, factor: int) -> LifetimeClash | None:
    """The least case in which two elements of `buffer`, a multiple of `factor` apart in `dim`, are needed at once.

    None is a proof that each element is written anew before it is read after such another one was written, or is one
    that nothing has written: of that there is only a copy to be made, which nobody uses.
    """
    near = statements_in(func, nests_touching(buffer))
    done = [(s, a) for s in near if buffer in s.touches for a in s.accesses if a.buffer == buffer]
    writes, reads = [x for x in done if x[1].write], [x for x in done if not x[1].write]
    for writer, reader in product(writes, reads):
        if _may_follow(_but(writer, dim), _but(reader, dim)):
            case = _Case(func, writer, reader, writes, partial(_sharing, func, writer, reader, dim, factor))
            if (found := case.least()) is not None:
                return found
    return None


def clobbered_read(
    func: Func, writes: Sequence[Done], done: Sequence[Done], across: Sequence[str] = ()
) -> LifetimeClash | None:
    """The least case in which an element is read, by one of `done`, after one of `writes` wrote its place.

    That is harmless, and left out, where another of `done` writes the element in between, or none wrote it before. With
    `across`, only writes in another iteration of these loops count, and only what is in between in the same iteration
    is harmless.
    """
    reads, renewals = [x for x in done if not x[1].write], [x for x in done if x[1].write]
    for writer, reader in product(writes, reads):
        if _may_follow(writer, reader):
            case = _Case(func, writer, reader, renewals, partial(_meeting, func, writer, reader), across)
            if (found := case.least()) is not None:
                return found
    return None


@dataclass(frozen=True, slots=True)
class _Case:
    """`writer`, as "s", writes to the place of an element that `reader`, as "t", reads later, by what `make` gives.

    `renewals` are the writes of such elements; one in between, in the reader's iteration of `across`, makes it good.
    """

    func: Func
    writer: Done
    reader: Done
    renewals: Sequence[Done]
    make: Callable[[], ConstraintSystem]
    across: Sequence[str] = ()

    @property
    def dims(self) -> list[str]:
        sides = (("s", self.writer), ("t", self.reader))
        return [*(f"{SIZE}{n}" for n in self.func.sizes), *(f"{p}.{v}" for p, (s, _) in sides for v in s.dims)]

    def orders(self) -> list[Order]:
        same = self.writer[1].private
        orders = before(_when(self.writer, "s", same), _when(self.reader, "t", same))
        if not self.across:
            return orders
        apart = before(tuple(f"s.{v}" for v in self.across), tuple(f"t.{v}" for v in self.across))
        return [[*a, *b] for a, b in product(orders, apart)]

    @asking
    def least(self) -> LifetimeClash | None:
        """The least case that nothing makes good."""
        dims, orders = self.dims, self.orders()
        maker = self._maker()
        if maker is not None:
            point = self._made_by(maker, dims, orders)
            if point is None or self._stands(point, maker):
                return None if point is None else _describe_clash(self.func, self.writer, self.reader, point)
        system = self.make()
        left = _points(system, orders, dims)
        for between in self.renewals:
            left = left.subtract(_renewed(self.func, self.writer, self.reader, between, dims, self.across))
        written = nothing(len(dims))
        for one in self.renewals if not left.is_empty() else ():
            written = written.union(_written_before(self.func, self.writer, self.reader, one, dims))
        points = [least_point(s, len(dims)) for s in left.intersect(written).get_basic_sets() if not s.is_empty()]
        if not points:
            return None
        clash = _describe_clash(self.func, self.writer, self.reader, dict(zip(dims, min(points), strict=True)))
        return replace(clash, inexact=system.inexact_reason)

    def _maker(self) -> Done | None:
        """The one write that every element which is ever written has first, if there is one, and tells where it is."""
        if self.across or len({s.label for s, _ in self.renewals}) != 1:
            return None
        first = next((x for x in self.renewals if x[0].init), self.renewals[0])
        s, a = first
        sure = not (s.maybe or a.maybe or None in a.at)
        return first if sure and _tells(s, a) else None

    def _made_by(self, maker: Done, dims: Sequence[str], orders: Sequence[Order]) -> dict[str, int] | None:
        """The least case in which `maker` does not write the element in between; what it never writes is left out."""
        system = self.make()
        middle = instance_of(self.func, *maker, "u", system)[1]
        theirs: Names = {n: f"{SIZE}{n}" for n in self.func.sizes} | {v: f"t.{v}" for v in self.reader[0].dims}
        _match_element(system, maker, middle, self.reader, theirs)
        same = {*self.writer[1].private}.intersection(maker[1].private)
        s, t, u = _when(self.writer, "s", same), _when(self.reader, "t", same), _when(maker, "u", same)
        outside = [*before(u, s, ties=True), *before(t, u, ties=True)]
        every = [*dims, *(f"u.{v}" for v in maker[0].dims)]
        found = [p for x, y in product(orders, outside) if (p := system.smallest(every, [*x, *y])) is not None]
        return min(found, key=lambda p: [*p.values()], default=None)

    def _stands(self, point: dict[str, int], maker: Done) -> bool:
        """Whether it is seen that the element of the case at `point` was written before, and not in between.

        Of `maker` the point tells when it wrote the element, which was not in between.
        """
        sizes = {n: point[f"{SIZE}{n}"] for n in self.func.sizes}
        one, other = ({v: point[f"{p}.{v}"] for v in s.dims} for p, (s, _) in (("s", self.writer), ("t", self.reader)))
        if None in self.reader[1].at:
            return False
        element = evaluated(self.reader[1].at, {**sizes, **other})
        if element is None:
            return False
        start, end = time_of(self.writer, one), time_of(self.reader, other)
        made = time_of(maker, {v: point[f"u.{v}"] for v in maker[0].dims})
        for x in self.renewals if precedes(made, end) else ():
            sure = not (x[0].maybe or x[1].maybe or None in x[1].at)
            home = {**sizes, **{v: other[v] for v in x[1].private}}
            if x is not maker and sure and touches_between(x, element, start, end, home) is not False:
                return False
        return bool(precedes(made, end))


def _tells(s: Statement, a: Access) -> bool:
    """Whether no two instances of `s` touch one element by `a`, in one memory."""
    if {*a.private, *(x.name for x in a.at if isinstance(x, Var))}.issuperset(s.dims):
        return True
    apart = distance_vectors(s, a, s, a)
    return apart is None or all(apart.get(v) == (0, 0) for v in s.dims)


def _meeting(func: Func, writer: Done, reader: Done) -> ConstraintSystem:
    """`writer` writes the place that `reader` reads."""
    system, left = instance_of(func, *writer)
    right = instance_of(func, *reader, "t", system)[1]
    for x, y in zip(writer[1].at, reader[1].at, strict=True):
        if x is not None and y is not None:
            system.constraints.append((combine(system.linear(x, "s", left), system.linear(y, "t", right), -1), True))
    _in_one_memory(system, (writer, "s"), (reader, "t"))
    return system


def is_sliding_window(found: Sequence[RegionAccess], dim: int, outer: Context, loop: str, factor: int) -> bool:
    """Whether what is touched in an iteration of `loop` is in a window of `factor` rows that moves in one direction.

    Then a row is written, and last read, while the window is on it, and the rows that share its place are outside.
    """
    ends = [(ends_of(t.at[dim], t.known, outer), outer.given(*outer_facts(t, outer))) for t in found]
    spans = [(e, ctx) for e, ctx in ends if e is not None and not any(poly_variables(p) & found[0].inner for p in e)]
    if len(spans) < len(found):
        return False
    lows = [low for (low, _), _ in spans]
    for start in (*lows, *(poly_scale(p, -1) for low in lows for p in upper_sides(poly_scale(low, -1)))):
        stop = poly_add(start, constant_poly(factor - 1))
        ahead = poly_add(poly(substitute(to_index(start), {loop: Var(loop) + 1}), outer), start, -1)
        if not (proved(ahead, outer) or proved(poly_scale(ahead, -1), outer)):
            continue
        if all(proved(poly_add(a, start, -1), ctx) and proved(poly_add(stop, b, -1), ctx) for (a, b), ctx in spans):
            return True
    return False


def _may_follow(writer: Done, reader: Done) -> bool:
    """Whether `reader` may touch an element that `writer` did before; the subscripts alone often say that it cannot."""
    apart = distance_vectors(*writer, *reader)
    return apart is not None and bool(
        allowed_orders(before(_when(writer, "s"), _when(reader, "t"), apart=apart), apart)
    )


def _but(x: Done, dim: int) -> Done:
    """The access at any place in dimension `dim`."""
    s, a = x
    return s, replace(a, at=(*a.at[:dim], None, *a.at[dim + 1 :]))


def _when(x: Done, prefix: str, same: Collection[str] = ()) -> When:
    """When an instance does it: it reads before it writes. The loops `same` are left out, where that is one iteration.

    Memory that these renew is the same in one iteration of them alone, and one loop less is several orders less.
    """
    s, a = x
    return (*(n if isinstance(n, int) else f"{prefix}.{n}" for n in s.when if n not in same), int(a.write))


def _sharing(func: Func, writer: Done, reader: Done, dim: int, factor: int) -> ConstraintSystem:
    """`writer` writes another element than `reader` reads, in the same place."""
    system, left = instance_of(func, *writer)
    right = instance_of(func, *reader, "t", system)[1]
    for d, (x, y) in enumerate(zip(writer[1].at, reader[1].at, strict=True)):
        one = {} if x is None or y is None else system.linear(x, "s", left)
        apart = {} if x is None or y is None else combine(one, system.linear(y, "t", right), -1)
        if d != dim:
            system.constraints.append((apart, True))
            continue
        turns = system.fresh()
        ways: list[list[Constraint]] = []
        if apart:
            system.constraints.append((combine(apart, {turns: factor}, -1), True))
        for sign in (1, -1) if apart else ():  # and so far apart, which says the same without the turns
            far = {k: sign * c for k, c in apart.items()}
            ways.append([({turns: sign, "": -1}, False), (combine(far, {"": -factor}), False)])
        system.cases.append(ways or [[({turns: 1, "": -1}, False)], [({turns: -1, "": -1}, False)]])
    _in_one_memory(system, (writer, "s"), (reader, "t"))
    return system


def _renewed(
    func: Func, writer: Done, reader: Done, between: Done, dims: Sequence[str], across: Sequence[str] = ()
) -> isl.Set:
    """The instances between which `between`, in the reader's iteration of `across`, certainly writes what it reads."""
    s, access = between
    system = instance_of(func, *writer)[0]
    right = instance_of(func, *reader, "t", system)[1]
    known = system.inexact
    system.inexact = None
    middle = instance_of(func, s, access, "u", system)[1]
    if s.maybe or access.maybe or known is not None or not _match_element(system, between, middle, reader, right):
        return nothing(len(dims))
    if system.inexact is not None:
        return nothing(len(dims))
    _in_one_memory(system, (writer, "s"), (reader, "t"))
    system.constraints += [({f"u.{v}": 1, f"t.{v}": -1}, True) for v in across]
    same = {*writer[1].private}.intersection(access.private)
    first = before(_when(writer, "s", same), _when(between, "u", same))
    then = before(_when(between, "u", same), _when(reader, "t", same))
    return _points(system, [[*a, *b] for a, b in product(first, then)], dims, [f"u.{v}" for v in s.dims])


def _written_before(func: Func, writer: Done, reader: Done, one: Done, dims: Sequence[str]) -> isl.Set:
    """The instances of which the second one reads what `one` may have written before it."""
    system = instance_of(func, *writer)[0]
    right = instance_of(func, *reader, "t", system)[1]
    _match_element(system, one, instance_of(func, *one, "u", system)[1], reader, right)
    then = before(_when(one, "u", one[1].private), _when(reader, "t", one[1].private))
    return _points(system, then, dims, [f"u.{v}" for v in one[0].dims])


def _match_element(system: ConstraintSystem, one: Done, ours: Names, reader: Done, theirs: Names) -> bool:
    """Let `one`, as "u", touch the element that `reader` does, as far as is seen; whether all of that is."""
    seen = True
    for x, y in zip(one[1].at, reader[1].at, strict=True):
        if x is None or y is None:
            seen = False
        else:
            same = combine(system.linear(x, "u", ours), system.linear(y, "t", theirs), -1)
            system.constraints.append((same, True))
    _in_one_memory(system, (one, "u"), (reader, "t"))
    return seen


def _in_one_memory(system: ConstraintSystem, one: tuple[Done, str], other: tuple[Done, str]) -> None:
    """Both in the same iteration of the loops that allocate the buffer anew."""
    ((_, access), p), (_, q) = one, other
    system.constraints += [({f"{p}.{v}": 1, f"{q}.{v}": -1}, True) for v in access.private]


def _points(
    system: ConstraintSystem, orders: Sequence[Order], dims: Sequence[str], more: Sequence[str] = ()
) -> isl.Set:
    """The solutions in any of `orders`, over `dims` alone."""
    out = nothing(len(dims))
    for order in orders:
        for piece in system.solutions([*dims, *more], order):
            whole = isl.Set.from_basic_set(piece)
            rest = whole.dim(isl.dim_type.set) - len(dims)
            out = out.union(whole.project_out(isl.dim_type.set, len(dims), rest))
    return out


def _describe_clash(func: Func, writer: Done, reader: Done, point: dict[str, int]) -> LifetimeClash:
    sizes = {n: point[f"{SIZE}{n}"] for n in func.sizes}

    def seen(x: Done, prefix: str) -> tuple[str, dict[str, int], tuple[int, ...]]:
        at = {v: point[f"{prefix}.{v}"] for v in x[0].dims}
        return x[0].name, at, evaluated(x[1].at, {**sizes, **at}) or ()

    return LifetimeClash(*seen(writer, "s"), *seen(reader, "t"), sizes)
