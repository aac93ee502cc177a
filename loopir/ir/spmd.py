"""Memory that watches itself, and threads that meet at barriers: what the interpreter runs programs in.

A kernel's blocks run in a random order, and between two barriers the threads of a block do, too. Two accesses to an
element race if one writes and they come from different blocks, or from different threads of a block with no barrier
between; that is decided from who touched what, so an order that happens to give the right value does not hide it.
The threads of a warp go from exchange to exchange together; one that does not come by is an error.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

WARP = 32


@dataclass(frozen=True, slots=True)
class Exchange:
    """A thread gives `value` to its warp, and goes on with what lane `lane(n)` gives, n being its own."""

    point: int
    name: str
    lane: Callable[[int], int]
    value: Any


Touch = tuple[Any, int, Any]
"""Who did something: the block, the barriers it had passed, the thread."""


@dataclass(frozen=True, slots=True)
class Together:
    """A lane at an instruction that its warp issues together: which one, where in the program, and with what.

    `perform(operands of each lane, enter)` does it, once all lanes are there.
    """

    point: int
    name: str
    operands: Sequence[Any]
    perform: Callable[[Sequence[Any], Callable[[int], None]], None]


Stop = int | Exchange | Together | None
"""Where a thread is: at a barrier, at an exchange or a joint instruction, or at its end."""
Thread = Generator[int | Exchange | Together, Any, None]


class Fault(Exception):
    """An access went wrong; the interpreter adds the statement and the iteration."""


class Outside(Fault):
    """It was outside its array."""


@dataclass(slots=True)
class Who:
    """The thread that runs now, and the barriers its block has passed; None outside kernels."""

    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    phase: int = 0
    active: bool = False
    flying: dict[Any, list[list[tuple[Memory, int]]]] = field(default_factory=dict[Any, Any])
    """By block and thread, the groups of asynchronous copies that it has not waited for; the last one is open."""

    def copies(self, m: Memory, cell: int) -> None:
        """This thread has an asynchronous copy under way to a cell."""
        self.flying.setdefault((self.block, self.thread), [[]])[-1].append((m, cell))
        m.filling[cell] = (self.block, self.phase, self.thread)

    def commit(self) -> None:
        self.flying.setdefault((self.block, self.thread), [[]]).append([])

    def wait(self, pending: int) -> None:
        groups = self.flying.setdefault((self.block, self.thread), [[]])
        while len(groups) > pending + 1:
            for m, cell in groups.pop(0):
                m.filling.pop(cell, None)


@dataclass(slots=True)
class Memory:
    """One buffer: bounds checked, unwritten cells known, and in a kernel every access logged for races."""

    name: str
    shape: tuple[int, ...]
    cells: list[Any]
    who: Who
    place: Callable[..., int] | None = None
    on_read: Callable[[Memory, int], None] | None = None
    on_write: Callable[[Memory, int], None] | None = None
    writes: dict[int, tuple[Any, int, Any]] = field(default_factory=dict[int, "tuple[Any, int, Any]"])
    updates: dict[int, dict[str, set[Touch]]] = field(default_factory=dict[int, "dict[str, set[Touch]]"])
    """By cell and monoid, who updated it atomically."""
    reads: dict[int, set[Touch]] = field(default_factory=dict[int, "set[tuple[Any, int, Any]]"])
    filling: dict[int, Touch] = field(default_factory=dict[int, "tuple[Any, int, Any]"])
    """The cells that asynchronous copies are still to write."""

    def cell(self, at: tuple[int, ...]) -> int:
        """Where element `at` lies. One index on several dimensions is an offset that lowering made."""
        if len(at) != len(self.shape):
            if not 0 <= at[0] < len(self.cells):
                raise Outside(f"touches {self.name} at offset {at[0]}, and it has {len(self.cells)} cells")
            return at[0]
        cell = 0
        for x, size in zip(at, self.shape, strict=True):
            if not 0 <= x < size:
                shape = ", ".join(map(str, self.shape))
                raise Outside(f"touches {self.name}[{_listed(at)}], which is out of bounds: the shape is ({shape})")
            cell = cell * size + x
        return cell if self.place is None else self.place(*at)

    def load(self, at: tuple[int, ...], atomic: str = "") -> Any:
        """The element; `atomic` names the monoid of the update that this is part of, which its store logs."""
        value = self.peek(at, atomic)
        if value is None:
            raise Fault(f"reads {self.name}[{_listed(at)}], which nothing has written")
        return value

    def peek(self, at: tuple[int, ...], atomic: str = "") -> Any:
        """The value to copy elsewhere: None, and no fault, where nothing has written one."""
        cell = self.cell(at)
        if self.who.active and not atomic:
            self.log_read(cell, at)
        if self.on_read is not None:
            self.on_read(self, cell)
        return self.cells[cell]

    def store(self, at: tuple[int, ...], value: Any, atomic: str = "") -> None:
        cell = self.cell(at)
        if self.who.active:
            self.log_write(cell, at, atomic)
        if self.on_write is not None:
            self.on_write(self, cell)
        self.cells[cell] = value

    def log_read(self, cell: int, at: tuple[int, ...]) -> None:
        me = (self.who.block, self.who.phase, self.who.thread)
        self.require_order(cell, at, me, "reads", "")
        self.reads.setdefault(cell, set()).add(me)

    def require_order(self, cell: int, at: tuple[int, ...], me: Touch, does: str, atomic: str) -> None:
        """A Fault unless all writes so far are ordered before this; atomic updates by one monoid need no order."""
        if cell in self.filling:
            block, _, thread = self.filling[cell]
            raise Fault(
                f"{does} {self.name}[{_listed(at)}], which block {block} thread {thread} is copying to, and has not "
                f"waited for"
            )
        before = self.writes.get(cell)
        if before is not None and _clash(before, me):
            raise Fault(_race(self.name, at, before, "wrote", me, does))
        for monoid, others in self.updates.get(cell, {}).items():
            other = next((x for x in others if _clash(x, me)), None) if monoid != atomic else None
            if other is not None:
                raise Fault(_race(self.name, at, other, "updated", me, does))

    def log_write(self, cell: int, at: tuple[int, ...], atomic: str = "") -> None:
        me = (self.who.block, self.who.phase, self.who.thread)
        does = "updates" if atomic else "writes"
        self.require_order(cell, at, me, does, atomic)
        for reader in self.reads.get(cell, ()):
            if _clash(reader, me):
                raise Fault(_race(self.name, at, reader, "read", me, does))
        if atomic:
            self.updates.setdefault(cell, {}).setdefault(atomic, set()).add(me)
        else:
            self.writes[cell] = me

    def forget(self) -> None:
        """A launch has ended: what follows is ordered after all of it."""
        self.writes.clear()
        self.updates.clear()
        self.reads.clear()


def _clash(a: tuple[Any, int, Any], b: tuple[Any, int, Any]) -> bool:
    return a[0] != b[0] or (a[1] == b[1] and a[2] != b[2])


def _race(name: str, at: tuple[int, ...], a: Any, did: str, b: Any, does: str) -> str:
    apart = "no barrier between" if a[0] == b[0] else "in different blocks"
    return (
        f"{does} {name}[{_listed(at)}] in block {b[0]} thread {b[2]}, which block {a[0]} thread {a[2]} {did}, "
        f"{apart}: a race"
    )


def _listed(at: tuple[int, ...]) -> str:
    return ", ".join(map(str, at))


def launch(
    body: Callable[..., Thread],
    grid: tuple[int, ...],
    block: tuple[int, ...],
    axes: tuple[int, ...],
    shared: Callable[[], list[Memory]],
    touched: Iterator[Memory],
    who: Who,
    seed: int,
) -> None:
    """Run `body(shared, *block index, *thread index)` for every thread, to the end.

    `axes` says which of x, y and z each thread index runs along.
    """
    order = random.Random(seed)
    blocks = list(product(*map(range, grid)))
    order.shuffle(blocks)
    watched = list(touched)
    for m in watched:
        m.forget()
    who.active = True
    try:
        for b in blocks:
            mine = shared()
            threads = {t: body(mine, *b, *t) for t in product(*map(range, block))}
            _run(b, threads, _warps(block, axes), who, order)
    finally:
        who.active = False
        for m in watched:
            m.forget()


def _warps(block: tuple[int, ...], axes: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """The threads of a block in warps, by lane: x runs fastest."""
    slowest = sorted(range(len(axes)), key=lambda n: -axes[n])
    by_lane = sorted(product(*map(range, block)), key=lambda t: [t[n] for n in slowest])
    return [by_lane[n : n + WARP] for n in range(0, len(by_lane), WARP)]


def _run(
    b: tuple[int, ...], threads: dict[tuple[int, ...], Thread], warps: list[list[tuple[int, ...]]], who: Who,
    order: random.Random,
) -> None:  # fmt: skip
    """All threads of block `b`, from barrier to barrier."""
    who.block, who.phase = b, 0
    while threads:
        at: dict[tuple[int, ...], Stop] = {}
        turn = list(warps)
        order.shuffle(turn)
        for warp in turn:
            at |= _until_barrier(warp, threads, who, order)
        if len(set(at.values())) > 1:
            waiting = next(t for t in at if at[t] is not None)
            other = next(t for t in at if at[t] != at[waiting])
            raise Fault(f"waits in thread {waiting} at a barrier that thread {other} does not reach: it diverges")
        if None in at.values():
            return
        who.phase += 1


def _until_barrier(
    warp: list[tuple[int, ...]], threads: dict[tuple[int, ...], Thread], who: Who, order: random.Random
) -> dict[tuple[int, ...], Stop]:
    """Run the threads of a warp to a barrier or their end, through the exchanges between them."""
    given: dict[tuple[int, ...], Any] = dict.fromkeys(warp)
    while True:
        at: dict[tuple[int, ...], Stop] = {}
        for t in order.sample(warp, len(warp)):
            who.thread = t
            try:
                at[t] = threads[t].send(given[t])
            except StopIteration:
                at[t] = None
        meeting = next((x for x in at.values() if isinstance(x, Exchange | Together)), None)
        if meeting is None:
            return at
        here = {t: x for t, x in at.items() if isinstance(x, Exchange | Together) and x.point == meeting.point}
        if len(here) < len(warp):
            one, other = next(iter(here)), next(t for t in warp if t not in here)
            raise Fault(f"waits in thread {one} at {meeting.name} for thread {other} of its warp: it diverges")
        if isinstance(meeting, Exchange):
            given = _exchanged(warp, here, meeting)
        else:
            given = dict.fromkeys(warp)
            _issued(warp, here, meeting, who)


def _exchanged(
    warp: list[tuple[int, ...]], here: Mapping[tuple[int, ...], Stop], meeting: Exchange
) -> dict[tuple[int, ...], Any]:
    """What each thread of a warp gets at `meeting`; a Fault if one asks a lane that there is not."""
    values = {t: x.value for t, x in here.items() if isinstance(x, Exchange)}
    given: dict[tuple[int, ...], Any] = {}
    for n, t in enumerate(warp):
        lane = meeting.lane(n)
        if not 0 <= lane < len(warp):
            raise Fault(f"takes {meeting.name} of lane {lane} in thread {t}, and its warp has {len(warp)} lanes")
        given[t] = values[warp[lane]]
    return given


def _issued(warp: list[tuple[int, ...]], here: Mapping[tuple[int, ...], Stop], meeting: Together, who: Who) -> None:
    """What a whole warp issues together is done, each access as its lane's."""
    if len(warp) < WARP:
        raise Fault(f"issues {meeting.name} in a warp of {len(warp)} lanes")

    def enter(lane: int) -> None:
        who.thread = warp[lane]

    meeting.perform([x.operands for t in warp if isinstance(x := here[t], Together)], enter)


def cells_of(shape: tuple[int, ...]) -> int:
    return prod(max(0, d) for d in shape)
