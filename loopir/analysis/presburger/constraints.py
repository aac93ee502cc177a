"""Systems of linear constraints over named integers (Presburger sets), and whether one has a solution.

Indices and conditions of the IR become constraints here; isl decides. What is not affine (memory reads, products of
sizes, minima inside an access) becomes a fresh dimension with what bounds are known: the system then describes more
than really happens, which can only make an analysis refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, product
from math import gcd
from typing import TypeAlias

from loopir.analysis.presburger.infeasible import Constraint, Divided, Linear, Reduced, is_infeasible
from loopir.analysis.presburger.solver import isl, matrix, number, question, space, weigh
from loopir.arith.bits import xor_by_divisions
from loopir.arith.poly import exact_quotient, poly_add, to_index
from loopir.arith.simplify import EMPTY, poly
from loopir.errors import Undecided
from loopir.ir.grammar import (
    Add,
    And,
    Cmp,
    Cond,
    FloorDiv,
    Index,
    Int,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Var,
    Xor,
)
from loopir.ir.printer import text

Names: TypeAlias = "Mapping[str, str | int]"
"""The dimension of each variable, or its value where it is fixed."""
SIZE = "n."
"""How the dimensions of sizes start."""
MAX_CASES = 32
MAX_DIVISIONS = 2
"""Pairs of divisions by one size that are ordered against each other: each one makes five cases."""
Division: TypeAlias = "tuple[Linear, Linear, Linear]"
"""Dividend, quotient and remainder."""


def combine(a: Mapping[str, int], b: Mapping[str, int], scale: int = 1) -> Linear:
    out = dict(a)
    for k, c in b.items():
        out[k] = out.get(k, 0) + scale * c
    return out


@dataclass
class ConstraintSystem:
    """Constraints under construction. Names of one instance's loops are prefixed, so that two instances fit in one."""

    constraints: list[Constraint] = field(default_factory=list[Constraint])
    cases: list[list[list[Constraint]]] = field(default_factory=list[list[list[Constraint]]])
    hidden: list[str] = field(default_factory=list[str])
    pairs: dict[tuple[str, str], Division] = field(default_factory=dict["tuple[str, str]", "Division"])
    """Divisions by a size: (instance, division) -> (dividend, quotient, remainder)."""
    divided: list[Divided] = field(default_factory=list[Divided])
    """Divisions by integers."""
    divisors: dict[str, tuple[Index, Index]] = field(default_factory=dict[str, "tuple[Index, Index]"])
    named: dict[object, Linear] = field(default_factory=dict[object, Linear])
    """Minima, products and quotients that have a dimension, by what they are of: the same one has the same."""
    positive: set[str] = field(default_factory=set[str])
    """Hidden dimensions that are not negative; loops and sizes are not."""
    ends: dict[str, int] = field(default_factory=dict[str, int])
    """The greatest values of loops of a constant extent."""
    inexact: Index | None = None
    """The first index that is described only in part."""
    reduced: Reduced | None = None
    """The constraints, made ready for questions: from the first one on nothing may be added."""
    numbers: dict[str, str] = field(default_factory=dict[str, str])
    """Names of dimensions by the order in which constraints speak of them, in which `reduced` has them."""

    @property
    def inexact_reason(self) -> str | None:
        """Why an instance that meets the constraints need not be one, if an index is described only in part."""
        if self.inexact is None:
            return None
        return f"analysis takes {text(self.inexact)} for any number, as it is not affine"

    def fresh(self) -> str:
        self.hidden.append(f"_{len(self.hidden)}")
        return self.hidden[-1]

    def at_least(self, a: Linear, b: Linear, by: int = 0) -> Constraint:
        """a >= b + by."""
        return combine(combine(a, b, -1), {"": by}, -1), False

    def linear(self, ix: Index, prefix: str, names: Names) -> Linear:
        """`ix` as a linear form; may add constraints on fresh dimensions."""
        if isinstance(ix, Var):  # these two are met most, and a match asks what else it may be
            at = names[ix.name]
            return {at: 1} if isinstance(at, str) else {"": at}
        if isinstance(ix, Int):
            return {"": ix.value}
        match ix:
            case Add(a, b):
                return combine(self.linear(a, prefix, names), self.linear(b, prefix, names))
            case Mul(a, b):
                return self.product(ix, self.linear(a, prefix, names), self.linear(b, prefix, names))
            case FloorDiv(a, b) | Mod(a, b):
                return self.division(ix, self.linear(a, prefix, names), self.linear(b, prefix, names), prefix)
            case Xor() if (divided := xor_by_divisions(ix, self.ends_of(names))) is not None:
                return self.linear(divided, prefix, names)
            case Min(a, b) | Max(a, b):
                return self.extremum(ix, self.linear(a, prefix, names), self.linear(b, prefix, names))
            case _:
                return self.unknown(ix)

    def product(self, ix: Mul, x: Linear, y: Linear) -> Linear:
        """x * y, for `ix`: exact if one of them is a number, else a dimension whose sign may be known."""
        for u, v in ((x, y), (y, x)):
            if not any(k and c for k, c in u.items()):
                return {k: c * u.get("", 0) for k, c in v.items()}
        key = (Mul, frozenset((frozenset(x.items()), frozenset(y.items()))))
        if key not in self.named:
            self.named[key] = self.unknown(ix)
            if self.nonnegative(x) and self.nonnegative(y):
                self.positive.update(self.named[key])
                self.constraints.append((self.named[key], False))
        return self.named[key]

    def extremum(self, ix: Min | Max, x: Linear, y: Linear) -> Linear:
        """The smaller or the larger of x and y, as `ix` says: a dimension, in two cases."""
        key = (type(ix), *(frozenset(side.items()) for side in (x, y)))
        if key not in self.named:
            least = self.named[key] = {self.fresh(): 1}
            low, high = (x, y) if isinstance(ix, Min) else (y, x)
            equal = [(combine(least, side, -1), True) for side in (x, y)]
            self.cases.append([[equal[0], self.at_least(high, low)], [equal[1], self.at_least(low, high)]])
        return self.named[key]

    def nonnegative(self, a: Linear) -> bool:
        return all(c >= 0 and (not k.startswith("_") or k in self.positive) for k, c in a.items())

    def ends_of(self, names: Names) -> dict[str, int]:
        """The greatest value of each variable that has one."""
        return {v: self.ends[at] for v, at in names.items() if isinstance(at, str) and at in self.ends}

    def unknown(self, ix: Index) -> Linear:
        self.inexact = self.inexact or ix
        return {self.fresh(): 1}

    def division(self, ix: FloorDiv | Mod, a: Linear, b: Linear, prefix: str) -> Linear:
        if not any(k and c for k, c in b.items()) and b.get("", 0) > 0:
            q = self.quotient(a, b[""])
            return q if isinstance(ix, FloorDiv) else combine(a, q, -b[""])
        key = (prefix, f"{ix.a!r}/{ix.b!r}")
        if key not in self.pairs:
            q, r = {self.fresh(): 1}, {self.fresh(): 1}
            self.constraints += [(r, False), self.at_least(b, r, 1)]
            self.positive.update(r)
            if self.nonnegative(a):
                self.positive.update(q)
                self.constraints += [(q, False), self.at_least(a, q), self.at_least(a, r)]
            self.pairs[key] = (a, q, r)
            self.divisors[key[1]] = (ix.a, ix.b)
            self.inexact = self.inexact or ix
        return self.pairs[key][1 if isinstance(ix, FloorDiv) else 2]

    def quotient(self, a: Linear, c: int) -> Linear:
        """a // c, for c > 0. Multiples of `c` leave the division, so that `(a + c * m) // c` is known with `a // c`."""
        whole = {k: m for k, n in a.items() if (m := n // c if n > 0 or not k else -(-n // c))}
        rest = {k: m for k, n in a.items() if (m := n - c * whole.get(k, 0))}
        inner = next((d for d in self.divided if rest.get(d[2]) == 1), None)
        if inner is not None:  # (x // d + y) // c is (x + d * y) // (d * c)
            x, d, name = inner
            return combine(whole, self.quotient(combine(x, {k: n for k, n in rest.items() if k != name}, d), d * c))
        if not rest.keys() - {""}:
            return whole
        key = (c, frozenset(rest.items()))
        if key not in self.named:
            name = self.fresh()
            q = self.named[key] = {name: 1}
            self.divided.append((rest, c, name))
            left = combine(rest, q, -c)
            self.constraints += [(left, False), self.at_least({"": c - 1}, left)]
            if self.nonnegative(rest):
                self.positive.update(q)
        return combine(whole, self.named[key])

    def inside(self, var: str, extent: Index | None, prefix: str, names: Names) -> None:
        """`var` counts up from 0; to `extent`, where that is seen."""
        at = names[var]
        if isinstance(extent, Int) and isinstance(at, str) and not self.pairs:
            self.ends[at] = extent.value - 1
            self.constraints += [({at: 1}, False), ({at: -1, "": extent.value - 1}, False)]
            return
        self.constraints.append((self.linear(Var(var), prefix, names), False))
        if extent is not None:
            self.bound(Var(var), extent, prefix, names)

    def bound(self, ix: Index, top: Index, prefix: str, names: Names) -> None:
        """ix < top, where `top` may be a product X * d and `ix` is divided by c * d: then c * (ix // (c * d)) < X.

        So, too, where the lanes of a vector of `ix`, k * ix and one of 0 to k - 1, are below k * top.
        """
        if isinstance(top, Min):
            self.bound(ix, top.a, prefix, names)
            self.bound(ix, top.b, prefix, names)
            return
        if self.pairs and (tiled := whole_tiles(top)) is not None:
            of, c = tiled
            self.bound(Add(Mul(ix, Int(c)), Int(c - 1)), of, prefix, names)
        if isinstance(top, Mod):
            self.bound_rest(ix, top, prefix, names)
        if isinstance(ix, Var) and isinstance(top, Int) and isinstance(at := names[ix.name], str):
            self.ends[at] = top.value - 1
        least, most = self.linear(ix, prefix, names), self.linear(top, prefix, names)
        for (instance, kind), (dividend, q, _) in list(self.pairs.items()):
            divided = self.divisors.get(kind)
            wide = self.lanes(dividend, least)
            if instance != prefix or divided is None or (found := product_bound(top * wide, divided[1])) is None:
                continue
            count, times = found
            fewer = self.at_least(self.linear(count, prefix, names), combine({}, q, times), 1)
            apart = {k: c for k, c in combine(least, dividend, -1).items() if c}
            if not apart or wide > 1:
                self.constraints.append(fewer)
            elif all(k == "" or k.startswith(f"{prefix}.") for k in apart):  # what is no larger is bounded, too
                self.cases.append([[self.at_least(least, dividend), fewer], [self.at_least(dividend, least, 1)]])
        self.constraints.append(self.at_least(most, least, 1))

    def lanes(self, whole: Linear, part: Linear) -> int:
        """The c > 1 for which `whole` is c * `part` and one of 0 to c - 1: then part < n says whole < c * n. Else 1."""
        first = next((k for k, c in part.items() if k and c), None)
        wide, left = divmod(whole.get(first, 0), part[first]) if first is not None else (1, 0)
        lane = {k: c for k, c in combine(whole, part, -wide).items() if c}
        if left or wide <= 1 or any(c < 0 or (k and k not in self.ends) for k, c in lane.items()):
            return 1
        return wide if sum(c * self.ends[k] if k else c for k, c in lane.items()) < wide else 1

    def bound_rest(self, ix: Index, top: Mod, prefix: str, names: Names) -> None:
        """ix < T % c: where c * (T // c) + ix is divided by d, and T is X * d, the quotient is below X."""
        for (instance, kind), (_, q, _) in list(self.pairs.items()):
            of = rest_of(self.divisors[kind][0], ix, top) if instance == prefix else None
            if of is not None and (found := product_bound(of, self.divisors[kind][1])) is not None:
                count, times = found
                self.constraints.append(self.at_least(self.linear(count, prefix, names), combine({}, q, times), 1))

    def require(self, c: Cond, prefix: str, names: Names) -> None:
        """`c` holds. Conditions from memory, and cases beyond a few, are left out."""
        cases = self.dnf(c, prefix, names)
        if len(cases) == 1:
            self.constraints += cases[0]
        else:
            self.cases.append(cases)

    def dnf(self, c: Cond, prefix: str, names: Names) -> list[list[Constraint]]:
        """`c` in disjunctive normal form: cases of which one holds, each a list of constraints that all hold."""
        match c:
            case And(terms):
                parts = [self.dnf(t, prefix, names) for t in terms]
                return [list(chain(*choice)) for choice in product(*parts)] if _few(parts) else [[]]
            case Or(terms):
                return [case for t in terms for case in self.dnf(t, prefix, names)]
            case Cmp(op, a, b):
                x, y = self.linear(a, prefix, names), self.linear(b, prefix, names)
                less, more = self.at_least(y, x, 1), self.at_least(x, y, 1)
                if op == "==":
                    return [[(combine(x, y, -1), True)]]
                if op == "!=":
                    return [[less], [more]]
                return [[less if op == "<" else self.at_least(y, x)]]
            case Not(term) if (opposite := _opposite(term)) is not None:
                return self.dnf(opposite, prefix, names)
            case _:
                return [[]]

    def monotone(self) -> Iterator[list[list[Constraint]]]:
        """Two instances' divisions by one size: e < e' exactly if (q, r) <lex (q', r'), equal exactly if equal.

        The same division in both instances is paired; where there is none, different dividends are.
        """
        by_divisor: dict[Index, dict[str, dict[str, Division]]] = {}
        for (instance, kind), value in self.pairs.items():
            by_divisor.setdefault(self.divisors[kind][1], {}).setdefault(instance, {})[kind] = value
        for sides in by_divisor.values():
            if len(sides) == 2:
                left, right = sides.values()
                alike = [(left[kind], right[kind]) for kind in left if kind in right]
                for one, other in (alike or [*product(left.values(), right.values())])[:MAX_DIVISIONS]:
                    yield self.ordered(one, other)

    def ordered(self, one: Division, other: Division) -> list[list[Constraint]]:
        """The cases in which two divisions by one divisor can stand to each other."""
        (e, q, r), (f, u, v) = one, other
        same: list[Constraint] = [(combine(x, y, -1), True) for x, y in ((e, f), (q, u), (r, v))]
        cases = [same]
        for (a, b, c), (x, y, z) in ((one, other), (other, one)):
            first = self.at_least(x, a, 1)
            cases.append([first, self.at_least(y, b, 1)])
            cases.append([first, (combine(b, y, -1), True), self.at_least(z, c, 1)])
        return cases

    def solutions(self, dims: Sequence[str], order: Sequence[Constraint]) -> Iterator[isl.BasicSet]:
        """The system as isl sets over `dims`, then the hidden ones; one for each choice of cases that is possible.

        Inside a `question`, as the sets are.
        """
        position = {name: n for n, name in enumerate((*dims, *self.hidden))}
        weigh(len(self.constraints) + len(order) + len(self.cases), len(position))
        choices = [[_points(position, case) for case in choice] for choice in (*self.cases, *self.monotone())]

        def among(s: isl.BasicSet, left: Sequence[Sequence[isl.BasicSet]]) -> Iterator[isl.BasicSet]:
            if not left:
                yield s
            elif not s.is_empty():
                for side in left[0]:
                    yield from among(s.intersect(side), left[1:])

        return among(_points(position, [*self.constraints, *order]), choices)

    def smallest(self, dims: Sequence[str], order: Sequence[Constraint]) -> dict[str, int] | None:
        """The lexicographically least solution over `dims` that meets `order`, too; None if there is none.

        Where the least one takes the solver too long, it is any; Undecided where it cannot tell whether there is one.
        """
        if self.refutes(order):
            return None
        try:
            with question():
                points = [least_point(s, len(dims)) for s in self.solutions(dims, order) if not s.is_empty()]
        except Undecided:
            points = self._sample(dims, order)
        return dict(zip(dims, min(points), strict=True)) if points else None

    def _sample(self, dims: Sequence[str], order: Sequence[Constraint]) -> list[list[int]]:
        """A solution, if there is one."""
        with question():
            for s in self.solutions(dims, order):
                if not s.is_empty():
                    point = isl.Set.from_basic_set(s).sample_point()
                    return [[point.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(len(dims))]]
        return []

    def possible(self, dims: Sequence[str], order: Sequence[Constraint]) -> bool:
        """Whether anything meets `order`, too, or whether that takes the solver too long to say."""
        return not self.refutes(order) and self.solvable(dims, order)

    def solvable(self, dims: Sequence[str], order: Sequence[Constraint]) -> bool:
        """`possible`, of what is not refuted."""
        try:
            with question():
                return not all(s.is_empty() for s in self.solutions(dims, order))
        except Undecided:
            return True

    def refutes(self, order: Sequence[Constraint]) -> bool:
        """Whether it is seen that nothing meets `order`; the solver knows more."""
        if self.reduced is None:
            divided = tuple([(self._numbered(row), by, self._number(q)) for row, by, q in self.divided])
            self.reduced = _made_ready(self._all_numbered(self.constraints), divided)
        cases = tuple([tuple(map(self._all_numbered, case)) for case in (*self.cases, *self.monotone())])
        return _is_refuted(self.reduced, self._all_numbered(order), cases)

    def _number(self, name: str) -> str:
        return self.numbers.setdefault(name, str(len(self.numbers))) if name else name

    def _numbered(self, row: Linear) -> _Row:
        return tuple([(self._number(k), c) for k, c in row.items()])

    def _all_numbered(self, constraints: Iterable[Constraint]) -> _Rows:
        return tuple([(self._numbered(row), equality) for row, equality in constraints])

    def greatest(self, dims: Sequence[str], value: Linear) -> int | None:
        """The greatest value of a linear form; None if it has none, or nothing is a solution, or it is not found."""
        top = "greatest"
        try:
            with question():
                found = self.solutions((top, *dims), [(combine(value, {top: 1}, -1), True)])
                ends = [isl.Set.from_basic_set(s).dim_max_val(0) for s in found if not s.is_empty()]
                return max((e.to_python() for e in ends), default=None) if all(e.is_int() for e in ends) else None
        except Undecided:
            return None


_Row: TypeAlias = "tuple[tuple[str, int], ...]"
_Rows: TypeAlias = "tuple[tuple[_Row, bool], ...]"


@lru_cache(maxsize=1024)
def _made_ready(constraints: _Rows, divided: tuple[tuple[_Row, int, str], ...]) -> Reduced:
    """Constraints made ready, once for all systems that differ in the names of their dimensions alone: two accesses of
    one thread, two rounds of a network."""
    return Reduced(_dicts(constraints), [(dict(row), by, quotient) for row, by, quotient in divided])


@lru_cache(maxsize=8192)
def _is_refuted(base: Reduced, order: _Rows, cases: tuple[tuple[_Rows, ...], ...]) -> bool:
    return is_infeasible(base, _dicts(order), [[*map(_dicts, case)] for case in cases])


def _dicts(constraints: _Rows) -> list[Constraint]:
    return [(dict(row), equality) for row, equality in constraints]


def _opposite(c: Cond) -> Cond | None:
    """What holds exactly if `c` does not, with the negation moved inwards by one node; None for a value from memory."""
    match c:
        case And(terms):
            return Or(tuple(Not(t) for t in terms))
        case Or(terms):
            return And(tuple(Not(t) for t in terms))
        case Not(term):
            return term
        case Cmp("<" | "<=", a, b):
            return Cmp("<=" if c.op == "<" else "<", b, a)
        case Cmp(op, a, b):
            return Cmp("!=" if op == "==" else "==", a, b)
        case _:
            return None


def _few(parts: Iterable[Sequence[object]]) -> bool:
    total = 1
    for p in parts:
        total *= len(p)
    return total <= MAX_CASES


def _points(position: Mapping[str, int], constraints: Sequence[Constraint]) -> isl.BasicSet:
    """The points, their dimensions as `position` has them, that meet all the constraints.

    They are given to isl as matrices: added one by one each would be worked into all that were there.
    """
    width = len(position)
    rows = [[linear for linear, equal in constraints if equal == wanted] for wanted in (True, False)]
    matrices: list[isl.Mat] = []
    for part in rows:
        made = matrix(len(part), width + 1)
        for n, linear in enumerate(part):
            for name, value in linear.items():
                if value:
                    made = made.set_element_val(n, position[name] if name else width, number(value))
        matrices.append(made)
    kinds = (isl.dim_type.set, isl.dim_type.div, isl.dim_type.param, isl.dim_type.cst)
    equal, unequal = matrices
    return isl.BasicSet.from_constraint_matrices(space(width), equal, unequal, *kinds)


def least_point(s: isl.BasicSet, count: int) -> list[int]:
    """The least point on the first `count` dimensions; where one of them has no lower end, some value that it takes.

    One dimension after the other: isl's lexmin of all fails on some sets with divisions (isl_domain_factor_templ).
    """
    point: list[int] = []
    for n in range(count):
        whole = isl.Set.from_basic_set(s)
        least = whole.dim_min_val(n)
        if not least.is_int():  # a quotient by a size, of which no end is seen
            least = whole.sample_point().get_coordinate_val(isl.dim_type.set, n)
        point.append(least.to_python())
        s = s.add_constraint(
            isl.Constraint.alloc_equality(s.get_local_space())
            .set_coefficient_val(isl.dim_type.set, n, number(1))
            .set_constant_val(number(-point[-1]))
        )
    return point


def whole_tiles(count: Index) -> tuple[Index, int] | None:
    """(T, c) where `count` is T // c."""
    p = poly(count, EMPTY)
    for m, k in p.items():
        if k == 1 and len(m) == 1 and isinstance(q := m[0], FloorDiv) and isinstance(q.b, Int):
            rest = {n: x * q.b.value for n, x in p.items() if n != m}
            return to_index(poly_add(poly(q.a, EMPTY), rest)), q.b.value
    return None


def rest_of(position: Index, ix: Index, top: Mod) -> Index | None:
    """T where `position` is c * (T // c) + ix, and `top` is T % c."""
    p = poly(position, EMPTY)
    if not isinstance(top.b, Int) or p.get((ix,)) != 1:
        return None
    c = top.b.value
    for m, k in p.items():
        if k == c and len(m) == 1 and isinstance(q := m[0], FloorDiv) and q.b == top.b:
            rest = {n: x for n, x in p.items() if n not in (m, (ix,))}
            whole = to_index(poly_add(poly(q.a, EMPTY), rest))
            if all(x % c == 0 for x in rest.values()) and poly(Mod(whole, top.b), EMPTY) == poly(top, EMPTY):
                return whole
    return None


def product_bound(extent: Index, divisor: Index) -> tuple[Index, int] | None:
    """(X, c) where `extent` is X * d and `divisor` is c * d: then ix < extent gives c * (ix // divisor) < X."""
    p, d = poly(extent, EMPTY), poly(divisor, EMPTY)
    for c in dict.fromkeys((1, gcd(*d.values()))):
        q = exact_quotient(p, {m: k // c for m, k in d.items()})
        if q is not None:
            return to_index(q), c
    return None
