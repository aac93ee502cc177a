"""Insert barriers where threads of a block depend on one another.

Two accesses need a barrier between them if they may touch one element from different threads of one block and one of
them writes. Nothing orders different blocks of one launch, so there such a pair is an error. A barrier goes before the
later statement if there is such a pair in one iteration of the serial loops around both, and at the end of the
innermost of these loops that carries one. All threads have to reach it, so a place whose control flow depends on the
thread is refused. If all such pairs are within a warpgroup, each warpgroup is synchronized separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TypeAlias

from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.dependence.depend import Clash, Pair, concurrent_conflict, conflicting_accesses, may_conflict
from loopir.errors import LowerError
from loopir.ir.dtypes import bool_, int64
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    GROUP_THREADS,
    GROUP_WARPS,
    LANES,
    Alloc,
    Barrier,
    Body,
    Buffer,
    Func,
    If,
    IndexToValue,
    InstrRegion,
    Int,
    Kernel,
    Loop,
    Stmt,
    Store,
)
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    fresh_name,
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    map_body,
    map_kernels,
    map_stmts,
    path_to,
    rewrite,
    statements,
    taken_names,
)
from loopir.lower.target import Target

GROUP_AXES = ("threadIdx.x", "threadIdx.y")
"""The lanes of a warp, and the warps of a warpgroup."""
Found: TypeAlias = "Callable[[], Clash | None]"
"""What says which instances clash, which takes far longer to find than that some do."""


def insert_barriers(func: Func, target: Target) -> Func:
    """`func` with a Barrier wherever threads of a block depend on one another."""
    return map_kernels(func, lambda s: _kernel(func, s))


def _kernel(func: Func, kernel: Kernel) -> Stmt:
    """The kernel with barriers; what controls read is a statement of its own in the meantime."""
    asked = _with_controls(func, kernel)
    if asked is kernel:
        return _ordered(func, kernel)
    whole = replace(func, body=rewrite(func.body, lambda s: asked if s is kernel else None))
    done = _ordered(whole, asked)
    return replace(done, body=rewrite(done.body, lambda s: () if _is_control(s) else None))


CONTROL = "control of "
"""How the label of a statement begins that stands for what an extent or a condition reads."""


def _with_controls(func: Func, kernel: Kernel) -> Kernel:
    """The kernel with a statement before each extent and condition that is read from memory written here.

    Threads that do nothing in a loop, or behind a guard, read what decides about it all the same.
    """
    written = {b for p in leaf_paths(kernel.body) for b in leaf_writes(p.stmt)}
    taken = taken_names(func)

    def visit(s: Stmt) -> Stmt | Body:
        new = map_stmts(s, visit)
        control = s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else None
        if control is None or (isinstance(s, Loop) and s.kind in AXES) or not loaded_buffers(control) & written:
            return new
        sink = Buffer(fresh_name("control", taken), (), int64 if isinstance(s, Loop) else bool_, "local")
        taken.add(sink.name)
        what = f"{CONTROL}{s.var}" if isinstance(s, Loop) else f"{CONTROL}a guard"
        return (Alloc(sink, (Store(fresh_name(what, taken), sink, (), IndexToValue(control, sink.dtype)),)), new)

    body = map_body(kernel.body, visit)
    return kernel if body is kernel.body else replace(kernel, body=body)


def _is_control(s: Stmt) -> bool:
    return isinstance(s, Alloc) and any(isinstance(x, Store) and x.label.startswith(CONTROL) for x in s.body)


def _ordered(func: Func, kernel: Kernel) -> Kernel:
    """`kernel` with the barriers that its pairs of dependent statements need."""
    axes = [s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind in AXES]
    if not axes:
        return kernel
    plan = _BarrierPlan(func, kernel, axes)
    here = {p.stmt.label: p for p in leaf_paths(kernel.body)}
    every = {s.var for s in axes}
    inside = [(s, _shared_buffers(s, every)) for s in statements_of(func) if s.label in here]
    touching: dict[str, list[int]] = {}
    for n, (s, _) in enumerate(inside):
        for x in s.touches:
            touching.setdefault(x, []).append(n)
    for n, (s, shared) in enumerate(inside):
        for k in sorted({k for x in shared for k in touching.get(x, ()) if k >= n}):
            t, _ = inside[k]
            if s.meets(t):
                plan.order(s, t, here[s.label], here[t.label])
    return _marked(kernel, plan.before, plan.ends) if plan.before or plan.ends else kernel


def _shared_buffers(s: Statement, axes: set[str]) -> frozenset[str]:
    """What `s` touches that is shared by threads of the `axes`, and not private to each."""
    return frozenset(a.buffer for a in s.accesses if not axes.issubset(a.private))


class _BarrierPlan:
    """Where threads of a kernel have to meet: before which statements, and at the ends of which loops.

    Both are by the identity of the statement, with whether the whole block meets or each warpgroup."""

    def __init__(self, func: Func, kernel: Kernel, axes: Sequence[Loop]) -> None:
        self.func, self.kernel = func, kernel
        self.kinds = {s.var: s.kind for s in axes}
        self.blocks = tuple(s.var for s in axes if s.kind in BLOCK_AXES)
        self.threads = tuple(s.var for s in axes if s.kind not in BLOCK_AXES)
        self.launch = tuple(s.var for s in path_to(func, kernel) if isinstance(s, Loop))
        """The loops around the kernel, whose launches follow one another."""
        self.block = (*self.launch, *self.blocks)
        self.group = _warpgroups(axes)
        self.before: dict[int, bool] = {}
        self.ends: dict[int, bool] = {}

    def order(self, s: Statement, t: Statement, p: StmtPath, q: StmtPath) -> None:
        """Place the barriers between `s` and `t`, at `p` and `q`."""
        pairs = _in_shared_memory(conflicting_accesses(self.func, s, t), {*self.blocks, *self.threads})
        if not pairs:
            return
        self.require_order_of_blocks(s, t, pairs)
        if p.is_in_role or q.is_in_role:
            return  # one thread does it all, and who it meets at barriers of their own, `roles` asks and places
        both = _Meet(p, q, set(self.threads))
        around = both.serial()
        for axis in self.threads:
            found = partial(concurrent_conflict, self.func, s, t, same=self.block, differ=axis)
            same = (*self.block, *around)
            if self.may_be_concurrent(both, axis) and may_conflict(pairs, same=same, differ=axis):
                if s is t:
                    clash = concurrent_conflict(self.func, s, t, same=same, differ=axis)
                    raise LowerError(
                        f"{_witness_of(clash)}, in another thread at the same time, which no barrier can order"
                    )
                wide = self.group is None or may_conflict(pairs, same=same, differ=self.group)
                _mark(self.before, both.before(found), wide)
            elif len(around) > 1 and not may_conflict(pairs, same=self.block, differ=axis):
                continue
            self.order_iterations(pairs, both, axis, found)

    def require_order_of_blocks(self, s: Statement, t: Statement, pairs: Sequence[Pair]) -> None:
        """Refuse a dependence between different blocks."""
        for axis in self.blocks:
            if may_conflict(pairs, same=self.launch, differ=axis):
                clash = concurrent_conflict(self.func, s, t, same=self.launch, differ=axis)
                if clash is not None:
                    raise LowerError(_across_blocks(self.kernel, clash))

    def may_be_concurrent(self, both: _Meet, axis: str) -> bool:
        """Whether nothing orders the two in one iteration of the loops around, in threads that differ in `axis`."""
        if both.p.stmt is both.q.stmt:
            return self.kinds[axis] not in _collective_axes(both.p)
        later = both.later()
        return both.of_control() or (later is not None and not _is_converged(self.before, later, self.group))

    def order_iterations(self, pairs: Sequence[Pair], both: _Meet, axis: str, found: Found) -> None:
        """Have threads meet at the end of the innermost loop around both that carries a dependence between them."""
        around = both.serial()
        for n in reversed(range(len(around))):
            loop, same = around[n], (*self.block, *around[:n])
            if _is_converged(self.ends, both.loop(loop), self.group):
                return  # threads meet in every iteration of this loop, and so between two of those around it
            if may_conflict(pairs, same=same, differ=(axis, loop)):
                wide = self.group is None or may_conflict(pairs, same=same, differ=(self.group, loop))
                _mark(self.ends, both.ends(loop, found), wide)
                return


def _in_shared_memory(pairs: Sequence[Pair], axes: set[str]) -> Sequence[Pair]:
    """The pairs whose memory is shared by threads of the `axes`, and not private to each."""
    return [p for p in pairs if not axes.issubset(p.a.private)]


def _warpgroups(axes: Sequence[Loop]) -> str | None:
    """The variable that counts the warpgroups of a block, if it is made of more than one."""
    extents = {s.kind: s.extent for s in axes}
    lanes = [extents.get(a) for a in GROUP_AXES]
    groups = extents.get("threadIdx.z")
    if lanes != [Int(LANES), Int(GROUP_WARPS)] or not isinstance(groups, Int) or groups.value == 1:
        return None
    return next(s.var for s in axes if s.kind == "threadIdx.z")


def _mark(where: dict[int, bool], s: Stmt | None, wide: bool) -> None:
    """Record that a barrier is needed at `s`, if given: for the block if `wide`, else for each warpgroup."""
    if s is not None:
        where[id(s)] = where.get(id(s), False) or wide


def _is_converged(where: dict[int, bool], s: Stmt, group: str | None) -> bool:
    """Whether a barrier of the whole block is recorded at `s` already."""
    return where.get(id(s), False) or (group is None and id(s) in where)


def _collective_axes(p: StmtPath) -> tuple[str, ...]:
    """The axes of the threads that do `p` as one instruction, each a part of it."""
    levels = [s.fn.level for s in p.around if isinstance(s, InstrRegion)]
    return GROUP_AXES[: {"thread": 0, "warp": 1, "warpgroup": 2}[levels[0]]] if levels else ()


def _across_blocks(kernel: Kernel, clash: Clash) -> str:
    return (
        f"{kernel.name} cannot be one launch: {clash.witness}, in different blocks, which nothing orders; "
        f"bind the loops of {clash.first} and {clash.second} to the same axes, or keep the loop around them serial"
    )


@dataclass(frozen=True, slots=True)
class _Meet:
    """Where threads have to synchronize between the dependent statements at `p` and `q`."""

    p: StmtPath
    q: StmtPath
    threads: set[str]

    def common(self) -> tuple[Stmt, ...]:
        """What stands around both; of a nest that is one instruction, around that."""
        pairs = zip((*self.p.around, self.p.stmt), (*self.q.around, self.q.stmt), strict=False)
        both = takewhile(lambda ab: ab[0] is ab[1] and not isinstance(ab[0], InstrRegion), pairs)
        return tuple(a for a, _ in both if a is not self.p.stmt)

    def later(self) -> Stmt | None:
        """The statement of their innermost common list that has the later one; None if no iteration runs both."""
        common, p, q = self.common(), self.p, self.q
        depth = len(common)
        if p.stmt is q.stmt:
            return None
        last = common[-1] if common else None
        if isinstance(last, If) and (p.path[depth] < len(last.then)) != (q.path[depth] < len(last.then)):
            return None
        _, later = sorted((p, q), key=lambda x: x.path)
        return next(x for x in (*later.around, later.stmt)[depth:] if not isinstance(x, Alloc))

    def of_control(self) -> bool:
        """Whether the first of the two is what decides whether the other runs."""
        first, later = sorted((self.p, self.q), key=lambda x: x.path)
        depth = len(self.common())
        return first.stmt.label.startswith(CONTROL) and later.path[depth] == first.path[depth] + 1

    def before(self, clash: Found) -> Stmt | None:
        """What threads meet before: the `later` branch, if all come by."""
        later = self.later()
        if later is not None and self.of_control():
            raise LowerError(
                f"{_witness_of(clash())}, in another thread, which is to have decided by then what to run; read what "
                f"decides in a statement before, into memory that is not written"
            )
        if later is not None:
            self.require_uniform(self.common(), clash)
        return later

    def serial(self) -> tuple[str, ...]:
        """The serial loops around both, outermost first."""
        return tuple(s.var for s in self.common() if isinstance(s, Loop) and s.kind not in AXES)

    def loop(self, var: str) -> Stmt:
        """The serial loop `var` around both."""
        return next(s for s in self.common() if isinstance(s, Loop) and s.var == var)

    def ends(self, var: str, clash: Found) -> Stmt:
        """That loop, if all threads come by at the ends of its iterations, from one of which to another they clash."""
        loop = self.loop(var)
        self.require_uniform((*takewhile(lambda x: x is not loop, self.common()), loop), clash)
        return loop

    def require_uniform(self, around: tuple[Stmt, ...], clash: Found) -> None:
        """Refuse unless all threads of a block come by together."""
        for s in around:
            control = s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else None
            if control is not None and (free_vars(control) & self.threads or loaded_buffers(control)):
                raise LowerError(
                    f"{_witness_of(clash())}, in another thread; the barrier between them would stand where not all "
                    f"threads of the block come by. Bind the loops around both alike, or split the nest"
                )


def _witness_of(clash: Clash | None) -> object:
    return None if clash is None else clash.witness


def _marked(kernel: Kernel, before: dict[int, bool], ends: dict[int, bool]) -> Kernel:
    """The kernel with barriers before these statements and at the ends of these loops, of whole blocks where it says
    so."""

    def barrier(wide: bool) -> Barrier:
        return Barrier() if wide else Barrier(GROUP_THREADS)

    def visit(s: Stmt) -> Stmt | Body:
        new = map_stmts(s, visit)
        if id(s) in ends and isinstance(new, Loop):
            new = replace(new, body=(*new.body, barrier(ends[id(s)])))
        return (barrier(before[id(s)]), new) if id(s) in before else new

    return replace(kernel, body=map_body(kernel.body, visit))
