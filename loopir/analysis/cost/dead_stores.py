"""Dead stores to a thread's registers: what part of the elements that a statement writes is read.

A copy of a box may hold elements between those that are wanted. Compilers leave such loads out, so that prices must,
too. Unrolled loops alone are looked through: there every subscript is a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

from loopir.errors import VerifyError
from loopir.ir.grammar import Body, Index, InstrCall, Int, Load, Loop, Stmt, Store
from loopir.ir.layout.layouts import evaluate
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import child_stmts, leaf_paths, loaded_buffers, nodes

MOST_ELEMENTS = 4096
"""Iterations of unrolled loops that are looked through, at most."""
CONSTANT = ("unroll", "vectorize")
"""Kinds of loops whose variables are constants in the code of a thread."""


def live_stores(name: str, body: Body, known: Mapping[str, float]) -> dict[str, float]:
    """By label, the part of what each store to the local buffer `name` in `body`, where it lives, writes that is read.

    Stores that are read as a whole are left out, and so are those of which it is not known. `known` are the parts of
    stores around: what is read to be stored where nothing reads it is not read.
    """
    if any(name in _given_to_instructions(s) for s in body):
        return {}  # an instruction takes several elements from an address on
    read: set[tuple[int, ...]] = set()
    written: dict[str, set[tuple[int, ...]]] = {}
    shares: list[float] = []
    for p in leaf_paths(body, name):
        reads = name in loaded_buffers(p.stmt)
        loads = [n for n in nodes(p.stmt) if isinstance(n, Load) and n.buffer.name == name] if reads else []
        for load in dict.fromkeys(loads):
            found = _elements(load.at, p.loops)
            if found is None:
                return {}
            read |= found
            shares.append(known.get(p.stmt.label, 1.0))
        if isinstance(p.stmt, Store):
            if p.stmt.buffer.name == name:
                found = _elements(p.stmt.at, p.loops)
                if found is None:
                    return {}
                written[p.stmt.label] = found
        elif name in (b.name for b in p.stmt.buffers):
            return {}  # a fold reads what it writes
    most = max(shares, default=1.0)
    live = {label: most * len(at & read) / max(1, len(at)) for label, at in written.items()}
    return {label: x for label, x in live.items() if x < 1.0}


@memoized
def _given_to_instructions(s: Stmt) -> frozenset[str]:
    """The buffers of which instructions in `s` are given addresses."""
    own = [x.buffer.name for x in s.operands] if isinstance(s, InstrCall) else ()
    return frozenset(own).union(*map(_given_to_instructions, child_stmts(s)))


def _elements(at: tuple[Index, ...], loops: tuple[Loop, ...]) -> set[tuple[int, ...]] | None:
    """The elements that subscripts come to in all iterations; None where a loop that is none of code decides."""
    inner = [x for x in loops if x.kind in CONSTANT and isinstance(x.extent, Int)]
    sizes = [x.extent.value for x in inner if isinstance(x.extent, Int)]
    if prod(sizes) > MOST_ELEMENTS:
        return None
    try:
        return {
            tuple(int(evaluate(i, dict(zip([x.var for x in inner], step, strict=True)))) for i in at)
            for step in product(*map(range, sizes))
        }
    except (VerifyError, KeyError):
        return None
