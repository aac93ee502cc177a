"""Expand reductions over the lanes of a vector to folds of its halves."""

from __future__ import annotations

from collections.abc import Sequence

from loopir.ir.grammar import Alloc, Body, Buffer, Func, Int, Load, Loop, Reduce, Stmt, Store, Value, Var
from loopir.ir.traverse.clone import UsedNames
from loopir.ir.traverse.walk import is_vector_reduction, replace, rewrite, substitute
from loopir.lower.target import Target

SHORTEST = 2
"""Lanes that are folded one by one: half of them is no vector."""


def expand_vector_reductions(func: Func, target: Target) -> Func:
    """`func` with each vectorized loop that is a reduction as vectors of half, a quarter ... of its lanes.

    On a GPU, whose vectors only move memory, the lanes are unrolled.
    """
    names = UsedNames.of(func)

    def visit(s: Stmt) -> Body | None:
        if not isinstance(s, Loop) or s.kind != "vectorize" or not is_vector_reduction(s):
            return None
        if target.name != "llvm":
            return (replace(s, kind="unroll"),)
        return _expand(s, names)

    return replace(func, body=rewrite(func.body, visit))


def _expand(loop: Loop, names: UsedNames) -> Body:
    """The reduction that `loop` is, in halves: h[l] = v[l], h[l] += v[l + w], until few lanes are left."""
    (reduce,) = loop.body
    assert isinstance(reduce, Reduce)
    assert isinstance(loop.extent, Int)
    width, values, memory = loop.extent.value, reduce.values, list[Buffer]()
    steps: Body = ()
    if not all(isinstance(v, Load) for v in values):  # computed once, in whole vectors
        values, steps = _in_memory(reduce, values, loop.var, width, memory, names)
    var = loop.var
    while width % 2 == 0 and width > SHORTEST:
        width //= 2
        upper = tuple(substitute(v, {var: Var(var) + width}) for v in values)
        values, first = _in_memory(reduce, values, var, width, memory, names)
        into = names.name(loop.var)
        at = (Var(into),)
        moved = tuple(substitute(v, {var: Var(into)}) for v in upper)
        fold = Reduce(names.label(memory[-1].name), tuple(memory[-len(values) :]), at, reduce.monoid, moved)
        steps = (*steps, *first, Loop(into, Int(width), "vectorize", (fold,)))
    last = names.name(loop.var)
    total = replace(reduce, values=tuple(substitute(v, {var: Var(last)}) for v in values), over=(last,))
    steps = (*steps, Loop(last, Int(width), "unroll", (total,)))
    for b in reversed(memory):
        steps = (Alloc(b, steps),)
    return steps


def _in_memory(
    reduce: Reduce, values: Sequence[Value], var: str, width: int, memory: list[Buffer], names: UsedNames
) -> tuple[tuple[Value, ...], Body]:
    """Vectors of `width` lanes that hold `values`, as loads at lane `var`; and the nest that stores them."""
    lane = names.name(var)
    stores: Body = ()
    loads: tuple[Value, ...] = ()
    for b, v in zip(reduce.buffers, values, strict=True):
        vector = Buffer(names.name(f"{b.name}_lanes"), (Int(width),), b.dtype, "local")
        memory.append(vector)
        stores = (*stores, Store(names.label(vector.name), vector, (Var(lane),), substitute(v, {var: Var(lane)})))
        loads = (*loads, Load(vector, (Var(var),)))
    return loads, (Loop(lane, Int(width), "vectorize", stores),)
