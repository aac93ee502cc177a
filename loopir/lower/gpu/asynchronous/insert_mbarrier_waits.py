"""Insert mbarrier waits for TMA loads, with one mbarrier for each slot of a ring of buffers.

The thread that issues the copies tells the slot's mbarrier how many bytes to expect, and every thread waits for the end
of that phase before it reads. Iteration n of the reading loop waits for fill n, which is issued in iteration n - ahead
of the same loop, or in a prologue loop for the first `ahead` of them, or for all. Where the nests do not have that
form, each copy is waited for at once, which is correct and overlaps nothing. Barriers of the block keep a slot from
being filled while it is still read.

An mbarrier has one bit for its last phase. So no phase may end before all threads have passed the one before; where no
barrier of the block is between the two, one is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TypeGuard

from loopir.arith.simplify import Context, simplify, simplify_cond
from loopir.errors import LowerError
from loopir.ir.dtypes import uint64
from loopir.ir.grammar import (
    AXES,
    Alloc,
    Barrier,
    Body,
    Buffer,
    Cmp,
    Cond,
    ExpectTx,
    Func,
    If,
    Index,
    InstrRegion,
    Int,
    Kernel,
    Load,
    Loop,
    MBarrierInit,
    MBarrierWait,
    Reduce,
    Stmt,
    Store,
    Var,
    conj,
)
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    bodies,
    free_vars,
    leaf_paths,
    map_kernels,
    nodes,
    rewrite,
    siblings,
    statements,
    take_name,
    taken_names,
)
from loopir.lower.gpu.asynchronous.async_groups import is_issued, is_serial, issues
from loopir.lower.target import Target

MAX_BARRIERS = 32
"""Barriers of a ring: a thread keeps a bit of each."""


def insert_mbarrier_waits(func: Func, target: Target) -> Func:
    """`func` with the mbarriers of its bulk copies, and the waits for them."""
    taken = taken_names(func)

    def kernel(s: Kernel) -> Stmt:
        waiting = any(issues(x, "bytes") and x.ring is None for x in statements(s.body))
        return _Kernel(func, _sunk(s), taken).rewritten() if waiting else s

    return map_kernels(func, kernel)


def _copies(s: Stmt) -> list[InstrRegion]:
    return [x for x in statements((s,)) if issues(x, "bytes")]


def _sunk(kernel: Kernel) -> Kernel:
    """`kernel` with the test that picks one thread right around its copies, inside loops and tests that all share."""
    threads = _arriving_threads(kernel)

    def sink(cond: Cond, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            last = out[-1] if out else None
            if _copies(s) and isinstance(s, If) and not free_vars(s.cond) & threads:
                out.append(If(s.cond, sink(cond, s.then), sink(cond, s.orelse)))
            elif _copies(s) and isinstance(s, Loop) and (not _only_copies(s) or _counts_turns(s)):
                out.append(replace(s, body=sink(cond, s.body)))
            elif isinstance(last, If) and last.cond == cond and all(map(_only_copies, last.then)) == _only_copies(s):
                out[-1] = If(cond, (*last.then, s))
            else:
                out.append(If(cond, (s,)))
        return tuple(out)

    def visit(s: Stmt) -> Body | None:
        one = isinstance(s, If) and not s.orelse and {*free_vars(s.cond)} == threads and bool(_copies(s))
        return sink(s.cond, s.then) if one and isinstance(s, If) else None

    return replace(kernel, body=_merged(rewrite(kernel.body, visit), threads))


def _merged(body: Body, threads: set[str]) -> Body:
    """`body` with one thread's copies that stand side by side under one test."""
    out: list[Stmt] = []
    for s in body:
        last = out[-1] if out else None
        if _one_thread_s(last, threads) and _one_thread_s(s, threads) and s.cond == last.cond:
            out[-1] = If(s.cond, (*last.then, *s.then))
            continue
        out.append(_map_bodies(s, lambda inner: _merged(inner, threads)))
    return tuple(out)


def _one_thread_s(s: Stmt | None, threads: set[str]) -> TypeGuard[If]:
    """Whether `s` is one thread's copies, and nothing else."""
    return isinstance(s, If) and {*free_vars(s.cond)} == threads and not s.orelse and all(map(_only_copies, s.then))


def _ring_slots(copied: Sequence[StmtPath]) -> int | None:
    """How many slots the buffers have that the statements `copied` fill, if it is one number that a ring may have."""
    slots = {_slots(p) for p in copied}
    return count if len(slots) == 1 and 1 <= (count := slots.pop()) <= MAX_BARRIERS else None


def _turns_ahead(first: Stmt | None) -> int:
    """How many turns the copies in `first`, before the loop, are made for."""
    if isinstance(first, Loop) and isinstance(first.extent, Int) and _counts_turns(first):
        return first.extent.value
    return 0 if first is None else 1


def _counts_turns(loop: Loop) -> bool:
    """Whether each iteration of `loop` fills another buffer of a ring."""
    copied = [p for p in leaf_paths((loop,)) if is_issued(p, "bytes")]
    return any(_slots(p) > 1 and loop.var in free_vars(p.stmt.at[0]) for p in copied)


def _arriving_threads(kernel: Kernel) -> set[str]:
    return {s.var for s in statements(kernel.body) if isinstance(s, Loop) and s.kind.startswith("threadIdx")}


class _Kernel:
    """One kernel, and the rings that it gets."""

    def __init__(self, func: Func, kernel: Kernel, taken: set[str]) -> None:
        self.func, self.kernel, self.taken = func, kernel, taken
        self.made: list[Buffer] = []
        self.threads = _arriving_threads(kernel)
        self.places = tuple(leaf_paths(kernel.body))

    def rewritten(self) -> Stmt:
        plan = _Plan.of(self)
        body = self.at_once(self.kernel.body, False) if plan is None else plan.applied(self, self.kernel.body)
        first = next(p for p in self.places if is_issued(p, "bytes"))
        one = self.elected(first)
        return replace(self.kernel, body=_inside_axes(body, lambda inner: self.begun(one, inner)))

    def begun(self, one: Cond, body: Body) -> Body:
        """`body` with the rings: one thread makes them, and all know."""
        body = (If(one, tuple(MBarrierInit(b, 1) for b in self.made)), Barrier(), *body)
        for b in self.made:
            body = (Alloc(b, body),)
        return body

    def ring(self, slots: int) -> Buffer:
        name = take_name("ring", self.taken)
        self.made.append(Buffer(name, (Int(slots),), uint64, "shared"))
        return self.made[-1]

    def elected(self, p: StmtPath) -> Cond:
        """The condition that picks the thread which copies at `p`."""
        around = [c for c, yes in p.conds() if yes and free_vars(c) & self.threads]
        if len(around) != 1 or {*free_vars(around[0])} != self.threads:
            raise LowerError(
                f"{p.stmt.label} is copied by several threads, or by a block that has but one, and one of several "
                f"begins such a copy for all; take it out of loops that are bound to threads"
            )
        return around[0]

    def at_once(self, body: Body, again: bool) -> Body:
        """`body` with a ring of one buffer for the copies that stand side by side in it, and a wait right after; and
        with a barrier, if it is run `again` with none between."""
        out: list[Stmt] = []
        run: list[Stmt] = []
        again = again and Barrier() not in body
        for s in (*body, None):
            if s is not None and _copies(s) and self.alone(s):
                run.append(s)
                continue
            if run:
                ring = self.ring(1)
                out += [
                    *self.filled(run, Load(ring, (Int(0),))),
                    MBarrierWait(Load(ring, (Int(0),))),
                    *[Barrier()] * again,
                ]
                run = []
            if s is not None:
                inner = partial(self.at_once, again=again or is_serial(s))
                out.append(_map_bodies(s, inner) if not issues(s, "bytes") else s)
        return tuple(out)

    def all_alone(self, body: Body) -> bool:
        """Whether each of what stands side by side in `body` is `alone`."""
        return all(map(self.alone, _side_by_side(self, body)[0]))

    def alone(self, s: Stmt) -> bool:
        return _one_thread_s(s, self.threads)

    def filled(self, run: Sequence[Stmt], slot: Load) -> Body:
        """Copies, which fill `slot` together, after the barrier expects their bytes."""
        marked = rewrite(tuple(run), lambda s: replace(s, ring=slot) if issues(s, "bytes") else None)
        first, *others = (s for s in marked if isinstance(s, If))
        return (If(first.cond, (ExpectTx(slot, sum(map(transaction_bytes, run))), *first.then)), *others)


def _only_copies(s: Stmt) -> bool:
    return issues(s, "bytes") or (is_serial(s) and isinstance(s.extent, Int) and all(map(_only_copies, s.body)))


def transaction_bytes(s: Stmt) -> int:
    """The bytes that the copies in `s` transfer: whole boxes, even where they exceed the array."""
    if issues(s, "bytes"):
        (b,) = (a.buffer for a in s.fn.meaning.args if a.access == "out")
        return prod(d.value for d in b.shape if isinstance(d, Int)) * b.dtype.bytes
    times = s.extent.value if isinstance(s, Loop) and isinstance(s.extent, Int) else 1
    return times * sum(transaction_bytes(x) for inner in bodies(s) for x in inner)


def _inside_axes(body: Body, make: Callable[[Body], Body]) -> Body:
    """`body` with what is inside the launch's axes made anew."""
    if len(body) == 1 and isinstance(only := body[0], Loop) and only.kind in AXES:
        return (replace(only, body=_inside_axes(only.body, make)),)
    return make(body)


def _map_bodies(s: Stmt, fn: Callable[[Body], Body]) -> Stmt:
    if isinstance(s, If):
        return If(s.cond, fn(s.then), fn(s.orelse))
    return replace(s, body=fn(s.body)) if isinstance(s, Loop | Alloc) else s


# ---------------------------------------------------------------- copies that run ahead


@dataclass(frozen=True, slots=True)
class _Plan:
    """The loop that reads, and what makes the first copies before it: a loop, or what is in one that runs once."""

    loop: Loop
    first: Stmt | None
    slots: int
    ahead: int
    filled: frozenset[str]
    """The buffers that are filled."""

    @staticmethod
    def of(k: _Kernel) -> _Plan | None:
        """None if the copies and the loop are not those of a ring."""
        copied = [p for p in k.places if is_issued(p, "bytes")]
        filled = frozenset(b.name for b in _filled_buffers(copied))
        reading = [p for p in k.places if p not in copied and accessed_buffers(p.stmt) & filled]
        return _Plan._in_the_loop(k, copied, reading, filled) or _Plan._before_it(k, copied, reading, filled)

    @staticmethod
    def _before_it(
        k: _Kernel, copied: Sequence[StmtPath], reading: Sequence[StmtPath], filled: frozenset[str]
    ) -> _Plan | None:
        """All copies are made by a loop before the one that reads: there are as many buffers as turns, or more."""
        first = next((s for s in copied[0].around if is_serial(s) and _counts_turns(s)), None)
        if first is None or not isinstance(first.extent, Int) or not all(_encloses(first, (p,)) for p in copied):
            return None
        around = reading[0].around if reading else ()
        loop = next((s for s in around if is_serial(s) and _stands_before(k.kernel.body, first, s)), None)
        if loop is None or loop.extent != first.extent or not all(_encloses(loop, (p,)) for p in reading):
            return None
        count = _ring_slots(copied)
        if count is None or first.extent.value > count:
            return None
        plan = _Plan(loop, first, count, first.extent.value, filled)
        return plan if plan.fits_all(k, (*copied, *reading)) and k.all_alone(first.body) else None

    @staticmethod
    def _in_the_loop(
        k: _Kernel, copied: Sequence[StmtPath], reading: Sequence[StmtPath], filled: frozenset[str]
    ) -> _Plan | None:
        """Copies are made by the loop that reads, some turns ahead, and the first ones before it."""
        loop = next((s for s in reversed(copied[-1].around) if is_serial(s) and _encloses(s, reading)), None)
        if loop is None or not all(p.is_in(loop) for p in reading):
            return None
        if (count := _ring_slots(copied)) is None:
            return None
        first, ordered = _first_copies(k, loop, copied, reading)
        if not ordered:
            return None
        plan = _Plan(loop, first, count, _turns_ahead(first), filled)
        if plan.ahead >= count or not plan.fits_all(k, (*copied, *reading)):
            return None
        roots = [plan.body_of(x) for x in (loop, first) if x is not None and _copies(x)]
        return plan if all(map(k.all_alone, roots)) else None

    def body_of(self, s: Stmt) -> Body:
        """What an iteration of `s` does, or all of it where it is no loop over turns."""
        return s.body if isinstance(s, Loop) and (s is self.loop or _counts_turns(s)) else (s,)

    def turn_of(self, s: Stmt) -> Index:
        return Var(s.var) if isinstance(s, Loop) and (s is self.loop or _counts_turns(s)) else Int(0)

    def fits_all(self, k: _Kernel, places: Sequence[StmtPath]) -> bool:
        """Whether it fits all of `places`."""
        return all(self.fits(k, p) for p in places)

    def fits(self, k: _Kernel, p: StmtPath) -> bool:
        """Whether a statement that copies, or reads, does so in the buffer, and under the test, that its turn says."""
        inside = p.is_in(self.loop)
        root = self.loop if inside else self.first
        assert root is not None
        known = Context.of(k.func)
        for s in p.around[: next(n for n, x in enumerate(p.around) if x is root) + 1]:
            known = known.loop(s.var, s.extent) if isinstance(s, Loop) else known
        turn = self.turn_of(root)
        if is_issued(p, "bytes"):
            turn = turn + (self.ahead if inside else 0)
            depth = next(n for n, x in enumerate(p.around) if x is root)
            tests = [s.cond for s in p.around[depth:] if isinstance(s, If) and not free_vars(s.cond) & k.threads]
            wanted = simplify_cond(Cmp("<", turn, self.loop.extent), known)
            if simplify_cond(conj(*tests), known) != wanted:
                return False
        place = simplify(turn % self.slots, known)
        return self.slots == 1 or all(simplify(at, known) == place for at in slot_indices(p, self.filled))

    def applied(self, k: _Kernel, body: Body) -> Body:
        ring = k.ring(self.slots)

        def visit(s: Stmt) -> Stmt | Body | None:
            if s is self.first:
                body = self.filling(k, self.body_of(s), Load(ring, (self.turn(self.turn_of(s)),)))
                return replace(s, body=body) if isinstance(s, Loop) and _counts_turns(s) else body
            if isinstance(s, Loop) and s is self.loop:
                slot = Load(ring, (self.turn(Var(s.var)),))
                later = Load(ring, (self.turn(Var(s.var) + self.ahead),))
                inner = self.filling(k, s.body, later) if _copies(s) else s.body
                n = next(n for n, x in enumerate(inner) if not _copies(x) and accessed_buffers(x) & self.filled)
                return replace(s, body=(*inner[:n], MBarrierWait(slot), *inner[n:]))
            return None

        return rewrite(body, visit)

    def turn(self, n: Index) -> Index:
        return simplify(n % self.slots, Context())

    def filling(self, k: _Kernel, body: Body, slot: Load) -> Body:
        """`body` with its copies told where they count, through the test around them."""
        run, tested = _side_by_side(k, body)
        if tested is not None:
            inner = If(tested.cond, self.filling(k, tested.then, slot), tested.orelse)
            return tuple(inner if s is tested else s for s in body)
        first = next(n for n, s in enumerate(body) if s is run[0])
        return (*body[:first], *k.filled(run, slot), *body[first + len(run) :])


def _first_copies(
    k: _Kernel, loop: Loop, copied: Sequence[StmtPath], reading: Sequence[StmtPath]
) -> tuple[Stmt | None, bool]:
    """The loop before `loop` that makes the first copies, if one does; and whether all copies are in it or in `loop`,
    where copies come before what reads them if there are no first ones."""
    before = [p for p in copied if not p.is_in(loop)]
    if not before:
        return None, max(p.path for p in copied) <= min(p.path for p in reading)
    first = next((s for p in before for s in p.around if _stands_before(k.kernel.body, s, loop)), None)
    return first, all(p.is_in(first) for p in before)


def _side_by_side(k: _Kernel, body: Body) -> tuple[Body, If | None]:
    """The statements from the first that copies to the last, inside the test that stands around all of them; and that
    test, if they are in one."""
    copying = [n for n, s in enumerate(body) if _copies(s)]
    only = body[copying[0]]
    if len(copying) == 1 and isinstance(only, If) and not free_vars(only.cond) & k.threads:
        return _side_by_side(k, only.then)[0], only
    return body[copying[0] : copying[-1] + 1], None


def _encloses(loop: Stmt, reading: Sequence[StmtPath]) -> bool:
    return any(p.is_in(loop) for p in reading)


def _slots(p: StmtPath) -> int:
    """How many buffers there are of what `p` fills: its first dimension, if no box lies along that, counts them."""
    b = next(b for b in _filled_buffers((p,)))
    (do,) = (s for s in p.around if issues(s, "bytes"))
    boxes = sum(1 for a in do.fn.meaning.args if a.access == "out" for _ in a.buffer.shape)
    return b.shape[0].value if len(b.shape) > boxes and isinstance(b.shape[0], Int) else 1


def _filled_buffers(copied: Sequence[StmtPath]) -> list[Buffer]:
    return [p.stmt.buffer for p in copied if isinstance(p.stmt, Store)]


def _stands_before(body: Body, s: Stmt, loop: Stmt) -> bool:
    """Whether `s` stands in the statement list that `loop` is in, before it."""
    return any(x is s for x in siblings(body, loop)[0])


def slot_indices(p: StmtPath, names: frozenset[str]) -> Iterator[Index]:
    """The first index of every access of `p` to the buffers called `taken_names`."""
    for n in nodes(p.stmt):
        buffers = (n.buffer,) if isinstance(n, Load | Store) else n.buffers if isinstance(n, Reduce) else ()
        if isinstance(n, Load | Store | Reduce) and any(b.name in names for b in buffers):
            yield n.at[0]
