"""In how many bits a kernel's indices are counted: 32 wherever they fit, which the host asks at each launch.

What an index expression, and any part of it, comes to is at most a bound that is made of the sizes: with every term
taken without its sign. Where all bounds are constants below 2^31, indices are ints. Where they depend on sizes, there
are two kernels of one text, and the host takes the one whose indices hold all that there are. Indices that come from
memory have no bound.
"""

from __future__ import annotations

from loopir.errors import LowerError
from loopir.ir.grammar import Add, FloorDiv, Index, Int, Kernel, Loop, Max, Min, Mod, Mul, Opaque, Var, Xor
from loopir.ir.index import maximum, without
from loopir.ir.walk import nodes, statements

MOST = 1 << 31
"""The first integer that an int does not hold."""


class Unbounded(Exception):
    """The index is from memory."""


class _Bounds:
    """Bounds of the indices of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.extents = {s.var: s.extent for s in statements(kernel.body) if isinstance(s, Loop)}
        self.known: dict[Index, Index] = {}
        self.parts: set[Index] = set()
        """What is a part of something else, whose bound is no less."""

    def of(self, ix: Index) -> Index:
        """What neither `ix` nor a part of it is beyond, up or down; at least 1."""
        if ix not in self.known:
            self.known[ix] = self._found(ix)
        return self.known[ix]

    def _found(self, ix: Index) -> Index:
        match ix:
            case Int(value):
                return Int(max(1, abs(value)))
            case Var(name):
                extent = self.extents.get(name)
                return maximum(1, ix) if extent is None else self.of(extent)
            case Add(a, b):
                self.parts |= {a, b}
                return self.of(a) + self.of(b)
            case Mul(a, b):
                self.parts |= {a, b}
                return self.of(a) * self.of(b)
            case Min(a, b) | Max(a, b):
                self.parts |= {a, b}
                return maximum(self.of(a), self.of(b))
            case FloorDiv(Var(name), b) if (others := without(self.extents.get(name, ix), b)) is not None:
                return self.of(others)  # which of the loops that were fused into one this is
            case FloorDiv(a, Int(value)):
                return self.of(a) // value + 1
            case FloorDiv(a, _):
                return self.of(a)
            case Mod(_, b):
                self.parts.add(b)
                return self.of(b)
            case Xor(a, b):  # of a number of bits, the sign among them, that holds either
                self.parts |= {a, b}
                return (self.of(a) + self.of(b)) * 2
            case Opaque():
                raise Unbounded
            case _:
                raise LowerError(f"{type(ix).__name__} is no index that a kernel counts")


def bounds(kernel: Kernel, most: int = MOST) -> tuple[Index, ...] | None:
    """What all indices of `kernel` are within, up and down, as far as that may be `most` or more; None if unknown.

    No bound: an int holds every index. A constant, which is then 2^31 or more: none ever does.
    """
    known = _Bounds(kernel)
    indices = dict.fromkeys(n for n in nodes(kernel) if isinstance(n, Index))
    try:
        found = {ix: known.of(ix) for ix in indices}
    except Unbounded:
        return None
    whole = dict.fromkeys(b for ix, b in found.items() if ix not in known.parts)
    return tuple(b for b in whole if not (isinstance(b, Int) and b.value < most))
