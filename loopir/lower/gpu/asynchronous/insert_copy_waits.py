"""Insert commits of, and waits for, groups of asynchronous copies (cp.async), as late as is safe.

The copies of one iteration of a loop are a group, and groups complete in the order of their commits, so a thread waits
until at most so many of its newest groups are pending. The number follows from dependence distances: an iteration uses
what was copied at least so many iterations earlier, by the same loop or by a prologue loop. Where the nests do not have
that form, each copy is waited for at once, which is correct and overlaps nothing. The branches of a test that holds all
copies, as that of two grids in one, are kernels of their own in this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeGuard

from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.dependence.depend import Order, conflicts
from loopir.analysis.dependence.fusion_shift import distances, has_conflict, loops_around_branches, unguarded
from loopir.ir.grammar import (
    Alloc,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Func,
    If,
    Int,
    Kernel,
    Loop,
    Stmt,
)
from loopir.ir.traverse.walk import StmtPath, leaf_paths, map_kernels, path_to, rewrite, siblings, statements
from loopir.lower.gpu.asynchronous.async_groups import (
    before_last_barrier,
    has_issue,
    is_issued,
    is_serial,
    wait_after_each,
)
from loopir.lower.target import Target

GROUP = "copies"


def insert_copy_waits(func: Func, target: Target) -> Func:
    """`func` with the groups of asynchronous copies, and the waits for them."""

    def kernel(s: Kernel) -> Kernel:
        if not has_issue(s, GROUP):
            return s
        here = tuple(leaf_paths(s.body))
        mine = [p for p in here if is_issued(p, GROUP)]
        return replace(s, body=_waited(func, s, s.body, mine, here)) if mine else s

    return map_kernels(func, kernel)


def _waited(func: Func, kernel: Kernel, body: Body, copies: Sequence[StmtPath], here: Sequence[StmtPath]) -> Body:
    """`body`, of `kernel`, which holds all of the `copies`, with commits of these and waits for them."""
    plan = _plan(func, kernel, body, copies, here)
    if plan is not None:
        return plan.applied(body)
    shared = {id(s) for s in copies[0].around}.intersection(*({id(s) for s in p.around} for p in copies))
    tests = [s for s in statements(body) if isinstance(s, If) and id(s) in shared]
    test = next((s for s in tests if all(has_issue(If(s.cond, b), GROUP) for b in (s.then, s.orelse))), None)
    if test is None:
        return wait_after_each(body, GROUP)

    def branch(inner: Body) -> Body:
        labels = {p.stmt.label for p in leaf_paths(inner)}
        return _waited(func, kernel, inner, [p for p in copies if p.stmt.label in labels], here)

    new = If(test.cond, branch(test.then), branch(test.orelse))
    return rewrite(body, lambda s: new if s is test else None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The loop that copies and uses, its prologue of first copies, and the number of groups that may be pending.

    Several prologue statements that make the copies of one iteration are one group."""

    loop: Loop
    first: tuple[Stmt, ...]
    pending: int

    def applied(self, body: Body) -> Body:
        """`body`, with the commits and the waits; a wait goes before the barrier that it is in time for."""
        out: list[Stmt] = []
        for s in body:
            if any(s is x for x in self.first):
                counted = len(self.first) == 1 and _counted(s)
                out.append(replace(s, body=(*s.body, AsyncCommit())) if counted and isinstance(s, Loop) else s)
                out += [AsyncCommit()] if s is self.first[-1] and not counted else []
            elif s is self.loop:
                out.insert(len(out) - bool(out and isinstance(out[-1], Barrier)), AsyncWait(self.pending))
                out += [self.whole(), AsyncWait(0)]
            elif isinstance(s, Loop | Alloc | Kernel):
                out.append(replace(s, body=self.applied(s.body)))
            elif isinstance(s, If):
                out.append(If(s.cond, self.applied(s.then), self.applied(s.orelse)))
            else:
                out.append(s)
        return tuple(out)

    def whole(self) -> Loop:
        body = self.loop.body
        last = max(n for n, s in enumerate(body) if has_issue(s, GROUP))
        body = (*body[: last + 1], AsyncCommit(), *body[last + 1 :])
        return replace(self.loop, body=before_last_barrier(body, AsyncWait(self.pending)))


# ---------------------------------------------------------------- how many groups may be under way


def _plan(func: Func, kernel: Kernel, body: Body, copies: Sequence[StmtPath], here: Sequence[StmtPath]) -> _Plan | None:
    """The loop in `body`, what stands before it, and the groups: as many under way as can be; None where nothing is of
    that form."""
    labels = {p.stmt.label for p in here}
    by_label = {s.label: s for s in statements_of(func) if s.label in labels}
    inside = {id(s) for s in statements(body)}
    loops = [s for s in _loops(copies[-1], here, by_label) if id(s) in inside]
    plans = [_plan_of(func, kernel, copies, here, by_label, loop) for loop in loops]
    return max((p for p in plans if p is not None), key=lambda p: p.pending, default=None)


def _plan_of(
    func: Func,
    kernel: Kernel,
    copies: Sequence[StmtPath],
    here: Sequence[StmtPath],
    by_label: Mapping[str, Statement],
    loop: Loop,
) -> _Plan | None:
    """The plan in which an iteration of `loop` is a group."""
    before, after = siblings(kernel.body, loop)
    first = tuple(s for s in before if has_issue(s, GROUP))
    here = _not_behind_barrier(here, after)
    roots = [_root(p, loop, first) for p in copies]
    if None in roots:
        return None
    around = (*path_to(func, kernel), *copies[-1].around[: copies[-1].around.index(loop)])
    outer = [s.var for s in around if is_serial(s)]
    least: int | None = None
    easy = sorted(here, key=lambda q: len(by_label[q.stmt.label].conds))  # what they tell need not be asked of the rest
    for (p, root), q in product(zip(copies, roots, strict=True), easy):
        if q.path < p.path and not q.is_in(root):
            continue  # it is done before the first copy
        s, t = by_label[p.stmt.label], by_label[q.stmt.label]
        counted = root is loop or len(first) == 1
        for n in _newer(func, s, root, t, loop, q, outer, counted, least) if any(conflicts(s, t)) else ():
            if n is None or n < 0:
                return None
            least = n if least is None else min(n, least)
    return _Plan(loop, first, least or 0)


def _root(copy: StmtPath, loop: Loop, first: Sequence[Stmt]) -> Stmt | None:
    """Which one of `loop` and the prologue `first` holds the copy; None if neither does."""
    return next((s for s in copy.around if s is loop or any(s is x for x in first)), None)


def _loops(copy: StmtPath, here: Sequence[StmtPath], by_label: Mapping[str, Statement]) -> list[Loop]:
    """The loops that a thread runs by itself around `copy` and what else touches the same, inner ones first."""
    serial = [s for s in copy.around if is_serial(s)]
    others = [
        q for q in here if q.stmt is not copy.stmt and any(conflicts(by_label[copy.stmt.label], by_label[q.stmt.label]))
    ]
    return [s for s in reversed(serial) if any(q.is_in(s) for q in others)]


def _counted(s: Stmt | None) -> TypeGuard[Loop]:
    """Whether each iteration of `s` is a group, and how many there are is known."""
    return is_serial(s) and isinstance(s.extent, Int)


def _not_behind_barrier(here: Sequence[StmtPath], after: Body) -> Sequence[StmtPath]:
    """The statements `here` but those of `after`, if it begins with a barrier, for which all copies are waited for."""
    if not (after and isinstance(after[0], Barrier)):
        return here
    return [q for q in here if not any(q.is_in(x) for x in after)]


def _newer(
    func: Func,
    s: Statement,
    root: Stmt | None,
    t: Statement,
    loop: Loop,
    q: StmtPath,
    outer: Sequence[str],
    counted: bool,
    fewer: int | None,
) -> Iterator[int | None]:
    """How many groups are newer, at least, than a copy of `s` at the wait for it that is next before an instance of
    `t` which touches the same; None if that is not known, negative if no wait is between. Groups are iterations of
    `root` where these are `counted`. What is not `fewer` than is known may be left out.

    Both in one iteration of the `outer` loops: at its end no copy is under way.
    """
    if not {*outer} <= {*t.dims}:
        yield None
        return
    same: Order = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in outer]
    if not q.is_in(loop):
        if _follows_elsewhere(func, s, t, same):
            yield None
        return
    own = root.var if counted and isinstance(root, Loop) and (root is loop or _counted(root)) else None
    later: Order = [({f"t.{loop.var}": 1, f"s.{own}": -1, "": -(s is t)}, False)] if root is loop else []
    ahead = {f"t.{loop.var}": -1} | ({} if own is None else {f"s.{own}": 1})
    begun = root.extent.value - 1 if own and isinstance(root, Loop) and isinstance(root.extent, Int) else 0
    begun = -1 if root is loop else begun
    over = None if fewer is None else begun - fewer
    for distance in distances(func, s, t, ahead, [*same, *later], over=over):
        yield None if distance is None else begun - distance


def _follows_elsewhere(func: Func, s: Statement, t: Statement, same: Order) -> bool:
    """Whether an instance of `t`, which is not in the loop, touches the same as an earlier one of `s`; of all instances
    without guards, as in `distances`, where it may as far as is seen."""
    both = s is not t
    if not _touches_later(func, s, t, same, at_once=both):
        return False
    both = both and loops_around_branches(s, t) is None
    return _touches_later(func, unguarded(s), unguarded(t), same, at_once=both)


def _touches_later(func: Func, s: Statement, t: Statement, same: Order, *, at_once: bool) -> bool:
    """Whether an instance of `t` touches the same as one of `s`, in a later iteration of a loop around both, or
    `at_once`, in the same iterations of all."""
    shared = [v for v in s.dims if v in t.dims]
    after: list[Order] = [[*same, ({f"t.{v}": 1, f"s.{v}": -1, "": -1}, False)] for v in shared]
    if at_once:
        after.append([*same, *(({f"t.{v}": 1, f"s.{v}": -1}, True) for v in shared)])
    return has_conflict(func, s, t, after)
