"""The least shift that lets one nest follow another when their loops are fused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopir.analysis.dependence.access import Access, Statement, statements_of
from loopir.analysis.dependence.depend import Order, Pair, conflicts
from loopir.analysis.dependence.distance_vectors import allowed_orders
from loopir.analysis.presburger.infeasible import Linear
from loopir.analysis.presburger.solver import isl, question
from loopir.errors import Undecided
from loopir.ir.grammar import Func, If, Loop

DISTANCE = "distance"


def least_shifts(
    func: Func, first: Sequence[str], second: Sequence[str], loops: Sequence[tuple[str, str]]
) -> tuple[int, ...] | None:
    """By how much each second loop of `loops` has to lag behind the first one, outermost first, at least 0.

    `first` and `second` are the labels of statements in two nests whose loops are `loops`, pair by pair. With these
    shifts every statement in `second` still runs after those in `first` that it depends on. None if no constant will
    do for every size. The least shift of a loop is taken where the loops around it are just as far apart.
    """
    by_label = statements_of(func)
    pairs = [(s, t) for s in by_label for t in by_label if s.label in first and t.label in second]
    shifts: list[int] = []
    tied: list[tuple[Statement, Statement, Order]] = [(s, t, []) for s, t in pairs]
    for one, other in loops:
        most = 0
        leads: list[tuple[Statement, Statement, Order, Linear]] = []
        for s, t, order in tied:
            if one not in s.dims:
                continue  # the first value of a reduction over that loop: before all of the fused nest
            if other not in t.dims:
                if has_conflict(func, s, t, [order]):
                    return None
                continue
            ahead = {f"s.{one}": 1, f"t.{other}": -1}
            leads.append((s, t, order, ahead))
            for distance in distances(func, s, t, ahead, order):
                if distance is None:
                    return None
                most = max(most, distance)
        shifts.append(most)
        tied = [(s, t, [*order, ({**ahead, "": -most}, True)]) for s, t, order, ahead in leads]
    return tuple(shifts)


def has_conflict(func: Func, s: Statement, t: Statement, orders: Sequence[Order]) -> bool:
    """Whether there is a conflict of `s` and `t` in one of `orders`."""
    return any(Pair(func, s, a, t, b).possible(orders) for a, b in conflicts(s, t, folds_commute=True))


def distances(
    func: Func, s: Statement, t: Statement, ahead: Linear, order: Order, *, over: int | None = None
) -> Iterator[int | None]:
    """For each conflict of `s` and `t` the largest `ahead` at which there is one; None if no end to it is seen.

    Where that is no more than `over`, it may be left out: so much is soon told. Where guards are too much for the
    solver it may be larger: that of all iterations, whatever the guards say, except that in two branches of one test
    not all loops around it are the same.
    """
    more = [*order, ({**ahead, "": -1 - over}, False)] if over is not None else order
    for a, b in conflicts(s, t, folds_commute=True):
        pair = Pair(func, s, a, t, b)
        if pair.apart is None or not allowed_orders([order], pair.apart) or pair.base.refutes(more):
            continue
        try:
            yield from largest(pair, ahead, more)
        except Undecided:
            yield from _largest_unguarded(func, (s, a, t, b), ahead, more)


def largest(pair: Pair, ahead: Linear, order: Order) -> list[int | None]:
    """The largest `ahead` in each part of the conflicts of `pair` in `order`; None where no end to it is seen. Raises
    Undecided."""
    dims = [*pair.dims(), DISTANCE]
    with question():
        points = pair.base.solutions(dims, [*order, ({**ahead, DISTANCE: -1}, True)])
        ends = [isl.Set.from_basic_set(s).dim_max_val(len(dims) - 1) for s in points]
        return [None if most.is_infty() else most.to_python() for most in ends if not most.is_nan()]


def _largest_unguarded(
    func: Func, conflict: tuple[Statement, Access, Statement, Access], ahead: Linear, order: Order
) -> list[int | None]:
    """The same without the guards around the statements; None, too, where it is not decided."""
    s, a, t, b = conflict
    apart = loops_around_branches(s, t)
    ways = [({f"t.{v}": n, f"s.{v}": -n, "": -1}, False) for v in apart or () for n in (1, -1)]
    orders: list[Order] = [order] if apart is None else [[*order, way] for way in ways]
    pair = Pair(func, unguarded(s), a, unguarded(t), b)
    try:
        return [n for o in orders if not pair.base.refutes(o) for n in largest(pair, ahead, o)]
    except Undecided:
        return [None]


def unguarded(s: Statement) -> Statement:
    """`s` as if no guard were around it."""
    return replace(s, place=replace(s.place, around=tuple(x for x in s.place.around if not isinstance(x, If))))


def loops_around_branches(s: Statement, t: Statement) -> list[str] | None:
    """The loops around a test of which `s` and `t` are in different branches; None if they are in none such."""
    for n, test in enumerate(s.place.around):
        if not isinstance(test, If) or not any(test is x for x in t.place.around):
            continue
        if (s.place.path[n + 1] < len(test.then)) != (t.place.path[n + 1] < len(test.then)):
            loops = [x.var for x in s.place.around[:n] if isinstance(x, Loop)]
            return loops if {*loops} <= {*s.dims} & {*t.dims} else None
    return None
