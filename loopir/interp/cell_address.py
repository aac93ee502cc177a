"""Spell in Python where an element lies in row-major memory, and the test of its subscripts that intervals leave open.

An access of checked memory is a call, which costs several times what the access does. Where nothing but bounds is to be
checked, the cell is found in place; what fails the test goes to the call, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from loopir.errors import literal
from loopir.ir.grammar import Add, Body, Buffer, FloorDiv, Fragment, Index, Int, Loop, Max, Min, Mod, Mul, Stmt, Var
from loopir.ir.traverse.walk import statements

Interval = tuple[int | None, int | None]
"""The least and the largest value; None where that is not known."""
ANY: Interval = (None, None)


def largest_values(body: Body | Iterable[Stmt]) -> dict[str, int | None]:
    """By loop variable in `body`, its last value; None where the extent is no constant."""
    out: dict[str, int | None] = {}
    for s in statements(tuple(body)):
        if isinstance(s, Loop):
            last = s.extent.value - 1 if isinstance(s.extent, Int) else None
            before = out.get(s.var, last)
            out[s.var] = None if last is None or before is None else max(last, before)
    return out


def interval(ix: Index, largest: Mapping[str, int | None]) -> Interval:
    """The values of `ix`, where loops run from 0 up to their `largest` values and sizes are any numbers."""
    match ix:
        case Int(value):
            return value, value
        case Var(name):
            return (0, largest[name]) if name in largest else ANY
        case Add(a, b):
            return _of_sum(interval(a, largest), interval(b, largest))
        case Mul(a, Int(factor)) | Mul(Int(factor), a):
            low, high = interval(a, largest)
            ends = None if low is None else low * factor, None if high is None else high * factor
            return ends if factor >= 0 else (ends[1], ends[0])
        case FloorDiv(a, Int(by)) if by > 0:
            low, high = interval(a, largest)
            return None if low is None else low // by, None if high is None else high // by
        case Mod(a, Int(by)) if by > 0:
            low, high = interval(a, largest)
            return 0, by - 1 if low is None or low < 0 or high is None else min(high, by - 1)
        case Min(a, b) | Max(a, b):
            return _of_extreme(isinstance(ix, Min), interval(a, largest), interval(b, largest))
        case _:
            return ANY


def _of_sum(one: Interval, other: Interval) -> Interval:
    low, high = ((None if x is None or y is None else x + y) for x, y in zip(one, other, strict=True))
    return low, high


def _of_extreme(least: bool, one: Interval, other: Interval) -> Interval:
    """The interval of the lesser, or of the larger, of two values: one of them may bound it alone."""
    lows, highs = ([x for x in ends if x is not None] for ends in zip(one, other, strict=True))
    if least:
        return min(lows) if len(lows) == 2 else None, min(highs, default=None)
    return max(lows, default=None), max(highs) if len(highs) == 2 else None


@dataclass(frozen=True, slots=True)
class CellAddress:
    """Where an element lies: `cell` among the cells if `test` holds, which is empty where it always does.

    Subscripts are computed in `test`, or else in `cell`, and have names in `at`, which is the element.
    """

    cell: str
    at: str
    test: str = ""


def cell_address(
    b: Buffer,
    at: tuple[Index, ...],
    largest: Mapping[str, int | None],
    spell: Callable[[Index], str],
    fresh: Callable[[], str],
) -> CellAddress | None:
    """The cell of element `at` of `b`, of `c_<name>`, with indices spelled by `spell` and kept in `fresh` names.

    A dimension that is no constant has its number in `d_<name>`. None where the memory is not row-major.
    """
    bounds = _bounds(b, len(at))
    if bounds is None:
        return None
    first, again, mixed, below = list[str](), list[str](), list[str](), list[str]()
    proved = True
    for x, bound in zip(at, bounds, strict=True):
        spelled = spell(x)
        named = isinstance(x, Int | Var)
        name = spelled if named else fresh()
        once = spelled if named else f"({name} := {spelled})"
        low, high = interval(x, largest)
        fits = isinstance(bound, int) and high is not None and high < bound
        positive = low is not None and low >= 0
        proved &= fits and positive
        if not named or not positive:
            mixed.append(once)
        if not fits:
            below.append(f"{name} < {literal(bound) if isinstance(bound, int) else bound}")
        first.append(once)
        again.append(name)
    element = f"({''.join(x + ', ' for x in again)})"
    if proved:
        return CellAddress(_row_major(first, bounds), element)
    if mixed:  # negative if one of them is, and all of them are computed
        below.insert(0, f"{' | '.join(mixed)} >= 0")
    return CellAddress(_row_major(again, bounds), element, " and ".join(below))


def _bounds(b: Buffer, subscripts: int) -> list[int | str] | None:
    """What each subscript is below; None where it takes more to find the cell. One of several is an offset."""
    placed = b.layout is not None and not isinstance(b.layout, Fragment)
    sizes = [d.value if isinstance(d, Int) else None for d in b.shape]
    if subscripts == 1 and not (placed and len(b.shape) == 1):
        known = [x for x in sizes if x is not None]
        constant = len(known) == len(sizes) and not placed
        return [prod(max(0, x) for x in known) if constant else f"len(c_{b.name})"]
    if placed or subscripts != len(b.shape):
        return None
    return [f"d_{b.name}[{n}]" if x is None else max(0, x) for n, x in enumerate(sizes)]


def _row_major(subscripts: list[str], bounds: list[int | str]) -> str:
    out = ""
    for x, bound in zip(subscripts, bounds, strict=True):
        size = literal(bound) if isinstance(bound, int) else bound
        out = f"({out}) * {size} + {x}" if out else x
    return out or "0"
