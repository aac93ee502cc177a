"""Ask whether a value may be computed where no guard is around it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from loopir.arith.simplify import simplify, simplify_cond
from loopir.errors import ExprError
from loopir.ir.grammar import TRUE, Cmp, Index, Int, Op, Value, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, guarded_loads, nodes, substitute
from loopir.tensor.index import Symbols, context, given_name

CORNERS = 4
"""Loops whose first and last iterations are tried together."""


def require_inside(value: Value, loops: Sequence[tuple[str, Index]], symbols: Symbols, what: str) -> None:
    """ExprError where `value` reads outside of an array whatever the sizes are: in the first iteration of the loops, or
    the last, or where some begin and others end. What a guard may leave out is not looked at."""
    known, extents = context(symbols), dict(loops)
    if any(
        free_vars(e) & extents.keys() or simplify_cond(Cmp("<=", Int(1), e), known) != TRUE for e in extents.values()
    ):
        return
    for load, conds in guarded_loads(value):
        for d, (ix, size) in enumerate(zip(load.at, load.buffer.shape, strict=True)):
            if conds or (isinstance(ix, Var) and extents.get(ix.name) == size):
                continue
            inside = [(v, e) for v, e in loops if v in free_vars(ix)]
            for ends in product((False, True), repeat=len(inside)) if len(inside) <= CORNERS else ():
                at = {v: e - 1 if end else Int(0) for (v, e), end in zip(inside, ends, strict=True)}
                there = simplify(substitute(ix, at), known)
                if TRUE in (
                    simplify_cond(Cmp("<", there, Int(0)), known),
                    simplify_cond(Cmp("<=", size, there), known),
                ):
                    iteration = ", ".join(f"{v}={text(simplify(x, known))}" for v, x in at.items())
                    raise ExprError(given_name(
                        f"{what} reads {text(load)} outside: at {iteration or 'every iteration'}, index {d} is "
                        f"{text(there)}, and {load.buffer.name} has {text(size)} there; lp.where(cond, ...) guards a "
                        "read, lp.pad makes a border"
                    ))  # fmt: skip


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
