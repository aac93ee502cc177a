"""Drop prefetch hints that name buffers or loops which are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopir.ir.grammar import Alloc, Body, Buffer, Func, If, Load, Loop, Node, Prefetch, Stmt
from loopir.ir.traverse.labels import has_cache_hint
from loopir.ir.traverse.walk import free_vars, map_body, map_stmts, nests, stored_buffers


def drop_dead_hints(func: Func) -> Func:
    """`func` without the hints that speak of a buffer or a loop that is not there where they stand.

    Nor with a loop that does nothing else, but for those over the lines of one hint, which are unrolled.
    """
    if not any(map(has_cache_hint, nests(func.body))):
        return func

    def visit(s: Stmt, buffers: Mapping[str, Buffer], loops: frozenset[str]) -> Stmt | Body:
        match s:
            case Prefetch(element):
                return s if _asks(element, buffers) and free_vars(element) <= loops else ()
            case Loop() | If() if has_cache_hint(s) and not stored_buffers(s) and getattr(s, "kind", "") != "unroll":
                return ()
            case Alloc(b):
                return map_stmts(s, lambda x: visit(x, {**buffers, b.name: b}, loops))
            case Loop(var) if has_cache_hint(s):
                new = map_stmts(s, lambda x: visit(x, buffers, loops | {var}))
                return new if isinstance(new, Loop) and new.body else ()
            case _:
                return map_stmts(s, lambda x: visit(x, buffers, loops)) if has_cache_hint(s) else s

    given = {a.buffer.name: a.buffer for a in func.args}
    return replace(func, body=map_body(func.body, lambda s: visit(s, given, frozenset(func.sizes))))


def _asks(element: Node, buffers: Mapping[str, Buffer]) -> bool:
    """Whether it is still an element of memory that a cache brings: what is computed in its place is none."""
    if not isinstance(element, Load) or element.buffer.scope != "global":
        return False
    return buffers.get(element.buffer.name) == element.buffer
