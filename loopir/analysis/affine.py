"""Indices as polynomials with integer coefficients: the canonical form that simplification and bounds work on.

A term is a product of atoms (loop variables, sizes, and whatever is not a sum or a product: divisions, minima,
memory reads) with its coefficient. Terms keep the order in which they were met, so results read like their source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from loopir.ir.grammar import Index, Int, Mul, Var

Monomial: TypeAlias = "tuple[Index, ...]"
Poly: TypeAlias = "dict[Monomial, int]"
"""Coefficients by monomial; the constant has the empty one. No coefficient is 0."""


def constant(c: int) -> Poly:
    return {(): c} if c else {}


def atom(a: Index) -> Poly:
    return {(a,): 1}


def plus(a: Mapping[Monomial, int], b: Mapping[Monomial, int], scale: int = 1) -> Poly:
    """`a + scale * b`."""
    out = dict(a)
    for m, c in b.items():
        total = out.get(m, 0) + scale * c
        if total:
            out[m] = total
        else:
            out.pop(m, None)
    return out


def times(a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Poly:
    out: Poly = {}
    for m, c in a.items():
        for k, d in b.items():
            key = joined(m, k)
            total = out.get(key, 0) + c * d
            if total:
                out[key] = total
            else:
                out.pop(key, None)
    return out


def joined(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials; factors in an order that does not depend on how it came about."""
    if not a or not b:
        return a or b
    return tuple(sorted((*a, *b), key=repr))


def exact_quotient(p: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Poly | None:
    """q with p = q * b, if there is one: long division, by terms of the highest degree."""
    q: Poly = {}
    lead = max(b, key=_order)
    rest = dict(p)
    while rest:
        m = max(rest, key=_order)
        left = list(m)
        inside = all(x in left and not left.remove(x) for x in lead)  # type: ignore[func-returns-value]
        if not inside or rest[m] % b[lead]:
            return None
        term = {tuple(left): rest[m] // b[lead]}
        q, rest = plus(q, term), plus(rest, times(term, b), -1)
    return q


def _order(m: Monomial) -> tuple[int, tuple[str, ...]]:
    """An order of monomials that multiplying both by a third one keeps."""
    return len(m), tuple(sorted(map(repr, m)))


def scaled(a: Mapping[Monomial, int], c: int) -> Poly:
    return {m: k * c for m, k in a.items()} if c else {}


def const_of(p: Mapping[Monomial, int]) -> int | None:
    """The value of a constant polynomial, else None."""
    if not p:
        return 0
    return p[()] if len(p) == 1 and () in p else None


def coefficient(p: Mapping[Monomial, int], a: Index) -> tuple[Poly, Poly] | None:
    """(q, r) with p = q * a + r and `a` in neither; None if `a` stands squared or inside another atom's monomial."""
    q: Poly = {}
    r: Poly = {}
    for m, c in p.items():
        n = m.count(a)
        if n == 0:
            r[m] = c
        elif n == 1:
            k = list(m)
            k.remove(a)
            q[tuple(k)] = c
        else:
            return None
    return q, r


def to_index(p: Mapping[Monomial, int]) -> Index:
    """A readable index: terms in order, a positive one first, the constant last."""
    terms = [(m, c) for m, c in p.items() if m]
    lead = next((n for n, (_, c) in enumerate(terms) if c > 0), 0)
    terms = terms[lead : lead + 1] + terms[:lead] + terms[lead + 1 :]
    total: Index | None = None
    for m, c in terms:
        size = _product(m)
        if total is None:
            total = -size if c == -1 else size * c
        elif c < 0:
            total = total - (size * -c)
        else:
            total = total + size * c
    rest = p.get((), 0)
    return Int(rest) if total is None else total + rest


def _product(m: Iterable[Index]) -> Index:
    total: Index | None = None
    for a in m:
        total = a if total is None else Mul(total, a)
    return total if total is not None else Int(1)


def is_size(a: Index, loops: Iterable[str]) -> bool:
    """Whether an atom is a variable that is no loop."""
    return isinstance(a, Var) and a.name not in loops
