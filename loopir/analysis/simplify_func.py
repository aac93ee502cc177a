"""Simplification of a whole nest: each index and guard in the context of the loops and guards around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopir.analysis.simplify import Context, simplify, simplify_cond, simplify_node
from loopir.ir.grammar import FALSE, TRUE, Body, Func, If, Int, Loop, Not, Reduce, Stmt, Store
from loopir.ir.walk import map_body, map_stmts, statements, substitute


def simplify_func(func: Func, *, drop_unit_loops: bool = False) -> Func:
    """`func` with every index and guard simplified where it stands; decided guards and empty loops go.

    With `drop_unit_loops`, a serial loop of one iteration becomes its body.
    """
    return replace(func, body=simplify_body(func.body, Context.of(func), drop_unit_loops=drop_unit_loops))


def simplify_body(body: Body, ctx: Context, *, drop_unit_loops: bool = False) -> Body:
    def visit(s: Stmt, ctx: Context) -> Stmt | Body:
        match s:
            case Loop(var, extent, kind, inner):
                size = simplify(extent, ctx)
                if size == Int(1) and kind == "serial" and drop_unit_loops and not _reduced(inner, var):
                    return map_body(substitute_body(inner, var), lambda x: visit(x, ctx))
                within = ctx.loop(var, size)
                done = map_body(inner, lambda x: visit(x, within))
                return s if done is inner and size is extent else Loop(var, size, kind, done)
            case If(cond, then, orelse):
                c = simplify_cond(cond, ctx)
                if c in (TRUE, FALSE):
                    return map_body(then if c == TRUE else orelse, lambda x: visit(x, ctx))
                yes, no = ctx.given(c), ctx.given(Not(c))
                return If(c, map_body(then, lambda x: visit(x, yes)), map_body(orelse, lambda x: visit(x, no)))
            case Store() | Reduce():
                return simplify_node(s, ctx)
            case _:
                return map_stmts(s, lambda x: visit(x, ctx))

    return map_body(body, lambda s: visit(s, ctx))


def _reduced(body: Body, var: str) -> bool:
    return any(isinstance(s, Reduce) and var in s.over for s in statements(body))


def substitute_body(body: Body, var: str) -> Body:
    """`body` at iteration 0 of `var`."""
    return tuple(substitute(s, {var: Int(0)}) for s in body)


def context_at(func: Func, around: Iterable[Stmt]) -> Context:
    """What is known inside the loops among `around`, outermost first."""
    ctx = Context.of(func)
    for s in around:
        if isinstance(s, Loop):
            ctx = ctx.loop(s.var, s.extent)
    return ctx
