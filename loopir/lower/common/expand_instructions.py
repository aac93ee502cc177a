"""Replace instructions that the target lacks by the loops that they mean, and drop cache hints.

A GPU hides how far memory is by other threads.
"""

from __future__ import annotations

from dataclasses import replace

from loopir.ir.grammar import Alloc, Body, Buffer, Func, InstrRegion, Prefetch, Stmt
from loopir.ir.traverse.walk import replace_buffers, rewrite, statements
from loopir.lower.target import Target


def expand_instructions(func: Func, target: Target) -> Func:
    """`func` with nothing but loops, and with fragments in plain local memory."""

    def visit(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Prefetch):
            return s if target.hints else ()
        return (s if getattr(s.fn, target.name) else s.body) if isinstance(s, InstrRegion) else None

    plain: dict[str, Buffer] = {
        s.buffer.name: replace(s.buffer, scope="local", layout=None)
        for s in statements(func.body)
        if isinstance(s, Alloc) and s.buffer.scope == "fragment" and not (target.instructions and s.buffer.layout)
    }
    new = replace(func, body=rewrite(func.body, visit))
    return replace_buffers(new, plain) if plain else new
