"""Definitions of stages: the value that an element was stored with, and values with definitions written out in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopir.arith.simplify import Context, simplify
from loopir.ir.grammar import Buffer, Const, Index, Int, Load, Node, Select, Store, Value
from loopir.ir.instr.match_nest import linear_coefficients
from loopir.ir.traverse.walk import free_vars, loaded_buffers, nodes, rebuild, substitute


@dataclass(frozen=True)
class Definition:
    """The one statement that stores a buffer, and the loops around it that are its own."""

    store: Store
    loops: frozenset[str]

    def at(self, where: tuple[Index, ...]) -> Value | None:
        """The value of element `where`; None if the instance that stores it cannot be solved for."""
        env: dict[str, Index] = {}
        for own, wanted in zip(self.store.at, where, strict=True):
            parts = linear_coefficients(own, dict.fromkeys(self.loops))
            if parts is None:
                return None
            coefficients, rest = parts
            left = {v: c for v, c in coefficients.items() if c and v not in env}
            known: Index = rest
            for v, c in coefficients.items():
                if v in env:
                    known = known + env[v] * c
            if not left:
                if simplify(wanted - known, Context()) != Int(0):
                    return None
                continue
            if len(left) != 1 or next(iter(left.values())) != 1:
                return None
            (v,) = left
            env[v] = wanted - known
        return substitute(self.store.value, env) if env.keys() >= free_vars(self.store.value) & self.loops else None


def inlined(v: Value, definitions: Mapping[str, Definition]) -> Value:
    """`v` with the definitions of what it loads written out, and theirs."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Load) and n.buffer.name in definitions:
            found = definitions[n.buffer.name].at(n.at)
            if found is not None:
                return inlined(found, definitions)
        return n

    return visit(v)  # pyright: ignore[reportReturnType]


def may_select(v: Value, c: Const, stored: Mapping[str, Sequence[Value]], depth: int = 4) -> bool:
    """Whether a test in `v`, or in what it is made of, may give `c`."""
    if any(isinstance(n, Select) and c in (n.a, n.b) for n in nodes(v)):
        return True
    return depth > 0 and any(may_select(y, c, stored, depth - 1) for x in loaded_buffers(v) for y in stored.get(x, ()))


def nodes_of(values: Sequence[Value]) -> Iterator[Node]:
    """The nodes of all of them."""
    for v in values:
        yield from nodes(v)
