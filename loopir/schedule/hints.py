"""Hints to caches that a step leaves with nothing to ask for: they go, as they have no effect on any value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopir.ir.grammar import Alloc, Body, Buffer, Func, If, Load, Loop, Node, Prefetch, Stmt
from loopir.ir.labels import hinted
from loopir.ir.walk import map_body, map_stmts, nests, stored, variables


def live(func: Func) -> Func:
    """`func` without the hints that speak of a buffer or a loop that is not there where they stand.

    Nor with a loop that does nothing else, but for those over the lines of one hint, which are unrolled.
    """
    if not any(map(hinted, nests(func.body))):
        return func

    def visit(s: Stmt, buffers: Mapping[str, Buffer], loops: frozenset[str]) -> Stmt | Body:
        match s:
            case Prefetch(element):
                return s if _asks(element, buffers) and variables(element) <= loops else ()
            case Loop() | If() if hinted(s) and not stored(s) and getattr(s, "kind", "") != "unroll":
                return ()
            case Alloc(b):
                return map_stmts(s, lambda x: visit(x, {**buffers, b.name: b}, loops))
            case Loop(var) if hinted(s):
                new = map_stmts(s, lambda x: visit(x, buffers, loops | {var}))
                return new if isinstance(new, Loop) and new.body else ()
            case _:
                return map_stmts(s, lambda x: visit(x, buffers, loops)) if hinted(s) else s

    given = {a.buffer.name: a.buffer for a in func.args}
    return replace(func, body=map_body(func.body, lambda s: visit(s, given, frozenset(func.sizes))))


def _asks(element: Node, buffers: Mapping[str, Buffer]) -> bool:
    """Whether it is still an element of memory that a cache brings: what is computed in its place is none."""
    if not isinstance(element, Load) or element.buffer.scope != "global":
        return False
    return buffers.get(element.buffer.name) == element.buffer
