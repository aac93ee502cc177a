"""Ask whether a value may be computed where no guard is around it."""

from __future__ import annotations

from collections.abc import Sequence

from loopir.arith.simplify import simplify_cond
from loopir.ir.grammar import TRUE, Cmp, Index, Int, Op, Value
from loopir.ir.traverse.walk import guarded_loads, nodes
from loopir.tensor.index import Symbols, context


def in_bounds(value: Value, loops: Sequence[tuple[str, Index]], symbols: Symbols) -> bool:
    """Whether all that `value` does is defined in all iterations of `loops`, whatever is around it."""
    known = context(symbols)
    for v, extent in loops:
        known = known.loop(v, extent)
    for load, conds in guarded_loads(value):
        here = known.given(*conds)
        for ix, size in zip(load.at, load.buffer.shape, strict=True):
            if not all(simplify_cond(c, here) == TRUE for c in (Cmp("<=", Int(0), ix), Cmp("<", ix, size))):
                return False
    return not any(isinstance(n, Op) and n.fn.name in ("floordiv", "mod") and n.dtype.is_integer for n in nodes(value))
