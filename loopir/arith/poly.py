"""Polynomials with integer coefficients: the canonical form of indices.

A term is a product of atoms (loop variables, sizes, and whatever is not a sum or a product: divisions, minima,
memory reads) with its coefficient. Terms keep the order in which they were met, so results read like their source.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from loopir.ir.grammar import Add, Index, Int, Mul, Var
from loopir.ir.traverse.memo import memoized

Monomial: TypeAlias = "tuple[Index, ...]"
Poly: TypeAlias = "dict[Monomial, int]"
"""Coefficients by monomial; the constant has the empty one. No coefficient is 0."""

_int = lru_cache(maxsize=1024)(Int)
_rank = lru_cache(maxsize=4096)(repr)
"""The order of the factors of a monomial."""


def constant_poly(c: int) -> Poly:
    return {(): c} if c else {}


def atom_poly(a: Index) -> Poly:
    return {(a,): 1}


def poly_add(a: Mapping[Monomial, int], b: Mapping[Monomial, int], scale: int = 1) -> Poly:
    """`a + scale * b`."""
    out = dict(a)
    if scale:
        poly_add_to(out, b, scale)
    return out


def poly_add_to(out: Poly, b: Mapping[Monomial, int], scale: int) -> None:
    """Make `out` be `out + scale * b`; `scale` is not 0."""
    for m, c in b.items():
        total = out.get(m, 0) + scale * c
        if total:
            out[m] = total
        else:
            del out[m]


def poly_mul(a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Poly:
    out: Poly = {}
    for m, c in a.items():
        poly_add_to(out, b if not m else {monomial_product(m, k): d for k, d in b.items()}, c)
    return out


def monomial_product(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials; factors in an order that does not depend on how it came about."""
    if not a or not b:
        return a or b
    return tuple(sorted((*a, *b), key=_rank))


def exact_quotient(p: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Poly | None:
    """q with p = q * b, if there is one: long division, by terms of the highest degree."""
    q: Poly = {}
    lead = max(b, key=_order)
    rest = dict(p)
    while rest:
        m = max(rest, key=_order)
        left = quotient(m, lead)
        if left is None or rest[m] % b[lead]:
            return None
        term = {left: rest[m] // b[lead]}
        poly_add_to(q, term, 1)
        poly_add_to(rest, poly_mul(term, b), -1)
    return q


def _order(m: Monomial) -> tuple[int, tuple[str, ...]]:
    """An order of monomials that multiplying both by a third one keeps."""
    return len(m), tuple(sorted(map(_rank, m)))


def poly_scale(a: Mapping[Monomial, int], c: int) -> Poly:
    return {m: k * c for m, k in a.items()} if c else {}


def const_of(p: Mapping[Monomial, int]) -> int | None:
    """The value of a constant polynomial, else None."""
    if not p:
        return 0
    return p.get(()) if len(p) == 1 else None


def coefficient(p: Mapping[Monomial, int], a: Index) -> tuple[Poly, Poly] | None:
    """(q, r) with p = q * a + r and `a` in neither; None if `a` stands squared or inside another atom's monomial."""
    q: Poly = {}
    r: Poly = {}
    for m, c in p.items():
        if a not in m:
            r[m] = c
        elif (rest := divide_monomial(m, a)) and a in rest:
            return None
        else:
            q[rest] = c
    return q, r


def divide_monomial(m: Monomial, a: Index) -> Monomial:
    """`m` divided by its factor `a`."""
    n = m.index(a)
    return m[:n] + m[n + 1 :]


def quotient(m: Monomial, by: Monomial) -> Monomial | None:
    """`m` divided by `by`; None if `by` does not divide it."""
    for a in by:
        if a not in m:
            return None
        m = divide_monomial(m, a)
    return m


@lru_cache(maxsize=4096)
def expand_index(ix: Index) -> Mapping[Monomial, int]:
    """`ix` expanded, whatever is no sum or product being an atom as it stands."""
    kind = type(ix)
    if kind is Var:
        return MappingProxyType({(ix,): 1})
    if isinstance(ix, Int):
        return MappingProxyType(constant_poly(ix.value))
    if isinstance(ix, Add):
        summands: list[Index] = []
        while isinstance(ix, Add):
            summands.append(ix.b)
            ix = ix.a
        total = dict(expand_index(ix))
        for x in reversed(summands):
            poly_add_to(total, expand_index(x), 1)
        return MappingProxyType(total)
    return MappingProxyType(poly_mul(expand_index(ix.a), expand_index(ix.b)) if isinstance(ix, Mul) else atom_poly(ix))


def constant_part(ix: Index) -> tuple[Index, int]:
    """`ix` without the constant at its end, and that."""
    if type(ix) is Add and type(ix.b) is Int:
        return ix.a, ix.b.value
    return (_int(0), ix.value) if type(ix) is Int else (ix, 0)


def var_plus_const(ix: Index) -> tuple[str, int] | None:
    """The variable and the constant that `ix` is the sum of, if it is that; of a constant alone, no variable, ""."""
    stem, more = constant_part(ix)
    if type(stem) is Var or type(stem) is Int:
        return (stem.name if type(stem) is Var else ""), more
    p = dict(expand_index(ix))
    more = p.pop((), 0)
    ((m, c),) = p.items() if len(p) == 1 else (((), 0),)
    return (m[0].name, more) if c == 1 and len(m) == 1 and type(m[0]) is Var else None


@memoized
def sum_of_products(ix: Index) -> Mapping[Monomial, int] | None:
    """`expand_index(ix)` if that is a sum of products of variables."""
    p = expand_index(ix)
    return p if all(type(a) is Var for m in p for a in m) else None


def to_index(p: Mapping[Monomial, int]) -> Index:
    """A readable index: terms in order, a positive one first, the constant last."""
    lead = next((m for m, c in p.items() if m and c > 0), None)
    total: Index | None = None if lead is None else _scaled(_monomial(lead), p[lead])
    for m, c in p.items():
        if not m or m is lead:
            continue
        if total is None:
            total = _scaled(_monomial(m), c)
        else:
            total = Add(total, _scaled(_monomial(m), c) if c > 0 else _scaled(_scaled(_monomial(m), -c), -1))
    rest = p.get((), 0)
    if total is None:
        return _int(rest)
    return Add(total, _int(rest)) if rest else total


def _monomial(m: Monomial) -> Index:
    total = m[0]
    for a in m[1:]:
        total = Mul(total, a)
    return total


def _scaled(a: Index, c: int) -> Index:
    if c == 1:
        return a
    return Mul(_int(-1), a) if c == -1 else Mul(a, _int(c))
