"""Bound a kernel's indices, so that they are computed in 32 bits where they fit; checked at each launch.

Every subexpression of an index lies between two bounds over the sizes, one at most and one at least 0. If all bounds
are constants below 2^31, indices are 32-bit ints. If they depend on sizes, the kernel is compiled twice, with 32 and
with 64 bits, and the host chooses at each launch. Indices read from memory have no bound. Both backends ask this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, mul

from loopir.errors import LowerError
from loopir.ir.grammar import Add, Body, FloorDiv, Index, Int, Kernel, Loop, Max, Min, Mod, Mul, ValueToIndex, Var, Xor
from loopir.ir.index import cancel_factors, maximum
from loopir.ir.traverse.free_vars import is_affine_visible
from loopir.ir.traverse.walk import nodes, statements

INT32_END = 1 << 31
"""The first integer that an int does not hold."""
ZERO = Int(0)


class Unbounded(Exception):
    """The index is read from memory."""


@dataclass(frozen=True, slots=True)
class Range:
    """An index is at least -`down` and at most `up`; neither is below 0."""

    down: Index
    up: Index

    @property
    def size(self) -> Index:
        """What it is not beyond, either way."""
        return _larger(self.down, self.up)


def unbounded(ix: ValueToIndex) -> Range:
    """Raise Unbounded: nothing is known of a number from memory."""
    raise Unbounded


class Bounds:
    """Bounds of the indices in `body`; `opaque` gives the bounds of numbers read from memory.

    A loop whose extent depends on such numbers is taken to count to `longest`, if that is given.
    """

    def __init__(
        self,
        body: Body,
        opaque: Callable[[ValueToIndex], Range] = unbounded,
        longest: Callable[[Index], int] | None = None,
    ) -> None:
        every = {s.var: s.extent for s in statements(body) if isinstance(s, Loop)}
        read = (
            {v: ix for v, ix in every.items() if not is_affine_visible(ix)}
            if longest is not None
            else dict[str, Index]()
        )
        self.extents = {v: ix for v, ix in every.items() if v not in read}
        self.opaque = opaque
        self.known: dict[Index, Range] = {Var(v): Range(ZERO, Int(longest(ix))) for v, ix in read.items() if longest}
        self.parts: set[Index] = set()
        """What is a part of something else, whose bounds are no less."""

    def of(self, ix: Index) -> Range:
        """What `ix` is within."""
        if ix not in self.known:
            self.known[ix] = self._found(ix)
        return self.known[ix]

    def _found(self, ix: Index) -> Range:
        match ix:
            case Int(value):
                return Range(Int(max(0, -value)), Int(max(0, value)))
            case Var(name):
                extent = self.extents.get(name)  # a loop without iterations computes nothing
                return Range(ZERO, maximum(1, ix) if extent is None else _one_less(self.of(extent).up))
            case Add(a, b):
                together = self._apart(a, b) or self._rest_of_a_loop(a, b)
                if together is not None:
                    return together
                self.parts |= {a, b}
                one, other = self.of(a), self.of(b)
                return Range(one.down + other.down, one.up + other.up)
            case Mul(a, b):
                return self._product(a, b)
            case Min(a, b):
                one, other = self.of(a), self.of(b)
                return Range(_larger(one.down, other.down), _smaller(one.up, other.up))
            case Max(a, b):
                one, other = self.of(a), self.of(b)
                return Range(_smaller(one.down, other.down), _larger(one.up, other.up))
            case FloorDiv(Var(name), b) if (others := cancel_factors(self.extents.get(name, ix), b)) is not None:
                return Range(ZERO, _one_less(self.of(others).up))  # which of the loops that were fused into one this is
            case FloorDiv(a, b):
                whole = self.of(a)
                if not isinstance(b, Int):
                    return whole
                return Range(ZERO if whole.down == ZERO else whole.down // b + 1, whole.up // b)
            case Mod(_, b):
                return Range(ZERO, _one_less(self.of(b).up))
            case Xor(a, b):  # of a number of bits, the sign among them, that holds either
                most = (self.of(a).size + self.of(b).size) * 2
                return Range(most, most)
            case ValueToIndex():
                return self.opaque(ix)
            case _:
                raise LowerError(f"{type(ix).__name__} is no index that a kernel counts")

    def _apart(self, a: Index, b: Index) -> Range | None:
        """What `a + b` is within if it is (x + c) // d - x // d with 0 <= c: how many blocks a dimension's end has."""
        match a, b:
            case (FloorDiv(x, Int(d)), Mul(Int(-1), FloorDiv(y, Int(e)))) | (
                Mul(Int(-1), FloorDiv(y, Int(e))), FloorDiv(x, Int(d)),
            ) if d == e and (more := _difference(x, y)) is not None and more >= 0:  # fmt: skip
                return Range(ZERO, Int(-(-more // d)))
            case _:
                return None

    def _rest_of_a_loop(self, a: Index, b: Index) -> Range | None:
        """What `a + b` is within if a term of the one is c v, v being what a loop of n - x iterations counts, and one
        of the other c x: together those are below c n."""
        terms, first = [*_summands(a), *_summands(b)], len(_summands(a))
        for k, t in enumerate(terms):
            factors = _index_factors(t)
            for v in factors:
                parts = _less(self.extents[v.name]) if isinstance(v, Var) and v.name in self.extents else None
                if parts is None:
                    continue
                scale = factors - Counter([v])
                beside = range(first, len(terms)) if k < first else range(first)
                at = next((n for n in beside if _index_factors(terms[n]) == scale + _index_factors(parts[1])), None)
                scales = [self.of(f) for f in scale.elements()]
                if at is None or any(r.down != ZERO for r in scales):
                    continue
                others = [self.of(u) for n, u in enumerate(terms) if n not in (k, at)]
                count = _one_less(_total([self.of(u).up for u in parts[0]]))
                low, high = (reduce(mul, [r.up for r in scales], x) for x in (self.of(parts[1]).down, count))
                return Range(_total([low, *[r.down for r in others]]), _total([high, *[r.up for r in others]]))
        return None

    def _product(self, a: Index, b: Index) -> Range:
        if isinstance(a, Int):
            a, b = b, a
        one, other = self.of(a), self.of(b)
        if isinstance(b, Int):
            self.parts |= {a} if b.value else set()
            return Range(other.up * one.down + other.down * one.up, other.up * one.up + other.down * one.down)
        if one.down != ZERO:
            a, b, one, other = b, a, other, one
        if one.down != ZERO:
            most = one.size * other.size
            return Range(most, most)
        self.parts |= {b} if _positive(one.up) else set()
        self.parts |= {a} if _positive(other.size) else set()
        return Range(one.up * other.down, one.up * other.up)


def _difference(one: Index, other: Index) -> int | None:
    """`one - other`, if that is a constant that can be read off."""
    match one, other:
        case _ if one == other:
            return 0
        case Add(x, Int(c)), Add(y, Int(k)) if x == y:
            return c - k
        case Add(x, Int(c)), y if x == y:
            return c
        case _:
            return None


def _summands(ix: Index) -> list[Index]:
    return [*_summands(ix.a), *_summands(ix.b)] if isinstance(ix, Add) else [ix]


def _index_factors(ix: Index) -> Counter[Index]:
    return _index_factors(ix.a) + _index_factors(ix.b) if isinstance(ix, Mul) else Counter([ix] if ix != Int(1) else [])


def _less(extent: Index) -> tuple[list[Index], Index] | None:
    """`extent` as terms and one that is taken from them."""
    match extent:
        case Add(rest, Mul(Int(-1), x)) | Add(Mul(Int(-1), x), rest):
            return _summands(rest), x
        case _:
            return None


def _total(bounds: list[Index]) -> Index:
    return reduce(add, bounds, ZERO)


def _one_less(up: Index) -> Index:
    """One less, but not below 0."""
    return Int(max(0, up.value - 1)) if isinstance(up, Int) else maximum(0, up - 1)


def _larger(a: Index, b: Index) -> Index:
    """Of two that are not below 0."""
    if isinstance(a, Int) and isinstance(b, Int):
        return a if a.value >= b.value else b
    return b if a == ZERO else a if b == ZERO else maximum(a, b)


def _smaller(a: Index, b: Index) -> Index:
    """What is no less than the smaller of two: a constant, if one of them is."""
    if isinstance(a, Int) and isinstance(b, Int):
        return a if a.value <= b.value else b
    return b if isinstance(b, Int) else a


def _positive(ix: Index) -> bool:
    """Whether a bound is at least 1 whatever the sizes are."""
    match ix:
        case Int(value):
            return value > 0
        case Add(a, Int(value)) if value < 0:
            return False
        case Add(a, b):
            return _positive(a) or _positive(b)
        case Mul(a, b):
            return _positive(a) and _positive(b)
        case Max(a, b):
            return _positive(a) or _positive(b)
        case _:
            return False


def index_bounds(kernel: Kernel, most: int = INT32_END) -> tuple[Index, ...] | None:
    """Bounds on the magnitude of all indices of `kernel` that may reach `most`; None if unknown.

    If there are none, an int holds every index. If one is a constant, which is then at least 2^31, an int never does.
    """
    known = Bounds(kernel.body)
    indices = dict.fromkeys(n for n in nodes(kernel) if isinstance(n, Index))
    try:
        found = {ix: known.of(ix) for ix in indices}
    except Unbounded:
        return None
    return ends(found, known.parts, most)


def ends(found: Mapping[Index, Range], parts: Collection[Index], most: int) -> tuple[Index, ...]:
    """The ends of `found` that may reach `most`, without those of `parts` that other ends dominate."""
    whole = dict.fromkeys(b for ix, r in found.items() if ix not in parts for b in (r.down, r.up))
    return tuple(b for b in whole if not (isinstance(b, Int) and b.value < most))
