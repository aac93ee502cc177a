"""Hoist the bases of shared-memory offsets out of unrolled loops.

NVRTC does that, too, but once for each of thousands of copies, which is a seventh of the compile time of such a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import cast

from loopir.codegen.fast_division import is_nonnegative
from loopir.ir.grammar import Add, Body, Buffer, ExpectTx, Index, Int, Load, Loop, MBarrierWait, Node, Store
from loopir.ir.traverse.walk import bodies, free_vars, loaded_buffers, rebuild, statements

MANY = 512
"""Copies of a statement that are worth it."""


def unrolled_copies(body: Body) -> int:
    """An upper bound on the copies of one statement of `body` that unrolling makes."""
    most = 1
    for s in body:
        times = s.extent.value if isinstance(s, Loop) and s.kind == "unroll" and isinstance(s.extent, Int) else 1
        most = max(most, times * max(map(unrolled_copies, bodies(s)), default=1))
    return most


def hoist_offset_bases(loop: Loop, names: Iterator[str]) -> tuple[Loop, dict[str, tuple[Buffer, Index]]]:
    """`loop` with its accesses to shared memory relative to bases that its loops do not change, and these bases: by new
    name, the memory and the offset."""
    inside = {loop.var, *(s.var for s in statements(loop.body) if isinstance(s, Loop))}
    known: dict[tuple[str, tuple[Index, ...]], str] = {}
    found: dict[str, tuple[Buffer, Index]] = {}

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer | MBarrierWait | ExpectTx):  # turns are counted by barrier
            return n
        n = rebuild(n, visit)
        if not isinstance(n, Load | Store) or n.buffer.scope != "shared":
            return n
        terms = [*_summands(n.at[0])]
        alone = tuple(x for x in terms if not free_vars(x) & inside and not loaded_buffers(x))
        rest = [x for x in terms if x not in alone]
        if not alone or not rest or not all(map(is_nonnegative, terms)):
            return n
        key = (n.buffer.name, alone)
        if key not in known:
            known[key] = next(names)
            found[known[key]] = (n.buffer, reduce(Add, alone))
        return replace(n, buffer=replace(n.buffer, name=known[key]), at=(reduce(Add, rest),))

    return cast(Loop, visit(loop)), found


def _summands(ix: Index) -> Iterator[Index]:
    if isinstance(ix, Add):
        yield from _summands(ix.a)
        yield from _summands(ix.b)
    else:
        yield ix
