"""Two nests that stand one after the other, as those primitives see them that make one of them.

What several of them need is here once: finding the pair, the loops of the two bands, and putting one nest in the
place of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from loopir.analysis.regions.retile import Retiling
from loopir.arith.simplify_func import Known
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Buffer, Func, If, Index, Loop, Stmt, Var
from loopir.ir.traverse.walk import (
    alloc_of,
    bodies,
    leaf_paths,
    loaded_buffers,
    path_to,
    replace_block,
    rewrite,
    statements,
)
from loopir.schedule.core.find import find_loop


def extend_allocs_back(func: Func, first: str, second: str) -> Func:
    """`func` with memory that is there from after loop `first` on, for loop `second`, there from before `first`."""
    a, b = find_loop(func, first), find_loop(func, second)
    body = body_with(func, a)
    after = next(iter(body[body.index(a) + 1 :]), None)
    if not isinstance(after, Alloc) or not _begins_with(after, b):
        return func
    new: dict[int, Body] = {id(a): (), id(after): (_with_first(after, a),)}
    return replace(func, body=rewrite(func.body, lambda s: new.get(id(s))))


def extend_allocs_forward(func: Func, first: str, second: str) -> Func:
    """`func` with memory that ends with loop `first`, and `second` comes right after, kept until after `second`."""
    a, b = find_loop(func, first), find_loop(func, second)
    before = next((x for x, y in pairwise(body_with(func, b)) if y is b), None)
    if not isinstance(before, Alloc) or not _ends_with(before, a):
        return func
    new: dict[int, Body] = {id(before): (_with_last(before, b),), id(b): ()}
    return replace(func, body=rewrite(func.body, lambda s: new.get(id(s))))


def _ends_with(alloc: Alloc, loop: Loop) -> bool:
    last = alloc.body[-1] if alloc.body else None
    return _ends_with(last, loop) if isinstance(last, Alloc) else last is loop


def _with_last(alloc: Alloc, loop: Loop) -> Alloc:
    """`alloc` with `loop` at its end, inside all memory that ends there."""
    last = alloc.body[-1]
    end = (_with_last(last, loop),) if isinstance(last, Alloc) else (last, loop)
    return replace(alloc, body=(*alloc.body[:-1], *end))


def _begins_with(alloc: Alloc, loop: Loop) -> bool:
    first = alloc.body[0] if alloc.body else None
    return _begins_with(first, loop) if isinstance(first, Alloc) else first is loop


def _with_first(s: Stmt, loop: Loop) -> Stmt:
    """`s` with `loop` inside all memory that it begins with."""
    if not isinstance(s, Alloc):
        return s
    inner = s.body[0]
    begun = (_with_first(inner, loop), *s.body[1:]) if isinstance(inner, Alloc) else (loop, *s.body)
    return replace(s, body=begun)


def open_allocs_before(func: Func, stmt: Stmt) -> Func:
    """`func` with memory that begins after `stmt`, and lasts to the end of its statements, there from before it."""
    level = body_with(func, stmt)
    opened: list[Buffer] = []
    body: Body = level
    while isinstance(last := body[-1], Alloc) and not any(s is stmt for s in statements((last,))):
        opened.append(last.buffer)
        body = (*body[:-1], *last.body)
    if not opened:
        return func
    for b in reversed(opened):
        body = (Alloc(b, body),)
    first, gone = level[0], {id(s) for s in level[1:]}
    return replace(func, body=rewrite(func.body, lambda s: body if s is first else () if id(s) in gone else None))


def under_one_guard(func: Func, first: str, second: str) -> Func:
    """`func` with one guard around both loops, if `first` ends one and `second` begins the next, of the same test."""
    a, b = find_loop(func, first), find_loop(func, second)
    if not isinstance((None, *path_to(func, a))[-2], If):
        return func
    for body in (func.body, *(x for s in statements(func.body) for x in bodies(s))):
        for one, two in pairwise(body):
            if not (isinstance(one, If) and isinstance(two, If) and one.then and two.then):
                continue
            alike = one.cond == two.cond and not (one.orelse or two.orelse or loaded_buffers(one.cond))
            if alike and one.then[-1] is a and two.then[0] is b:
                new: dict[int, Body] = {id(one): (), id(two): (replace(two, then=(*one.then, *two.then)),)}
                return replace(func, body=rewrite(func.body, lambda s, new=new: new.get(id(s))))
    return func


def require_next(func: Func, first: Loop, second: Loop) -> None:
    """Refuse unless `second` is the statement after `first`, empty statements between them aside."""
    body = body_with(func, first)
    after = next((s for s in body[body.index(first) + 1 :] if s is second or any(leaf_paths((s,)))), None)
    if after is second:
        return
    if second not in body:
        what = "does not stand in the same statements"
    elif body.index(second) < body.index(first):
        what = "stands before it"
    else:
        between = [p.stmt.label for p in leaf_paths(body[body.index(first) + 1 : body.index(second)])]
        what = f"comes after {', '.join(between)}"
    nexts = f"{first.var!r} is followed by {after.var!r}" if isinstance(after, Loop) else "two loops side by side"
    raise ScheduleError(
        f"{second.var!r} is not the loop right after {first.var!r}: it {what}", loop=second.var, suggestion=nexts
    )


def body_with(func: Func, stmt: Stmt) -> Body:
    """The statement list that `stmt` stands in."""
    return _level(func, stmt)[1]


def _level(func: Func, stmt: Stmt) -> tuple[tuple[Stmt, ...], Body]:
    """The statements around `stmt`, and the list of the last of them that it stands in."""
    *around, _ = path_to(func, stmt)
    lists = bodies(around[-1]) if around else (func.body,)
    return tuple(around), next(body for body in lists if any(s is stmt for s in body))


def band(loop: Loop, depth: int) -> tuple[Loop, ...]:
    """`loop` and the loops right inside it, `depth` of them in all, each the only statement of the one around it."""
    out = [loop]
    while len(out) < depth:
        (*others, inner) = out[-1].body or (None,)
        if others or not isinstance(inner, Loop):
            raise ScheduleError(
                f"{out[-1].var!r} does not hold just one loop, so the nest is {len(out)} deep and not {depth}",
                loop=loop.var, suggestion=f"{len(out)} loops of it",
            )  # fmt: skip
        out.append(inner)
    return tuple(out)


def join_nests(func: Func, first: Loop, second: Loop, nest: Stmt) -> Func:
    """`func` with `nest` in the place of `first`, and without `second`."""
    around, level = _level(func, first)
    return replace_block(func, around, level, tuple(nest if s is first else s for s in level if s is not second))


def retiled_body(nest: Sequence[Loop], names: Sequence[str], position: Sequence[Index], known: Known) -> Body:
    """The body of loops, one right inside the other, at `position` of loops called `names`, where `known` holds."""
    at = {x.var: ix for x, ix in zip(nest, position, strict=True)}
    if all(ix == Var(v) for v, ix in at.items()):
        return nest[-1].body
    over = {x.var: (name,) for x, name in zip(nest, names, strict=True)}
    return Retiling(at, over, decides=True).body(nest[-1].body, known)


def labels(body: Body) -> tuple[str, ...]:
    return tuple(p.stmt.label for p in leaf_paths(body))


def lanes_around(func: Func, loop: Loop) -> list[str]:
    """The vectorized loops around `loop`, in which the order of statements matters."""
    return [x.var for x in path_to(func, loop)[:-1] if isinstance(x, Loop) and x.kind == "vectorize"]


def extend_lifetime(func: Func, buffer: str, last: Stmt) -> Func:
    """`func` with the memory of `buffer`, if it is allocated, there until after `last`; refuse what a loop ends."""
    while (alloc := alloc_of(func, buffer)) is not None and not any(s is last for s in statements((alloc,))):
        level = body_with(func, alloc)
        n = next(n for n, s in enumerate(level) if s is alloc)
        if n == len(level) - 1:  # it ends with other memory, which is kept as long
            outer = next(reversed(path_to(func, alloc)[:-1]), None)
            if not isinstance(outer, Alloc):
                reason = f"{buffer} is memory of one iteration, and {labels((last,))[0]} runs outside of it"
                raise ScheduleError(reason, suggestion="compute_root first")
            func = extend_lifetime(func, outer.buffer.name, last)
            continue
        after = {id(s) for s in level[n + 1 :]}
        longer = replace(alloc, body=(*alloc.body, *level[n + 1 :]))
        new: dict[int, Body] = {id(alloc): (longer,), **dict.fromkeys(after, ())}
        func = replace(func, body=rewrite(func.body, lambda s, new=new: new.get(id(s))))
    return func
