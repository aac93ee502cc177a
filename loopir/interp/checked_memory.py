"""Memory with checks: bounds, uninitialized reads, races, asynchronous copies that are not waited for.

Two accesses to an element race if one writes and neither happens before the other. Happens-before is tracked by vector
clocks: each thread has the step of every other thread of its block that it last synchronized with, so a race is found
even if the order that was run gives the right value. An asynchronous copy or product accesses its memory until its
thread has waited for it, and sees the writes that a fence has published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

SLOTS = 64
"""Barriers in the shared memory of a block that are watched."""
Clock = Any
"""An array: by agent, how many steps of it are known to be done."""


class Fault(Exception):
    """A wrong access; the interpreter adds the statement and the iteration."""


class OutOfArray(Fault):
    """An access outside its array."""


@dataclass(slots=True, eq=False)
class AccessRecord:
    """Who did something: the block, the agent in it, the agent's step, and the thread as a person reads it.

    There is one of an agent at a step (`Who.me`), so the same is the same object.
    """

    block: Any
    agent: int
    step: int
    thread: Any
    what: str = ""
    """Of what goes on by itself, such as "bytes"."""


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A pending asynchronous write: who issued it, its kind, and its group."""

    by: AccessRecord
    kind: str
    group: object


@dataclass(slots=True)
class Agent:
    """A thread's clock: its step, the steps of others that it has seen, and which of these fences have published."""

    number: int
    thread: Any
    step: int = 0
    known: Clock = None
    published: Clock = None
    groups: dict[str, list[list[tuple[CheckedMemory, int, bool]]]] = field(default_factory=dict[str, Any])
    """By kind, the groups of what goes on by itself and was not waited for: cells, and whether they are written. The
    last group is open."""
    registers: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """What it wrote to its own memory since the last fence, if anyone asks."""
    turns: dict[int, int] = field(default_factory=dict[int, int])
    """By barrier in shared memory, how often it has waited there."""
    last: AccessRecord | None = None
    """What it did last, at whichever step that was."""


@dataclass(slots=True)
class MBarrierState:
    """An mbarrier: its number among agents, what its phase still waits for, and the completed phases.

    The clock of a completed phase is the join of the clocks of all who arrived.
    """

    number: int
    arrivals: int
    pending: int
    bytes: int = 0
    turns: int = 0
    known: Clock = None
    published: Clock = None
    phases: list[tuple[Clock, Clock]] = field(default_factory=list["tuple[Clock, Clock]"])
    """By turn, what is known and what is published at its end."""

    def end(self) -> None:
        if self.pending or self.bytes:
            return
        self.turns += 1
        self.known = self.known.copy()
        self.known[self.number] = self.turns
        self.phases.append((self.known, self.published))
        self.pending = self.arrivals


@dataclass(slots=True)
class NamedBarrierState:
    """A hardware barrier: who has arrived since it was complete, who of these waits, and what they knew then."""

    known: Clock
    published: Clock
    threads: list[Agent] = field(default_factory=list[Agent])
    waiting: dict[int, Agent] = field(default_factory=dict[int, Agent])


@dataclass(slots=True)
class CurrentThread:
    """The thread that is running; none outside kernels."""

    block: tuple[int, ...] = ()
    agent: Agent = field(default_factory=lambda: Agent(0, ()))
    active: bool = False
    rings: dict[int, list[MBarrierState]] = field(default_factory=dict[int, "list[MBarrierState]"])
    """The barriers in shared memory, by the memory they are in."""
    slots: int = 0
    near: list[list[CheckedMemory]] = field(default_factory=list["list[CheckedMemory]"])
    """By block of the cluster that runs, its shared memory."""

    def me(self) -> AccessRecord:
        """What the thread that runs does now."""
        a = self.agent
        if a.last is None or a.last.step != a.step:
            a.last = AccessRecord(self.block, a.number, a.step, a.thread)
        return a.last

    def after(self, t: AccessRecord) -> bool:
        """Whether what `t` did is known to be done."""
        a = self.agent
        return t.block == self.block and (t.agent == a.number or bool(a.known[t.agent] > t.step))

    def sees(self, t: AccessRecord) -> bool:
        """Whether what goes on by itself, begun here, sees what `t` wrote."""
        return t.block == self.block and bool(self.agent.published[t.agent] > t.step)

    def enter(self, block: tuple[int, ...], agents: list[Agent]) -> None:
        """A block begins: its threads know nothing of one another."""
        self.block, self.rings, self.slots = block, {}, len(agents)
        for a in agents:
            a.known = a.published = np.zeros(len(agents) + SLOTS, np.int64)

    def meet(self, agents: list[Agent]) -> None:
        """These threads meet at a barrier: each knows what any of them did or knew."""
        known = _joined({id(a.known): a.known for a in agents})
        published = _joined({id(a.published): a.published for a in agents})
        for a in agents:
            a.step += 1
            known[a.number] = a.step
        for a in agents:
            a.known, a.published = known, published

    def fence(self, kind: str) -> None:
        a = self.agent
        if kind == "registers":
            a.registers.clear()
            return
        a.step += 1
        a.published = np.maximum(a.published, a.known)
        a.published[a.number] = a.step

    # ------------------------------------------------------------ hardware barriers

    def named_barrier(self) -> NamedBarrierState:
        """A barrier where nobody has arrived yet."""
        none = np.zeros_like(self.agent.known)
        return NamedBarrierState(none, none)

    def arrive(self, s: NamedBarrierState, a: Agent, *, waits: bool) -> None:
        """`a` arrives, so that those who wait will know what it has done and known by now."""
        a.step += 1
        s.known, s.published = np.maximum(s.known, a.known), np.maximum(s.published, a.published)
        s.known[a.number] = a.step
        s.threads.append(a)
        if waits:
            s.waiting[a.number] = a

    def complete(self, s: NamedBarrierState) -> None:
        """All have arrived: who waits goes on."""
        for a in s.waiting.values():
            a.known, a.published = np.maximum(a.known, s.known), np.maximum(a.published, s.published)

    # ------------------------------------------------------------ barriers in shared memory

    def init(self, m: CheckedMemory, arrivals: int) -> None:
        """This thread makes the elements of `m` barriers."""
        if self.slots + len(m.cells) > len(self.agent.known):
            raise Fault(f"makes more than {SLOTS} barriers in shared memory, which is as many as are watched")
        begin = self.slots
        self.slots += len(m.cells)
        none = np.zeros_like(self.agent.known)
        self.rings[id(m)] = [
            MBarrierState(begin + n, arrivals, arrivals, 0, 0, none, none) for n in range(len(m.cells))
        ]
        for n in range(len(m.cells)):
            m.store((n,), 0)

    def slot(self, m: CheckedMemory, n: int) -> MBarrierState:
        """Barrier `n` of `m`, which has been made, as this thread knows."""
        m.load((n,))
        m.reads.clear()
        return self.rings[id(m)][n]

    def beside(self, m: CheckedMemory, block: int) -> CheckedMemory:
        """What `m` of one block is in `block` of its cluster."""
        if not 0 <= block < len(self.near):
            raise Fault(f"speaks of {m.name} in block {block} of a cluster of {len(self.near)}")
        mine = next(x for x in self.near if any(y is m for y in x))
        return self.near[block][next(n for n, y in enumerate(mine) if y is m)]

    def expect(self, m: CheckedMemory, n: int, count: int, block: int | None = None) -> None:
        """This thread arrives, perhaps at that of another block, and the turn waits for `count` bytes more."""
        m = m if block is None else self.beside(m, block)
        s, a = self.slot(m, n), self.agent
        if not s.pending:
            raise Fault(f"arrives at {m.name}[{n}] once more than a turn of it has arrivals")
        a.step += 1
        s.known, s.published = np.maximum(s.known, a.known), np.maximum(s.published, a.published)
        s.known[a.number] = a.step
        s.pending, s.bytes = s.pending - 1, s.bytes + count
        s.end()

    def landed(self, m: CheckedMemory, n: int, count: int) -> None:
        s = self.slot(m, n)
        s.bytes -= count
        s.end()

    def skipped(self, m: CheckedMemory, n: int) -> None:
        """This thread comes by a turn without waiting."""
        s, a = self.slot(m, n), self.agent
        a.turns[s.number] = a.turns.get(s.number, 0) + 1

    def awaited(self, m: CheckedMemory, n: int, turn: int) -> Callable[[], bool]:
        """A test of whether this thread may pass barrier `n` of `m`. As on the machine, that is known by one bit: it
        passes if the last turn that is over is odd, or even, like the one it waits for; a Fault if it is another one.
        """
        s, a = self.slot(m, n), self.agent
        want = a.turns.get(s.number, 0) + 1 - turn
        a.turns[s.number] = want + turn

        def passed() -> bool:
            if (s.turns - want) % 2:
                return False
            if s.turns != want:
                raise Fault(f"passes {m.name}[{n}] after {s.turns} turns of it, and waits for the end of turn {want}")
            if want:
                known, published = s.phases[want - 1]
                a.known, a.published = np.maximum(a.known, known), np.maximum(a.published, published)
            return True

        passed.__doc__ = f"{m.name}[{n}], turn {want}"
        return passed

    # ------------------------------------------------------------ what goes on by itself

    def begins(self, kind: str, m: CheckedMemory, cells: Sequence[int], writes: bool) -> None:
        """What this thread has begun touches these cells until the thread has waited for it."""
        group, me = self.agent.groups.setdefault(kind, [[]])[-1], self.me()
        group += [(m, cell, writes) for cell in cells]
        if writes:
            m.filling.update(dict.fromkeys(cells, PendingWrite(me, kind, group)))
            return
        reader = AccessRecord(me.block, me.agent, me.step, me.thread, kind)
        for cell in cells:
            m.read_by.setdefault(cell, []).append(reader)

    def ends(self) -> None:
        """This thread has come to its end, and with its block goes the shared memory that its stores read."""
        read = (m for group in self.agent.groups.get("stores", ()) for m, _, writes in group if not writes)
        if (m := next(read, None)) is not None:
            raise Fault(f"ends in thread {self.agent.thread}, whose stores still read {m.name}")

    def commit(self, kind: str) -> None:
        self.agent.groups.setdefault(kind, [[]]).append([])

    def wait(self, pending: int, kind: str) -> None:
        """But the newest `pending` groups are done; of stores only reading."""
        groups = self.agent.groups.setdefault(kind, [[]])
        while len(groups) > pending + 1:
            done = groups.pop(0)
            for m, cell, writes in done:
                if writes and kind == "stores":
                    continue
                if writes and (now := m.filling.get(cell)) is not None and now.group is done:
                    del m.filling[cell]
                    if not m.private:
                        m.writes[cell] = self.me()
                elif not writes:
                    m.read_by[cell].pop()
                    m.note_read(cell, self.me())


def _joined(clocks: dict[int, Clock]) -> Clock:
    return np.maximum.reduce(list(clocks.values())).copy()


def _nothing() -> dict[int, Any]:
    """By cell, nothing yet. Threads may allocate in each iteration, and `dict[int, Any]()` takes four times as long."""
    return {}


@dataclass(slots=True)
class CheckedMemory:
    """A buffer with checks: bounds, uninitialized elements and, in a kernel, races."""

    name: str
    shape: tuple[int, ...]
    cells: list[Any]
    who: CurrentThread
    place: Sequence[int] | None = None
    """Where the elements lie, row after row; None if just so."""
    on_read: Callable[[CheckedMemory, int], None] | None = None
    on_write: Callable[[CheckedMemory, int], None] | None = None
    scope: str = "global"
    zero: Any = 0
    writes: dict[int, AccessRecord] = field(default_factory=_nothing)
    updates: dict[int, dict[str, set[AccessRecord]]] = field(default_factory=_nothing)
    """By cell and monoid, who updated it atomically."""
    reads: dict[int, AccessRecord | set[AccessRecord]] = field(default_factory=_nothing)
    """By cell, who read it since it was written: one, or several threads. The last read of a thread stands for all."""
    filling: dict[int, PendingWrite] = field(default_factory=_nothing)
    """The cells that something which goes on by itself is still to write."""
    read_by: dict[int, list[AccessRecord]] = field(default_factory=_nothing)
    """The cells that something which goes on by itself still reads."""
    private: bool = False
    """Whether it is of one thread, whose accesses need no order and are not logged (`writes`, `updates`, `reads`); what
    goes on by itself may touch it all the same."""

    def cell(self, at: tuple[int, ...]) -> int:
        """Where element `at` lies. One index on several dimensions is an offset that lowering made."""
        if len(at) == 1 and (self.place is None or len(self.shape) != 1):
            if not 0 <= at[0] < len(self.cells):
                raise self.outside(at)
            return at[0]
        if len(at) == 2 and len(self.shape) == 2:  # most arrays are matrices
            (x, y), (rows, columns) = at, self.shape
            if not (0 <= x < rows and 0 <= y < columns):
                raise self.outside(at)
            cell = x * columns + y
            return cell if self.place is None else self.place[cell]
        cell = 0
        for x, size in zip(at, self.shape):
            if not 0 <= x < size:
                raise self.outside(at)
            cell = cell * size + x
        return cell if self.place is None else self.place[cell]

    def outside(self, at: tuple[int, ...]) -> OutOfArray:
        if len(at) != len(self.shape):
            return OutOfArray(f"touches {self.name} at offset {at[0]}, and it has {len(self.cells)} cells")
        return OutOfArray(
            f"touches {self.name}[{_commas(at)}], which is out of bounds: the shape is ({_commas(self.shape)})"
        )

    def load(self, at: tuple[int, ...], atomic: str = "", kind: str = "") -> Any:
        """The element; `atomic` names the monoid of the update that this is part of, which its store logs."""
        if self.who.active or self.on_read is not None:
            value = self.peek(at, atomic, kind)
        else:
            value = self.cells[self.cell(at)]
        if value is None:
            raise Fault(f"reads {self.name}[{_commas(at)}], which nothing has written")
        return value

    def peek(self, at: tuple[int, ...], atomic: str = "", kind: str = "") -> Any:
        """The value to copy elsewhere: None, and no fault, where nothing has written one."""
        if len(at) == 1 and self.place is None:  # most memory of threads is of one dimension
            cell = at[0]
            if not 0 <= cell < len(self.cells):
                raise self.outside(at)
        else:
            cell = self.cell(at)
        if self.who.active and not atomic and (self.filling or not self.private):
            self.log_read(cell, at, kind)
        if self.on_read is not None:
            self.on_read(self, cell)
        return self.cells[cell]

    def store(self, at: tuple[int, ...], value: Any, atomic: str = "", kind: str = "") -> None:
        cell = self.cell(at)
        if self.who.active:
            self.log_write(cell, at, atomic, kind)
        if self.on_write is not None:
            self.on_write(self, cell)
        self.cells[cell] = value

    def taken_all(self, cells: Sequence[int], kind: str, only: bool = True) -> list[Any]:
        """These cells for an instruction; one of an asynchronous `kind` goes on reading what is `only` read."""
        values = self._read_all(cells, kind)
        if kind in ("products", "stores"):
            for cell in cells:
                self.require_published(cell, (cell,))
            if only:
                self.who.begins(kind, self, cells, writes=False)
        return values

    def _read_all(self, cells: Sequence[int], kind: str) -> list[Any]:
        if self.on_read is None and cells and min(cells) >= 0 and max(cells) < len(self.cells):
            if self.who.active and not (self.private and not self.filling):
                for cell in cells:
                    self.log_read(cell, (cell,), kind)
            here = self.cells
            values = [here[cell] for cell in cells]
            if not any(x is None for x in values):
                return values
        return [self.load((cell,), kind=kind) for cell in cells]

    def given_all(
        self, places: Sequence[tuple[int, ...]], values: Sequence[Any], kind: str, slot: MBarrierState | None = None
    ) -> None:
        """What an instruction makes of the elements at `places`; one of an asynchronous `kind` does it some time later,
        bytes when the turn of barrier `slot` is over."""
        for at, value in zip(places, values, strict=True):
            self.store(at, value, kind=kind)
        if kind == "bytes":
            assert slot is not None
            me = self.who.me()
            filled = AccessRecord(me.block, slot.number, slot.turns, me.thread, kind)
            self.writes.update(dict.fromkeys(map(self.cell, places), filled))
        elif kind:
            self.who.begins(kind, self, [self.cell(at) for at in places], writes=True)

    def require_published(self, cell: int, at: tuple[int, ...]) -> None:
        """A Fault unless a fence came after what threads wrote here, which only then is seen by what goes on itself."""
        if self.scope != "shared":
            if (id(self), cell) in self.who.agent.registers:
                raise Fault(
                    f"gives the register {self.name}[{_commas(at)}] to products without a fence since its write"
                )
            return
        before = self.writes.get(cell)
        if before is not None and not before.what and not self.who.sees(before):
            raise Fault(
                f"reads {self.name}[{_commas(at)}] by itself, which thread {before.thread} wrote without a fence "
                f"between the write and the barrier"
            )

    def log_read(self, cell: int, at: tuple[int, ...], kind: str = "") -> None:
        if self.private:
            if self.filling:
                self.require_order(cell, at, self.who.me(), "reads", "", kind)
            return
        me = self.who.me()
        if self.filling or self.updates:
            self.require_order(cell, at, me, "reads", "", kind)
        elif (before := self.writes.get(cell)) is not None and before is not me and not self.who.after(before):
            raise Fault(_race(self.name, at, before, "wrote", me, "reads"))
        if (readers := self.reads.get(cell)) is None:
            self.reads[cell] = me
        elif isinstance(readers, set):
            readers.add(me)
        elif readers is not me:
            self.note_read(cell, me)

    def note_read(self, cell: int, me: AccessRecord) -> None:
        """Log a read by `me`: a later write must come after it."""
        if self.private:
            return
        before = self.reads.get(cell)
        if before is None or (
            isinstance(before, AccessRecord) and before.agent == me.agent and before.block == me.block
        ):
            self.reads[cell] = me
        elif isinstance(before, AccessRecord):
            self.reads[cell] = {before, me}
        else:
            before.add(me)

    def require_order(
        self, cell: int, at: tuple[int, ...], me: AccessRecord, does: str, atomic: str, kind: str
    ) -> None:
        """A Fault unless all writes so far are ordered before this; atomic updates by one monoid need no order, nor do
        the products of one thread."""
        if self.filling and cell in self.filling:
            t, by = self.filling[cell].by, self.filling[cell].kind
            if not (by == kind == "products" and (t.block, t.agent) == (me.block, me.agent)):
                what = "copying to" if by == "copies" else f"writing by asynchronous {by}"
                raise Fault(
                    f"{does} {self.name}[{_commas(at)}], which block {t.block} thread {t.thread} is {what}, and has "
                    f"not waited for"
                )
        if self.private:
            return
        before = self.writes.get(cell)
        if before is not None and before is not me and not self.who.after(before):
            raise Fault(_race(self.name, at, before, "wrote", me, does))
        for monoid, others in self.updates.get(cell, {}).items() if self.updates else ():
            other = next((x for x in others if not self.who.after(x)), None) if monoid != atomic else None
            if other is not None:
                raise Fault(_race(self.name, at, other, "updated", me, does))

    def log_write(self, cell: int, at: tuple[int, ...], atomic: str = "", kind: str = "") -> None:
        if self.private and not (self.filling or self.read_by):
            if not kind:
                self.who.agent.registers.add((id(self), cell))
            return
        me = self.who.me()
        does = "updates" if atomic else "writes"
        if self.filling or self.updates or self.writes.get(cell, me) is not me:
            self.require_order(cell, at, me, does, atomic, kind)
        if reading := self.read_by.get(cell):
            raise Fault(
                f"{does} {self.name}[{_commas(at)}], which {reading[0].what} of block {reading[0].block} thread "
                f"{reading[0].thread} still read; they have not been waited for"
            )
        if self.private:
            if not kind:
                self.who.agent.registers.add((id(self), cell))
            return
        readers = self.reads.get(cell, ())
        for reader in (readers,) if isinstance(readers, AccessRecord) else readers:
            if reader is not me and not self.who.after(reader):
                raise Fault(_race(self.name, at, reader, "read", me, does))
        if not atomic:
            self.reads.pop(cell, None)  # what comes after this write comes after them
        if atomic:
            self.updates.setdefault(cell, {}).setdefault(atomic, set()).add(me)
        else:
            self.writes[cell] = me
        if self.scope not in ("global", "shared") and not kind:
            self.who.agent.registers.add((id(self), cell))

    def forget(self) -> None:
        """A launch has ended: what follows is ordered after all of it, stores that went on by themselves as well."""
        self.filling = {cell: f for cell, f in self.filling.items() if f.kind != "stores"}
        self.writes.clear()
        self.updates.clear()
        self.reads.clear()


UNLOGGED: dict[str, Any] = {"writes": {}, "updates": {}, "reads": {}}
"""The logs of all memory that is private: nothing is logged, and there is much of it."""


def _race(name: str, at: tuple[int, ...], a: AccessRecord, did: str, b: AccessRecord, does: str) -> str:
    if a.what:
        return (
            f"{does} {name}[{_commas(at)}] in block {b.block} thread {b.thread}, which thread {a.thread} is filling by "
            f"itself; that its {a.what} are there has not been waited for"
        )
    apart = "no barrier between" if a.block == b.block else "in different blocks"
    return (
        f"{does} {name}[{_commas(at)}] in block {b.block} thread {b.thread}, which block {a.block} thread {a.thread} "
        f"{did}, {apart}: a race"
    )


def _commas(at: tuple[int, ...]) -> str:
    return ", ".join(map(str, at))


def cells_of(shape: tuple[int, ...]) -> int:
    return prod(max(0, d) for d in shape)
