"""roles: what a Role does is done by a warpgroup of its own, ahead of the others; barriers in shared memory, two for
each buffer that it fills, tell each side how far the other one is.

The nest is taken apart into two that run side by side, each with all of the loops and tests that are around its own
statements: both come by the same turns, in the same order. A turn is an iteration of the loop that the Role is in, and
has one buffer. Who fills it waits until it is empty and tells its barrier of the bytes that will come; who reads it
waits until it is full, and arrives at the other barrier when all is read. So nothing passes between the two sides but
through these buffers, which is asked here: they are filled by nobody else and used in no other turn, and what one side
writes the other does not touch. Nobody waits for ever: in the order in which the loops say it all, each waits for what
stands before it, a fill for the end of an earlier turn, the rest of a turn for its fill; so the first of those that
wait has what it waits for. Where a Role is in a loop bound to warpgroup, turns are those of one warpgroup after the
other, who passes by those of the others; one bit tells turns apart only if none is missed, so each waits until
the one before has been told of its last turn. How many warps of the block meet at a barrier follows: those of the side
that it is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from loopir.analysis.multicast import told_by
from loopir.analysis.simplify import Context, simplify
from loopir.errors import LowerError, TargetError
from loopir.ir.dtypes import uint64
from loopir.ir.grammar import (
    AXES,
    GROUP_WARPS,
    LANES,
    Alloc,
    Await,
    Barrier,
    Body,
    Budget,
    Buffer,
    Cmp,
    Cond,
    Do,
    Expect,
    Func,
    If,
    Index,
    Init,
    Int,
    Kernel,
    Load,
    Loop,
    Mod,
    Role,
    Stmt,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.walk import (
    Place,
    accessed,
    bodies,
    chain,
    fresh,
    loaded,
    map_body,
    map_stmts,
    names,
    places,
    rewrite,
    statements,
    stored,
    substitute,
    variables,
)
from loopir.lower.rings import bytes_of, slot_indices
from loopir.lower.target import Target

GROUP = LANES * GROUP_WARPS
POOL = 64 * 1024
"""Registers of a multiprocessor."""


def roles(func: Func, target: Target) -> Func:
    """`func` with each Role in warps of its own; on a target without, in its place."""

    def visit(s: Stmt) -> Stmt | Body | None:
        if isinstance(s, Role) and not target.instructions:
            return rewrite(s.body, visit)
        if isinstance(s, Kernel) and any(isinstance(x, Role) for x in statements(s.body)) and target.instructions:
            return _Kernel.of(func, s).apart()
        return None

    return replace(func, body=rewrite(func.body, visit))


def _is_release(s: Stmt) -> TypeGuard[Expect]:
    return isinstance(s, Expect) and s.bytes == 0


def releases(s: Stmt) -> bool:
    """Whether `s` says that a buffer is read, and nothing else."""
    return _is_release(s) or (isinstance(s, If) and not s.orelse and bool(s.then) and all(map(_is_release, s.then)))


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel with one Role: its axes, the loop over turns, and what is around both."""

    func: Func
    kernel: Kernel
    axes: dict[str, Loop]
    role: Role
    loop: Loop
    slot: Index
    """Which buffer a turn has."""
    count: int
    """How many there are."""
    around: tuple[Stmt, ...]
    """What is around the Role, outermost first, inside the axes."""

    @staticmethod
    def of(func: Func, kernel: Kernel) -> _Kernel:
        found = [s for s in statements(kernel.body) if isinstance(s, Role)]
        if len(found) > 1:
            raise LowerError(
                f"{kernel.name} has {len(found)} parts for warps of their own, and there is "
                "room for one; leave the others without specialize_warps"
            )
        axes = {s.kind: s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind in AXES}
        extents = [x.extent if (x := axes.get(f"threadIdx.{a}")) else None for a in "xy"]
        if extents != [Int(LANES), Int(GROUP_WARPS)]:
            raise LowerError(
                f"{kernel.name} has warps with a role, and threads that are no warpgroups; bind to warpgroup"
            )
        around = chain(kernel.body, found[0])[:-1]
        loop = next((s for s in reversed(around) if isinstance(s, Loop) and s.kind not in AXES), None)
        if loop is None:
            raise LowerError(f"nothing in {kernel.name} takes turns with its role, which is in no loop")
        slot, count = _turns(kernel, found[0], loop)
        within = tuple(s for s in around if not (isinstance(s, Loop) and s.kind in AXES))
        made = _Kernel(func, kernel, axes, found[0], loop, slot, count, within)
        made.require_alike()
        return made

    @property
    def groups(self) -> int:
        """Warpgroups of the other side."""
        z = self.axes.get("threadIdx.z")
        assert z is None or isinstance(z.extent, Int)
        return z.extent.value if z is not None and isinstance(z.extent, Int) else 1

    @property
    def whose(self) -> Stmt | None:
        """Where turns are those of one warpgroup or another, what has those of one; None where all have each together.

        That is what stands right in the innermost loop around that of the turns.
        """
        z = self.axes.get("threadIdx.z")
        if z is None or not any(z.var in variables(x) for x in (self.role, *self.deciding())):
            return None
        depth = next(n for n, s in enumerate(self.around) if s is self.loop)
        outer = max((n + 1 for n, s in enumerate(self.around[:depth]) if isinstance(s, Loop)), default=0)
        return self.around[outer]

    def deciding(self) -> list[Index | Cond]:
        """What decides how often the Role is done."""
        tests = [s.cond for s in self.around if isinstance(s, If) and not self.is_elected(s)]
        return [s.extent for s in self.around if isinstance(s, Loop)] + tests

    def require_alike(self) -> None:
        """Refuse unless all threads that take turns together, and the Role, come by the same ones."""
        threads = {x.var for k, x in self.axes.items() if k.startswith("threadIdx")}
        whose = self.whose
        inside = self.around[self.around.index(whose) :] if whose is not None else ()
        group = {self.axes["threadIdx.z"].var} if whose is not None else set[str]()
        for s in self.around:
            decides = (
                s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) and not self.is_elected(s) else None
            )
            if decides is not None and variables(decides) & (threads - (group if s in inside else set())):
                raise LowerError(f"how often the role in {self.kernel.name} runs is not the same for all threads")
        met = whose is not None and any(isinstance(s, Barrier) and not s.threads for s in statements((whose,)))
        if met:
            raise LowerError(f"warpgroups of {self.kernel.name} meet inside of turns that are not those of all of them")

    def apart(self) -> Kernel:
        own, others = self.role.registers
        threads = GROUP * (1 + self.groups)
        if GROUP * (own + others * self.groups) > (pool := POOL // threads // 8 * 8 * threads):
            raise TargetError(
                f"{GROUP} threads with {own} registers and {GROUP * self.groups} with {others} take more than {pool}"
            )
        taken = names(self.func)
        full, empty = (self.ring(f"ring_{x}", taken) for x in ("full", "empty"))
        group = self.axes["threadIdx.z"].var if "threadIdx.z" in self.axes else fresh("group", taken)
        shared = [s.buffer for s in statements(self.kernel.body) if isinstance(s, Alloc) and s.buffer.scope == "shared"]
        lane, warp = (Var(self.axes[f"threadIdx.{a}"].var) for a in "xy")
        inner = _inside(self.kernel.body)
        filled = Load(full, (self.slot,))
        filling = self.filling(inner, self.fill(filled, Load(empty, (self.slot,))), taken)
        one = conj(Cmp("==", lane, Int(0)), Cmp("==", warp, Int(0)))
        first = conj(one, Cmp("==", Var(group), Int(0)))
        by_warp = all(isinstance(p.around[-1], Do) or self.is_product(p) for p in self.readers())
        readers = self.groups if self.whose is None else 1
        order = None
        if self.whose is not None:
            order = _Order(self.ring("ring_order", taken, self.groups), group, lane, self.groups)
        arrivals = readers * (GROUP_WARPS if by_warp else GROUP) * self.blocks
        whole: Body = (
            If(first, (Init(full, 1), Init(empty, arrivals), *(() if order is None else order.made()))),
            Barrier(cluster=self.blocks > 1),
            If(
                Cmp("<", Var(group), Int(self.groups)),
                (
                    Budget(others, more=True),
                    *(() if order is None else order.begun()),
                    *self.using(inner, filled, self.released(empty, lane if by_warp else None), order, taken),
                ),
                (Budget(own, more=False), If(one, filling)),
            ),
            *((Barrier(cluster=True),) if self.blocks > 1 else ()),  # others may still arrive here
        )
        for b in (*reversed(shared), *(() if order is None else (order.ring,)), empty, full):
            whole = (Alloc(b, whole),)
        launch = [(x.var, x.extent, k) for k, x in self.axes.items() if k != "threadIdx.z"]
        launch.append((group, Int(self.groups + 1), "threadIdx.z"))
        for var, extent, kind in sorted(launch, key=lambda x: AXES.index(x[2]), reverse=True):
            whole = (Loop(var, extent, kind, whole),)
        return replace(self.kernel, body=whole)

    def ring(self, hint: str, taken: set[str], count: int | None = None) -> Buffer:
        taken.add(name := fresh(hint, taken))
        return Buffer(name, (Int(count or self.count),), uint64, "shared")

    def readers(self) -> list[Place]:
        filled = _filled(self.role)
        here = [p for p in places(self.kernel.body) if not any(s is self.role for s in p.around)]
        return [p for p in here if accessed(p.stmt) & filled]

    def is_product(self, p: Place) -> bool:
        return any(isinstance(s, Do) and s.fn.asynchronous == "products" for s in p.around)

    @property
    def blocks(self) -> int:
        """How many blocks of a cluster fill each other's memory."""
        shared = [s for s in statements(self.role.body) if isinstance(s, Loop) and s.kind == "multicast"]
        return max((s.extent.value for s in shared if isinstance(s.extent, Int)), default=1)

    def marked(self, body: Body, slot: Load, blocks: int = 1) -> Body:
        """`body` with its copies told where they count; a loop whose iterations are one for each block of a cluster is
        the iteration of this one, for all."""

        def visit(s: Stmt) -> Stmt | Body | None:
            if isinstance(s, Do):
                return replace(s, ring=slot, blocks=blocks)
            if not isinstance(s, Loop) or s.kind != "multicast":
                return None
            cluster = self.axes.get("cluster")
            if cluster is None or cluster.extent != s.extent:
                raise LowerError(f"loop {s.var} has not one iteration for each block of a cluster")
            if (odd := told_by(self.kernel.body, s, cluster.var)) is not None:
                raise LowerError(f"iterations of {s.var} are not the same in all blocks of a cluster: {odd}")
            return self.marked(tuple(substitute(x, {s.var: Var(cluster.var)}) for x in s.body), slot, self.blocks)

        return rewrite(body, visit)

    # ------------------------------------------------------------ the two sides

    def fill(self, full: Load, empty: Load) -> Body:
        """What the Role does in a turn."""
        told = Expect(full, sum(map(bytes_of, self.role.body)))
        return (Await(empty, 1), told, *self.marked(self.role.body, full))

    def filling(self, body: Body, fill: Body, taken: set[str]) -> Body:
        """What of `body` the Role does, in loops with names of their own: `fill` in each turn, for each warpgroup."""
        out: list[Stmt] = []
        for s in body:
            if s is self.whose:
                z = self.axes["threadIdx.z"].var
                taken.add(name := fresh(f"{z}_of", taken))
                inner = tuple(substitute(x, {z: Var(name)}) for x in self.passing(s, fill, taken))
                out.append(Loop(name, Int(self.groups), "serial", inner))
            else:
                out += self.passing(s, fill, taken)
        return tuple(out)

    def passing(self, s: Stmt, fill: Body, taken: set[str]) -> Body:
        """The loops and tests in `s` that are around the Role, and `fill` in its place."""
        if s is self.role:
            return fill
        if not any(x is self.role for x in statements((s,))):
            return ()
        then, *orelse = (self.filling(x, fill, taken) for x in bodies(s))
        if isinstance(s, Loop):
            taken.add(name := fresh(s.var, taken))
            return (Loop(name, s.extent, s.kind, tuple(substitute(x, {s.var: Var(name)}) for x in then)),)
        return (If(s.cond, then, *orelse),) if isinstance(s, If) and not self.is_elected(s) else then

    def is_elected(self, s: If) -> bool:
        """Whether `s` picks the thread that does the Role's part, and has nothing else."""
        threads = {x.var for k, x in self.axes.items() if k.startswith("threadIdx")}
        alone = len(s.then) == 1 and s.then[0] is self.role and not s.orelse
        return alone and all(variables(c) <= threads for c in conjuncts(s.cond))

    def released(self, empty: Buffer, lane: Var | None) -> Body:
        """A turn's buffer is read: that is told to all blocks that fill it; by a lane of each warp, or each thread."""
        slot = Load(empty, (self.slot,))
        if self.blocks == 1:
            return (Expect(slot, 0),) if lane is None else (If(Cmp("==", lane, Int(0)), (Expect(slot, 0),)),)
        if lane is not None:
            return (If(Cmp("<", lane, Int(self.blocks)), (Expect(slot, 0, lane),)),)
        return tuple(Expect(slot, 0, Int(n)) for n in range(self.blocks))

    def using(self, body: Body, full: Load, done: Body, order: _Order | None, taken: set[str]) -> Body:
        """What of `body` the others do, with what they tell when a turn is `done`, in `order` if they take turns."""
        filled, whose = _filled(self.role), self.whose

        def visit(s: Stmt, own: bool = False) -> Stmt | Body:
            if isinstance(s, If) and self.is_elected(s):
                return ()
            if isinstance(s, Barrier):
                return s if s.threads else Barrier(GROUP * self.groups)
            if s is whose and not own:
                z = self.axes["threadIdx.z"].var
                taken.add(name := fresh(f"{z}_of", taken))
                passed = self.passing(s, (replace(Await(full), skip=True),), taken)
                passed = tuple(substitute(x, {z: Var(name)}) for x in passed)
                mine = visit(s, own=True)
                turns = If(Cmp("==", Var(name), Var(z)), mine if isinstance(mine, tuple) else (mine,), passed)
                return Loop(name, Int(self.groups), "serial", (turns,))
            if isinstance(s, Alloc) and s.buffer.scope == "shared":
                return map_body(s.body, visit)
            if isinstance(s, If) and order is not None and s in self.around:
                other = (*s.orelse, order.wait(), order.next())
                return map_stmts(replace(s, orelse=other), visit)  # who has no turns lets the next one have its
            if s is self.loop and isinstance(s, Loop):
                return turn(s)
            return map_stmts(s, visit)

        def turn(s: Loop) -> Body:
            inner = [x for x in s.body if not (isinstance(x, If) and self.is_elected(x))]
            reading = [n for n, x in enumerate(inner) if accessed(x) & filled]
            begin, end = reading[0], reading[-1] + 1
            waiting: Body = (Await(full),)
            if order is not None:
                waiting = (Await(full), If(Cmp("==", Var(s.var), s.extent - 1), (order.next(),)))
            whole = replace(s, body=(*inner[:begin], *waiting, *inner[begin:end], *done, *inner[end:]))
            made = map_stmts(whole, visit)
            if order is None:
                return (made,)
            none = () if isinstance(s.extent, Int) and s.extent.value > 0 else (order.unless(s.extent),)
            return (order.wait(), made, *none)

        return map_body(body, visit)


@dataclass(frozen=True, slots=True)
class _Order:
    """The order in which warpgroups have their turns: `ring` has a barrier for each, at which the one before it, when
    it has been told of its last turn, arrives with all of its warps."""

    ring: Buffer
    group: str
    lane: Var
    groups: int

    def made(self) -> Body:
        return (Init(self.ring, GROUP_WARPS),)

    def begun(self) -> Body:
        """The first one may begin."""
        last = conj(Cmp("==", Var(self.group), Int(self.groups - 1)), Cmp("==", self.lane, Int(0)))
        return (If(last, (Expect(Load(self.ring, (Int(0),)), 0),)),)

    def wait(self) -> Stmt:
        return Await(Load(self.ring, (Var(self.group),)))

    def next(self) -> Stmt:
        coming = (Var(self.group) + 1) % self.groups
        return If(Cmp("==", self.lane, Int(0)), (Expect(Load(self.ring, (coming,)), 0),))

    def unless(self, extent: Index) -> Stmt:
        """Where there are no turns at all."""
        return If(Cmp("<=", extent, Int(0)), (self.next(),))


def _inside(body: Body) -> Body:
    """What the axes of a launch enclose."""
    while len(body) == 1 and isinstance(only := body[0], Loop) and only.kind in AXES:
        body = only.body
    return body


def _filled(role: Role) -> frozenset[str]:
    return frozenset[str]().union(*map(stored, role.body))


def _turns(kernel: Kernel, role: Role, loop: Loop) -> tuple[Index, int]:
    """The buffer that an iteration of `loop` has, and how many there are; LowerError where it is not so."""
    filled = _filled(role)
    here = list(places(kernel.body))
    mine = [p for p in here if any(s is role for s in p.around)]
    others = [p for p in here if p not in mine]
    using = [p for p in others if accessed(p.stmt) & filled]
    _require_apart(kernel, mine, others, filled)
    inside = [p for p in using if any(s is loop for s in p.around)]
    if not using or len(inside) < len(using) or min(p.path for p in using) < max(p.path for p in mine):
        raise LowerError(f"what the role in {kernel.name} fills is used outside of the rest of loop {loop.var}")
    found = {simplify(at, Context()) for p in (*mine, *using) for at in slot_indices(p, filled)}
    slot = found.pop()
    sizes = {s.buffer.shape[0] for s in statements(kernel.body) if isinstance(s, Alloc) and s.buffer.name in filled}
    size = sizes.pop()
    turn = slot.a if isinstance(slot, Mod) and slot.b == size else slot
    coming = simplify(substitute(turn, {loop.var: Var(loop.var) + 1}), Context())
    in_turn = coming == simplify(turn + 1, Context()) or loop.extent == Int(1)
    if found or sizes or not isinstance(size, Int) or not in_turn:
        raise LowerError(
            f"an iteration of {loop.var} has not the buffer after that of the one before, in turn, for all"
        )
    return slot, size.value


def _require_apart(kernel: Kernel, mine: Sequence[Place], others: Sequence[Place], filled: frozenset[str]) -> None:
    """Refuse unless the two sides share but what the Role fills, by copies that tell of their bytes."""
    for p in mine:
        if not any(isinstance(s, Do) and s.fn.asynchronous == "bytes" for s in p.around):
            raise LowerError(f"{p.stmt.label} is to be done ahead, and is no copy that counts its bytes; tensorize it")
    written = frozenset[str]().union(*(stored(p.stmt) for p in others))
    read = frozenset[str]().union(*(loaded(p.stmt) for p in mine))
    if shared := sorted(written & (read | filled)):
        raise LowerError(f"{', '.join(shared)}, which the role in {kernel.name} copies, is written beside it")
    for s in (s for p in mine for s in p.around if isinstance(s, Loop | If)):
        if loaded(s.extent if isinstance(s, Loop) else s.cond):
            raise LowerError(f"what decides how often the role in {kernel.name} runs is read from memory")
