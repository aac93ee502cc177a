"""kernels: what runs concurrently becomes a kernel, and the host runs what stands around it.

A kernel is a nest whose outermost loop is concurrent on the target, or a nest with no such loop at all. Serial loops,
guards and allocations around concurrent loops stay on the host, so a time loop launches its kernels step by step.
Stores right before a nest of one block's threads, such as what a reduction starts from, are in its launch.
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
    Load,
    Loop,
    Node,
    Stmt,
    Store,
)
from loopir.ir.walk import fresh, names, nodes, rewrite, statements
from loopir.lower.target import Target


def kernels(func: Func, target: Target) -> Func:
    """`func` with every statement inside a Kernel."""
    taken = names(func)

    def kernel(body: Body) -> Stmt:
        name = fresh(f"{func.name}_kernel", taken)
        taken.add(name)
        return Kernel(name, body)

    def host(body: Body) -> Body:
        """`body` as the host runs it: launches, and what stands around them."""
        out: list[Stmt] = []
        launch: list[Stmt] = []
        for s, then in pairwise((*body, None)):
            assert s is not None
            roots = any(isinstance(x, Loop) and x.kind in target.roots for x in statements((s,)))
            match s:
                case Alloc(buffer) if buffer.scope == "global":
                    out.append(replace(s, body=host(s.body)))
                case Loop(_, extent, kind) if roots and kind not in target.roots and not _reads(extent):
                    out.append(replace(s, body=host(s.body)))
                case If(cond) if roots and not _reads(cond):
                    out.append(If(cond, host(s.then), host(s.orelse)))
                case _:
                    launch.append(s)
                    if not (isinstance(s, Store) and then is not None and _begins_one_block(then, body, target)):
                        out.append(kernel(tuple(launch)))
                        launch.clear()
        return tuple(out)

    return replace(func, body=host(rewrite(func.body, lambda s: _unbound(s, target))))


def _unbound(s: Stmt, target: Target) -> Stmt | None:
    """A loop that is bound to an axis that the target has not, as a serial one."""
    if not isinstance(s, Loop) or s.kind not in AXES or s.kind in target.roots:
        return None
    return replace(s, kind="serial", body=rewrite(s.body, lambda x: _unbound(x, target)))


def _begins_one_block(s: Stmt, body: Body, target: Target) -> bool:
    """Whether `s`, or after stores the first other statement of `body`, is a nest of threads of a single block."""
    rest = body[next(n for n, x in enumerate(body) if x is s) :]
    first = next((x for x in rest if not isinstance(x, Store)), None)
    kinds = {x.kind for x in statements((first,)) if isinstance(x, Loop)} if first is not None else set[str]()
    threads = isinstance(first, Loop) and first.kind in THREAD_AXES and first.kind in target.roots
    return threads and not kinds & set(BLOCK_AXES)


def _reads(n: Node) -> bool:
    return any(isinstance(x, Load) for x in nodes(n))
