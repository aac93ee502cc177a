"""products: what tensor cores go on with by themselves is begun after a fence, and waited for.

Products that follow one another, through loops that hold nothing else, are one group: none of them waits for another.
They read shared memory by a way of their own, to which ordinary writes are made known by a fence before the barrier
that tells of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

from loopir.ir.grammar import (
    Alloc,
    Barrier,
    Body,
    Buffer,
    Commit,
    Do,
    Fence,
    Func,
    Hold,
    If,
    Kernel,
    Loop,
    Stmt,
    Store,
    Wait,
)
from loopir.ir.match import match
from loopir.ir.walk import map_body, map_stmts, places, rewrite, statements
from loopir.lower.target import Target

GROUP = "products"


def products(func: Func, target: Target) -> Func:
    """`func` with the fences and the waits that asynchronous products need."""
    body = rewrite(func.body, lambda s: _kernel(s) if isinstance(s, Kernel) else None)
    return replace(func, body=body)


def _kernel(kernel: Kernel) -> Stmt:
    if not any(_is_product(s) for s in statements(kernel.body)):
        return kernel
    body = map_body(kernel.body, _fenced) if _needs_fences(kernel) else kernel.body
    return replace(kernel, body=_grouped(body))


def _is_product(s: Stmt) -> TypeGuard[Do]:
    return isinstance(s, Do) and s.fn.asynchronous == GROUP


def _is_bytes(s: Stmt) -> bool:
    """Whether `s` writes shared memory in the way that products read it."""
    return isinstance(s, Do) and s.fn.asynchronous == "bytes"


def _only_products(s: Stmt) -> bool:
    """Whether `s` is products, one after the other."""
    return _is_product(s) or (isinstance(s, Loop) and bool(s.body) and all(map(_only_products, s.body)))


def _grouped(body: Body) -> Body:
    """`body` with each run of products between a fence and a wait."""
    out: list[Stmt] = []
    run: list[Stmt] = []
    for s in (*body, None):
        if s is not None and _only_products(s):
            run.append(s)
            continue
        if run:
            held = [Hold(b) for b in _registers(run)]
            out += [*held, Fence("registers"), *run, Commit(GROUP), Wait(0, GROUP), *held]
            run.clear()
        if isinstance(s, If):
            out.append(If(s.cond, _grouped(s.then), _grouped(s.orelse)))
        elif isinstance(s, Loop | Alloc):
            out.append(replace(s, body=_grouped(s.body)))
        elif s is not None:
            out.append(s)
    return tuple(out)


def _registers(run: Iterable[Stmt]) -> list[Buffer]:
    """The fragments that products work on."""
    found = [match(s, lowered=True) for s in statements(tuple(run)) if _is_product(s)]
    return list(
        {o.buffer.name: o.buffer for m in found for o in m.operands.values() if o.buffer.scope == "fragment"}.values()
    )


def _needs_fences(kernel: Kernel) -> bool:
    """Whether ordinary writes, or copies that count as such, fill shared memory that products read."""
    found = [match(s, lowered=True) for s in statements(kernel.body) if _is_product(s)]
    read = {o.buffer.name for m in found for o in m.operands.values() if o.buffer.scope == "shared"}
    ordinary = (p.stmt for p in places(kernel.body) if not any(_is_bytes(s) for s in p.around))
    written = ((s.buffer,) if isinstance(s, Store) else s.buffers for s in ordinary)
    return any(b.name in read for bs in written for b in bs)


def _fenced(s: Stmt) -> Stmt | Body:
    return (Fence("async"), s) if isinstance(s, Barrier) else map_stmts(s, _fenced)
