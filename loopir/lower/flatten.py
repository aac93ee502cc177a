"""flatten: elements become offsets into their buffer, in row-major order or as its layout says."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from loopir.ir.grammar import Alloc, Buffer, Func, Load, Node, Reduce, Store
from loopir.ir.layouts import offset, span
from loopir.ir.walk import rebuffer, rebuild, statements
from loopir.lower.target import Target


def flatten(func: Func, target: Target) -> Func:
    """`func` with one index on every access: the offset, in elements. What has a layout is allocated as it lies."""
    laid = {
        s.buffer.name: replace(s.buffer, shape=(span(s.buffer),), layout=None)
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

    return rebuffer(cast(Func, visit(func)), laid)
