"""Outline concurrent nests into kernels; the host runs the statements around them.

A kernel is a nest whose outermost loop is concurrent on the target, or a nest without concurrent loops. Serial loops,
guards and allocations around concurrent loops stay on the host, so a time loop launches its kernels step by step.
Stores right before and after a nest that runs in one block, such as a reduction's initialization and epilogue, join
its launch.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    THREAD_AXES,
    Alloc,
    Body,
    Func,
    If,
    Kernel,
    Loop,
    Prefetch,
    Stmt,
    Store,
)
from loopir.ir.traverse.walk import loaded_buffers, rewrite, statements, take_name, taken_names
from loopir.lower.target import Target


def outline_kernels(func: Func, target: Target) -> Func:
    """`func` with every statement inside a Kernel."""
    taken = taken_names(func)

    def kernel(body: Body) -> Stmt:
        name = take_name(f"{func.name}_kernel", taken)
        return Kernel(name, body)

    def host(body: Body) -> Body:
        """`body` as the host runs it: launches, and what stands around them."""
        body = _sunk(body, target, taken)
        out: list[Stmt] = []
        launch: list[Stmt] = []
        for s, then in pairwise((*body, None)):
            assert s is not None
            roots = any(isinstance(x, Loop) and x.kind in target.roots for x in statements((s,)))
            match s:
                case Alloc(buffer) if buffer.scope == "global":
                    out.append(replace(s, body=host(s.body)))
                case Loop(_, extent, kind) if roots and kind not in target.roots and not loaded_buffers(extent):
                    out.append(replace(s, body=host(s.body)))
                case If(cond) if roots and not loaded_buffers(cond):
                    out.append(If(cond, host(s.then), host(s.orelse)))
                case Prefetch():
                    pass  # the host has no use for it
                case _:
                    launch.append(s)
                    before = isinstance(s, Store) and then is not None and _begins_one_block(then, body, target)
                    after = isinstance(then, Store) and any(_one_block(x, target) for x in launch)
                    if not (before or after):
                        out.append(kernel(tuple(launch)))
                        launch.clear()
        return tuple(out)

    return replace(func, body=host(rewrite(func.body, lambda s: _unbound(s, target))))


def _sunk(body: Body, target: Target, taken: set[str]) -> Body:
    """`body` with stores that follow an allocation inside it, where they follow a nest of one block's threads there.

    So those that follow versions that all end in such a nest: each gets its own.
    """
    out: list[Stmt] = []
    for s in body:
        last = out[-1] if out else None
        if isinstance(s, Store) and isinstance(last, Alloc | If) and _ends_one_block(last, target):
            out[-1] = _with(last, s, taken)
        else:
            out.append(s)
    return tuple(out)


def _with(s: Stmt, store: Store, taken: set[str]) -> Stmt:
    """`s`, which is an allocation, with `store` at its end; or versions, with one each."""
    if not isinstance(s, If):
        assert isinstance(s, Alloc)
        return replace(s, body=(*s.body, store))
    label = take_name(store.label, taken)
    return replace(s, then=(*s.then, store), orelse=(*s.orelse, replace(store, label=label)))


def _ends_one_block(s: Alloc | If, target: Target) -> bool:
    """Whether the last in a global allocation, or in each of two versions, is a nest of threads of a single block.

    Stores are left aside.
    """
    if isinstance(s, If):
        return not loaded_buffers(s.cond) and all(_last_is_one_block(x, target) for x in (s.then, s.orelse))
    return s.buffer.scope == "global" and _last_is_one_block(s.body, target)


def _last_is_one_block(body: Body, target: Target) -> bool:
    last = next((x for x in reversed(body) if not isinstance(x, Store)), None)
    if isinstance(last, If) or (isinstance(last, Alloc) and last.buffer.scope == "global"):
        return _ends_one_block(last, target)
    return _one_block(last, target)


def _unbound(s: Stmt, target: Target) -> Stmt | None:
    """A loop that is bound to an axis that the target has not, as a serial one; so a parallel one that memory bounds.

    Threads are started for a range that the host knows. What is bound to an axis of the target is left as it is, and
    refused later if memory bounds it.
    """
    if not isinstance(s, Loop):
        return None
    absent = s.kind in AXES and s.kind not in target.roots
    if not absent and not (s.kind == "parallel" and loaded_buffers(s.extent)):
        return None
    return replace(s, kind="serial", body=rewrite(s.body, lambda x: _unbound(x, target)))


def _begins_one_block(s: Stmt, body: Body, target: Target) -> bool:
    """Whether `s`, or after stores the first other statement of `body`, is a nest of threads of a single block."""
    rest = body[next(n for n, x in enumerate(body) if x is s) :]
    return _one_block(next((x for x in rest if not isinstance(x, Store)), None), target)


def _one_block(s: Stmt | None, target: Target) -> bool:
    """Whether `s` is a nest of threads of a single block, in memory of its own maybe, and stores beside it."""
    if isinstance(s, Alloc) and s.buffer.scope != "global":
        return all(isinstance(x, Store) or _one_block(x, target) for x in s.body)
    if not isinstance(s, Loop) or s.kind not in THREAD_AXES or s.kind not in target.roots:
        return False
    return not any(isinstance(x, Loop) and x.kind in BLOCK_AXES for x in statements((s,)))
