"""Stages computed twice: for each block of a loop that is to use them there, and as a whole for all others."""

from __future__ import annotations

from collections.abc import Sequence

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Buffer, Func, If, Loop, Not, Reduce, Stmt, Store
from loopir.ir.traverse.clone import Renaming, UsedNames, rename_symbols
from loopir.ir.traverse.walk import leaf_paths, loaded_buffers, map_stmts, replace, rewrite, statements, stored_buffers
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.legality.effects import allocates, reads, writes
from loopir.schedule.transform.siblings import body_with


def stale_buffers(loop: Loop, nests: Sequence[Loop]) -> set[str]:
    """What `nests` store, but do not fold along their outermost loop, of folds along it, directly or by way of others.

    In `loop`, a block of it is made of what these folds are by then."""
    going = {b.name for x in (loop, *nests) for s in _folds_over(x) for b in s.buffers}
    stale = set[str]()
    for x in nests:
        for p in leaf_paths(x.body):
            if not _folds_along(p.stmt, x) and loaded_buffers(p.stmt) & (going | stale):
                stale |= stored_buffers(p.stmt)
    return stale


def _folds_over(x: Loop) -> list[Reduce]:
    return [p.stmt for p in leaf_paths(x.body) if isinstance(p.stmt, Reduce) and x.var in p.stmt.over]


def _folds_along(s: Store | Reduce, x: Loop) -> bool:
    return isinstance(s, Reduce) and x.var in s.over


def duplicated(func: Func, loop: Loop, nests: Sequence[Loop]) -> tuple[Func, list[Loop]]:
    """`func` in which nobody but `nests` reads what is stale in them, and the nests: others read a copy that stays."""
    stale = stale_buffers(loop, nests)
    gone = {id(x) for x in nests}
    rest = rewrite(func.body, lambda s: () if id(s) in gone else None)
    wanted = _with_sources(nests, stale & (reads(rest) | {b.name for b in func.outputs()}), stale)
    if not wanted:
        return func, [*nests]
    _require_copies(func, rest, nests, wanted)
    new, own = _with_copies(func, nests, wanted)
    level = body_with(func, loop)
    body = tuple(s for old in level for s in new.get(id(old), (old,)))
    for b in reversed(own):
        body = (Alloc(b, body),)
    first, others = level[0], {id(s) for s in level[1:]}
    func = replace(func, body=rewrite(func.body, lambda s: body if s is first else () if id(s) in others else None))
    return func, [find_loop(func, x.var) for x in nests]


def _with_sources(nests: Sequence[Loop], wanted: set[str], stale: set[str]) -> set[str]:
    """`wanted`, and the `stale` buffers that `nests` compute these from."""
    leaves = [p.stmt for x in nests for p in leaf_paths(x.body)]
    while more := {b for s in leaves if stored_buffers(s) & wanted for b in loaded_buffers(s) & stale} - wanted:
        wanted = wanted | more
    return wanted


def _with_copies(
    func: Func, nests: Sequence[Loop], wanted: set[str]
) -> tuple[dict[int, Body], list[Buffer]]:  # fmt: skip
    """By the id of each nest, the nest with buffers of its own in place of `wanted`, and what stores these for others;
    and those buffers."""
    taken = UsedNames.of(func)
    leaves = [p.stmt for x in nests for p in leaf_paths(x.body)]
    buffers = {b.name: b for s in leaves for b in s.buffers if b.name in wanted}
    own = {name: replace(b, name=taken.name(name)) for name, b in sorted(buffers.items())}
    labels = {s.label: taken.label(s.label) for s in leaves if stored_buffers(s) & wanted}
    new: dict[int, Body] = {}
    for x in nests:
        stored = _only(x, wanted)
        loops = {s.var: taken.name(s.var) for s in statements((x,)) if isinstance(s, Loop)}
        for_others = (rename_symbols(stored, Renaming(loops=loops)),) if isinstance(stored, Loop) else ()
        new[id(x)] = (rename_symbols(x, Renaming(labels=labels, buffers=own)), *for_others)
    return new, [*own.values()]


def _require_copies(func: Func, rest: Body, nests: Sequence[Loop], wanted: set[str]) -> None:
    """Refuse unless the stages that store `wanted` can be computed after the nests as they were in them."""
    started = {a.buffer.name for a in func.args if a.access == "inout"} | writes(rest)
    for x in nests:
        here = [p.stmt for p in leaf_paths(x.body) if stored_buffers(p.stmt) & wanted]
        others = {b for p in leaf_paths(x.body) if not stored_buffers(p.stmt) & wanted for b in stored_buffers(p.stmt)}
        needed = set[str]().union(*map(loaded_buffers, here), *map(stored_buffers, here))
        if clash := sorted(needed & (others | allocates((x,))) | needed & wanted & started):
            raise ScheduleError(
                f"others read {join_names(sorted(wanted))}, of which each block would be made of folds that go on, and "
                f"{join_names(clash)} is not there for a copy that is made for them", loop=x.var,
                suggestion="a stage of its own for each, or the readers rolled, too",
            )  # fmt: skip


def _only(s: Stmt, wanted: set[str]) -> Stmt | None:
    """`s` with nothing in it but what stores one of `wanted`; None if nothing is left."""
    if isinstance(s, Store | Reduce):
        return s if stored_buffers(s) & wanted else None

    def visit(x: Stmt) -> Stmt | Body:
        return _only(x, wanted) or ()

    if not stored_buffers(s) & wanted:
        return None
    new = map_stmts(s, visit)
    return If(Not(new.cond), new.orelse) if isinstance(new, If) and not new.then else new
