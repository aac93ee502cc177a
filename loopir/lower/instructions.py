"""instructions: on a target that has no such instruction, the nest is what it says, loops; and hints are left out.

A GPU hides how far memory is by other threads.
"""

from __future__ import annotations

from dataclasses import replace

from loopir.ir.grammar import Alloc, Body, Buffer, Do, Func, Prefetch, Stmt
from loopir.ir.walk import rebuffer, rewrite, statements
from loopir.lower.target import Target


def instructions(func: Func, target: Target) -> Func:
    """`func` with nothing but loops, and with fragments in plain local memory."""

    def visit(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Prefetch):
            return s if target.hints else ()
        return (s if getattr(s.fn, target.name) else s.body) if isinstance(s, Do) else None

    plain: dict[str, Buffer] = {
        s.buffer.name: replace(s.buffer, scope="local", layout=None)
        for s in statements(func.body)
        if isinstance(s, Alloc) and s.buffer.scope == "fragment" and not (target.instructions and s.buffer.layout)
    }
    new = replace(func, body=rewrite(func.body, visit))
    return rebuffer(new, plain) if plain else new
