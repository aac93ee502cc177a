"""A loop in parts: the same body over one range of its iterations after the other.

The parts run in the order of their ranges, so nothing changes its order; a reduction over the loop starts in the first
part and goes on in the others. One part keeps the names of what is inside, the others are copies.
"""

from __future__ import annotations

from dataclasses import replace

from loopir.ir.grammar import Body, Index, Loop, Reduce, Stmt, Var
from loopir.ir.walk import rewrite, substitute
from loopir.schedule.naming import Taken, replaced


def part(loop: Loop, start: Index, extent: Index, var: str, *, goes_on: bool, copy: Taken | None = None) -> Loop:
    """The `extent` iterations of `loop` from `start` on, as a loop over `var`.

    `goes_on`: an earlier part has started the reductions over the loop. With `copy`, what is inside gets new names.
    """

    def folded(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or loop.var not in s.over:
            return None
        over = replaced(s.over, {loop.var: (var,)})
        return replace(s, over=over, init=None if goes_on else s.init)

    body: Body = tuple(substitute(s, {loop.var: start + Var(var)}) for s in rewrite(loop.body, folded))
    return Loop(var, extent, loop.kind, body if copy is None else copy.copy(body))
