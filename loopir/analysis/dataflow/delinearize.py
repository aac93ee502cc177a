"""Delinearization: split a loop f that is used only as `f // d` and `f % d` into two loops.

Integer sets cannot express an extent that is a product of sizes. The order of iterations is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from loopir.arith.poly import exact_quotient, to_index
from loopir.arith.simplify import Context, nonnegative, poly
from loopir.ir.grammar import Body, FloorDiv, Func, Index, Int, Loop, Mod, Node, Stmt, Var
from loopir.ir.traverse.rebuild import rebuild
from loopir.ir.traverse.walk import free_vars, fresh_name, nodes, replace_over, rewrite, taken_names


def delinearize(func: Func) -> Func:
    """`func` with each loop of which only the quotient and the rest by a symbolic divisor count as two loops."""
    taken, known = taken_names(func), Context.of(func)

    def visit(s: Stmt) -> Stmt | Body | None:
        if not isinstance(s, Loop) or isinstance(s.extent, Int):
            return None
        for d in dict.fromkeys(_divisors(s)):
            p, by = poly(s.extent, known), poly(d, known)
            count = exact_quotient(p, by)
            if count is not None and nonnegative(by, known) and nonnegative(count, known):
                made = _two(s, to_index(count), d, taken)
                if made is not None:
                    return rewrite((made,), visit)
        return None

    return replace(func, body=rewrite(func.body, visit))


def _divisors(loop: Loop) -> Iterator[Index]:
    for s in loop.body:
        for n in nodes(s):
            if isinstance(n, FloorDiv | Mod) and n.a == Var(loop.var) and not isinstance(n.b, Int):
                yield n.b


def _two(loop: Loop, count: Index, by: Index, taken: set[str]) -> Loop | None:
    """`loop` as a loop of `count` around one of `by` iterations; None if it is spoken of in another way."""
    outer, inner = (fresh_name(f"{loop.var}_{x}", taken) for x in ("of", "in"))

    def visit(n: Node) -> Node:
        if isinstance(n, FloorDiv | Mod) and n.a == Var(loop.var) and n.b == by:
            return Var(outer if isinstance(n, FloorDiv) else inner)
        return rebuild(n, visit)

    body = cast(Body, tuple(visit(s) for s in replace_over(loop.body, {loop.var: (outer, inner)})))
    if any(loop.var in free_vars(s) for s in body):
        return None
    taken |= {outer, inner}
    return Loop(outer, count, loop.kind, (Loop(inner, by, loop.kind, body),))
