"""compute_inline: a stage is computed where it is read, and its buffer goes away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Buffer, Func, If, Index, Load, Loop, Node, Stmt, Store, Value, Var
from loopir.ir.text import text
from loopir.ir.walk import bodies, map_body, map_stmts, places, rebuild, rewrite, statements, substitute
from loopir.schedule.effects import reads
from loopir.schedule.facts import Facts
from loopir.schedule.find import find_stage, listing, written
from loopir.schedule.schedule import primitive


@primitive
def compute_inline(func: Func, stage: str) -> Func:
    """Compute `stage` wherever it is read, instead of storing it. It has to be one plain store over a whole buffer.

    before:
        def f(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] + 1.0
                for j in range(8):
                    B[j] = T[7 - j] * T[j]
    call:    compute_inline("T")
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for j in range(8):
                B[j] = (A[7 - j] + 1.0) * (A[j] + 1.0)
    refuses: compute_inline("B")  # B is an argument

    before:
        def g(A: "inout float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] + 1.0
                for j in range(8):
                    A[j] = T[7 - j]
    refuses: compute_inline("T")  # A, which T is computed from, is written by A
    """
    producer = _producer(func, stage)
    _require_kept_inputs(producer)
    body = tuple(_read_inline(s, producer) for s in _without(producer.alloc.body, producer.store))
    return replace(func, body=rewrite(func.body, lambda s: body if s is producer.alloc else None))


@dataclass(frozen=True, slots=True)
class Producer:
    """The one store of a stage, the allocation it fills, and which loop runs over each dimension of it."""

    store: Store
    alloc: Alloc
    dims: tuple[str | None, ...]
    loops: frozenset[str]

    def value(self, at: tuple[Index, ...]) -> Value:
        """What the stage stores in element `at`."""
        env = {dim: ix for dim, ix in zip(self.dims, at, strict=True) if dim is not None}
        return substitute(self.store.value, env)


def _producer(func: Func, stage: str) -> Producer:
    """The stage, if it is one plain store that fills a buffer of its own; else a ScheduleError that says why not."""
    place = find_stage(func, stage)[0]
    store = place.stmt
    if not isinstance(store, Store):
        raise ScheduleError(f"{store.label} is a reduction, which takes loops of its own; only a store has one value")
    name = store.buffer.name
    if any(arg.buffer.name == name for arg in func.args):
        raise ScheduleError(f"{name} is an argument of {func.name!r}: the caller sees what is stored in it")
    writers = [p.stmt.label for p in places(func.body) if any(b.name == name for b in written(p))]
    if len(writers) > 1:
        raise ScheduleError(f"{name} is written by {listing(writers)}; a stage that is computed inline is one store")
    depth, alloc = next((n, s) for n, s in enumerate(place.around) if isinstance(s, Alloc) and s.buffer.name == name)
    around = place.around[depth + 1 :]
    if any(isinstance(s, If) for s in around):
        raise ScheduleError(f"{store.label} is stored under a condition, so that it need not fill {name}")
    loops = {s.var: s for s in around if isinstance(s, Loop)}
    facts = Facts.at(func, alloc)
    dims = tuple(_dimension(facts, ix, size, loops) for ix, size in zip(store.at, store.buffer.shape, strict=True))
    if sorted(d for d in dims if d is not None) != sorted(loops):
        target = text(Load(store.buffer, store.at))
        reason = (
            f"{store.label} stores {target} in the loops {listing(loops)}, which is not each element of {name} once"
        )
        raise ScheduleError(reason, suggestion="compute it inline before its loops are split or fused")
    if name in reads([store]):
        raise ScheduleError(f"{store.label} is computed from {name} itself")
    return Producer(store, alloc, dims, frozenset(loops))


def _dimension(facts: Facts, ix: Index, size: Index, loops: dict[str, Loop]) -> str | None:
    """The loop whose variable is `ix` and that runs over the whole dimension; None if there is none."""
    if isinstance(ix, Var) and ix.name in loops and facts.equal(loops[ix.name].extent, size):
        return ix.name
    return None


def _require_kept_inputs(producer: Producer) -> None:
    """Refuse if what the stage is computed from may change, or go away, before the stage is read."""
    inputs, label, after = reads([producer.store]), producer.store.label, False
    for place in places(producer.alloc.body):
        after = after or place.stmt is producer.store
        together = any(loop.var in producer.loops for loop in place.loops)
        for b in written(place):
            if b.name in inputs and (after or together):
                reason = (
                    f"{b.name}, which {label} is computed from, is written by {place.stmt.label} before {label} is read"
                )
                raise ScheduleError(reason, suggestion=f"keep {label} as a stage")
    for inner in statements(producer.alloc.body):
        if isinstance(inner, Alloc) and inner.buffer.name in inputs:
            outside = rewrite(producer.alloc.body, lambda s, inner=inner: () if s is inner else None)
            if producer.store.buffer.name in reads(outside):
                reason = f"{inner.buffer.name}, which {label} is computed from, is gone where {label} is read"
                raise ScheduleError(reason, suggestion=f"keep {label} as a stage")


def _without(body: Body, store: Store) -> Body:
    """`body` without `store`, and without the loops that held nothing else."""

    def visit(s: Stmt) -> Stmt | Body:
        if s is store:
            return ()
        new = map_stmts(s, visit)
        return () if new is not s and not any(bodies(new)) else new

    return map_body(body, visit)


def _read_inline(node: Stmt, producer: Producer) -> Stmt:
    """`node` with each element of the stage that it reads replaced by the value."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        return producer.value(n.at) if isinstance(n, Load) and n.buffer == producer.store.buffer else n

    return cast(Stmt, visit(node))
