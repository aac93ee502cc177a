"""Bound guards in unrolled loops: record the first iterations for which each is known to hold.

At a launch the host chooses a kernel by the length of rows, so that only the last iteration of a thread may exceed the
row. NVRTC does not know this and would test every iteration; loads that wait for tests are not in flight together.
"""

from __future__ import annotations

from dataclasses import replace

from loopir.arith.simplify import Context, simplify_cond
from loopir.ir.grammar import TRUE, Body, Cmp, Cond, FloorDiv, Func, If, Int, Loop, Mod, Not, Or, Stmt, Var
from loopir.ir.traverse.walk import free_vars, map_body, map_stmts, nodes, substitute
from loopir.lower.target import Target

Unrolled = tuple[tuple[str, int], ...]
"""Loops that are unrolled, and how often they run, outer ones first."""


def bound_unrolled_guards(func: Func, target: Target) -> Func:
    """`func` with such guards bounded, each in the innermost unrolled loop that it depends on."""

    def visit(s: Stmt, ctx: Context, around: Unrolled) -> Stmt | Body:
        match s:
            case Loop(var, extent, kind):
                inner = ctx.loop(var, extent)
                if kind == "unroll" and isinstance(extent, Int):
                    around = (*around, (var, extent.value))
                return map_stmts(s, lambda x: visit(x, inner, around))
            case If(cond, then, orelse):
                yes, no = ctx.inside(cond), ctx.inside(Not(cond))
                made = _bound_guard(cond, ctx, around) if not orelse else cond
                return replace(
                    s,
                    cond=made,
                    then=map_body(then, lambda x: visit(x, yes, around)),
                    orelse=map_body(orelse, lambda x: visit(x, no, around)),
                )
            case _:
                return map_stmts(s, lambda x: visit(x, ctx, around))

    return replace(func, body=map_body(func.body, lambda s: visit(s, Context.of(func), ())))


def _bound_guard(cond: Cond, ctx: Context, around: Unrolled) -> Cond:
    mine = free_vars(cond)
    for var, extent in reversed(around):
        if var not in mine:
            continue
        if any(isinstance(n, FloorDiv | Mod) and var in free_vars(n.b) for n in nodes(cond)):
            return cond  # it may be 0 in an iteration that does not come to this guard
        known = 0
        while known < extent and simplify_cond(substitute(cond, {var: Int(known)}), ctx) == TRUE:
            known += 1
        return Or((Cmp("<", Var(var), Int(known)), cond)) if 0 < known < extent else cond
    return cond
