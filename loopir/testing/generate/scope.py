"""Indices that are in bounds by construction: what a generated program may write where it stands.

A `Scope` is the loops around a place and what the sizes are at least. An index is offered for a dimension only if a
few lines of linear arithmetic show it to lie in `0 .. dimension-1` at every size; nothing here uses the analyses that
the generated programs are to test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

from loopir.arith.poly import Poly, atom_poly, constant_poly, poly_add, poly_scale, to_index
from loopir.ir.grammar import Add, Buffer, Cond, Index, Int, Mul, Var, conj, index, maximum, minimum


@dataclass(frozen=True)
class Around:
    """A loop: its name, and what its extent is at most."""

    var: str
    extent: Index
    depends: frozenset[str] = frozenset()
    from_memory: bool = False


@dataclass(frozen=True)
class Scope:
    """The loops around a place, outermost first, and the least value of each size."""

    least: tuple[tuple[str, int], ...] = ()
    loops: tuple[Around, ...] = ()
    from_memory: bool = False
    """Whether a guard around the place reads memory."""

    def inside(self, loop: Around) -> Scope:
        return replace(self, loops=(*self.loops, loop))

    def without(self, names: frozenset[str]) -> Scope:
        return replace(self, loops=tuple(x for x in self.loops if x.var not in names))

    def positive(self, size: str) -> bool:
        """Whether the program itself assumes that `size` is at least 1."""
        return dict(self.least).get(size, 0) >= 1


def linear(ix: Index) -> Poly:
    """`ix`, made of sums and constant multiples, as a polynomial."""
    match ix:
        case Int(value):
            return constant_poly(value)
        case Add(a, b):
            return poly_add(linear(a), linear(b))
        case Mul(a, Int(c)) | Mul(Int(c), a):
            return poly_scale(linear(a), c)
        case _:
            return atom_poly(ix)


def nonnegative(ix: Poly, scope: Scope) -> bool:
    """Whether `ix` is at least 0 wherever the loops of `scope` run: each loop, innermost first, at its worst value."""
    least = dict(scope.least)
    for loop in reversed(scope.loops):
        at = (Var(loop.var),)
        c = ix.get(at, 0)
        ix = poly_add(ix, {at: 1}, -c)
        if c < 0:
            ix = poly_add(ix, poly_add(linear(loop.extent), constant_poly(-1)), c)
        for name in least:  # the loop runs, so its extent is at least 1
            rest = poly_add(linear(loop.extent), atom_poly(Var(name)), -1)
            if set(rest) <= {()}:
                least[name] = max(least[name], 1 - rest.get((), 0))
    total = ix.get((), 0)
    for m, c in ix.items():
        if m:
            (a,) = m
            if c < 0 or not isinstance(a, Var) or a.name not in least:
                return False
            total += c * least[a.name]
    return total >= 0


def fits(ix: Index, dim: Index, scope: Scope) -> bool:
    below = poly_add(poly_add(linear(dim), linear(ix), -1), constant_poly(-1))
    return nonnegative(linear(ix), scope) and nonnegative(below, scope)


@lru_cache(maxsize=4096)
def offered(scope: Scope, dim: Index) -> tuple[Index, ...]:
    """Indices known to be in bounds of a dimension of `dim`, the simplest first; none where there may be no element."""
    plain = [x for x in forms(scope) if fits(x, dim, scope)]
    if not isinstance(dim, Int) and not fits(dim - 1, dim, scope):
        return tuple(plain)
    loops = [Var(x.var) for x in scope.loops]
    more: list[Index] = [Int(0), *plain, dim - 1, *(x // 2 for x in plain if not isinstance(x, Int))]
    more += [minimum(v + 1, dim - 1) for v in loops]
    more += [maximum(v - 1, 0) for v in loops if fits(v, dim, scope)]
    if isinstance(dim, Int) or (isinstance(dim, Var) and scope.positive(dim.name)):
        more += [x for v in loops for x in ((v + 2) % dim, (v * 3) % dim)]
    return tuple(dict.fromkeys(more))


@lru_cache(maxsize=4096)
def forms(scope: Scope) -> tuple[Index, ...]:
    """Linear indices worth trying: offsets, strides, reversals and diagonals of the loops of `scope`."""
    return tuple(dict.fromkeys(_forms(scope)))


def _forms(scope: Scope) -> Iterator[Index]:
    for loop in reversed(scope.loops):
        v = Var(loop.var)
        yield from (v, v + 1, v - 1, loop.extent - 1 - v, v + 2, v * 2, v * 2 + 1)
    for a, b in permutations(scope.loops, 2):
        v, w = Var(a.var), Var(b.var)
        yield from (v + w, v - w, v - w + (b.extent - 1), v * 2 + w)
    for loop in scope.loops:
        yield from (to_index(linear(loop.extent - 1)), index(1))


def bounds(at: tuple[Index, ...], b: Buffer, scope: Scope) -> Cond:
    """What has to be tested for `at` to be an element of `b`: no more than is not known."""
    tests: list[Cond] = []
    for x, dim in zip(at, b.shape, strict=True):
        if not nonnegative(linear(x), scope):
            tests.append(x >= 0)
        if not nonnegative(poly_add(poly_add(linear(dim), linear(x), -1), constant_poly(-1)), scope):
            tests.append(x < dim)
    return conj(*tests)
