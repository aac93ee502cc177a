"""Give the first turn and take the last one, and check that warpgroups that take turns never deadlock.

`bind_threads` has each warpgroup take its turn before an `InTurn` body (bar.sync) and give the next one its turn after
it (bar.arrive). Here the last warpgroup gives the first one its first turn where the kernel begins, and the first takes
the turn that is left over where the kernel ends, so that no barrier is incomplete then.

There is no deadlock, because what a warpgroup waits for is always earlier in the order (turn, warpgroup, statement):

- all warpgroups take as many turns, since nothing that decides it depends on the thread;
- in a turn, none waits at a barrier for those whose turn is later;
- a copy that is waited for in a turn goes to memory that all warpgroups have released before they take that turn.

A wait for copies at the start of a turn is moved before it, so that nobody holds a turn while waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from loopir.errors import LowerError
from loopir.ir.grammar import (
    AXES,
    GROUP_THREADS,
    NAMED_BARRIERS,
    THREAD_AXES,
    Alloc,
    Barrier,
    Body,
    Cmp,
    ExpectTx,
    Func,
    If,
    InstrRegion,
    Int,
    Kernel,
    Loop,
    MBarrierWait,
    SetMaxRegs,
    Stmt,
    Turn,
    Var,
    conjuncts,
)
from loopir.ir.traverse.walk import (
    bodies,
    free_vars,
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    map_kernels,
    statements,
    with_body,
)
from loopir.lower.target import Target


def insert_turns(func: Func, target: Target) -> Func:
    """`func` with the first and the last turn of each kernel whose warpgroups take turns."""
    return map_kernels(func, _with_turns)


def _with_turns(kernel: Kernel) -> Kernel:
    taken = [s for s in statements(kernel.body) if isinstance(s, Turn)]
    if not taken:
        return kernel
    plan = _TurnPlan.of(kernel, taken[0].groups)
    plan.require_enough_barriers()
    return replace(kernel, body=plan.begun_and_ended(plan.checked(kernel.body)))


@dataclass(frozen=True, slots=True)
class _TurnPlan:
    """A kernel whose warpgroups take turns."""

    kernel: Kernel
    groups: int
    group: str
    """The variable that counts warpgroups."""
    threads: frozenset[str]
    written: frozenset[str]
    filled: dict[str, tuple[str, int]]
    """By mbarriers at which buffers are released, those at which they are waited for, and how many there are."""

    @staticmethod
    def of(kernel: Kernel, groups: int) -> _TurnPlan:
        axes = {s.kind: s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind in THREAD_AXES}
        written = frozenset[str]().union(*(leaf_writes(p.stmt) for p in leaf_paths(kernel.body)))
        threads = frozenset(s.var for s in axes.values())
        return _TurnPlan(kernel, groups, axes["threadIdx.z"].var, threads, written, _filled_rings(kernel))

    def require_enough_barriers(self) -> None:
        """Refuse if turns and the barriers of parts of the block need more hardware barriers than there are."""
        extents = [s.extent for s in statements(self.kernel.body) if isinstance(s, Loop) and s.kind in THREAD_AXES]
        copying = GROUP_THREADS * any(isinstance(s, SetMaxRegs) for s in statements(self.kernel.body))
        total = prod(x.value for x in extents if isinstance(x, Int)) - copying
        sizes = {s.threads for s in statements(self.kernel.body) if isinstance(s, Barrier) and s.threads}
        needed = 1 + sum(max(1, total // n) for n in sizes) + self.groups
        if needed > NAMED_BARRIERS:
            raise LowerError(
                f"turns of {self.groups} warpgroups of {self.kernel.name} and its other barriers need {needed} "
                f"hardware barriers, and a block has {NAMED_BARRIERS}"
            )

    def begun_and_ended(self, body: Body) -> Body:
        """`body` with the first turn given before it, and the one that is left over taken after it."""
        if len(body) == 1 and isinstance(only := body[0], Loop) and only.kind in AXES:
            return (replace(only, body=self.begun_and_ended(only.body)),)
        first, last = (Cmp("==", Var(self.group), Int(n)) for n in (0, self.groups - 1))
        give, take = (Turn(Int(0), self.groups, wait=x) for x in (False, True))
        return (If(last, (give,)), *body, If(first, (take,)))

    def checked(self, body: Body, around: tuple[Stmt, ...] = ()) -> Body:
        """`body` with waits for copies moved before the turns in it; LowerError if turns might deadlock."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Turn):
                self.require_uniform(around)
            outer = (*around, s)
            if isinstance(s, If):
                s = If(s.cond, self.checked(s.then, outer), self.checked(s.orelse, outer))
            elif isinstance(s, Loop | Alloc):
                s = with_body(s, self.checked(s.body, outer))
            out.append(s)
        for begin in [n for n, s in enumerate(out) if isinstance(s, Turn) and s.wait]:
            end = next(n for n in range(begin + 1, len(out)) if isinstance(out[n], Turn))
            begin = _after_waits(out, begin, end)
            self.require_no_wait_for_later_turns(out[begin + 1 : end])
        return tuple(out)

    def require_uniform(self, around: Sequence[Stmt]) -> None:
        """Refuse unless all threads of the warpgroups come to a turn equally often."""
        for s in around:
            control = s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else None
            if control is None or (isinstance(s, Loop) and s.kind in AXES):
                continue
            parts = conjuncts(s.cond) if isinstance(s, If) else (control,)
            if any(free_vars(c) & self.threads and not self.is_of_all_groups(c) for c in parts):
                raise LowerError(f"how many turns a warpgroup of {self.kernel.name} takes depends on the thread")
            if read := sorted(loaded_buffers(control) & self.written):
                raise LowerError(f"how many turns {self.kernel.name} has is read from {read[0]}, which it writes")

    def is_of_all_groups(self, c: object) -> bool:
        """Whether `c` holds for all warpgroups that take turns, and may only leave out one that copies."""
        return (
            isinstance(c, Cmp)
            and (c.op, c.a) == ("<", Var(self.group))
            and isinstance(c.b, Int)
            and c.b.value >= self.groups
        )

    def require_no_wait_for_later_turns(self, turn: Sequence[Stmt]) -> None:
        """Refuse a turn in which a warpgroup waits for what another one does in the same turn, or later."""
        events = list(self.events(turn))
        for n, (what, ring) in enumerate(events):
            if what == "barrier":
                raise LowerError(
                    f"warpgroups of {self.kernel.name} meet at a barrier in their turns, where the one that has its "
                    f"turn would wait for those whose turn is later"
                )
            full, slots = self.filled.get(ring, ("", 1))
            if what == "release" and events[n:].count(("wait", full)) >= slots:
                raise LowerError(
                    f"in a turn a warpgroup of {self.kernel.name} would wait for a copy into memory that those whose "
                    f"turn is later release; give the ring more than {slots} buffers, or end turns before the release"
                )

    def events(self, body: Sequence[Stmt]) -> Iterator[tuple[str, str]]:
        """What is waited for and released in `body`, in order; of loops, as many iterations as may matter."""
        for s in body:
            match s:
                case Barrier(threads) if threads != GROUP_THREADS:
                    yield "barrier", ""
                case MBarrierWait(slot):
                    yield "wait", slot.buffer.name
                case ExpectTx(slot, 0):
                    yield "release", slot.buffer.name
                case Loop(_, extent, _, inner):
                    most = 2 + max((slots for _, slots in self.filled.values()), default=0)
                    often = min(most, extent.value) if isinstance(extent, Int) else most
                    yield from list(self.events(inner)) * often
                case _:
                    for inner in bodies(s):
                        yield from self.events(inner)


def _filled_rings(kernel: Kernel) -> dict[str, tuple[str, int]]:
    """By mbarriers at which buffers are released, those at which they are waited for, and how many there are."""
    found: dict[str, tuple[str, int]] = {}
    for inner in (kernel.body, *(b for s in statements(kernel.body) for b in bodies(s))):
        for a, b in pairwise(inner):
            if isinstance(a, MBarrierWait) and isinstance(b, ExpectTx) and b.bytes:
                slots = a.slot.buffer.shape[0]
                found[a.slot.buffer.name] = b.slot.buffer.name, slots.value if isinstance(slots, Int) else 1
    return found


def _after_waits(body: list[Stmt], begin: int, end: int) -> int:
    """Move the turn at `begin` after what is waited for before the first instruction of it; the place where it is."""
    instruction = next((n for n in range(begin, end) if _issues(body[n])), begin)
    waits = [n for n in range(begin, instruction) if isinstance(body[n], MBarrierWait)]
    place = waits[-1] if waits else begin
    body.insert(place, body.pop(begin))
    return place


def _issues(s: Stmt) -> bool:
    return any(isinstance(x, InstrRegion) for x in statements((s,)))
