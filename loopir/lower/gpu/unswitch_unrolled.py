"""Loop unswitching of unrolled loops: test once whether to copy or to fill with zeros, not in each iteration.

At the border of an image threads of a warp part ways: some copy elements asynchronously, and others store zeros, for
which no instruction is predicated. Each such test is a branch, and a point where the warp meets again; a tile is copied
by many iterations of which all ask the same.
"""

from __future__ import annotations

from dataclasses import replace

from loopir.ir.grammar import Body, Func, If, Loop, Stmt, Var
from loopir.ir.traverse.clone import UsedNames
from loopir.ir.traverse.walk import free_vars, map_body, map_stmts, substitute
from loopir.lower.common.unswitch import is_uniform
from loopir.lower.target import Target


def unswitch_unrolled(func: Func, target: Target) -> Func:
    """`func` with the test of an unrolled loop that has two sides around the loop, where all iterations ask the same.

    The loop of each side has half of what was in it, so that the code is no longer than before.
    """
    taken = UsedNames.of(func)

    def visit(s: Stmt) -> Stmt:
        s = map_stmts(s, visit)
        if not isinstance(s, Loop) or s.kind != "unroll" or len(s.body) != 1:
            return s
        (test,) = s.body
        if not isinstance(test, If) or not test.orelse or s.var in free_vars(test.cond) or not is_uniform(test.cond):
            return s
        other = taken.name(s.var)
        sides: tuple[Body, Body] = (replace(s, body=test.then),), (_renamed(replace(s, body=test.orelse), other),)
        return If(test.cond, *sides)

    return replace(func, body=map_body(func.body, visit))


def _renamed(loop: Loop, var: str) -> Loop:
    return replace(loop, var=var, body=tuple(substitute(x, {loop.var: Var(var)}) for x in loop.body))
