"""Warp specialization: move producers to warps of their own, synchronized with the consumers by mbarriers.

Each ring slot has two mbarriers, "full" and "empty". The nest is split into two that run concurrently, each with all
loops and tests around its own statements, so both run the same iterations in the same order. An iteration of the loop
around the WarpSpecialized statement has one slot. The producer waits until the slot is empty and sets the bytes to
expect; the consumer waits until it is full, and arrives at the "empty" mbarrier when it has read everything. This pass
checks that the two sides share nothing else: slots are filled by nobody else and used in no other iteration, and
neither side accesses what the other one writes. There is no deadlock: in the sequential order, a fill waits for the end
of an earlier iteration, and the rest of an iteration for its fill, so the first side that waits always gets what it
waits for. In a loop bound to warpgroups, the warpgroups have the iterations in turn and skip those of the others; as an
mbarrier has one bit for its phase, none may be missed, so each waits until the one before it has seen its last phase.
Barriers of the block become barriers of the warps of their side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopir.analysis.dependence.multicast import multicast_obstacle
from loopir.errors import LowerError, TargetError
from loopir.ir.dtypes import uint64
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    GROUP_THREADS,
    GROUP_WARPS,
    LANES,
    Alloc,
    AsyncWait,
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
    SetMaxRegs,
    Stmt,
    Var,
    WarpSpecialized,
    conj,
    conjuncts,
)
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    bodies,
    free_vars,
    fresh_name,
    leaf_paths,
    map_body,
    map_stmts,
    path_within,
    rewrite,
    statements,
    substitute,
    take_name,
    taken_names,
)
from loopir.lower.gpu.asynchronous.async_groups import is_issued
from loopir.lower.gpu.asynchronous.insert_mbarrier_waits import transaction_bytes
from loopir.lower.gpu.asynchronous.ring_slots import (
    TurnOrder,
    filled_by,
    require_handed_over,
    ring_slot,
    slot_of,
    uses_after,
)
from loopir.lower.target import Target

POOL = 64 * 1024
"""Registers of a multiprocessor."""


def warp_specialize(func: Func, target: Target) -> Func:
    """`func` with each WarpSpecialized body in warps of its own; on a target without warps, in place."""
    taken = taken_names(func)

    def visit(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, WarpSpecialized) and not target.instructions:
            return rewrite(s.body, visit)
        if (
            isinstance(s, Kernel)
            and any(isinstance(x, WarpSpecialized) for x in statements(s.body))
            and target.instructions
        ):
            return _specialize_kernel(taken, s)
        return None

    return replace(func, body=rewrite(func.body, visit))


def _specialize_kernel(taken: set[str], kernel: Kernel) -> Kernel:
    """`kernel` with each producer in warps of its own; in both versions if blocks run one of two."""
    axes = {s.kind: s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind in AXES}
    z = axes.get("threadIdx.z")
    taken.add(group := z.var if z is not None else fresh_name("group", taken))
    groups = z.extent.value if z is not None and isinstance(z.extent, Int) else 1
    numbers = {x.var for k, x in axes.items() if k in BLOCK_AXES} if "cluster" not in axes else set[str]()

    def specialize(inner: Body) -> Body:
        """Each way that a block's number decides by itself: of several merged grids, one test stands in another."""
        match inner:
            case (If(cond, then, orelse), *end) if free_vars(cond) <= numbers and all(
                isinstance(s, AsyncWait) for s in end
            ):
                return (If(cond, specialize((*then, *end)), specialize((*orelse, *end))),)
            case _:
                return _RolePlan(taken, kernel, axes, inner, group, groups).specialized()

    body = specialize(_launch_body(kernel.body))
    launch = [(x.var, x.extent, k) for k, x in axes.items() if x is not z]
    launch.append((group, Int(groups + 1), "threadIdx.z"))
    for var, extent, kind in sorted(launch, key=lambda x: AXES.index(x[2]), reverse=True):
        body = (Loop(var, extent, kind, body),)
    return replace(kernel, body=body)


@dataclass(frozen=True, slots=True)
class _RoleRing:
    """A WarpSpecialized statement of a kernel, the loop around it, and the mbarriers of its slots."""

    role: WarpSpecialized
    loop: Loop | None
    """None where turns are those of several places, or there is one."""
    slot: Index
    """Which buffer a turn has."""
    around: tuple[Stmt, ...]
    """The statements around the producer, outermost first, inside the axes."""
    full: Buffer
    empty: Buffer

    @property
    def filled(self) -> frozenset[str]:
        return filled_by(self.role)

    @property
    def is_full(self) -> Load:
        return Load(self.full, (self.slot,))

    @property
    def is_empty(self) -> Load:
        return Load(self.empty, (self.slot,))

    @property
    def blocks(self) -> int:
        """How many blocks of a cluster fill each other's memory."""
        shared = [s for s in statements(self.role.body) if isinstance(s, Loop) and s.kind == "multicast"]
        return max((s.extent.value for s in shared if isinstance(s.extent, Int)), default=1)


class _RolePlan:
    """Split the body of a kernel, or the part of it that some blocks run, into producer and consumer warps. One thread
    runs the bodies of all WarpSpecialized statements, in the order of the nest."""

    def __init__(
        self, taken: set[str], kernel: Kernel, axes: Mapping[str, Loop], body: Body, group: str, groups: int
    ) -> None:
        self.taken, self.kernel, self.axes, self.body = taken, kernel, axes, body
        self.group, self.groups = group, groups
        """The number of a warpgroup, and how many there are of the other side."""
        self.threads = {group, *(x.var for k, x in axes.items() if k.startswith("threadIdx"))}
        extents = [x.extent if (x := self.axes.get(f"threadIdx.{a}")) else None for a in "xy"]
        if extents != [Int(LANES), Int(GROUP_WARPS)]:
            raise LowerError(
                f"{kernel.name} has warps with a role, and threads that are no warpgroups; bind to warpgroup"
            )
        self.lane, self.warp = (Var(axes[f"threadIdx.{a}"].var) for a in "xy")
        self.known: dict[frozenset[str], tuple[Buffer, Buffer]] = {}
        """The barriers of the buffers that Roles fill, some of which several fill in turn."""
        self.turns = [self.taking(s) for s in statements(body) if isinstance(s, WarpSpecialized)]
        for t in self.turns:
            self.require_alike(t)
        lists = [self.kernel.body, *(s.body for s in statements(self.kernel.body) if isinstance(s, Loop | Alloc))]
        for filled in dict.fromkeys(t.filled for t in self.turns if t.loop is None):
            require_handed_over(kernel, lists, filled)
        self.order: TurnOrder | None = None
        self.alone = next((t for t in self.turns if self.whose(t) is not None), None)
        """Of whose turns each is one warpgroup's."""
        if self.alone is not None and len(self.turns) > 1:
            raise LowerError(f"{kernel.name} has several roles, and warpgroups take turns with one of them in turn")

    def taking(self, role: WarpSpecialized) -> _RoleRing:
        around = path_within(self.kernel.body, role)[:-1]
        loop = next((s for s in reversed(around) if isinstance(s, Loop) and s.kind not in AXES), None)
        within = tuple(s for s in around if not (isinstance(s, Loop) and s.kind in AXES))
        filled = filled_by(role)
        alike = [s for s in statements(self.body) if isinstance(s, WarpSpecialized) and filled_by(s) == filled]
        if loop is None or len(alike) > 1:  # places of their own, each with what uses the buffer right after it
            slot, count = slot_of(self.kernel, role)
        else:
            slot, count = ring_slot(self.kernel, role, loop)
        if filled not in self.known:
            self.known[filled] = self.ring("ring_full", count), self.ring("ring_empty", count)
        return _RoleRing(role, loop if len(alike) == 1 else None, slot, within, *self.known[filled])

    def ring(self, hint: str, count: int) -> Buffer:
        return Buffer(self.named(hint), (Int(count),), uint64, "shared")

    def named(self, hint: str) -> str:
        return take_name(hint, self.taken)

    def whose(self, t: _RoleRing) -> Stmt | None:
        """Where turns are those of one warpgroup or another, what has those of one; None where all have each together.

        That is what stands right in the innermost loop around that of the turns.
        """
        if t.loop is None or not any(self.group in free_vars(x) for x in (t.role, *self.deciding(t))):
            return None
        depth = next(n for n, s in enumerate(t.around) if s is t.loop)
        outer = max((n + 1 for n, s in enumerate(t.around[:depth]) if isinstance(s, Loop)), default=0)
        return t.around[outer]

    def deciding(self, t: _RoleRing) -> list[Index | Cond]:
        """The conditions and extents that determine how often a producer runs."""
        tests = [s.cond for s in t.around if isinstance(s, If) and not self.is_elected(s)]
        return [s.extent for s in t.around if isinstance(s, Loop)] + tests

    def require_alike(self, t: _RoleRing) -> None:
        """Refuse unless all consumer threads, and the producer, run the same iterations."""
        whose, name = self.whose(t), self.kernel.name
        inside = t.around[t.around.index(whose) :] if whose is not None else ()
        group = {self.group} if whose is not None else set[str]()
        for s in t.around:
            decides = (
                s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) and not self.is_elected(s) else None
            )
            if decides is not None and free_vars(decides) & (self.threads - (group if s in inside else set())):
                raise LowerError(f"how often the role in {name} runs is not the same for all threads")
        if whose is not None and any(isinstance(s, Barrier) and not s.threads for s in statements((whose,))):
            raise LowerError(f"warpgroups of {name} meet inside of turns that are not those of all of them")

    def registers(self) -> tuple[int, int]:
        """Of a thread on each side."""
        (own, others), *more = dict.fromkeys(t.role.registers for t in self.turns)
        if more:
            raise LowerError(
                f"the roles in {self.kernel.name} are of one warpgroup, whose threads have {own} registers by one "
                f"and {more[0][0]} by another, or leave the others not the same"
            )
        threads = GROUP_THREADS * (1 + self.groups)
        if GROUP_THREADS * (own + others * self.groups) > (pool := POOL // threads // 8 * 8 * threads):
            raise TargetError(
                f"{GROUP_THREADS} threads with {own} registers and {GROUP_THREADS * self.groups} with {others} take "
                f"more than {pool}"
            )
        return own, others

    def specialized(self) -> Body:
        others = Cmp("<", Var(self.group), Int(self.groups))
        shared = [s.buffer for s in statements(self.body) if isinstance(s, Alloc) and s.buffer.scope == "shared"]
        if not self.turns:
            return _allocated(shared, (If(others, self.using(self.body)),))
        own, more = self.registers()
        if self.alone is not None:
            self.order = TurnOrder(self.ring("ring_order", self.groups), self.group, self.lane, self.groups)
        filling = self.filling(self.body, {t.role: self.fill(t) for t in self.turns})
        one = conj(Cmp("==", self.lane, Int(0)), Cmp("==", self.warp, Int(0)))
        first = conj(one, Cmp("==", Var(self.group), Int(0)))
        once = [*{t.full.name: t for t in self.turns}.values()]
        inits = [x for t in once for x in (MBarrierInit(t.full, 1), MBarrierInit(t.empty, self.arrivals(t)))]
        cluster = any(t.blocks > 1 for t in self.turns)
        order = self.order
        using = (*(() if order is None else order.begun()), *self.using(self.body))
        whole: Body = (
            If(first, (*inits, *(() if order is None else order.made()))),
            Barrier(cluster=cluster),
            If(others, (SetMaxRegs(more, more=True), *using), (SetMaxRegs(own, more=False), If(one, filling))),
            *((Barrier(cluster=True),) if cluster else ()),  # others may still arrive here
        )
        rings = [x for t in once for x in (t.full, t.empty)]
        return _allocated((*rings, *(() if order is None else (order.ring,)), *shared), whole)

    def by_warp(self, t: _RoleRing) -> bool:
        """Whether one lane of a warp arrives for all of it: the buffer is read by instructions of whole warps."""
        here = [p for p in leaf_paths(self.kernel.body) if not p.is_in_role]
        readers = [p for p in here if accessed_buffers(p.stmt) & t.filled]
        return all(isinstance(p.around[-1], InstrRegion) or _is_product(p) for p in readers)

    def arrivals(self, t: _RoleRing) -> int:
        readers = self.groups if self.whose(t) is None else 1
        return readers * (GROUP_WARPS if self.by_warp(t) else GROUP_THREADS) * t.blocks

    def marked(self, body: Body, slot: Load, all_of: int, blocks: int = 1) -> Body:
        """`body` with its copies counted at `slot`; a loop whose iterations are one for each block of a cluster is
        the iteration of this one, for `all_of` them."""

        def visit(s: Stmt) -> Stmt | Body | None:
            if isinstance(s, InstrRegion):
                return replace(s, ring=slot, blocks=blocks)
            if not isinstance(s, Loop) or s.kind != "multicast":
                return None
            cluster = self.axes.get("cluster")
            if cluster is None or cluster.extent != s.extent:
                raise LowerError(f"loop {s.var} has not one iteration for each block of a cluster")
            if (odd := multicast_obstacle(self.kernel.body, s, cluster.var)) is not None:
                raise LowerError(f"iterations of {s.var} are not the same in all blocks of a cluster: {odd}")
            return self.marked(tuple(substitute(x, {s.var: Var(cluster.var)}) for x in s.body), slot, all_of, all_of)

        return rewrite(body, visit)

    # ------------------------------------------------------------ the two sides

    def fill(self, t: _RoleRing) -> Body:
        """What a producer does in one iteration."""
        expected = ExpectTx(t.is_full, sum(map(transaction_bytes, t.role.body)))
        return (MBarrierWait(t.is_empty, 1), expected, *self.marked(t.role.body, t.is_full, t.blocks))

    def filling(self, body: Body, fill: Mapping[WarpSpecialized, Body]) -> Body:
        """What of `body` the Roles do, in loops with names of their own: `fill` in each turn, for each warpgroup."""
        out: list[Stmt] = []
        for s in body:
            if self.alone is not None and s is self.whose(self.alone):
                name = self.named(f"{self.group}_of")
                inner = tuple(substitute(x, {self.group: Var(name)}) for x in self.passing(s, fill))
                out.append(Loop(name, Int(self.groups), "serial", inner))
            else:
                out += self.passing(s, fill)
        return tuple(out)

    def passing(self, s: Stmt, fill: Mapping[WarpSpecialized, Body]) -> Body:
        """The loops and tests in `s` around a producer, with `fill` in its place."""
        if isinstance(s, WarpSpecialized):
            return fill[s]
        if not any(isinstance(x, WarpSpecialized) for x in statements((s,))):
            return ()
        then, *orelse = (self.filling(x, fill) for x in bodies(s))
        if isinstance(s, Loop):
            name = self.named(s.var)
            return (Loop(name, s.extent, s.kind, tuple(substitute(x, {s.var: Var(name)}) for x in then)),)
        return (If(s.cond, then, *orelse),) if isinstance(s, If) and not self.is_elected(s) else then

    def does(self, s: Stmt, role: WarpSpecialized) -> bool:
        """Whether `s` is `role`, or nothing but the part of the thread that does it."""
        return s is role or (isinstance(s, If) and self.is_elected(s) and any(x is role for x in s.then))

    def is_elected(self, s: Stmt) -> bool:
        """Whether `s` only selects the thread that runs a producer's part."""
        if not isinstance(s, If) or s.orelse or not all(isinstance(x, WarpSpecialized) for x in s.then):
            return False
        return all(free_vars(c) <= self.threads for c in conjuncts(s.cond))

    def released(self, t: _RoleRing) -> Body:
        """Arrive, when a turn's buffer is read, in all blocks that fill it: a lane of each warp, or each thread."""
        slot, warp, lane = t.is_empty, self.by_warp(t), self.lane
        if t.blocks == 1:
            return (If(Cmp("==", lane, Int(0)), (ExpectTx(slot, 0),)),) if warp else (ExpectTx(slot, 0),)
        if warp:
            return (If(Cmp("<", lane, Int(t.blocks)), (ExpectTx(slot, 0, lane),)),)
        return tuple(ExpectTx(slot, 0, Int(n)) for n in range(t.blocks))

    def using(self, body: Body) -> Body:
        """What of `body` the consumers do: they arrive when a turn is done, in order if they take turns."""
        return map_body(self.sites(body), self.consumed)

    def consumed(self, s: Stmt) -> Stmt | Body:
        """What of `s` the consumers do."""
        if self.is_elected(s):
            return ()
        if isinstance(s, Barrier):
            return s if s.threads else Barrier(GROUP_THREADS * self.groups)
        if self.alone is not None and s is self.whose(self.alone):
            return self.in_own_turns(s, self.alone)
        return self.consumed_nest(s)

    def in_own_turns(self, s: Stmt, alone: _RoleRing) -> Stmt:
        """`s`, of which each warpgroup does its own turns, and passes those of the others."""
        name = self.named(f"{self.group}_of")
        passed = self.passing(s, {alone.role: (replace(MBarrierWait(alone.is_full), skip=True),)})
        passed = tuple(substitute(x, {self.group: Var(name)}) for x in passed)
        mine = self.consumed_nest(s)
        turns = If(Cmp("==", Var(name), Var(self.group)), mine if isinstance(mine, tuple) else (mine,), passed)
        return Loop(name, Int(self.groups), "serial", (turns,))

    def consumed_nest(self, s: Stmt) -> Stmt | Body:
        """`s` with what the consumers do of the statements in it."""
        if isinstance(s, Alloc) and s.buffer.scope == "shared":
            return self.using(s.body)
        if isinstance(s, If) and self.order is not None and self.alone is not None and s in self.alone.around:
            other = (*s.orelse, self.order.wait(), self.order.next())
            s = replace(s, orelse=other)  # who has no turns lets the next one have its
        elif isinstance(s, Loop) and (mine := [t for t in self.turns if t.loop is s]):
            return self.in_turns(s, mine)
        elif isinstance(s, Loop | Alloc) and any(self.does(x, t.role) for x in s.body for t in self.turns):
            s = replace(s, body=self.sites(s.body))
        return map_stmts(s, self.consumed)

    def sites(self, inner: Body) -> Body:
        """`inner` with waits before the first use of what Roles in it fill, and arrivals after the last."""
        here = [(n, t) for n, x in enumerate(inner) for t in self.turns if t.loop is None and self.does(x, t.role)]
        before: dict[int, list[Stmt]] = {}
        after: dict[int, list[Stmt]] = {}
        for n, t in here:
            uses = uses_after(inner, n, t.filled)
            before.setdefault(uses[0], []).append(MBarrierWait(t.is_full))
            after.setdefault(uses[-1], []).extend(self.released(t))
        gone = {n for n, _ in here}
        kept = ((n, x) for n, x in enumerate(inner) if n not in gone)
        return tuple(y for n, x in kept for y in (*before.get(n, ()), x, *after.get(n, ())))

    def in_turns(self, s: Loop, mine: Sequence[_RoleRing]) -> Body:
        """A loop of which each iteration waits until its slots are full, and releases them after the last use."""
        order = self.order
        inner = [x for x in s.body if not self.is_elected(x)]
        before: list[list[Stmt]] = [[] for _ in inner]
        after: list[list[Stmt]] = [[] for _ in inner]
        for t in mine:
            reading = [n for n, x in enumerate(inner) if accessed_buffers(x) & t.filled]
            before[reading[0]].append(MBarrierWait(t.is_full))
            after[reading[-1]] += self.released(t)
            if order is not None:
                before[reading[0]].append(If(Cmp("==", Var(s.var), s.extent - 1), (order.next(),)))
        whole = [y for n, x in enumerate(inner) for y in (*before[n], x, *after[n])]
        made = map_stmts(replace(s, body=tuple(whole)), self.consumed)
        if order is None:
            return (made,)
        none = () if isinstance(s.extent, Int) and s.extent.value > 0 else (order.unless(s.extent),)
        return (order.wait(), made, *none)


def _allocated(buffers: Sequence[Buffer], body: Body) -> Body:
    for b in reversed(buffers):
        body = (Alloc(b, body),)
    return body


def _is_product(p: StmtPath) -> bool:
    return is_issued(p, "products")


def _launch_body(body: Body) -> Body:
    """What the axes of a launch enclose."""
    while len(body) == 1 and isinstance(only := body[0], Loop) and only.kind in AXES:
        body = only.body
    return body
