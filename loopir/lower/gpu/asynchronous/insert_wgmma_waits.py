"""Insert wgmma fence, commit and wait.

Products that follow one another, through loops that hold nothing else, are one group: none of them waits for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from loopir.analysis.dependence.access import Statement, statements_of
from loopir.ir.grammar import (
    Alloc,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Buffer,
    Cmp,
    Const,
    Fence,
    Func,
    If,
    Int,
    Kernel,
    Loop,
    MBarrierWait,
    RegisterFence,
    Stmt,
    Store,
    Var,
)
from loopir.ir.instr.match_nest import match
from loopir.ir.traverse.walk import (
    accessed_buffers,
    leaf_paths,
    leaf_writes,
    map_kernels,
    statements,
    substitute,
)
from loopir.lower.gpu.asynchronous.async_groups import is_issued, is_serial, issues, iterations_until_write
from loopir.lower.gpu.asynchronous.ring_slots import releases
from loopir.lower.target import Target

GROUP = "products"


def insert_wgmma_waits(func: Func, target: Target) -> Func:
    """`func` with the fences, commits and waits of its asynchronous products."""
    return map_kernels(func, lambda kernel: _wait_for_products(func, kernel))


def _wait_for_products(func: Func, kernel: Kernel) -> Kernel:
    if not any(issues(s, GROUP) for s in statements(kernel.body)):
        return kernel
    return replace(kernel, body=_grouped(kernel.body, _late(func, kernel)))


def _only_products(s: Stmt) -> bool:
    """Whether `s` is products, one after the other."""
    return issues(s, GROUP) or (isinstance(s, Loop) and bool(s.body) and all(map(_only_products, s.body)))


def _grouped(body: Body, late: Mapping[int, int], pending: int = 0) -> Body:
    """`body` with each run of products between a fence and a wait, for all but the newest `pending` groups.

    In loops that are `late`, some groups are waited for in later iterations, and the last ones after the loop.
    """
    if not pending and sum(map(_only_products, body)) > 0:
        return _as_needed(body, late)
    out: list[Stmt] = []
    run: list[Stmt] = []
    for s in (*body, None):
        if s is not None and _only_products(s):
            run.append(s)
            continue
        if run:
            held = [RegisterFence(b) for b in _registers(run)] if not pending else []
            out += [*held, Fence("registers"), *run, AsyncCommit(GROUP), AsyncWait(pending, GROUP), *held]
            run.clear()
        if isinstance(s, If):
            out.append(If(s.cond, _grouped(s.then, late), _grouped(s.orelse, late)))
        elif isinstance(s, Loop | Alloc):
            begun = late.get(id(s.body[0]), 0) if s.body else 0
            held = [RegisterFence(b) for b in _registers((s,))] if begun else []
            body, after = _released_later(s, begun) if isinstance(s, Loop) and begun else (s.body, ())
            out += [*held, replace(s, body=_grouped(body, late, begun))]
            out += [AsyncWait(0, GROUP), *after, *(replace(h, apart=True) for h in held)] if begun else []
        elif s is not None:
            out.append(s)
    return tuple(out)


class _Group:
    """Pending products: the registers that they write and read, and the statement to insert when they are complete."""

    def __init__(self, run: Sequence[Stmt], awaited: frozenset[str] = frozenset()) -> None:
        self.awaited = awaited
        """The barriers that were waited for before them: what they read may be of their turns."""
        found = [match(s, lowered=True) for s in statements(tuple(run)) if issues(s, GROUP)]
        self.held = _registers(run)
        self.sums = frozenset[str]().union(*(leaf_writes(p.stmt) for p in leaf_paths(tuple(run))))
        self.left = frozenset(b.name for b in self.held) - self.sums
        self.reads = frozenset(o.buffer.name for m in found for o in m.operands.values()) - self.sums - self.left
        self.releases: list[Stmt] = []

    def stops(self, s: Stmt) -> bool:
        """Whether `s` has to wait for these."""
        if isinstance(s, Barrier) or any(isinstance(x, Barrier | AsyncWait) for x in statements((s,))):
            return True
        if self.releases and self.awaited & _awaited(s):
            return True  # the turn after theirs may not come before they say that they have read
        wrote = frozenset[str]().union(*(leaf_writes(p.stmt) for p in leaf_paths((s,))))
        return bool(accessed_buffers(s) & self.sums or wrote & (self.left | self.reads))


def _awaited(s: Stmt) -> frozenset[str]:
    return frozenset(x.slot.buffer.name for x in statements((s,)) if isinstance(x, MBarrierWait))


def _as_needed(body: Body, late: Mapping[int, int]) -> Body:
    """`body` with products waited for before what needs them: those on other sums are groups that go on together."""
    out: list[Stmt] = []
    going: list[_Group] = []
    awaited: frozenset[str] = frozenset()

    def wait(count: int) -> None:
        """For the oldest `count` groups."""
        done = going[:count]
        del going[:count]
        out.append(AsyncWait(len(going), GROUP))
        out.extend(RegisterFence(b) for g in done for b in g.held)
        for g in done:
            out.extend(g.releases)

    runs: list[Stmt | list[Stmt]] = []
    for s in body:
        last = runs[-1] if runs else None
        if _only_products(s) and isinstance(last, list) and _Group(last).sums == _Group([s]).sums:
            last.append(s)
        else:
            runs.append([s] if _only_products(s) else s)
    for s in _started_first(runs):
        if isinstance(s, list):
            new = _Group(s, awaited)
            blocking = [n for n, g in enumerate(going) if g.sums & new.left or g.sums & new.sums]
            if blocking:
                wait(blocking[-1] + 1)
            out.extend(RegisterFence(b) for b in new.held)
            out += [Fence("registers"), *s, AsyncCommit(GROUP)]
            going.append(new)
        elif releases(s) and going:
            going[-1].releases.append(s)
        else:
            blocking = [n for n, g in enumerate(going) if g.stops(s)]
            if blocking:
                wait(blocking[-1] + 1)
            awaited |= _awaited(s)
            out.extend(_grouped((s,), late))
    if going:
        wait(len(going))
    return tuple(out)


def _started_first(runs: Sequence[Stmt | list[Stmt]]) -> list[Stmt | list[Stmt]]:
    """`runs` with the sums of products set to numbers before the products that come just before: registers that are
    set while some are under way make ptxas wait for these."""
    out: list[Stmt | list[Stmt]] = []
    for s in runs:
        at = len(out)
        registers = () if isinstance(s, list) else _registers_set(s)
        while registers and at and _may_follow(out[at - 1], {b.name for b in registers}):
            at -= 1
        moved = any(isinstance(x, list) for x in out[at:])
        out[at:at] = [s, *(RegisterFence(b) for b in registers if moved)]
    return out


def _registers_set(s: Stmt) -> tuple[Buffer, ...]:
    """The fragments that `s` stores numbers to, if it does nothing else; else none."""
    stores = [x for x in statements((s,)) if not isinstance(x, Loop)]
    found = [x.buffer for x in stores if isinstance(x, Store) and isinstance(x.value, Const)]
    numbers = len(found) == len(stores) and all(b.scope == "fragment" for b in found)
    return tuple({b.name: b for b in found}.values()) if numbers else ()


def _may_follow(before: Stmt | list[Stmt], registers: set[str]) -> bool:
    """Whether `before`, products of others than `registers` or what is done with barriers of rings, may as well come
    after these are set."""
    if isinstance(before, list):
        return not any(registers & accessed_buffers(x) for x in before)
    return isinstance(before, MBarrierWait) or releases(before)


def _released_later(loop: Loop, by: int) -> tuple[Body, Body]:
    """The body of `loop`, which says so many iterations later that buffers are read, and what says so after it."""
    said = [s for s in loop.body if releases(s)]
    body: list[Stmt] = []
    for s in loop.body:
        earlier = substitute(s, {loop.var: Var(loop.var) - by})
        body.append(If(Cmp("<=", Int(by), Var(loop.var)), (earlier,)) if s in said else s)
    last = [substitute(s, {loop.var: loop.extent - n}) for n in range(by, 0, -1) for s in said]
    known = isinstance(loop.extent, Int) and loop.extent.value >= by
    tested = [s if known else If(Cmp("<=", Int(by), loop.extent), (s,)) for s in last]
    return tuple(body), tuple(tested)


MAX_GROUPS = 4
"""Groups that may be under way at once."""


def _late(func: Func, kernel: Kernel) -> dict[int, int]:
    """By the first statement of a loop's body, how many groups of products may still be under way at its wait.

    Nothing else in the loop touches their sums, and what they read is written again only so many iterations later,
    after a barrier at the end of the iteration that waits for them, or once these are said to be read.
    """
    by_label = {s.label: s for s in statements_of(func)}
    loops = [s for s in statements(kernel.body) if is_serial(s) and any(map(_only_products, s.body))]
    found = {id(s.body[0]): _pending(func, kernel, s, by_label) for s in loops if not _only_products(s)}
    return {first: min(pending, MAX_GROUPS) for first, pending in found.items() if pending > 0}


def _pending(func: Func, kernel: Kernel, loop: Loop, by_label: Mapping[str, Statement]) -> int:
    """How many groups of products may be under way at the wait of an iteration of `loop`."""
    releasing, barrier = any(map(releases, loop.body)), isinstance(loop.body[-1], Barrier)
    if not (releasing or barrier):
        return 0
    inside = [p for p in leaf_paths(kernel.body) if p.is_in(loop)]
    run = [p for p in inside if is_issued(p, GROUP)]
    others = [p for p in inside if p not in run]
    sums = frozenset[str]().union(*(leaf_writes(p.stmt) for p in run))
    if any(accessed_buffers(p.stmt) & sums for p in others):
        return 0
    outer = [x.var for x in run[0].loops[: run[0].loops.index(loop)]]
    found: list[int | None] = []
    others.sort(key=lambda q: len(by_label[q.stmt.label].conds))  # what they tell need not be asked of the rest
    for pair in product(run, others):
        less = min(filter(None, found), default=None)
        found += iterations_until_write(func, by_label, pair, loop.var, outer, less)
    pending = 0 if None in found else min((n - 1 for n in found if n is not None), default=1)
    return min(pending, 0 if found and not barrier else 1) if releasing else pending


def _registers(run: Iterable[Stmt]) -> list[Buffer]:
    """The fragments that products work on."""
    found = [match(s, lowered=True) for s in statements(tuple(run)) if issues(s, GROUP)]
    return list(
        {o.buffer.name: o.buffer for m in found for o in m.operands.values() if o.buffer.scope == "fragment"}.values()
    )
