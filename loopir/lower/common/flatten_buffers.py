"""Flatten subscripts to offsets, in row-major order or by the buffer's layout."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from loopir.ir.grammar import Alloc, Body, Buffer, Func, Index, Int, Load, Node, Reduce, Store
from loopir.ir.layout.layouts import element_span, offset
from loopir.ir.traverse.clone import UsedNames
from loopir.ir.traverse.walk import rebuild, replace_buffers, rewrite, statements
from loopir.lower.target import Target


def flatten_buffers(func: Func, target: Target) -> Func:
    """`func` with one index on every access, the offset in elements, and with layouts applied to allocations."""
    laid = {
        s.buffer.name: replace(s.buffer, shape=(element_span(s.buffer),), layout=None)
        for s in statements(func.body)
        if isinstance(s, Alloc) and s.buffer.layout is not None
    }

    names = UsedNames.of(func)

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Load | Store):
            return replace(n, at=(offset(n.buffer, n.at),))
        if isinstance(n, Reduce):
            return replace(n, at=(offset(n.buffers[0], n.at),))
        return n

    func = replace(func, body=rewrite(func.body, lambda s: _one_offset(s, names) if isinstance(s, Reduce) else None))
    return replace_buffers(cast(Func, visit(func)), laid)


def _one_offset(fold: Reduce, names: UsedNames) -> Body:
    """The reduction `fold`, in scalars between loads and stores of its elements where these lie at offsets of their own
    in its buffers: a flat reduction has one offset for all."""
    first, *others = (offset(b, fold.at) for b in fold.buffers)
    if all(x == first for x in others):
        return (fold,)
    here: tuple[Index, ...] = (Int(0),)
    scalars = tuple(Buffer(names.name(f"{b.name}_element"), (Int(1),), b.dtype, "local") for b in fold.buffers)
    pairs = [*zip(scalars, fold.buffers, strict=True)]
    before = (Store(names.label(x.name), x, here, Load(b, fold.at)) for x, b in pairs)
    after = (Store(names.label(b.name), b, fold.at, Load(x, here)) for x, b in pairs)
    body: Body = (*before, replace(fold, buffers=scalars, at=here), *after)
    for x in reversed(scalars):
        body = (Alloc(x, body),)
    return body
