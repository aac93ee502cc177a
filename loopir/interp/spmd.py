"""Run the threads of a kernel as coroutines, from one synchronization to the next (SPMD).

Blocks run in a random order, and so do the threads of a block between two synchronizations. The lanes of a warp
synchronize at shuffles and warp instructions, the threads of a warpgroup at its instructions, those of a block at
barriers. If some arrive and others cannot, that is an error (divergence).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from loopir.interp.checked_memory import Agent, CheckedMemory, CurrentThread, Fault, NamedBarrierState
from loopir.ir.grammar import LANES, record
from loopir.ir.ops import ISSUE_SCOPES, IssueScope


@record
class ShuffleEvent:
    """A thread in a shuffle: it gives `value`, and receives what lane `lane(n)` gives, n being its own lane."""

    point: int
    name: str
    lane: Callable[[int], int]
    value: Any
    level: IssueScope = "warp"


@record
class CollectiveIssue:
    """A lane at an instruction that its warp or warpgroup issues collectively: which one, where, and its operands.

    `perform(operands of each lane, enter)` executes it once all lanes have arrived.
    """

    point: int
    name: str
    level: IssueScope
    operands: Sequence[Any]
    perform: Callable[[Sequence[Any], Callable[[int], None]], None]


@dataclass(frozen=True, slots=True)
class BarrierArrival:
    """A thread at a barrier of `threads` consecutive threads, of which it is one."""

    point: int
    threads: int


@dataclass(frozen=True, slots=True)
class NamedArrival:
    """A thread at the hardware barrier `number`, which is complete when `threads` have arrived: one that waits for
    that, or one that goes on."""

    point: int
    number: int
    threads: int
    waits: bool


Passed = Callable[[], bool]
"""Whether a thread may pass a barrier in shared memory."""
Stop = int | BarrierArrival | NamedArrival | ShuffleEvent | CollectiveIssue | Passed | None
"""Where a thread is: at a barrier, an exchange or a joint instruction, a barrier in shared memory, or at its end."""
Thread = Generator[int | BarrierArrival | NamedArrival | ShuffleEvent | CollectiveIssue | Passed, Any, None]


def launch(
    body: Callable[..., Thread],
    grid: tuple[int, ...],
    block: tuple[int, ...],
    axes: tuple[int, ...],
    shared: Callable[[], list[CheckedMemory]],
    touched: Iterator[CheckedMemory],
    who: CurrentThread,
    seed: int,
    cluster: int | None = None,
) -> None:
    """Run `body(shared, *block index, *thread index)` for every thread, to the end.

    `axes` has the launch axis of each thread index. Blocks that differ only in the index numbered `cluster`, if given,
    are a cluster and run concurrently.
    """
    order = random.Random(seed)
    counts = [1 if n == cluster else size for n, size in enumerate(grid)]
    blocks = list(product(*map(range, counts)))
    order.shuffle(blocks)
    threads = _in_order(block, axes)
    watched = list(touched)
    for m in watched:
        m.forget()
    who.active = True
    try:
        for b in blocks:
            near = [b] if cluster is None else [(*b[:cluster], c, *b[cluster + 1 :]) for c in range(grid[cluster])]
            who.near = [shared() for _ in near]
            all_of = [
                (t if cluster is None else (*x, *t), body(m, *x, *t)) for x, m in zip(near, who.near) for t in threads
            ]
            _Block(b, all_of, who, order).run()
    finally:
        who.active = False
        for m in watched:
            m.forget()


def _in_order(block: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The threads of a block as they are numbered: x runs fastest."""
    slowest = sorted(range(len(axes)), key=lambda n: -axes[n])
    return sorted(product(*map(range, block)), key=lambda t: [t[n] for n in slowest])


class _Block:
    """The running threads of one block."""

    def __init__(
        self,
        index: tuple[int, ...],
        threads: list[tuple[tuple[int, ...], Thread]],
        who: CurrentThread,
        order: random.Random,
    ) -> None:
        self.who, self.order = who, order
        self.threads = [t for _, t in threads]
        self.agents = [Agent(n, t) for n, (t, _) in enumerate(threads)]
        self.at: list[Stop] = [None] * len(threads)
        self.arrived: dict[tuple[int, int], NamedBarrierState] = {}
        """By block of the cluster and number, the hardware barriers where some have arrived, and not all."""
        who.enter(index, self.agents)

    def run(self) -> None:
        ready: dict[int, Any] = dict.fromkeys(range(len(self.threads)))
        while ready:
            self.advance(ready)
            ready = self.met()
        if any(x is not None for x in self.at):
            raise self.stuck()
        for (_, number), state in self.arrived.items():
            thread = state.threads[0].thread
            raise Fault(f"arrives in thread {thread} at hardware barrier {number}, where nobody waits for it any more")

    def advance(self, ready: Mapping[int, Any]) -> None:
        """Each of the threads to where it stops next, warp by warp in some order, and in each in some order."""
        warps = sorted({n // LANES for n in ready})
        for warp in self.order.sample(warps, len(warps)):
            mine = [n for n in range(warp * LANES, (warp + 1) * LANES) if n in ready]
            for n in self.order.sample(mine, len(mine)):
                self.who.agent = self.agents[n]
                try:
                    self.at[n] = self.threads[n].send(ready[n])
                except StopIteration:
                    self.at[n] = None
                    self.who.ends()
                if isinstance(x := self.at[n], NamedArrival):
                    self.arrive(n, x)

    def met(self) -> dict[int, Any]:
        """The threads that can go on, each with what it is given: those that have met at what they stopped at."""
        out: dict[int, Any] = {}
        for n, x in enumerate(self.at):
            if isinstance(x, NamedArrival):
                out |= {} if x.waits and self.waits(n, x) else {n: None}
            elif isinstance(x, ShuffleEvent | CollectiveIssue) and n % ISSUE_SCOPES[x.level] == 0:
                out |= self.together(n, x)
            elif isinstance(x, BarrierArrival) and n % x.threads == 0:
                together = range(n, n + x.threads)
                if all(k < len(self.at) and self.at[k] == x for k in together):
                    self.who.meet([self.agents[k] for k in together])
                    out |= dict.fromkeys(together)
            elif callable(x):
                self.who.agent = self.agents[n]
                out |= {n: None} if x() else {}
        if not out and all(isinstance(x, int) for x in self.at) and len(set(self.at)) == 1:
            self.who.meet(self.agents)
            out = dict.fromkeys(range(len(self.at)))
        return out

    def arrive(self, n: int, at: NamedArrival) -> None:
        """Count thread `n` at a hardware barrier; when all have arrived, those that wait know what the others did."""
        key = self.named(n, at)
        state = self.arrived.setdefault(key, self.who.named_barrier())
        self.who.arrive(state, self.agents[n], waits=at.waits)
        if len(state.threads) == at.threads:
            self.who.complete(state)
            del self.arrived[key]

    def named(self, n: int, at: NamedArrival) -> tuple[int, int]:
        """The hardware barrier where thread `n` is: each block of a cluster has its own."""
        return n * len(self.who.near) // len(self.agents), at.number

    def waits(self, n: int, at: NamedArrival) -> bool:
        """Whether thread `n` still waits at a hardware barrier."""
        state = self.arrived.get(self.named(n, at))
        return state is not None and n in state.waiting

    def together(self, first: int, meeting: ShuffleEvent | CollectiveIssue) -> dict[int, Any]:
        """What each thread of the warp, or warpgroup, that begins with `first` is given, if all of it are here."""
        lanes = range(first, min(first + ISSUE_SCOPES[meeting.level], len(self.at)))
        here = [
            x for n in lanes if isinstance(x := self.at[n], ShuffleEvent | CollectiveIssue) and x.point == meeting.point
        ]
        if len(here) < len(lanes):
            return {}
        if isinstance(meeting, ShuffleEvent):
            return self.exchanged(lanes, [x.value for x in here if isinstance(x, ShuffleEvent)], meeting)
        if len(lanes) < ISSUE_SCOPES[meeting.level]:
            raise Fault(f"issues {meeting.name} in a {meeting.level} of {len(lanes)} lanes")

        def enter(lane: int) -> None:
            self.who.agent = self.agents[lanes[lane]]

        meeting.perform([x.operands for x in here if isinstance(x, CollectiveIssue)], enter)
        return dict.fromkeys(lanes)

    def exchanged(self, lanes: range, values: Sequence[Any], meeting: ShuffleEvent) -> dict[int, Any]:
        """What each thread of a warp gets; a Fault if one asks a lane that there is not."""
        given: dict[int, Any] = {}
        for n in range(len(lanes)):
            lane = meeting.lane(n)
            if not 0 <= lane < len(lanes):
                thread = self.agents[lanes[n]].thread
                raise Fault(
                    f"takes {meeting.name} of lane {lane} in thread {thread}, and its warp has {len(lanes)} lanes"
                )
            given[lanes[n]] = values[lane]
        return given

    def stuck(self) -> Fault:
        """Why nobody can go on."""
        for n, x in enumerate(self.at):
            if callable(x) or isinstance(x, NamedArrival):
                others = [f"thread {self.agents[k].thread} at {_stop_text(y)}" for k, y in enumerate(self.at) if k != n]
                return Fault(
                    f"waits in thread {self.agents[n].thread} at {_stop_text(x)}, for which nobody goes on: "
                    f"{', '.join(others[:3])}{' and others' * (len(others) > 3)}: a deadlock"
                )
        for n, x in enumerate(self.at):
            if not isinstance(x, ShuffleEvent | CollectiveIssue):
                continue
            first = n // ISSUE_SCOPES[x.level] * ISSUE_SCOPES[x.level]
            for other in range(first, min(first + ISSUE_SCOPES[x.level], len(self.at))):
                y = self.at[other]
                if not isinstance(y, ShuffleEvent | CollectiveIssue) or y.point != x.point:
                    return self.diverged(n, x.name, other, f"for thread {{}} of its {x.level}")
        waiting = next(n for n, x in enumerate(self.at) if x is not None)
        other = next(n for n, x in enumerate(self.at) if x != self.at[waiting])
        return self.diverged(waiting, "a barrier", other, "that thread {} does not reach")

    def diverged(self, n: int, what: str, other: int, how: str) -> Fault:
        one, two = self.agents[n].thread, self.agents[other].thread
        return Fault(f"waits in thread {one} at {what} {how.format(two)}: it diverges")


def _stop_text(x: Stop) -> str:
    """Where a thread is, as a person reads it."""
    match x:
        case None:
            return "its end"
        case int() | BarrierArrival():
            return "a barrier"
        case NamedArrival(_, number):
            return f"hardware barrier {number}"
        case ShuffleEvent() | CollectiveIssue():
            return x.name
        case _:
            return x.__doc__ or "a barrier in shared memory"
