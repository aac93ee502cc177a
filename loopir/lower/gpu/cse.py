"""Common subexpression elimination within a statement.

Inlined chains repeat themselves, and NVRTC does not merge two calls of a function with a slow path. LLVM does, so the
pass is for CUDA only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Cast,
    Cond,
    Func,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Op,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
)
from loopir.ir.traverse.walk import children, map_body, map_stmts, rebuild, take_name, taken_names
from loopir.lower.target import Target

ZERO = Int(0)


def cse(func: Func, target: Target) -> Func:
    """`func` with repeated operations of a statement stored in local scalars before it."""
    taken = taken_names(func)

    def visit(s: Stmt) -> Stmt | Body:
        if isinstance(s, Store | Reduce):
            return _StatementCse(s, taken).rewritten()
        if isinstance(s, Loop) and s.kind == "vectorize":
            return s  # a whole-vector copy
        return map_stmts(s, visit)

    return replace(func, body=map_body(func.body, visit))


class _StatementCse:
    """Rewrites one statement."""

    def __init__(self, s: Store | Reduce, taken: set[str]) -> None:
        self.s, self.taken = s, taken
        self.made: dict[Value, Buffer] = {}
        self.before: list[Stmt] = []
        values = s.values
        uses: Counter[Value] = Counter()
        seen: set[Node] = set()
        for v in values:
            uses.update(_uses(v, seen))
        self.repeated = {v for v, count in uses.items() if count > 1}

    def rewritten(self) -> Stmt | Body:
        if not self.repeated:
            return self.s
        if isinstance(self.s, Store):
            s: Stmt = replace(self.s, value=self.value(self.s.value))
        else:
            s = replace(self.s, values=tuple(self.value(v) for v in self.s.values))
        body: Body = (*self.before, s)
        for b in reversed(self.made.values()):
            body = (Alloc(b, body),)
        return body

    def value(self, v: Value) -> Value:
        out = self.visit(v)
        assert isinstance(out, Value)
        return out

    def visit(self, n: Node) -> Node:
        if isinstance(n, Value) and n in self.made:
            return Load(self.made[n], (ZERO,))
        if isinstance(n, Select):
            return Select(n.cond, n.a, n.b) if not self.made else rebuild(n, self.known)
        if not isinstance(n, Op | Cast):
            return n
        once = rebuild(n, self.visit)
        if n not in self.repeated:
            return once
        name = self.name(f"{n.fn.name if isinstance(n, Op) else n.dtype.name}_of")
        self.made[n] = Buffer(name, (Int(1),), n.dtype, "local")
        self.before.append(Store(name, self.made[n], (ZERO,), once))
        return Load(self.made[n], (ZERO,))

    def known(self, n: Node) -> Node:
        """Inside a Select, where nothing may be computed that was not asked for: only what is there already."""
        if isinstance(n, Value) and n in self.made:
            return Load(self.made[n], (ZERO,))
        return n if isinstance(n, Index | Cond | Buffer) else rebuild(n, self.known)

    def name(self, hint: str) -> str:
        return take_name(hint, self.taken)


def _uses(v: Node, seen: set[Node]) -> Iterator[Value]:
    """Operations that are certainly evaluated, once for each place that they are used in."""
    pending = [v]
    while pending:
        v = pending.pop()
        if isinstance(v, Op | Cast):
            if v.dtype.kind != "bool":
                yield v
            if v not in seen:
                seen.add(v)
                pending += children(v)
