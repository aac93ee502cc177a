"""Insert waits for bulk stores before the shared memory that they read is written again.

The stores of an iteration are a group, and groups complete in the order of their commits, so the issuing thread waits,
before the barrier at the end of an iteration, until at most so many of its newest groups still read shared memory. The
number follows from dependence distances: what a group reads is written again only so many iterations later, in this
execution of the loop or in its next one. Where the nests do not have that form, each store is waited for at once. The
writes are complete at the end of the launch, so nothing else in the kernel may access what they write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeGuard

from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.dependence.depend import Order, concurrent_conflict
from loopir.analysis.dependence.fusion_shift import distances
from loopir.errors import LowerError
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    Alloc,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Cond,
    Func,
    If,
    Int,
    Kernel,
    Loop,
    Stmt,
)
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    free_vars,
    loaded_buffers,
    map_body,
    map_kernels,
    map_stmts,
    path_to,
    path_within,
    statements,
    stored_buffers,
)
from loopir.lower.gpu.asynchronous.async_groups import (
    before_last_barrier,
    has_issue,
    insert_waits,
    is_serial,
    issues,
    iterations_until_write,
)
from loopir.lower.target import Target

GROUP = "stores"
MAX_GROUPS = 8
"""Groups that may be under way at once."""


def insert_store_waits(func: Func, target: Target) -> Func:
    """`func` with the groups of its bulk stores, and the waits for them."""

    def kernel(s: Kernel) -> Stmt:
        new = insert_waits(s, GROUP, lambda mine, here: _plan(func, s, mine, here))
        return new if new is s else replace(new, body=_ended(new.body))

    return map_kernels(func, kernel)


def _ended(body: Body) -> Body:
    """What a thread does, and at the end of it a wait: with the block goes its shared memory."""
    if len(body) == 1 and isinstance(only := body[0], Loop | Alloc) and (isinstance(only, Alloc) or only.kind in AXES):
        return (replace(only, body=_ended(only.body)),)
    return (*body, AsyncWait(0, GROUP))


def _require_last(func: Func, mine: Sequence[StmtPath], here: Sequence[StmtPath], of: Mapping[str, Statement]) -> None:
    """Refuse if anything touches what a store writes, as that is done at the end of the launch."""
    for p in mine:
        (name,) = stored_buffers(p.stmt)
        if other := next((q for q in here if q is not p and name in accessed_buffers(q.stmt)), None):
            raise LowerError(
                f"{p.stmt.label} writes {name} by itself until the launch ends, and {other.stmt.label} of the same "
                f"launch touches it, too; store one of them in the ordinary way"
            )
        outside = p.around[: next(n for n, x in enumerate(p.around) if issues(x, GROUP))]
        for loop in (x for x in outside if isinstance(x, Loop) and x.kind not in BLOCK_AXES):
            clash = concurrent_conflict(func, of[p.stmt.label], of[p.stmt.label], same=(), differ=loop.var)
            if clash is not None:
                raise LowerError(f"{clash.witness}, and both by themselves, which nothing orders")


@dataclass(frozen=True, slots=True)
class _Plan:
    """The loop at whose end is waited, the statement with all stores, and the groups that may be under way there."""

    loop: Loop
    unit: Stmt
    pending: int

    def applied(self, body: Body) -> Body:
        one = _elected(self.unit, {s.var for s in statements(body) if isinstance(s, Loop) and s.kind in AXES})
        wait: Stmt = AsyncWait(self.pending, GROUP)
        wait = wait if one is None else If(one, (wait,))

        def visit(s: Stmt) -> Stmt | Body:
            if s is self.unit:
                return (
                    replace(s, then=(*s.then, AsyncCommit(GROUP)))
                    if isinstance(s, If) and one
                    else (s, AsyncCommit(GROUP))
                )
            new = map_stmts(s, visit)
            if s is self.loop and isinstance(new, Loop):
                return replace(new, body=before_last_barrier(new.body, wait))
            return new

        return map_body(body, visit)


def _plan(func: Func, kernel: Kernel, mine: Sequence[StmtPath], here: Sequence[StmtPath]) -> _Plan | None:
    """The plan for the stores `mine`; None where not each iteration of one loop writes what it then stores."""
    of = {s.label: s for s in statements_of(func)}
    _require_last(func, mine, here, of)
    read = frozenset[str]().union(*(loaded_buffers(p.stmt) for p in mine))
    writing = [q for q in here if q not in mine and stored_buffers(q.stmt) & read]
    found = _loop_and_unit(mine, writing)
    if found is None:
        return None
    loop, unit = found
    around = path_within(kernel.body, loop)[:-1]
    fixed, outer = _fixed_loops(func, kernel), [s.var for s in around if is_serial(s)]
    pairs = list(product(mine, writing))
    within = [n for pair in pairs for n in iterations_until_write(func, of, pair, loop.var, (*fixed, *outer))]
    if not _ends_in_barrier(loop):  # nothing is written again before a later run of the loop
        last = next(filter(_ends_in_barrier, reversed(around)), None)
        return None if last is None or within else _Plan(last, unit, 0)
    again = [n for pair in pairs for n in _next_run(func, of, pair, loop, fixed, outer)]
    least = min((0 if n is None else n - 1 for n in (*within, *again)), default=MAX_GROUPS)
    return _Plan(loop, unit, min(least, MAX_GROUPS)) if least >= 0 else None


def _loop_and_unit(mine: Sequence[StmtPath], writing: Sequence[StmtPath]) -> tuple[Loop, Stmt] | None:
    """The innermost serial loop around all of these, and the one statement in it that has all stores."""
    serial = reversed([s for s in mine[0].loops if is_serial(s)])
    loop = next((s for s in serial if all(p.is_in(s) for p in (*mine, *writing))), None)
    unit = None if loop is None else _unit(loop.body, writing)
    return (loop, unit) if loop is not None and unit is not None and all(p.is_in(unit) for p in mine) else None


def _fixed_loops(func: Func, kernel: Kernel) -> list[str]:
    """The loops around `kernel` and those of its blocks, whose iterations share no shared memory."""
    inside = (s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind in BLOCK_AXES)
    return [s.var for s in (*path_to(func, kernel), *inside) if isinstance(s, Loop)]


def _ends_in_barrier(s: Stmt) -> TypeGuard[Loop]:
    """Whether `s` is a loop whose iterations end in a barrier."""
    return isinstance(s, Loop) and isinstance(s.body[-1], Barrier)


def _unit(body: Body, writing: Sequence[StmtPath]) -> Stmt | None:
    """The one statement in `body`, perhaps in allocations, that has all stores and none of what writes their source."""
    found = [s for s in body if has_issue(s, GROUP)]
    if len(found) != 1:
        return None
    if not any(q.is_in(found[0]) for q in writing):
        return found[0]
    return _unit(found[0].body, writing) if isinstance(found[0], Alloc) else None


def _elected(unit: Stmt, threads: set[str]) -> Cond | None:
    """The test of who issues the stores of `unit`, if it is nothing but that around them."""
    return unit.cond if isinstance(unit, If) and not unit.orelse and free_vars(unit.cond) <= threads else None


def _next_run(
    func: Func,
    of: dict[str, Statement],
    pair: tuple[StmtPath, StmtPath],
    loop: Loop,
    fixed: list[str],
    outer: list[str],
) -> Iterator[int | None]:
    """As `iterations_until_write`, in a later run of `loop`: iterations count on from run to run."""
    s, t = (of[p.stmt.label] for p in pair)
    for n, v in enumerate(outer):
        same: Order = [({f"s.{x}": 1, f"t.{x}": -1}, True) for x in (*fixed, *outer[:n])]
        after = ({f"t.{v}": 1, f"s.{v}": -1, "": -1}, False)
        for found in distances(func, s, t, {f"s.{loop.var}": 1, f"t.{loop.var}": -1}, [*same, after]):
            yield loop.extent.value - found if isinstance(loop.extent, Int) and found is not None else None
