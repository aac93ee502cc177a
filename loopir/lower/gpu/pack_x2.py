"""Pack two lanes into one x2 instruction, in the epilogues of tensor-core products.

The tensor cores are idle during an epilogue, so its instruction count matters; elsewhere kernels wait for memory. The
lanes of a loop over one store first write the arguments of the operation side by side; the instruction is issued for
each two of them, and the lanes continue with its results. The record of an operation names its instruction (`pairs`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from loopir.arith.poly import coefficient, const_of, expand_index, to_index
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Func,
    Index,
    InstrCall,
    Int,
    Kernel,
    Load,
    Loop,
    Node,
    Op,
    Select,
    Stmt,
    Store,
    Value,
    Var,
)
from loopir.ir.ops import Instruction, find_instruction
from loopir.ir.traverse.walk import (
    free_vars,
    leaf_paths,
    loaded_buffers,
    map_body,
    map_stmts,
    rebuild,
    statements,
    substitute,
    take_name,
    taken_names,
)
from loopir.lower.target import Target


def pack_x2(func: Func, target: Target) -> Func:
    """`func` with two-lane instructions in its kernels with asynchronous products."""
    taken = taken_names(func) | {p.stmt.label for p in leaf_paths(func.body)}

    def visit(s: Stmt) -> Stmt | Body:
        match s:
            case Loop(kind="unroll", extent=Int(lanes), body=(Store() as only,)) if lanes % 2 == 0:
                return _Lanes(s, lanes, only.label, taken).rewritten(only)
            case _:
                return map_stmts(s, visit)

    return replace(func, body=map_body(func.body, lambda s: visit(s) if _multiplies(s) else s))


def _multiplies(s: Stmt) -> bool:
    inside = statements(s.body) if isinstance(s, Kernel) else ()
    return any(isinstance(x, InstrCall) and x.fn.asynchronous == "products" for x in inside)


class _Lanes:
    """Splits a loop over the lanes of one store into several, with instructions between them."""

    def __init__(self, loop: Loop, lanes: int, label: str, taken: set[str]) -> None:
        self.loop, self.lanes, self.label, self.taken = loop, lanes, label, taken
        self.made: dict[Op, Buffer] = {}
        self.before: list[Stmt] = []
        self.rooms: list[Buffer] = []

    def rewritten(self, s: Store) -> Body:
        value = cast(Value, self.visit(s.value))
        begin = self.pairs_from(s) if value != s.value else None
        if begin is not None and isinstance(value, Load) and value.buffer in self.made.values():
            body = tuple(_stored_in_pairs(x, value.buffer, s.buffer, begin) for x in self.before)
            self.rooms.remove(value.buffer)
        else:
            body = (*self.before, replace(self.loop, body=(replace(s, value=value),)))
        for b in reversed(self.rooms):
            body = (Alloc(b, body),)
        return body

    def pairs_from(self, s: Store) -> Index | None:
        """Where in registers the lanes of `s` are stored, if that is in pairs, and none of these is read."""
        if s.buffer.scope != "local" or len(s.at) != 1 or s.buffer.name in loaded_buffers(s.value):
            return None
        split = coefficient(expand_index(s.at[0]), Var(self.loop.var))
        if split is None or const_of(split[0]) != 1 or any(n % 2 for n in split[1].values()):
            return None
        begin = to_index(split[1])
        return None if self.loop.var in free_vars(begin) else begin

    def visit(self, n: Node) -> Node:
        """`n` of what instructions give. An arm of a Select may be out of bounds, and stays as it is."""
        if isinstance(n, Buffer | Select):
            return n
        n = rebuild(n, self.visit)
        if not isinstance(n, Op) or (fn := find_instruction(n.fn.pairs.get(n.args[0].dtype.name, ""))) is None:
            return n
        if n not in self.made:
            self.made[n] = self.issued(fn, n)
        return Load(self.made[n], (Var(self.loop.var),))

    def issued(self, fn: Instruction, op: Op) -> Buffer:
        """Where the lanes of `op` are once `fn` has made them."""
        given = [self.lane(x) for x in op.args]
        out = self.room(op)
        for n in range(0, self.lanes, 2):
            self.before.append(InstrCall(fn, tuple(Load(b, (Int(n),)) for b in (*given, out))))
        return out

    def lane(self, x: Value) -> Buffer:
        """An array in registers of the lanes of `x`: the one that they are read from, if they are in one."""
        if isinstance(x, Load) and x.at == (Var(self.loop.var),) and x.buffer.scope == "local":
            return x.buffer
        b, var = self.room(x), self.name(self.loop.var)
        store = substitute(Store(self.name(b.name), b, (Var(self.loop.var),), x), {self.loop.var: Var(var)})
        self.before.append(Loop(var, self.loop.extent, "unroll", (store,)))
        return b

    def room(self, x: Value) -> Buffer:
        self.rooms.append(Buffer(self.name(f"{self.label}_pair"), (Int(self.lanes),), x.dtype, "local"))
        return self.rooms[-1]

    def name(self, hint: str) -> str:
        return take_name(hint, self.taken)


def _stored_in_pairs(s: Stmt, room: Buffer, to: Buffer, begin: Index) -> Stmt:
    """`s`, which may give lanes of `room`, with lanes of `to` in their place, the first one at `begin`."""
    if not isinstance(s, InstrCall) or s.operands[-1].buffer != room:
        return s
    *given, out = s.operands
    return replace(s, operands=(*given, Load(to, (begin + out.at[0],))))
