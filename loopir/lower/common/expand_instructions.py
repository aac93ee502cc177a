"""Replace instructions that the target lacks by the loops that they mean, and drop cache hints.

Turns of warpgroups are dropped where loops run in order. Cache hints are for CPUs: a GPU hides latency by running
other threads.
"""

from __future__ import annotations

from dataclasses import replace

from loopir.ir.grammar import Alloc, Body, Buffer, Func, InstrRegion, InTurn, Prefetch, Stmt
from loopir.ir.traverse.walk import replace_buffers, rewrite, statements
from loopir.lower.target import Target


def expand_instructions(func: Func, target: Target) -> Func:
    """`func` with the loops of the instructions that `target` lacks, and their fragments in local memory."""

    def visit(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Prefetch):
            return s if target.hints else ()
        if isinstance(s, InTurn) and not target.instructions:
            return rewrite(s.body, visit)
        return (s if getattr(s.fn, target.name) else s.body) if isinstance(s, InstrRegion) else None

    plain: dict[str, Buffer] = {
        s.buffer.name: replace(s.buffer, scope="local", layout=None)
        for s in statements(func.body)
        if isinstance(s, Alloc) and s.buffer.scope == "fragment" and not (target.instructions and s.buffer.layout)
    }
    new = replace(func, body=rewrite(func.body, visit))
    return replace_buffers(new, plain) if plain else new
