"""What asynchronous groups have in common: which statements issue them, and how many of them may be pending.

Copies (cp.async), bulk stores and products (wgmma) are each issued, committed as a group, and waited for until at most
so many of the newest groups are pending. Bulk loads ("bytes") are waited for by an mbarrier. What a group touches is
touched again at a dependence distance, in iterations of a loop, and that bounds the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeGuard

from loopir.analysis.dependence.access import Statement
from loopir.analysis.dependence.depend import Order
from loopir.analysis.dependence.fusion_shift import distances
from loopir.ir.grammar import AXES, AsyncCommit, AsyncWait, Barrier, Body, Func, InstrRegion, Kernel, Loop, Stmt
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    leaf_paths,
    leaf_writes,
    map_body,
    map_stmts,
    replace,
    statements,
)


def issues(s: Stmt, group: str) -> TypeGuard[InstrRegion]:
    """Whether `s` is an instruction that goes on by itself, of that group."""
    return isinstance(s, InstrRegion) and s.fn.asynchronous == group


def has_issue(s: Stmt, group: str) -> bool:
    """Whether `s` is such an instruction, or holds one."""
    return any(issues(x, group) for x in statements((s,)))


def is_issued(p: StmtPath, group: str) -> bool:
    """Whether such an instruction does the statement at `p`."""
    return any(issues(s, group) for s in p.around)


def is_serial(s: Stmt | None) -> TypeGuard[Loop]:
    """Whether `s` is a loop that a thread runs by itself."""
    return isinstance(s, Loop) and s.kind not in AXES


def wait_after_each(body: Body, group: str) -> Body:
    """`body` with each instruction of the group followed by a wait for it."""

    def visit(s: Stmt) -> Stmt | Body:
        return (s, AsyncCommit(group), AsyncWait(0, group)) if issues(s, group) else map_stmts(s, visit)

    return map_body(body, visit)


class GroupPlan(Protocol):
    """Where the groups of a kernel are committed, and waited for."""

    def applied(self, body: Body) -> Body:
        """The `body` of the kernel, with the commits and the waits."""
        ...


def insert_waits(
    kernel: Kernel, group: str, plan: Callable[[Sequence[StmtPath], Sequence[StmtPath]], GroupPlan | None]
) -> Kernel:
    """`kernel` with commits of the group's instructions and waits for them: as the `plan` for these among all
    statements says, or, where it is None, for each at once."""
    if not has_issue(kernel, group):
        return kernel
    here = tuple(leaf_paths(kernel.body))
    mine = [p for p in here if is_issued(p, group)]
    if not mine:
        return kernel
    found = plan(mine, here)
    return replace(kernel, body=wait_after_each(kernel.body, group) if found is None else found.applied(kernel.body))


def before_last_barrier(body: Body, s: Stmt) -> Body:
    """`body` with `s` at its end, before the barrier that it ends in, if it does."""
    end = len(body) - isinstance(body[-1], Barrier)
    return (*body[:end], s, *body[end:])


def iterations_until_write(
    func: Func, by_label: Mapping[str, Statement], pair: tuple[StmtPath, StmtPath], loop: str, outer: Sequence[str],
    less: int | None = None,
) -> Iterator[int | None]:  # fmt: skip
    """How many iterations of `loop` later, at least, the second of `pair` writes what the first one touches; None if
    that cannot be told, and 0 if it is the same iteration. Those of `outer` are the same.

    What is not `less` than is known may be left out."""
    p, q = pair
    if not leaf_writes(q.stmt) & accessed_buffers(p.stmt):
        return
    order: Order = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in outer]
    order.append(({f"t.{loop}": 1, f"s.{loop}": -1, "": -int(q.path < p.path)}, False))
    ahead = {f"s.{loop}": 1, f"t.{loop}": -1}
    s, t = by_label[p.stmt.label], by_label[q.stmt.label]
    for distance in distances(func, s, t, ahead, order, over=None if less is None else -less):
        yield None if distance is None else -distance
