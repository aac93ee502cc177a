"""roles: what a Role does is done by a warpgroup of its own, ahead of the others; barriers in shared memory, two for
each buffer that it fills, tell each side how far the other one is.

The nest is taken apart into two that run side by side, each with all of the loops and tests that are around its own
statements: both come by the same turns, in the same order. A turn is an iteration of the loop that the Role is in, and
has one buffer. Who fills it waits until it is empty and tells its barrier of the bytes that will come; who reads it
waits until it is full, and arrives at the other barrier when all is read. So nothing passes between the two sides but
through these buffers, which is asked here: they are filled by nobody else and used in no other turn, and what one side
writes the other does not touch. Nobody waits for ever: in the order in which the loops say it all, each waits for what
stands before it, a fill for the end of an earlier turn, the rest of a turn for its fill; so the first of those that
wait has what it waits for. How many warps of the block meet at a barrier follows: those of the side that it is on.
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

    @staticmethod
    def of(func: Func, kernel: Kernel) -> _Kernel:
        found = [s for s in statements(kernel.body) if isinstance(s, Role)]
        if len(found) > 1:
            raise LowerError(f"{kernel.name} has {len(found)} parts for warps of their own, and there is room for one")
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
        return _Kernel(func, kernel, axes, found[0], loop, slot, count)

    @property
    def groups(self) -> int:
        """Warpgroups of the other side."""
        z = self.axes.get("threadIdx.z")
        assert z is None or isinstance(z.extent, Int)
        return z.extent.value if z is not None and isinstance(z.extent, Int) else 1

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
        filling = self.filling(inner, full, empty, taken)
        one = conj(Cmp("==", lane, Int(0)), Cmp("==", warp, Int(0)))
        first = conj(one, Cmp("==", Var(group), Int(0)))
        by_warp = all(isinstance(p.around[-1], Do) or self.is_product(p) for p in self.readers())
        arrivals = self.groups * (GROUP_WARPS if by_warp else GROUP) * self.blocks
        whole: Body = (
            If(first, (Init(full, 1), Init(empty, arrivals))),
            Barrier(cluster=self.blocks > 1),
            If(
                Cmp("<", Var(group), Int(self.groups)),
                (Budget(others, more=True), *self.using(inner, full, self.released(empty, lane if by_warp else None))),
                (Budget(own, more=False), If(one, filling)),
            ),
            *((Barrier(cluster=True),) if self.blocks > 1 else ()),  # others may still arrive here
        )
        for b in (*reversed(shared), empty, full):
            whole = (Alloc(b, whole),)
        launch = [(x.var, x.extent, k) for k, x in self.axes.items() if k != "threadIdx.z"]
        launch.append((group, Int(self.groups + 1), "threadIdx.z"))
        for var, extent, kind in sorted(launch, key=lambda x: AXES.index(x[2]), reverse=True):
            whole = (Loop(var, extent, kind, whole),)
        return replace(self.kernel, body=whole)

    def ring(self, hint: str, taken: set[str]) -> Buffer:
        taken.add(name := fresh(hint, taken))
        return Buffer(name, (Int(self.count),), uint64, "shared")

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

    def filling(self, body: Body, full: Buffer, empty: Buffer, taken: set[str]) -> Body:
        """What of `body` the Role does, in loops with names of their own."""
        out: list[Stmt] = []
        for s in body:
            if s is self.role:
                slot = Load(full, (self.slot,))
                told = Expect(slot, sum(map(bytes_of, self.role.body)))
                out += [Await(Load(empty, (self.slot,)), 1), told, *self.marked(self.role.body, slot)]
            elif any(x is self.role for x in statements((s,))):
                then, *orelse = (self.filling(x, full, empty, taken) for x in bodies(s))
                if isinstance(s, Loop):
                    taken.add(name := fresh(s.var, taken))
                    inner = tuple(substitute(x, {s.var: Var(name)}) for x in then)
                    out.append(Loop(name, s.extent, s.kind, inner))
                elif isinstance(s, If) and not self.is_elected(s):
                    out.append(If(s.cond, then, *orelse))
                else:
                    out += then
        return tuple(out)

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

    def using(self, body: Body, full: Buffer, done: Body) -> Body:
        """What of `body` the others do, with what they tell when a turn is `done`."""
        filled = _filled(self.role)

        def visit(s: Stmt) -> Stmt | Body | None:
            if isinstance(s, If) and self.is_elected(s):
                return ()
            if isinstance(s, Barrier):
                return Barrier(GROUP * self.groups)
            if isinstance(s, Alloc) and s.buffer.scope == "shared":
                return rewrite(s.body, visit)
            if s is not self.loop:
                return None
            assert isinstance(s, Loop)
            inner = [x for x in s.body if not (isinstance(x, If) and self.is_elected(x))]
            reading = [n for n, x in enumerate(inner) if accessed(x) & filled]
            begin, end = reading[0], reading[-1] + 1
            turn = (*inner[:begin], Await(Load(full, (self.slot,))), *inner[begin:end], *done, *inner[end:])
            return map_stmts(replace(s, body=turn), lambda x: y if (y := visit(x)) is not None else map_stmts(x, deep))

        def deep(s: Stmt) -> Stmt | Body:
            new = visit(s)
            return map_stmts(s, deep) if new is None else new

        return rewrite(body, visit)


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
