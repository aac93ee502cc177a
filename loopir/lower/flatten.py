"""flatten: elements become offsets into their buffer, in row-major order or as its layout says."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from loopir.ir.grammar import Buffer, Func, Index, Int, Load, Mapped, Node, Reduce, Store, Strided
from loopir.ir.walk import rebuild, substitute
from loopir.lower.target import Target


def flatten(func: Func, target: Target) -> Func:
    """`func` with one index on every access: the offset, in elements."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Load | Store):
            return replace(n, at=(offset(n.buffer, n.at),))
        if isinstance(n, Reduce):
            return replace(n, at=(offset(n.buffers[0], n.at),))
        return n

    return cast(Func, visit(func))


def offset(b: Buffer, at: tuple[Index, ...]) -> Index:
    """Where element `at` of `b` lies."""
    match b.layout:
        case Strided(strides):
            total: Index = Int(0)
            for x, s in zip(at, strides, strict=True):
                total = total + x * s
            return total
        case Mapped(dims, where):
            return substitute(where, dict(zip(dims, at, strict=True)))
        case _:
            total = Int(0)
            for x, size in zip(at, b.shape, strict=True):
                total = total * size + x
            return total
