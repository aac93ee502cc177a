"""Memory that watches itself, and threads that meet at barriers: what the interpreter runs programs in.

A kernel's blocks run in a random order, and between two barriers the threads of a block do, too. Two accesses to an
element race if one writes and they come from different blocks, or from different threads of a block with no barrier
between; that is decided from who touched what, so an order that happens to give the right value does not hide it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

Thread = Generator[int, None, None]


class Fault(Exception):
    """An access went wrong; the interpreter adds the statement and the iteration."""


@dataclass(slots=True)
class Who:
    """The thread that runs now, and the barriers its block has passed; None outside kernels."""

    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    phase: int = 0
    active: bool = False


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
    reads: dict[int, set[tuple[Any, int, Any]]] = field(default_factory=dict[int, "set[tuple[Any, int, Any]]"])

    def cell(self, at: tuple[int, ...]) -> int:
        """Where element `at` lies. One index on several dimensions is an offset that lowering made."""
        if len(at) != len(self.shape):
            if not 0 <= at[0] < len(self.cells):
                raise Fault(f"touches {self.name} at offset {at[0]}, and it has {len(self.cells)} cells")
            return at[0]
        cell = 0
        for x, size in zip(at, self.shape, strict=True):
            if not 0 <= x < size:
                shape = ", ".join(map(str, self.shape))
                raise Fault(f"touches {self.name}[{_listed(at)}], which is out of bounds: the shape is ({shape})")
            cell = cell * size + x
        return cell if self.place is None else self.place(*at)

    def load(self, at: tuple[int, ...]) -> Any:
        cell = self.cell(at)
        value = self.cells[cell]
        if value is None:
            raise Fault(f"reads {self.name}[{_listed(at)}], which nothing has written")
        if self.who.active:
            self.log_read(cell, at)
        if self.on_read is not None:
            self.on_read(self, cell)
        return value

    def store(self, at: tuple[int, ...], value: Any) -> None:
        cell = self.cell(at)
        if self.who.active:
            self.log_write(cell, at)
        if self.on_write is not None:
            self.on_write(self, cell)
        self.cells[cell] = value

    def log_read(self, cell: int, at: tuple[int, ...]) -> None:
        me = (self.who.block, self.who.phase, self.who.thread)
        before = self.writes.get(cell)
        if before is not None and _clash(before, me):
            raise Fault(_race(self.name, at, before, "wrote", me, "reads"))
        self.reads.setdefault(cell, set()).add(me)

    def log_write(self, cell: int, at: tuple[int, ...]) -> None:
        me = (self.who.block, self.who.phase, self.who.thread)
        before = self.writes.get(cell)
        if before is not None and _clash(before, me):
            raise Fault(_race(self.name, at, before, "wrote", me, "writes"))
        for reader in self.reads.get(cell, ()):
            if _clash(reader, me):
                raise Fault(_race(self.name, at, reader, "read", me, "writes"))
        self.writes[cell] = me

    def forget(self) -> None:
        """A launch has ended: what follows is ordered after all of it."""
        self.writes.clear()
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
    shared: Callable[[], list[Memory]],
    touched: Iterator[Memory],
    who: Who,
    seed: int,
) -> None:
    """Run `body(shared, *block index, *thread index)` for every thread, to the end."""
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
            _run(b, threads, who, order)
    finally:
        who.active = False
        for m in watched:
            m.forget()


def _run(b: tuple[int, ...], threads: dict[tuple[int, ...], Thread], who: Who, order: random.Random) -> None:
    who.block, who.phase = b, 0
    while threads:
        at: dict[tuple[int, ...], int | None] = {}
        turn = list(threads)
        order.shuffle(turn)
        for t in turn:
            who.thread = t
            at[t] = next(threads[t], None)
        if len(set(at.values())) > 1:
            waiting = next(t for t in turn if at[t] is not None)
            other = next(t for t in turn if at[t] != at[waiting])
            raise Fault(f"waits in thread {waiting} at a barrier that thread {other} does not reach: it diverges")
        if None in at.values():
            return
        who.phase += 1


def cells_of(shape: tuple[int, ...]) -> int:
    return prod(max(0, d) for d in shape)
