"""kernels: what runs concurrently becomes a kernel, and the host runs what stands around it.

A kernel is a nest whose outermost loop is concurrent on the target, or a nest with no such loop at all. Serial loops,
guards and allocations around concurrent loops stay on the host, so a time loop launches its kernels step by step.
"""

from __future__ import annotations

from loopir.ir.grammar import Alloc, Body, Func, If, Kernel, Load, Loop, Node, Stmt
from loopir.ir.walk import fresh, map_body, map_stmts, names, nodes, statements
from loopir.lower.target import Target


def kernels(func: Func, target: Target) -> Func:
    """`func` with every statement inside a Kernel."""
    taken = names(func)

    def kernel(s: Stmt) -> Stmt:
        name = fresh(f"{func.name}_kernel", taken)
        taken.add(name)
        return Kernel(name, (s,))

    def visit(s: Stmt) -> Stmt | Body:
        roots = any(isinstance(x, Loop) and x.kind in target.roots for x in statements((s,)))
        match s:
            case Alloc(buffer) if buffer.scope == "global":
                return map_stmts(s, visit)
            case Loop(_, extent, kind) if roots and kind not in target.roots and not _reads(extent):
                return map_stmts(s, visit)
            case If(cond) if roots and not _reads(cond):
                return map_stmts(s, visit)
            case _:
                return kernel(s)

    return Func(func.name, func.params, func.assumes, map_body(func.body, visit))


def _reads(n: Node) -> bool:
    return any(isinstance(x, Load) for x in nodes(n))
