"""Fold numbers with their indices by fewer comparisons where the indices ascend."""

from __future__ import annotations

from itertools import dropwhile

from loopir.arith.simplify import EMPTY, poly
from loopir.ir.grammar import Alloc, Cast, Func, If, Index, IndexToValue, Int, Loop, Reduce, Stmt, Store, Value, Var
from loopir.ir.ops import ASCENDING, MONOIDS
from loopir.ir.traverse.walk import StmtPath, leaf_paths_of, replace, rewrite, statements
from loopir.lower.target import Target

ORDERED = ("serial", "unroll", "vectorize")
"""Kinds of loops on a CPU whose iterations follow one another, or are lanes, which fold into elements of their own."""


def order_folds(func: Func, target: Target) -> Func:
    """`func` with each fold whose last component ascends by the combination that is made for that.

    What an element holds is then the identity, which it is started from, or of an earlier iteration. The fold has to be
    all that stores to its buffers.
    """
    if not all(isinstance(s, Loop | If | Alloc | Store | Reduce) for s in statements(func.body)):
        return func
    places = leaf_paths_of(func)
    stores = [b.name for p in places for b in (p.stmt.buffers if isinstance(p.stmt, Reduce) else (p.stmt.buffer,))]
    found = [
        p.stmt for p in places if isinstance(p.stmt, Reduce)
        and all(stores.count(b.name) == 1 for b in p.stmt.buffers) and _ascends(p, p.stmt)
    ]  # fmt: skip

    def visit(s: Stmt) -> tuple[Stmt, ...] | None:
        if not any(s is x for x in found):
            return None
        assert isinstance(s, Reduce)
        return (replace(s, monoid=ASCENDING[s.monoid.name](tuple(v.dtype for v in s.monoid.left))),)

    return replace(func, body=rewrite(func.body, visit)) if found else func


def _ascends(place: StmtPath, s: Reduce) -> bool:
    """Whether the last number that `s` folds is an index that is greater in each iteration than in all before it, and
    less than that of the identity, from which the fold starts."""
    name, types = s.monoid.name, tuple(v.dtype for v in s.monoid.left)
    if name not in ASCENDING or s.monoid != MONOIDS[name](types) or s.init != s.monoid.identity:
        return False
    index, greatest = _counted_index(s.values[-1])
    inside = list(dropwhile(lambda x: x.var not in s.over, place.loops))
    if index is None or not inside or any(x.kind not in ORDERED or not isinstance(x.extent, Int) for x in inside):
        return False
    terms, most = dict(poly(index, EMPTY)), 0
    for loop in reversed(inside):
        step = terms.pop((Var(loop.var),), 0)
        if step <= most:
            return False
        assert isinstance(loop.extent, Int)
        most += step * max(0, loop.extent.value - 1)
    first = terms.pop((), 0)
    return not terms and first >= 0 and first + most < greatest


def _counted_index(v: Value) -> tuple[Index | None, int]:
    """The index that `v` is as an integer, and the greatest that all types on the way hold; None if it is none."""
    greatest = v.dtype.greatest if v.dtype.is_integer else 0
    while isinstance(v, Cast):
        v = v.value
        greatest = min(greatest, v.dtype.greatest) if v.dtype.is_integer else 0
    return (v.of if isinstance(v, IndexToValue) and isinstance(v.of, Index) else None), int(greatest)
