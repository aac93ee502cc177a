"""Comparisons of indices that were written as comparisons of values, as conditions that analysis understands.

`int64(k) <= int64(i)`, which is what comparing two `arange` gives, is `k <= i`: bounds, dependences and masks can be
decided then. An expression of values is taken for one of indices only where its arithmetic neither wraps nor rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from loopir.ir.dtypes import DType, bool_
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Cast,
    Cmp,
    CmpOp,
    Cond,
    Const,
    Index,
    IndexToValue,
    Int,
    Not,
    Op,
    Or,
    Select,
    Value,
    ValueToCond,
    conj,
    maximum,
    minimum,
)

Fits = Callable[[Index, DType], bool]
"""Whether an index is always a number that a type has, and all between 0 and it are."""
ORDERS = ("<", "<=", "==", "!=")
ARITHMETIC: dict[str, Callable[[Index, Index], Index]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b,
}  # fmt: skip
EXTREMES: dict[str, Callable[[Index, Index], Index]] = {"minimum": minimum, "maximum": maximum}


def index_condition(v: Value, fits: Fits) -> Cond | None:
    """The condition on indices that the bool `v` is, as far as it is one; None if no part of it compares indices."""
    match v:
        case IndexToValue(Cond() as c):
            return c
        case Select() if (two := _two_valued(v)) is not None:
            return _chosen(*two)
        case Op(fn, (a, b)) if fn.infix in ORDERS:
            return _comparison(cast(CmpOp, fn.infix), v, fits)
        case Op(fn, (a, b)) if fn.infix in ("&", "|") and v.dtype == bool_:
            one, other = index_condition(a, fits), index_condition(b, fits)
            if one is None and other is None:
                return None
            terms = (one or _opaque(a), other or _opaque(b))
            return conj(*terms) if fn.infix == "&" else Or(terms)
        case Op(fn, (a,)) if fn.infix == "~" and v.dtype == bool_:
            c = index_condition(a, fits)
            return None if c is None else Not(c)
        case _:
            return None


def _comparison(order: CmpOp, v: Op, fits: Fits) -> Cond | None:
    a, b = v.args
    for one, other in ((a, b), (b, a)):
        two = _two_valued(one) if isinstance(other, Const) else None
        if two is not None:
            c, *ends = two
            n = _numpy_scalar(cast(Const, other))
            return _chosen(c, *(v.fn.meaning(*((x, n) if one is a else (n, x))) for x in ends))
    x = index_of(a, fits)
    y = None if x is None else index_of(b, fits)
    return None if x is None or y is None else Cmp(order, x, y)


def _two_valued(v: Value) -> tuple[Cond, Any, Any] | None:
    """The condition on which `v` is one constant, else another, and these."""
    match v:
        case Select(c, Const() as a, Const() as b):
            return c, _numpy_scalar(a), _numpy_scalar(b)
        case IndexToValue(Cond() as c, t):
            return c, t.numpy.type(1), t.numpy.type(0)
        case Cast(x, t) if (two := _two_valued(x)) is not None and (t.is_float or x.dtype == bool_):
            c, a, b = two
            with np.errstate(all="ignore"):
                return c, t.numpy.type(a), t.numpy.type(b)
        case _:
            return None


def _numpy_scalar(c: Const) -> Any:
    return c.dtype.numpy.type(c.value)


def _chosen(c: Cond, yes: Any, no: Any) -> Cond:
    """What is `yes` where `c` holds, and else `no`."""
    return (TRUE if yes else FALSE) if bool(yes) == bool(no) else c if yes else Not(c)


def _opaque(v: Value) -> Cond:
    if isinstance(v, Const):
        return TRUE if v.value else FALSE
    return ValueToCond(v)


def index_of(v: Value, fits: Fits) -> Index | None:
    """The index that the number `v` is; None if it is none, or might wrap or be rounded on the way."""
    found = _unchecked(v, fits)
    return found if found is not None and fits(found, v.dtype) else None


def _unchecked(v: Value, fits: Fits) -> Index | None:
    match v:
        case Const(n, t) if t != bool_ and n == n // 1 and str(n) != "-0.0":
            return Int(int(n))
        case IndexToValue(Index() as ix, _):
            return ix
        case Cast(x) if v.dtype != bool_ and x.dtype != bool_:
            return index_of(x, fits)
        case Op(fn, (a, b)) if fn.infix in ARITHMETIC or fn.name in EXTREMES:
            x = index_of(a, fits)
            y = None if x is None else index_of(b, fits)
            if x is None or y is None or not _is_affine(fn.infix, x, y, v.dtype):
                return None
            return EXTREMES[fn.name](x, y) if fn.infix is None else ARITHMETIC[fn.infix](x, y)
        case _:
            return None


def _is_affine(infix: str | None, x: Index, y: Index, t: DType) -> bool:
    """Whether the operation of `x` and `y`, of type `t`, is one that analysis decides."""
    if infix == "*":
        return isinstance(x, Int) or isinstance(y, Int)
    return infix not in ("//", "%") or (isinstance(y, Int) and y.value > 0 and t.is_integer)
