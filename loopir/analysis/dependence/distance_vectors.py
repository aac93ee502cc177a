"""Distance vectors of instances that touch one element, from their subscripts alone.

Most dependence questions are decided here: the subscripts `i_o * 32 + i_i, j` determine `i_o`, `i_i` and `j`, so two
instances that touch one element differ only in loops that do not occur in the subscripts. The results follow from the
constraints of `depend.Pair.system`, so an order that is ruled out here the solver would rule out, too; the rest is left
to the solver. The system itself is not built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf

from loopir.analysis.dependence.access import Access, Statement, is_affine_visible
from loopir.analysis.presburger.infeasible import Constraint, Ends, Linear, digits
from loopir.arith.poly import expand_index
from loopir.ir.grammar import Cmp, Cond, Func, Index, Int, Loop, Min, Reduce, Var
from loopir.ir.traverse.walk import free_vars, only_leaf

Order = list[Constraint]
DistanceVectors = Mapping[str, "tuple[float, float]"]
"""By loop, its value in the first instance less that in the second: at least, and at most."""
NOTHING: DistanceVectors = {}
ROUNDS = 4
"""How often the ends are tightened: one subscript helps another."""


def distance_vectors(s: Statement, a: Access, t: Statement, b: Access) -> DistanceVectors | None:
    """How far instances of `s` and `t` that touch one element, by `a` and `b`, are apart in the loops around both.

    What is not known is left out. None if no two touch the same element.
    """
    shared = frozenset(s.dims).intersection(t.dims)
    ends = Ends()
    _end(ends, s, shared, "s.")
    _end(ends, t, shared, "t.")
    pairs = zip(_subscripts_by_guards(s, a), _subscripts_by_guards(t, b), strict=True)
    rows = [_difference_row(x, y, shared, s.dims, t.dims) for x, y in pairs if x is not None and y is not None]
    rows = _split_at_guards([r for r in rows if r is not None], s, t, ends)
    for v in a.private:
        ends.low[v] = ends.high[v] = 0
    if not _solved(rows, ends) or any(map(ends.empty, ends.low)):
        return None
    known = {v: (ends.low.get(v, -inf), ends.high.get(v, inf)) for v in shared}
    return {v: by for v, by in known.items() if by[0] >= 0 or by[1] <= 0}


def _subscripts_by_guards(s: Statement, a: Access) -> Sequence[Index | None]:
    """The subscripts of `a`, those as variables that the guards around say are these."""
    return [x if x is None else s.equal.get(x, x) for x in a.at] if s.conds else a.at


def element_determines_loops(func: Func, nest: Loop, loops: Iterable[str], *, folds_commute: bool = False) -> bool:
    """Whether one statement stands in `nest`, reads nothing it writes, and writes elements that tell each of `loops`.

    So no instance depends on one at other values of these loops. The start of a reduction, which stands in some of the
    loops, is at the same element. With `folds_commute`, what it folds over does not count.
    """
    place = only_leaf(func, nest)
    if place is None:
        return False
    s, stmt = Statement(place, 0, init=False), place.stmt
    if not s.writes.isdisjoint(s.reads):
        return False
    asked = [v for v in loops if v in s.dims and not (folds_commute and v in s.over)]
    if {x.name for x in stmt.at if isinstance(x, Var)}.issuperset(asked):
        return True
    starts = isinstance(stmt, Reduce) and stmt.init is not None  # also where nothing is folded
    return all(_tells(x, asked) for x in ((s, Statement(place, 0, init=True)) if starts else (s,)))


def _tells(s: Statement, asked: Sequence[str]) -> bool:
    """Whether the element that an instance of `s` writes tells those of the loops `asked` that it stands in."""
    at = tuple([x if is_affine_visible(x) else None for x in s.place.stmt.at])
    element = Access(min(s.writes), at, write=True, conds=(), private=())
    apart = distance_vectors(s, element, s, element)
    return apart is None or all(apart.get(v) == (0, 0) for v in asked if v in s.dims)


def _difference_row(x: Index, y: Index, shared: Set[str], left: Sequence[str], right: Sequence[str]) -> Linear | None:
    """What `x` at the first instance less `y` at the second is, over the differences of the loops that they share.

    The others stand as they are. None if it is no sum: of products, divisions, or a shared loop times two numbers.
    """
    p, q = expand_index(x), expand_index(y)
    row: Linear = {"": p.get((), 0) - q.get((), 0)}
    for (here, there), loops, sign in (((p, q), left, 1), ((q, p), right, -1)):
        for m, c in here.items():
            v = m[0].name if len(m) == 1 and isinstance(m[0], Var) else None
            if v in loops and v not in shared:
                row[f"{'s.' if sign > 0 else 't.'}{v}"] = sign * c
            elif m and there.get(m) != c:
                return None
            elif v in shared:
                row[str(v)] = c
            elif any(not free_vars(a).isdisjoint(loops) for a in m):
                return None
    return row


def _end(ends: Ends, s: Statement, shared: Set[str], side: str) -> None:
    """Take in the ends of the loops of `s`, and, for the first of the two, of the differences of those `shared`.

    A loop of n iterations has two that are at most n - 1 apart.
    """
    for v, extent in zip(s.dims, s.extents, strict=True):
        if v in shared and side == "t.":
            continue
        size = _max_trips(extent)
        name, low = (v, -inf if size is None else 1 - size) if v in shared else (side + v, 0)
        ends.low[name] = low
        if size is not None:
            ends.high[name] = size - 1


def _max_trips(extent: Index | None) -> int | None:
    """A number of iterations that a loop has at most."""
    match extent:
        case Int(n) | Min(Int(n), _) | Min(_, Int(n)):
            return n
        case _:
            return None


def _split_at_guards(rows: list[Linear], s: Statement, t: Statement, ends: Ends) -> list[Linear]:
    """`rows` with the sums that guards of both keep below a constant as differences of their own, and what these are.

    A loop of 128 split by 30 has 150 places, and the guard of the split says which are none.
    """
    sums = [bounded for c in s.conds if (bounded := _bounded(c, s.dims)) and c in t.conds]
    for n, (form, size) in enumerate(sorted(sums, key=lambda x: len(x[0]))):
        name = f"<{n}"
        rows = [_gathered(row, form, name) for row in rows]
        rows.append({**form, name: -1})
        ends.low[name], ends.high[name] = 1 - size, size - 1
    return rows


def _bounded(c: Cond, loops: tuple[str, ...]) -> tuple[Linear, int] | None:
    """The sum of loops that `c` keeps below a constant, and that constant, if the sum is never negative."""
    match c:
        case Cmp("<", a, Int(size)):
            form = {m[0].name: k for m, k in expand_index(a).items() if len(m) == 1 and isinstance(m[0], Var) and k > 0}
            whole = 1 < len(form) == len(expand_index(a)) and all(v in loops for v in form)
            return (form, size) if whole else None
        case _:
            return None


def _gathered(row: Linear, form: Linear, name: str) -> Linear:
    """`row` with `form`, if it is in it some whole number of times, called `name`."""
    first = next(iter(form))
    times, rest = divmod(row.get(first, 0), form[first])
    if not times or rest or any(row.get(k) != c * times for k, c in form.items()):
        return row
    return {name: times, **{k: c for k, c in row.items() if k not in form}}


def _solved(rows: list[Linear], ends: Ends) -> bool:
    """Tighten `ends` to where every row is 0; False if that is nowhere."""
    for _ in range(ROUNDS):
        told = [_drop_constants(row, ends) for row in rows]
        rows = [part for row in told if not _fixes_all_differences(row, ends) for part in digits(row, ends)]
        if not rows:
            return True
        before = ends.low.copy(), ends.high.copy()
        for row in rows:
            if not _tighten(row, ends):
                return False
        if (ends.low, ends.high) == before:
            break
    return True


def _tighten(row: Linear, ends: Ends) -> bool:
    """Tighten the ends of what `row` speaks of to where it is 0; False if it cannot be."""
    for k, c in row.items():
        if k:
            rest = {j: d for j, d in row.items() if j != k}
            least, most = -ends.most(rest, -1), ends.most(rest)
            if c > 0:
                least, most = -most, -least
            if least > -inf:
                ends.low[k] = max(-(-least // abs(c)), ends.low.get(k, -inf))
            if most < inf:
                ends.high[k] = min(most // abs(c), ends.high.get(k, inf))
            if ends.empty(k):
                return False
    return any(row) or not row.get("", 0)


def _fixes_all_differences(row: Linear, ends: Ends) -> bool:
    """Whether `row` is 0 only where all its differences are, which are ended there, and it says nothing more.

    That is so if each weighs more than all the smaller ones together.
    """
    if row.get(""):
        return False
    reach: float = 0
    weights = sorted([(abs(c), k) for k, c in row.items() if k])
    for weight, k in weights:
        if reach >= weight:
            return False
        reach += weight * max(ends.high.get(k, inf), -ends.low.get(k, -inf))
    for _, k in weights:
        ends.low[k] = max(0, ends.low.get(k, 0))
        ends.high[k] = min(0, ends.high.get(k, 0))
    return True


def _drop_constants(row: Linear, ends: Ends) -> Linear:
    """`row` without what has one value."""
    out: Linear = {"": row.get("", 0)}
    for k, c in row.items():
        if k and ends.low.get(k, -inf) == ends.high.get(k, inf):
            out[""] += c * int(ends.low[k])
        elif k:
            out[k] = c
    return out


def order_sign(x: int | str, y: int | str, apart: DistanceVectors) -> int | None:
    """The sign of `x` less `y`, the same loop in the two instances, `s.v` and `t.v`; None where it is not known."""
    if isinstance(x, int) or isinstance(y, int) or x[2:] != y[2:] or {x[:2], y[:2]} != {"s.", "t."}:
        return None
    low, high = apart.get(x[2:], (-inf, inf))
    if low == high == 0:
        return 0
    sign = 1 if low > 0 else -1 if high < 0 else None
    return sign if sign is None or x[0] == "s" else -sign


def allowed_orders(orders: Iterable[Order], apart: DistanceVectors) -> list[Order]:
    """The orders of the instances, over their loops `s.v` and `t.v`, that what is known of their offsets allows."""
    return [order for order in orders if all(_may_hold(linear, equality, apart) for linear, equality in order)]


def _may_hold(linear: Linear, equality: bool, apart: DistanceVectors) -> bool:
    """Whether the row may hold: it does unless it compares known loops alone, and wrongly."""
    least: float = linear.get("", 0)
    most: float = least
    for k, c in linear.items():
        if k and c:
            side, v = k[:2], k[2:]
            if v not in apart or side not in _OTHER or linear.get(_OTHER[side] + v) != -c:
                return True
            if side == "s.":
                low, high = apart[v]
                least += min(c * low, c * high)
                most += max(c * low, c * high)
    return most >= 0 and (least <= 0 or not equality)


_OTHER = {"s.": "t.", "t.": "s."}
