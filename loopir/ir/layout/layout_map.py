"""Layouts from index maps, `lambda k, j: (j // 16, k, j % 16)`, with the proof that each is injective.

The map gives the position of each element in a row-major array of just the size needed. It is proved injective for all
sizes by inverting it step by step: `x // c` with `x % c` determines x, and so does x + y with y.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopir.ir.grammar import (
    Add,
    FloorDiv,
    Index,
    Int,
    Layout,
    Mapped,
    Max,
    Min,
    Mod,
    Mul,
    Strided,
    Var,
    Xor,
    maximum,
    minimum,
)
from loopir.ir.traverse.walk import free_vars


def layout_from_map(dims: Sequence[str], to: Sequence[Index], shape: Sequence[Index]) -> Layout | None:
    """The layout that puts element `dims` of an array of `shape` at `to` of a row-major one; None for the default."""
    room = dict(zip(dims, shape, strict=True))
    if [*to] == [Var(d) for d in dims]:
        return None
    named = [x.name for x in to if isinstance(x, Var)]
    if len(named) == len(to) and sorted(named) == sorted(dims):
        steps: dict[str, Index] = {}
        step: Index = Int(1)
        for d in reversed(named):
            steps[d] = step
            step = step * room[d]
        return Strided(tuple(steps[d] for d in dims))
    at: Index = Int(0)
    for x in to:
        at = at * (index_bounds(x, room)[1] + 1) + x
    return Mapped(tuple(dims), at)


def index_bounds(ix: Index, room: Mapping[str, Index]) -> tuple[Index, Index]:
    """Bounds of `ix` where each dimension d is in 0 .. room[d]-1; sizes stay symbolic.

    They are tight where no dimension occurs twice.
    """
    match ix:
        case Var(name) if name in room:
            return Int(0), room[name] - 1
        case Add(a, b):
            (a0, a1), (b0, b1) = index_bounds(a, room), index_bounds(b, room)
            return a0 + b0, a1 + b1
        case Mul(a, Int(c)) | Mul(Int(c), a):
            low, high = index_bounds(a, room)
            return (low * c, high * c) if c >= 0 else (high * c, low * c)
        case Mul(a, b):  # of sizes, or of what is never negative
            (a0, a1), (b0, b1) = index_bounds(a, room), index_bounds(b, room)
            return a0 * b0, a1 * b1
        case FloorDiv(a, b):
            low, high = index_bounds(a, room)
            return (low if low == Int(0) else low // b), high // b
        case Mod(a, b):
            low, high = index_bounds(a, room)
            inside = isinstance(low, Int) and low.value >= 0 and _at_least(b, high + 1)
            return (low, high) if inside else (Int(0), b - 1)
        case Xor(a, b):  # of what is never negative
            high, other = index_bounds(a, room)[1], index_bounds(b, room)[1]
            if isinstance(high, Int) and isinstance(other, Int):
                return Int(0), Int((1 << max(high.value, other.value, 0).bit_length()) - 1)
            return Int(0), high + other
        case Min(a, b):
            (a0, a1), (b0, b1) = index_bounds(a, room), index_bounds(b, room)
            return minimum(a0, b0), minimum(a1, b1)
        case Max(a, b):
            (a0, a1), (b0, b1) = index_bounds(a, room), index_bounds(b, room)
            return maximum(a0, b0), maximum(a1, b1)
        case _:
            return ix, ix


def is_injective_map(layout: Mapped, shape: Sequence[Index]) -> bool:
    """Whether `layout` is proved injective on an array of `shape`, for all sizes."""
    room = dict(zip(layout.dims, shape, strict=True))
    digits = _digits(layout.at, room)
    if not all(_bounded(x, room) and _from_0(x, room) for x in digits):
        return False
    single = [Var(d) for d, size in room.items() if size == Int(1)]
    known = _undone([*single, *digits], room)
    return all(Var(d) in known for d in room)


def _bounded(ix: Index, room: Mapping[str, Index]) -> bool:
    """Whether `index_bounds` speaks the truth about all of `ix`: it multiplies and divides what has the right sign."""
    match ix:
        case Add(a, b) | Min(a, b) | Max(a, b):
            return _bounded(a, room) and _bounded(b, room)
        case Mul(a, Int()) | Mul(Int(), a):
            return _bounded(a, room)
        case FloorDiv(a, b) | Mod(a, b):
            return _bounded(a, room) and isinstance(b, Int | Var) and not free_vars(b) & set(room)
        case Mul(a, b) | Xor(a, b):
            return all(_bounded(x, room) and _from_0(x, room) for x in (a, b))
        case _:
            return isinstance(ix, Int | Var)


def _from_0(ix: Index, room: Mapping[str, Index]) -> bool:
    least = index_bounds(ix, room)[0]
    return (isinstance(least, Int) and least.value >= 0) or (isinstance(ix, Var) and ix.name not in room)


def _digits(at: Index, room: Mapping[str, Index]) -> list[Index]:
    """`q * c + r` with r in 0 .. c-1, taken apart into q and r, and q again: what the place tells."""
    out: list[Index] = []
    while isinstance(at, Add) and isinstance(at.a, Mul):
        q, c, r = at.a.a, at.a.b, at.b
        low, high = index_bounds(r, room)
        if free_vars(c) & set(room) or not _bounded(r, room) or low != Int(0) or not _at_least(c, high + 1):
            break
        out.append(r)
        at = q
    return [*out, at]


def _at_least(a: Index, b: Index) -> bool:
    if isinstance(a, Int) and isinstance(b, Int):
        return a.value >= b.value
    return a == b or (isinstance(a, Add) and a.a == b and isinstance(a.b, Int) and a.b.value >= 0)


def _undone(digits: Sequence[Index], room: Mapping[str, Index]) -> set[Index]:
    """All that is known of an element whose `digits` are known."""
    known: set[Index] = set()
    new = [*digits]
    while new:
        known.update(new)
        found = [y for x in known for y in _follows(x, known, room)]
        new = [y for y in found if y not in known]
    return known


def _follows(x: Index, known: set[Index], room: Mapping[str, Index]) -> list[Index]:
    """What `x` tells, beside what is `known`."""

    def given(ix: Index) -> bool:
        return all(Var(v) in known for v in free_vars(ix) & set(room))

    match x:
        case Mul(a, Int(c)) | Mul(Int(c), a) if c:
            return [a]
        case Add(a, b) | Xor(a, b):
            return [part for part, other in ((a, b), (b, a)) if given(other)]
        case FloorDiv(a, b) if given(b) and Mod(a, b) in known:
            return [a]
        case FloorDiv(Mod(a, Int(b)), Int(c)) if b % c == 0 and Mod(a, Int(c)) in known:
            return [Mod(a, Int(b))]
        case Mod(FloorDiv(a, Int(c)), Int(b)) if FloorDiv(a, Int(b * c)) in known:
            return [FloorDiv(a, Int(c))]
        case Mod(Add(a, b) as whole, c) if given(c) and not _at_least(c, index_bounds(whole, room)[1] + 1):
            return [Mod(part, c) for part, other in ((a, b), (b, a)) if given(other)]
        case Mod(a, b):
            low, high = index_bounds(a, room)
            return [a] if low == Int(0) and _at_least(b, high + 1) else []
        case _:
            return []
