"""Systems of linear constraints over named integer dimensions, and the question whether one has a solution.

Indices and conditions of the IR become constraints here; isl decides. What is not affine (memory reads, products of
sizes, minima inside an access) becomes a fresh dimension with what bounds are known: the system then describes more
than really happens, which can only make an analysis refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import TypeAlias

import islpy as isl

from loopir.analysis.affine import const_of, plus, to_index
from loopir.analysis.simplify import EMPTY, divide, poly
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
)

Linear: TypeAlias = "dict[str, int]"
"""Coefficients by dimension; the constant under ""."""
Constraint: TypeAlias = "tuple[Linear, bool]"
"""(linear, equality): linear >= 0, or == 0."""
MAX_CASES = 32


def combine(a: Mapping[str, int], b: Mapping[str, int], scale: int = 1) -> Linear:
    out = dict(a)
    for k, c in b.items():
        out[k] = out.get(k, 0) + scale * c
    return out


@dataclass
class System:
    """Constraints under construction. Names of one instance's loops are prefixed, so that two instances fit in one."""

    constraints: list[Constraint] = field(default_factory=list[Constraint])
    cases: list[list[list[Constraint]]] = field(default_factory=list[list[list[Constraint]]])
    hidden: list[str] = field(default_factory=list[str])
    pairs: dict[tuple[str, str], tuple[Linear, Linear, Linear]] = field(
        default_factory=dict["tuple[str, str]", "tuple[Linear, Linear, Linear]"]
    )
    """Divisions by a size: (instance, division) -> (dividend, quotient, remainder)."""
    divisors: dict[str, tuple[Index, Index]] = field(default_factory=dict[str, "tuple[Index, Index]"])

    def fresh(self) -> str:
        self.hidden.append(f"_{len(self.hidden)}")
        return self.hidden[-1]

    def at_least(self, a: Linear, b: Linear, by: int = 0) -> Constraint:
        """a >= b + by."""
        return combine(combine(a, b, -1), {"": by}, -1), False

    def linear(self, ix: Index, prefix: str, names: Mapping[str, str]) -> Linear:
        """`ix` as a linear form; `names` maps variables to dimensions. May add constraints on fresh dimensions."""
        match ix:
            case Int(value):
                return {"": value}
            case Var(name):
                return {names[name]: 1}
            case Add(a, b):
                return combine(self.linear(a, prefix, names), self.linear(b, prefix, names))
            case Mul(a, b):
                x, y = self.linear(a, prefix, names), self.linear(b, prefix, names)
                for u, v in ((x, y), (y, x)):
                    if not any(k and c for k, c in u.items()):
                        return {k: c * u.get("", 0) for k, c in v.items()}
                return {self.fresh(): 1}
            case FloorDiv(a, b) | Mod(a, b):
                return self.division(ix, self.linear(a, prefix, names), self.linear(b, prefix, names), prefix)
            case Min(a, b) | Max(a, b):
                value: Linear = {self.fresh(): 1}
                for side in (self.linear(a, prefix, names), self.linear(b, prefix, names)):
                    self.constraints.append(
                        self.at_least(side, value) if isinstance(ix, Min) else self.at_least(value, side)
                    )
                return value
            case _:
                return {self.fresh(): 1}

    def division(self, ix: FloorDiv | Mod, a: Linear, b: Linear, prefix: str) -> Linear:
        if not any(k and c for k, c in b.items()):
            c = b[""]
            q = {self.fresh(): 1}
            rest = combine(a, q, -c)
            self.constraints += [(rest, False), self.at_least({"": c - 1}, rest)]
            return q if isinstance(ix, FloorDiv) else rest
        key = (prefix, f"{ix.a!r}/{ix.b!r}")
        if key not in self.pairs:
            q, r = {self.fresh(): 1}, {self.fresh(): 1}
            self.constraints += [(r, False), self.at_least(b, r, 1)]
            self.pairs[key] = (a, q, r)
            self.divisors[key[1]] = (ix.a, ix.b)
        return self.pairs[key][1 if isinstance(ix, FloorDiv) else 2]

    def bound(self, ix: Index, top: Index, prefix: str, names: Mapping[str, str]) -> None:
        """ix < top, where `top` may be a product with a divisor that `ix` is divided by: then ix // d < top / d."""
        if isinstance(top, Min):
            self.bound(ix, top.a, prefix, names)
            self.bound(ix, top.b, prefix, names)
            return
        for (instance, kind), (_, q, _) in list(self.pairs.items()):
            divided = self.divisors.get(kind)
            if instance == prefix and divided is not None and poly(divided[0], EMPTY) == poly(ix, EMPTY):
                count = product_bound(top, divided[1])
                if count is not None:
                    self.constraints.append(self.at_least(self.linear(count, prefix, names), q, 1))
        self.constraints.append(self.at_least(self.linear(top, prefix, names), self.linear(ix, prefix, names), 1))

    def require(self, c: Cond, prefix: str, names: Mapping[str, str]) -> None:
        """`c` holds. Conditions from memory, and cases beyond a few, are left out."""
        cases = self.dnf(c, prefix, names)
        if len(cases) == 1:
            self.constraints += cases[0]
        else:
            self.cases.append(cases)

    def dnf(self, c: Cond, prefix: str, names: Mapping[str, str]) -> list[list[Constraint]]:
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
            case Not(And(terms)):
                return self.dnf(Or(tuple(Not(t) for t in terms)), prefix, names)
            case Not(Or(terms)):
                return self.dnf(And(tuple(Not(t) for t in terms)), prefix, names)
            case Not(Not(term)):
                return self.dnf(term, prefix, names)
            case Not(Cmp("<", a, b)):
                return self.dnf(Cmp("<=", b, a), prefix, names)
            case Not(Cmp("<=", a, b)):
                return self.dnf(Cmp("<", b, a), prefix, names)
            case Not(Cmp("==", a, b)):
                return self.dnf(Cmp("!=", a, b), prefix, names)
            case Not(Cmp("!=", a, b)):
                return self.dnf(Cmp("==", a, b), prefix, names)
            case _:
                return [[]]

    def monotone(self) -> None:
        """Two instances' divisions of one kind: e < e' exactly if (q, r) <lex (q', r'), equal exactly if equal."""
        by_kind: dict[str, list[tuple[Linear, Linear, Linear]]] = {}
        for (_, kind), value in self.pairs.items():
            by_kind.setdefault(kind, []).append(value)
        for found in by_kind.values():
            if len(found) != 2:
                continue
            (e, q, r), (f, u, v) = found
            same: list[Constraint] = [(combine(x, y, -1), True) for x, y in ((e, f), (q, u), (r, v))]
            cases = [same]
            for (a, b, c), (x, y, z) in (((e, q, r), (f, u, v)), ((f, u, v), (e, q, r))):
                first = self.at_least(x, a, 1)
                cases.append([first, self.at_least(y, b, 1)])
                cases.append([first, (combine(b, y, -1), True), self.at_least(z, c, 1)])
            self.cases.append(cases)

    def contradictory(self) -> bool:
        """Whether equal dimensions alone rule a solution out: the common case, told without a solver."""
        root: dict[str, str] = {}

        def find(k: str) -> str:
            while k in root:
                k = root[k]
            return k

        for linear, equality in self.constraints:
            if equality and not linear.get(""):
                used = [(k, c) for k, c in linear.items() if c]
                if len(used) == 2 and used[0][1] == -used[1][1]:
                    a, b = find(used[0][0]), find(used[1][0])
                    if a != b:
                        root[a] = b
        if not root:
            return False
        for linear, equality in self.constraints:
            merged: Linear = {}
            for k, c in linear.items():
                if c:
                    merged[find(k)] = merged.get(find(k), 0) + c
            if not any(k and c for k, c in merged.items()):
                rest = merged.get("", 0)
                if rest < 0 or (equality and rest):
                    return True
        return False

    def solutions(self, dims: Sequence[str]) -> list[isl.Set]:
        """The system as isl sets over `dims`, then the hidden ones; one set for each choice of cases."""
        self.monotone()
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[*dims, *self.hidden])
        base = _set(space, self.constraints)
        return [base.intersect(_set(space, chain(*choice))) for choice in product(*self.cases)]

    def smallest(self, dims: Sequence[str]) -> dict[str, int] | None:
        """The lexicographically least solution over `dims`, or None if there is no solution."""
        best: list[int] | None = None
        if self.contradictory():
            return None
        for found in self.solutions(dims):
            if found.is_empty():
                continue
            point = _point(found, len(dims))
            if best is None or point < best:
                best = point
        return None if best is None else dict(zip(dims, best, strict=True))


def _few(parts: Iterable[Sequence[object]]) -> bool:
    total = 1
    for p in parts:
        total *= len(p)
    return total <= MAX_CASES


def _set(space: isl.Space, constraints: Iterable[Constraint]) -> isl.Set:
    out = isl.BasicSet.universe(space)
    for linear, equality in constraints:
        make = isl.Constraint.eq_from_names if equality else isl.Constraint.ineq_from_names
        named = {k or 1: c for k, c in linear.items() if c}
        out = out.add_constraint(make(space, named))
    return isl.Set.from_basic_set(out)


def _point(s: isl.Set, count: int) -> list[int]:
    """The least point on the first `count` dimensions; dimensions without a lower end are met near zero."""
    total = s.dim(isl.dim_type.set)
    s = s.project_out(isl.dim_type.set, count, total - count)
    try:
        p = s.lexmin().sample_point()
    except isl.Error:
        p = s.sample_point()
    if p.is_void():
        p = s.sample_point()
    return [p.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(count)]


def product_bound(extent: Index, divisor: Index) -> Index | None:
    """X where `extent` is X * divisor: then ix < extent gives ix // divisor < X."""
    q = divide(poly(extent, EMPTY), poly(divisor, EMPTY), EMPTY)
    whole = plus(poly(extent, EMPTY), poly(Mul(divisor, to_index(q)), EMPTY), -1)
    return to_index(q) if const_of(whole) == 0 else None
