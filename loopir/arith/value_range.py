"""Range of an integer value, from the types of what it loads and the operations it is made of."""

from __future__ import annotations

from loopir.ir.dtypes import DType
from loopir.ir.grammar import Cast, Const, Op, Select, Value

Range = tuple[int, int]
"""The least and the greatest value there may be, both included."""


def value_range(v: Value) -> Range:
    """What the integer `v` lies between. Arithmetic that might wrap has the range of its type."""
    of_type = (int(v.dtype.least), int(v.dtype.greatest))
    match v:
        case Const(x):
            found = (int(x), int(x))
        case Cast(x) if x.dtype.is_integer or x.dtype.kind == "bool":
            found = value_range(x)
        case Select(_, a, b):
            found = _hull(value_range(a), value_range(b))
        case Op(fn, args) if fn.name in _OPERATIONS and all(a.dtype.is_integer for a in args):
            found = _OPERATIONS[fn.name](*map(value_range, args))
        case _:
            found = of_type
    return found if of_type[0] <= found[0] and found[1] <= of_type[1] else of_type


def fits(r: Range, t: DType) -> bool:
    """Whether all of `r` are values of the integer type `t`."""
    return t.holds(r[0]) and t.holds(r[1])


def _hull(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _add_ranges(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _sub(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def _mul(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _neg(a: Range) -> Range:
    return -a[1], -a[0]


def _abs(a: Range) -> Range:
    return max(0, a[0], -a[1]), max(-a[0], a[1])


def _minimum(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), min(a[1], b[1])


def _maximum(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), max(a[1], b[1])


_OPERATIONS = {
    "add": _add_ranges, "sub": _sub, "mul": _mul, "neg": _neg, "abs": _abs,
    "minimum": _minimum, "maximum": _maximum,
}  # fmt: skip
