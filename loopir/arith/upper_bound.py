"""Upper bound of an index, as an index over sizes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
        case Var(name) if name in loops:
            return _map_end(_end(loops[name], loops, high=True), lambda x: x - 1) if high else Int(0)
        case Add(a, b):
            x, y = _end(a, loops, high=high), _end(b, loops, high=high)
            return None if x is None or y is None else x + y
        case Mul(a, Int(c)) | Mul(Int(c), a):
            return _map_end(_end(a, loops, high=high == (c >= 0)), lambda x: x * c)
        case FloorDiv(a, Int(c)):
            return _map_end(_end(a, loops, high=high), lambda x: x // c)
        case Mod(_, Int(c)):
            return Int(c - 1 if high else 0)
        case Min(a, b) | Max(a, b):
            return _extremum_end(_end(a, loops, high=high), _end(b, loops, high=high), isinstance(ix, Min), high=high)
        case _:
            hidden = any(isinstance(n, ValueToIndex) or (isinstance(n, Var) and n.name in loops) for n in nodes(ix))
            return None if hidden else ix


def _map_end(end: Index | None, by: Callable[[Index], Index]) -> Index | None:
    return None if end is None else by(end)


def _extremum_end(x: Index | None, y: Index | None, smaller: bool, *, high: bool) -> Index | None:
    """An end of the smaller or the larger of two, by theirs: a minimum is below either, a maximum above either."""
    if x is None or y is None:
        return (y if x is None else x) if smaller == high else None
    return minimum(x, y) if smaller else maximum(x, y)
