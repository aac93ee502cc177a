"""What blocks of one launch may not do: nothing orders them, whatever the loops between them say.

A loop's iterations are compared with the loops around it standing still. In one launch they do not: a block goes
through the serial loops that stand inside the outermost bound loop by itself. And where threads fold together, the
conditions that speak of these threads no longer keep blocks apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement

from loopir.analysis.dependence.access import statements_of
from loopir.analysis.dependence.depend import concurrent_conflict, loop_carried
from loopir.ir.grammar import AXES, BLOCK_AXES, Body, Cond, Func, If, Loop, Stmt
from loopir.ir.traverse.walk import free_vars, loaded_buffers, loop_of, loops, loops_of, path_to, replace, rewrite
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.reductions import Fold, nested
from loopir.schedule.legality.refusal import refusal


def require_one_launch(func: Func, folds: list[Fold], loop: str, kind: str) -> None:
    """Refuse if blocks would meet once `loop`, whose iterations are independent, is bound to the axis `kind`.

    Where it is not bound yet, nothing changes for blocks and threads but those around it, and those inside.
    """
    already = {x.var: x.kind for x in loops_of(func).values() if x.kind in AXES}
    bound = already | {loop: kind}
    near = bound if loop in already else {v: bound[v] for v in _nested_with(func, loop) if v in bound}
    _require_no_order(func, near, loop)
    after, apart = _totals(func, folds, bound)
    apart &= near.keys()
    for name in sorted(apart):
        clash = loop_carried(after, name)
        if clash is not None:
            reason = f"{clash.first} would be folded by threads together wherever its other conditions hold"
            raise refusal(clash, reason, loop, f"atomic({clash.first!r}), or keep {loop!r} serial")
    if apart:
        _require_no_order(after, near, loop)


def _nested_with(func: Func, loop: str) -> list[str]:
    """`loop`, the loops around it and those inside."""
    target = loop_of(func, loop)
    assert target is not None
    return [x.var for x in (*path_to(func, target)[:-1], *loops((target,))) if isinstance(x, Loop)]


# ---------------------------------------------------------------- serial loops that blocks run by themselves


def _require_no_order(func: Func, bound: Mapping[str, str], loop: str) -> None:
    """Refuse if blocks depend on one another by way of serial loops that each of them runs by itself."""
    for block in loops_of(func).values():
        if bound.get(block.var) not in BLOCK_AXES:
            continue
        host, alone = _around(func, block, bound)
        inside = [s for s in statements_of(func) if block.var in s.dims and set(host) <= set(s.dims)] if alone else []
        for s, t in combinations_with_replacement(inside, 2):
            clash = concurrent_conflict(func, s, t, same=host, differ=block.var)
            if clash is not None:
                reason = f"each block would run {join_names(alone)} by itself, and nothing orders what blocks do"
                raise refusal(clash, reason, loop, f"keep {loop!r} serial, or put {alone[0]!r} outside the bound loops")


def _around(func: Func, block: Loop, bound: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The loops around `block` that the host runs; those that a block runs by itself, as they stand in its launch."""
    host: list[str] = []
    alone: list[str] = []
    launched = False
    for s in path_to(func, block)[:-1]:
        control = s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else None
        launched = launched or (control is not None and bool(loaded_buffers(control)))
        if isinstance(s, Loop):
            launched = launched or s.var in bound
            if not launched:
                host.append(s.var)
            elif bound.get(s.var) not in BLOCK_AXES:
                alone.append(s.var)
    return host, alone


# ---------------------------------------------------------------- what threads fold together


def loops_gone_with(fold: Fold, loops: set[str]) -> set[str]:
    """`loops`, and those that run a number of times that these tell."""
    gone = set(loops)
    for s in fold.loops():
        gone |= {s.var} if free_vars(s.extent) & gone else set()
    return gone


def _totals(func: Func, folds: list[Fold], bound: Mapping[str, str]) -> tuple[Func, set[str]]:
    """`func` as threads fold together in it, and the blocks and threads that a condition no longer keeps apart there.

    What they have is folded in the loops and conditions that do not speak of these threads: if a condition that does
    kept blocks apart, all of them come by, the most of them with nothing.
    """
    totals: dict[int, dict[tuple[Loop | Cond, ...], Body]] = {}
    apart: set[str] = set()
    for fold in folds:
        if not any(v in bound and bound[v] not in BLOCK_AXES for v in fold.over):
            continue
        gone = loops_gone_with(fold, {v for v in fold.over if bound.get(v) not in BLOCK_AXES})
        shells = fold.without(gone)
        lost = {v for s in fold.shells if s not in shells and not isinstance(s, Loop) for v in free_vars(s) - gone}
        if lost & set(bound):
            over = tuple(v for v in fold.over if v not in gone)
            total = replace(fold.reduce, values=fold.reduce.monoid.identity, over=over, init=None)
            here = totals.setdefault(id(fold.start), {})
            here[shells] = (*here.get(shells, ()), total)
            apart |= lost & set(bound)

    def visit(s: Stmt) -> Body | None:
        here = totals.get(id(s))
        return None if here is None else tuple(x for shells, body in here.items() for x in nested(shells, body))

    return (replace(func, body=rewrite(func.body, visit)) if totals else func), apart
