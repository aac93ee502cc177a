"""Vectorize accesses to global memory: the lanes of a vector loop move whole vectors.

A statement in a vector loop becomes vector loads into local arrays, unrolled lanes on these, and a vector store. This
is legal because every lane of a vector loop reads before any lane writes. It is done where offsets are contiguous and
aligned to the vector; other loops are just unrolled. A vector that is only copied into a local array of its size is
loaded into that array directly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod
from typing import cast

from loopir.arith.poly import coefficient, const_of, to_index
from loopir.arith.simplify import Context, poly, simplify
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Not,
    Select,
    Stmt,
    Store,
    Var,
)
from loopir.ir.traverse.walk import (
    free_vars,
    leaf_paths,
    leaf_writes,
    map_body,
    map_stmts,
    rebuild,
    substitute,
    take_name,
    taken_names,
)
from loopir.lower.target import Target

VECTOR_BYTES = 16


def vectorize_memory(func: Func, target: Target) -> Func:
    """`func` with vector loops made into whole-vector copies and unrolled lanes."""
    taken = taken_names(func)
    times = Counter(b for p in leaf_paths(func.body) for b in leaf_writes(p.stmt))

    def visit(s: Stmt, ctx: Context) -> Stmt | Body:
        if isinstance(s, Loop) and s.kind == "vectorize":
            return _Lanes(s, ctx, taken, times).rewritten()
        if isinstance(s, Loop):
            inner = ctx.loop(s.var, s.extent)
            return map_stmts(s, lambda x: visit(x, inner))
        if isinstance(s, If):
            yes, no = ctx.inside(s.cond), ctx.inside(Not(s.cond))
            return If(s.cond, map_body(s.then, lambda x: visit(x, yes)), map_body(s.orelse, lambda x: visit(x, no)))
        return map_stmts(s, lambda x: visit(x, ctx))

    return replace(func, body=map_body(func.body, lambda s: visit(s, Context.of(func))))


class _Lanes:
    """Rewrites one vector loop."""

    def __init__(self, loop: Loop, ctx: Context, taken: set[str], times: Counter[str]) -> None:
        assert isinstance(loop.extent, Int)
        self.loop, self.ctx, self.taken, self.lanes = loop, ctx, taken, loop.extent.value
        self.times = times

    def rewritten(self) -> Body:
        """Statement by statement, all lanes of each; the loop unrolled as it is if it holds more than stores."""
        if not all(isinstance(s, Store) for s in self.loop.body):
            return (replace(self.loop, kind="unroll"),)
        return tuple(x for s in self.loop.body for x in self.store(cast(Store, s)))

    def store(self, s: Store) -> Body:
        if (ends := self.whole(s)) is not None:
            assert isinstance(s.value, Load)
            return self.copies(s.label, s.buffer, ends[0], s.value.buffer, ends[1])
        loaded: dict[Load, Buffer] = {}
        lane = self.name(self.loop.var)

        def visit(n: Node) -> Node:
            if isinstance(n, Buffer | Select):
                return n  # an arm of a Select may be out of bounds
            if isinstance(n, Load) and self.start(n.buffer, n.at) is not None:
                if n not in loaded:
                    loaded[n] = Buffer(self.name(f"{n.buffer.name}_v"), (Int(self.lanes),), n.dtype, "local")
                return Load(loaded[n], (Var(self.loop.var),))
            return rebuild(n, visit)

        value = cast(Store, visit(replace(s, at=()))).value
        start = self.start(s.buffer, s.at)
        out = Buffer(self.name(f"{s.buffer.name}_v"), (Int(self.lanes),), s.buffer.dtype, "local")
        label = s.label if start is None else self.name(f"{s.label}_v")
        lanes = Store(label, s.buffer if start is None else out, s.at if start is None else (Var(lane),), value)
        body: Body = (Loop(lane, Int(self.lanes), "unroll", (substitute(lanes, {self.loop.var: Var(lane)}),)),)
        for load, local in loaded.items():
            begin = self.start(load.buffer, load.at)
            assert begin is not None
            body = (*self.copies(local.name, local, Int(0), load.buffer, begin), *body)
        if start is not None:
            body = (*body, *self.copies(s.label, s.buffer, start, out, Int(0)))
        for local in (*loaded.values(), *((out,) if start is not None else ())):
            body = (Alloc(local, body),)
        return body

    def whole(self, s: Store) -> tuple[Index, Index] | None:
        """Where the vectors start that `s`, which alone writes a local array of them, copies one of; and where from."""
        sizes, value = [x.value for x in s.buffer.shape if isinstance(x, Int)], s.value
        vectors = len(sizes) == len(s.buffer.shape) > 0 and prod(sizes) == self.lanes
        if not vectors or s.buffer.scope != "local" or self.times[s.buffer.name] != 1 or not isinstance(value, Load):
            return None
        to, begin = self.first(s.buffer, s.at), self.start(value.buffer, value.at)
        if to is None or begin is None or value.dtype != s.buffer.dtype:
            return None
        return to, begin

    def copies(self, label: str, dst: Buffer, to: Index, src: Buffer, at: Index) -> Body:
        """Copies of as many elements at once as a vector holds."""
        width = self.width(dst)
        out: list[Stmt] = []
        for n in range(0, self.lanes, width):
            v = self.name(self.loop.var)
            value = Load(src, (at + n + Var(v),))
            named = label if n == 0 and label not in self.taken else self.name(f"{label}_{n // width}")
            out.append(Loop(v, Int(width), "vectorize", (Store(named, dst, (to + n + Var(v),), value),)))
        return tuple(out)

    def width(self, b: Buffer) -> int:
        return min(self.lanes, max(1, VECTOR_BYTES // b.dtype.bytes))

    def start(self, b: Buffer, at: tuple[Index, ...]) -> Index | None:
        """The offset of lane 0, if the lanes' offsets follow one another from a multiple of the vector; else None."""
        return None if b.scope == "local" else self.first(b, at)

    def first(self, b: Buffer, at: tuple[Index, ...]) -> Index | None:
        """The same, wherever the memory is."""
        width = self.width(b)
        if width < 2 or self.lanes % width or width & (width - 1):
            return None
        inner = self.ctx.loop(self.loop.var, Int(self.lanes))
        split = coefficient(poly(at[0], inner), Var(self.loop.var))
        if split is None or const_of(split[0]) != 1 or self.loop.var in free_vars(to_index(split[1])):
            return None
        begin = to_index(split[1])
        return begin if simplify(begin % width, self.ctx) == Int(0) else None

    def name(self, hint: str) -> str:
        return take_name(hint, self.taken)
