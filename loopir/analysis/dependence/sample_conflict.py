"""Find two dependent instances by trying a few, before the solver is asked.

The second instance is tried at the last iteration of its loops, which all others precede; the first is solved for, so
that it touches the same element. What is found is checked by evaluation; finding nothing proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopir.analysis.dependence.access import Access, Statement
from loopir.analysis.dependence.distance_vectors import Order
from loopir.analysis.presburger.constraints import SIZE
from loopir.analysis.presburger.infeasible import Linear
from loopir.arith.poly import expand_index
from loopir.errors import VerifyError
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Func, Index, Var
from loopir.ir.verify.verify import evaluate

SAMPLE_SIZE = 64
"""What each size is."""


def has_sample(func: Func, s: Statement, a: Access, t: Statement, b: Access, orders: Sequence[Order]) -> bool:
    """Whether instances of `s` and `t` are seen that do `a` and `b` to one element, in one of `orders`."""
    if s.maybe or t.maybe or a.maybe or b.maybe or None in (*a.at, *b.at):
        return False
    sizes = dict.fromkeys(func.sizes, SAMPLE_SIZE)
    try:
        if not all(cond_holds(c, sizes) for c in func.assumes):
            return False
        return any(_at(sizes, s, a, t, b, orders, wide) for wide in ((False, True) if _widened(t) else (False,)))
    except (VerifyError, ZeroDivisionError, KeyError):  # a value or a dimension that is not known here
        return False


def _at(
    sizes: Mapping[str, int], s: Statement, a: Access, t: Statement, b: Access, orders: Sequence[Order], wide: bool
) -> bool:
    second = dict(sizes)
    for v, n in zip(t.dims, t.extents, strict=True):
        assert n is not None
        second[v] = evaluate(n, second) - 1 if wide or "+" not in v else 0
        if second[v] < 0:
            return False
    first = _solved(sizes, s, a, second, [evaluate(x, second) for x in b.at if x is not None], b)
    for env, x, access in ((first, s, a), (second, t, b)):
        if not all(0 <= env[v] < evaluate(n, env) for v, n in zip(x.dims, x.extents, strict=True) if n is not None):
            return False
        if not all(cond_holds(c, env) for c in (*x.conds, *access.conds)):
            return False
    same = all(evaluate(x, first) == evaluate(y, second) for x, y in zip(a.at, b.at, strict=True) if x and y)
    if not same or any(first[v] != second[v] for v in a.private if v in first and v in second):
        return False
    point = {f"{SIZE}{n}": value for n, value in sizes.items()}
    point |= {f"s.{v}": first[v] for v in s.dims} | {f"t.{v}": second[v] for v in t.dims}
    return any(all(_met(linear, equal, point) for linear, equal in order) for order in orders)


def _widened(t: Statement) -> bool:
    return any("+" in v for v in t.dims)


def _met(linear: Linear, equal: bool, point: Mapping[str, int]) -> bool:
    value = sum([c * point[k] if k else c for k, c in linear.items()])
    return value == 0 if equal else value >= 0


def _solved(
    sizes: Mapping[str, int], s: Statement, a: Access, second: Mapping[str, int], element: Sequence[int], b: Access
) -> dict[str, int]:
    """The iteration of `s` that touches `element`, as far as its subscripts tell; other loops are where `second` is."""
    first = {**dict.fromkeys(s.dims, 0), **{v: second[v] for v in s.dims if v in second}, **sizes}
    for v in b.private:
        if v in first:
            first[v] = second[v]
    left = {v for v in s.dims if v not in b.private}
    for ix, value in zip(a.at, element, strict=True):
        found = None if ix is None else _alone(ix, left)
        if found is not None and ix is not None:
            v, c = found
            left.discard(v)
            first[v] = 0
            first[v] = (value - evaluate(ix, first)) // c
    return first


def _alone(ix: Index, left: set[str]) -> tuple[str, int] | None:
    """The variable of `left` that a sum speaks of first, with its coefficient."""
    return next(
        (
            (m[0].name, c)
            for m, c in expand_index(ix).items()
            if len(m) == 1 and isinstance(m[0], Var) and m[0].name in left
        ),
        None,
    )
