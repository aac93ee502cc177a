"""Flatten subscripts to offsets, in row-major order or by the buffer's layout."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from loopir.ir.grammar import Alloc, Buffer, Func, Load, Node, Reduce, Store
from loopir.ir.layout.layouts import element_span, offset
from loopir.ir.traverse.walk import rebuild, replace_buffers, statements
from loopir.lower.target import Target


def flatten_buffers(func: Func, target: Target) -> Func:
    """`func` with one index on every access, the offset in elements, and with layouts applied to allocations."""
    laid = {
        s.buffer.name: replace(s.buffer, shape=(element_span(s.buffer),), layout=None)
        for s in statements(func.body)
        if isinstance(s, Alloc) and s.buffer.layout is not None
    }

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Load | Store):
            return replace(n, at=(offset(n.buffer, n.at),))
        if isinstance(n, Reduce):
            return replace(n, at=(offset(n.buffers[0], n.at),))
        return n

    return replace_buffers(cast(Func, visit(func)), laid)
