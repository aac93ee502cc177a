"""Statements that run seldom, or never: steps find out about some of these on the way, and leave them out."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.errors import VerifyError
from loopir.ir.grammar import Cmp, Cond, Func, If, Index, Int, Loop, Reduce, Stmt, Store, Var
from loopir.ir.traverse.walk import child_stmts, replace, rewrite
from loopir.ir.verify.verify import verify
from loopir.testing.generate.draws import between, choose

BEYOND = 50
"""A number that no loop of a small program comes to."""


@st.composite
def seldom(draw: st.DrawFn, func: Func, most: int = 2) -> Func:
    """`func` with conditions that hold seldom, or never, around up to `most` of its loops and statements, of which some
    loops may have no iterations: what is read may then be unwritten, and outputs may be."""
    for _ in range(draw(between(1, most))):
        found = _places(func)
        if not found:
            return func
        target, names = choose(draw, found)
        new = _seldom(draw, target, names)
        made = replace(func, body=rewrite(func.body, lambda s, old=target, new=new: new if s is old else None))
        try:
            verify(made, "schedule")
        except VerifyError:  # a fold that starts in a loop around the condition
            continue
        func = made
    return func


def _places(func: Func) -> list[tuple[Stmt, tuple[str, ...]]]:
    """The loops and statements of `func`, each with the loops around it and the sizes."""
    found: list[tuple[Stmt, tuple[str, ...]]] = []
    pending: list[tuple[Stmt, tuple[str, ...]]] = [(s, func.sizes) for s in func.body]
    while pending:
        s, names = pending.pop()
        found += [(s, names)] if isinstance(s, Loop | Store | Reduce) else []
        inner = (*names, s.var) if isinstance(s, Loop) else names
        pending += [(x, inner) for x in child_stmts(s)]
    return found[::-1]


def _seldom(draw: st.DrawFn, s: Stmt, names: tuple[str, ...]) -> Stmt:
    if isinstance(s, Loop) and not draw(between(0, 9)):
        return replace(s, extent=Int(draw(between(0, 1))))
    v: Index = Var(choose(draw, names)) if names else Int(1)
    w: Index = Var(choose(draw, names)) if names else Int(1)
    never: tuple[Cond, ...] = (Cmp("<", v, v), Cmp("<", v, Int(0)), Cmp("<", v + w, v), Cmp("<", Int(4), v % 4))
    sometimes = (Cmp("<", v, Int(1)), Cmp("<", Int(0), v), Cmp("==", v, w), Cmp("<", Int(BEYOND), v))
    return If(choose(draw, (*never, *sometimes)), (s,))
