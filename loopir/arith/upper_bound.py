"""Upper bound of an index, as an index over sizes alone."""

from __future__ import annotations

from collections.abc import Mapping

from loopir.ir.grammar import Add, FloorDiv, Index, Int, Loop, Max, Min, Mod, Mul, ValueToIndex, Var, maximum, minimum
from loopir.ir.traverse.walk import nodes


def upper_bound(ix: Index, loops: Mapping[str, Index]) -> Index | None:
    """A value that `ix` never exceeds while each loop in `loops` stays below its extent; None if none is found.

    Variables that are in no loop are sizes, and at least 0. `loops` lists outer loops first.
    """
    return _end(ix, loops, high=True)


def max_trip_count(loop: Loop, loops: Mapping[str, Index]) -> Index | None:
    """How often `loop` runs at most, as `upper_bound` has it; a loop of -1 iterations has none."""
    size = upper_bound(loop.extent, loops)
    return Int(0) if isinstance(size, Int) and size.value < 0 else size


def _end(ix: Index, loops: Mapping[str, Index], *, high: bool) -> Index | None:
    match ix:
        case Int():
            return ix
        case Var(name):
            if name not in loops:
                return ix
            top = _end(loops[name], loops, high=True) if high else None
            return Int(0) if not high else None if top is None else top - 1
        case Add(a, b):
            x, y = _end(a, loops, high=high), _end(b, loops, high=high)
            return None if x is None or y is None else x + y
        case Mul(a, Int(c)) | Mul(Int(c), a):
            x = _end(a, loops, high=high == (c >= 0))
            return None if x is None else x * c
        case FloorDiv(a, Int(c)):
            x = _end(a, loops, high=high)
            return None if x is None else x // c
        case Mod(_, Int(c)):
            return Int(c - 1 if high else 0)
        case Min(a, b) if high:
            return _either(_end(a, loops, high=True), _end(b, loops, high=True), smaller=True)
        case Max(a, b) if not high:
            return _either(_end(a, loops, high=False), _end(b, loops, high=False), smaller=False)
        case Min(a, b) | Max(a, b):
            x, y = _end(a, loops, high=high), _end(b, loops, high=high)
            return None if x is None or y is None else maximum(x, y) if high else minimum(x, y)
        case _:
            hidden = any(isinstance(n, ValueToIndex) or (isinstance(n, Var) and n.name in loops) for n in nodes(ix))
            return None if hidden else ix


def _either(x: Index | None, y: Index | None, *, smaller: bool) -> Index | None:
    if x is None or y is None:
        return x if y is None else y
    return minimum(x, y) if smaller else maximum(x, y)
