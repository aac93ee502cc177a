"""Insert fence.proxy.async before barriers.

Ordinary writes become visible to asynchronous reads by a fence of the writing threads, before the barrier that
synchronizes them with the thread that issues the reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from loopir.ir.grammar import Barrier, Body, Fence, Func, InstrRegion, Kernel, Stmt
from loopir.ir.instr.match_nest import match
from loopir.ir.traverse.walk import leaf_paths, map_body, map_kernels, map_stmts, statements
from loopir.lower.gpu.asynchronous.async_groups import is_issued
from loopir.lower.target import Target


def insert_proxy_fences(func: Func, target: Target) -> Func:
    """`func` with a fence before each barrier between an ordinary write and an asynchronous read of it."""
    return map_kernels(func, lambda s: replace(s, body=map_body(s.body, _fenced)) if _needs_fences(s) else s)


def _reads_by_itself(s: Stmt) -> TypeGuard[InstrRegion]:
    return isinstance(s, InstrRegion) and s.fn.asynchronous in ("products", "stores")


def _needs_fences(kernel: Kernel) -> bool:
    """Whether ordinary writes, or copies that count as such, fill shared memory that is read by itself."""
    read: set[str] = set()
    for s in filter(_reads_by_itself, statements(kernel.body)):
        found = match(s, lowered=True)
        operands = (found.operands[a.buffer.name].buffer for a in s.fn.meaning.args if a.access == "in")
        read |= {b.name for b in operands if b.scope == "shared"}
    if not read:
        return False
    ordinary = (p.stmt for p in leaf_paths(kernel.body) if not is_issued(p, "bytes"))
    written = (s.buffers for s in ordinary)
    return any(b.name in read for bs in written for b in bs)


def _fenced(s: Stmt) -> Stmt | Body:
    return (Fence("async"), s) if isinstance(s, Barrier) else map_stmts(s, _fenced)
