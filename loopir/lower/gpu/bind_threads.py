"""Bind loops over blocks and threads to the axes of the launch, blocks outside threads.

The launch size of an axis is the extent of the longest loop bound to it. The body of a shorter loop is guarded; a
statement under no loop of an axis runs on index 0 of it, unless it writes local memory, of which every thread then
keeps a copy. Barriers are inserted by `insert_barriers`, later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from loopir.arith.simplify import EMPTY, simplify, simplify_cond
from loopir.arith.simplify_func import known_at
from loopir.errors import LowerError, TargetError
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    GROUP_WARPS,
    LANES,
    TRUE,
    WARP_AXES,
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    InstrRegion,
    Int,
    InTurn,
    Kernel,
    Loop,
    Reduce,
    Stmt,
    Store,
    Turn,
    ValueToIndex,
    Var,
    conj,
    maximum,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    free_vars,
    fresh_name,
    is_filled_by_role,
    leaf_paths,
    leaf_writes,
    map_body,
    map_kernels,
    map_stmts,
    nodes,
    replace_names,
    rewrite,
    statements,
    substitute,
    taken_names,
)
from loopir.lower.gpu.privatize_locals import privatize_locals
from loopir.lower.target import Target


def bind_threads(func: Func, target: Target) -> Func:
    """`func` with the bound loops of each kernel outermost in it."""
    taken = taken_names(func)
    return map_kernels(func, lambda s: _bind_kernel(func, s, target, taken))


COLLECTIVE_AXES = {"warp": ("lane",), "warpgroup": ("lane", "warp.x")}
"""By level, the axes whose threads issue an instruction together."""


def _collective(s: Stmt) -> bool:
    """Whether the lanes of a warp, or more threads, do `s` together."""
    return isinstance(s, InstrRegion) and s.fn.level in COLLECTIVE_AXES


Axes: TypeAlias = "dict[str, tuple[str, Index]]"
"""The variable and the extent of each axis of a launch."""


def _bind_kernel(func: Func, whole: Kernel, target: Target, taken: set[str]) -> Stmt:
    kernel, own = privatize_locals(func, whole)
    axes = _launch_axes(kernel, taken)
    _require_one_kind_of_threads(kernel, axes)
    known = known_at(func, whole).here
    for kind in _skipped(kernel, axes):
        name, extent = axes[kind]
        some = simplify_cond(Cmp("<=", Int(1), extent), known) == TRUE
        axes[kind] = (name, extent if some else simplify(maximum(extent, 1), EMPTY))
    _require_room(kernel, axes, target)
    body = _Binding(axes, own).under(kernel.body)
    for kind, (name, extent) in sorted(axes.items(), key=lambda x: AXES.index(x[0]), reverse=True):
        body = (Loop(name, extent, WARP_AXES.get(kind, kind), body),)
    return replace(kernel, body=body)


def _launch_axes(kernel: Kernel, taken: set[str]) -> Axes:
    """The axes that the bound loops of `kernel` and its instructions ask for, each as long as the longest of them."""
    bound = [s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind in AXES]
    inside = {s.var for s in statements(kernel.body) if isinstance(s, Loop)}
    axes = _instruction_axes(kernel, bound, taken)
    for loop in sorted(bound, key=lambda x: AXES.index(x.kind)):
        if free_vars(loop.extent) & inside or any(isinstance(n, ValueToIndex) for n in nodes(loop.extent)):
            raise LowerError(
                f"loop {loop.var} is bound to {loop.kind}, and its extent {text(loop.extent)} is not known at launch"
            )
        name, extent = axes.get(loop.kind, (loop.var, loop.extent))
        axes[loop.kind] = (name, simplify(maximum(extent, loop.extent), EMPTY))
    if "lane" in axes:
        axes["lane"] = (axes["lane"][0], Int(LANES))
    return axes


def _instruction_axes(kernel: Kernel, bound: Sequence[Loop], taken: set[str]) -> Axes:
    """The axes of those who issue the instructions of `kernel` together, and of warpgroups."""
    axes: Axes = {}
    levels = {s.fn.level for s in statements(kernel.body) if isinstance(s, InstrRegion)}
    if levels & COLLECTIVE_AXES.keys():
        axes["lane"] = (fresh_name("lane", taken), Int(LANES))
    if "warpgroup" in levels or any(x.kind == "warpgroup" for x in bound):
        axes["lane"] = (fresh_name("lane", taken), Int(LANES))
        axes["warp.x"] = (fresh_name("warp", taken), Int(GROUP_WARPS))
    taken |= {name for name, _ in axes.values()}
    return axes


def _require_one_kind_of_threads(kernel: Kernel, axes: Axes) -> None:
    """Refuse warps beside plain threads, and warpgroups of other than four warps."""
    if (mixed := set(axes) & set(WARP_AXES)) and set(axes) & set(WARP_AXES.values()):
        raise LowerError(f"{kernel.name} is bound to {min(mixed)} and to threadIdx; bind all to warps and lanes")
    if "warpgroup" in axes and (axes["warp.x"][1] != Int(GROUP_WARPS) or "warp.y" in axes):
        raise LowerError(
            f"{kernel.name} is bound to warpgroup, and a warpgroup is {GROUP_WARPS} warps: bind at most {GROUP_WARPS} "
            f"iterations to warp.x, and none to warp.y"
        )


def _skipped(kernel: Kernel, axes: Mapping[str, object]) -> set[str]:
    """The axes of blocks under which not all of the kernel stands: an index 0 has to be there for the rest."""
    around = [{x.kind for x in p.loops} for p in leaf_paths(kernel.body)]
    return {kind for kind in axes if kind in BLOCK_AXES and any(kind not in kinds for kinds in around)}


def _require_room(kernel: Kernel, axes: Axes, target: Target) -> None:
    total = 1
    cluster = axes.get("cluster", ("", Int(1)))
    if not isinstance(cluster[1], Int) or cluster[1].value > target.max_cluster:
        most = f"takes a constant up to {target.max_cluster}; split the loop before it is bound"
        least = f"of {target.gpu} has no clusters; GPUs of sm_90 and later have"
        raise TargetError(
            f"{kernel.name} would have clusters of {text(cluster[1])} blocks (loop {cluster[0]}), and {target.name} "
            f"{most if target.max_cluster > 1 else least}"
        )
    for kind, (name, extent) in axes.items():
        if kind in BLOCK_AXES:
            continue
        if not isinstance(extent, Int):
            raise LowerError(f"loop {name} is bound to {kind}, and its extent {text(extent)} is not a constant")
        total *= extent.value
    if total > target.max_threads:
        loops = ", ".join(name for kind, (name, _) in axes.items() if kind not in BLOCK_AXES)
        raise TargetError(
            f"{kernel.name} would have {total} threads a block (loops {loops}), and {target.name} takes "
            f"{target.max_threads}; split a loop before it is bound"
        )


@dataclass(frozen=True, slots=True)
class _Binding:
    """Where bound loops are replaced by guards; `held` are the axes whose loops stand around.

    Of the buffers in `own` every thread has a part, and their indices say where in it. Of those in `copies` every
    thread has one of its own, and all of them write to it alike.
    """

    axes: Axes
    own: frozenset[str]
    held: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()

    def under(self, body: Body) -> Body:
        return map_body(body, self.visit)

    def visit(self, s: Stmt) -> Stmt | Body:
        if isinstance(s, Loop) and s.kind in AXES:
            return self.bound_loop(s)
        if isinstance(s, Alloc) and s.buffer.scope == "shared" and not set(self.axes) & set(BLOCK_AXES) <= self.held:
            raise LowerError(
                f"{s.buffer.name} is shared memory, allocated outside a loop bound to blocks, and no block sees "
                f'another\'s; allocate it inside that loop, or give it scope "global"'
            )
        if isinstance(s, Alloc) and self.is_outside_an_axis(s.buffer):
            _require_alike(s)
            return replace(s, body=replace(self, copies=self.copies | {s.buffer.name}).under(s.body))
        if isinstance(s, InTurn):
            return self.in_turn(s)
        if any(isinstance(x, Loop) and x.kind in AXES for x in statements((s,))):
            return map_stmts(s, self.visit)
        self.require_no_shared_memory(s)
        if any(leaf_writes(p.stmt) & self.copies for p in leaf_paths((s,))):
            if isinstance(s, Store | Reduce) and not leaf_writes(s) <= self.copies:
                raise LowerError(f"{s.label} folds into local memory and other memory at once; give both one scope")
            return map_stmts(s, self.visit)
        return self.by_first_thread(s)

    def bound_loop(self, s: Loop) -> Stmt | Body:
        """The body of `s` for the index of its axis, where there is such an iteration."""
        name, extent = self.axes[s.kind]
        index = Int(0) if extent == Int(1) else Var(name)
        inside = tuple(substitute(x, {s.var: index}) for x in _over_axis(s, name))
        inner = replace(self, held=self.held | {s.kind}).under(inside)
        return inner if s.extent == extent else (If(Cmp("<", Var(name), s.extent), inner),)

    def in_turn(self, s: InTurn) -> Body:
        """The body of `s` between a turn that each warpgroup takes and that of the next one, which it gives."""
        name, extent = self.axes.get("warpgroup", ("", Int(1)))
        body = self.under(s.body)
        if not isinstance(extent, Int) or extent.value == 1:
            return body
        groups = extent.value
        coming = (Var(name) + 1) % groups
        return (Turn(Var(name), groups, wait=True), *body, Turn(coming, groups, wait=False))

    def is_outside_an_axis(self, b: Buffer) -> bool:
        """Whether `b`, which is allocated here, would be several threads' that ought to have one each."""
        return b.scope != "shared" and len(self.held) < len(self.axes) and b.name not in self.own

    def require_no_shared_memory(self, s: Stmt) -> None:
        """Refuse shared memory that is allocated in a loop over threads."""
        for x in statements((s,)) if self.held - set(BLOCK_AXES) else ():
            if isinstance(x, Alloc) and x.buffer.scope == "shared" and not is_filled_by_role(x.buffer.name, x.body):
                raise LowerError(
                    f"{x.buffer.name} is shared memory, allocated inside a loop bound to a thread axis, so that each "
                    f'thread would have its own; allocate it outside that loop, or give it scope "local"'
                )

    def by_first_thread(self, s: Stmt) -> Stmt | Body:
        """`s` on index 0 of each axis that is neither around it nor that of an instruction's lanes."""
        regions = [d for d in statements((s,)) if isinstance(d, InstrRegion)]
        alone = [x for x in statements((s,)) if isinstance(x, Store | Reduce)]
        together = [x for d in regions if _collective(d) for x in statements((d,)) if x in alone]
        if together and len(together) < len(alone):
            return map_stmts(s, self.visit)
        joint = {x: d.fn for d in regions for x in COLLECTIVE_AXES.get(d.fn.level, ())}
        if inside := self.held & joint.keys():
            fn = joint[min(inside)]
            raise LowerError(
                f"{fn.name} is issued by a {fn.level} together, and it stands in a loop bound to "
                f"{'lanes' if 'lane' in inside else 'warps'}"
            )
        there = self.held | joint.keys() if together else self.held
        names = [name for kind, (name, _) in self.axes.items() if kind not in there]
        missing: list[Cond] = [Cmp("==", Var(name), Int(0)) for name in names]
        return If(conj(*missing), (s,)) if missing else s


def _over_axis(loop: Loop, name: str) -> Body:
    """The body of a bound loop, its reductions over `name`: but not those into memory that each iteration has anew."""
    own = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)}

    def visit(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or loop.var not in s.over:
            return None
        over = {loop.var: () if leaf_writes(s) & own else (name,)}
        return replace(s, over=replace_names(s.over, over))

    return rewrite(loop.body, visit)


def _require_alike(alloc: Alloc) -> None:
    """Refuse memory outside some bound loops, unless it is local and every thread writes the same to a copy of its own.

    That is so for a statement under none of these loops, and for a reduction over those that it is under.
    """
    name = alloc.buffer.name
    for p in leaf_paths(alloc.body):
        over = p.stmt.over if isinstance(p.stmt, Reduce) else ()
        alone = alloc.buffer.scope != "local" or any(x.kind in AXES and x.var not in over for x in p.loops)
        if alone and name in leaf_writes(p.stmt):
            raise LowerError(
                f"{name} is allocated in a kernel outside some of its bound loops, so several threads share "
                f'it; give it scope "shared", or allocate it outside the bound loops'
            )
