"""Giving a loop memory of its own for a buffer that is used in it alone, no larger than what one iteration touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import TypeVar, cast

from loopir.analysis.access import Access, Statement, sees, statements_of
from loopir.analysis.bundles import unclear
from loopir.analysis.depend import Pair, before, times
from loopir.analysis.regions import Box, region, sized, touches
from loopir.analysis.simplify_func import simplify_body
from loopir.ir.grammar import THREAD_AXES, Alloc, Buffer, Func, Index, Int, Load, Loop, Node, Reduce, Stmt, Store
from loopir.ir.walk import accessed, chain, exchanged, rebuild, replace, statements
from loopir.schedule.facts import known_at, known_in
from loopir.schedule.find import find_loop

N = TypeVar("N", bound=Node)


def touched(func: Func, loop: Loop, buffer: Buffer, names: set[str], *, write: bool | None = None) -> Box | None:
    """What one iteration of `loop` reads and writes (or one of them) of the buffers, which are shaped like `buffer`.

    Where an end of it is read from memory, a dimension is taken whole. None if it touches nothing.
    """
    known = known_in(func, loop)
    found = [t for t in touches(loop.body, known, names) if write is None or t.write == write]
    if not found:
        return None
    box = sized(region(found, known.here, buffer.shape, guarded=True), buffer.shape, func.sizes, known.here)
    parts = zip(box.base, box.extent, box.size, buffer.shape, strict=True)
    seen = [(b, e, s) if sees(b) else (Int(0), d, d) for b, e, s, d in parts]
    return Box(*(tuple(x[n] for x in seen) for n in range(3)))


def reindexed(node: N, new: Mapping[str, Buffer], at: Callable[[tuple[Index, ...]], tuple[Index, ...]]) -> N:
    """`node` with each buffer named in `new` exchanged, and used at what `at` makes of its indices."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer) or (isinstance(n, Stmt) and accessed(n).isdisjoint(new)):
            return n
        n = rebuild(n, visit)
        match n:
            case Load(b, old) if b.name in new:
                return Load(new[b.name], at(old))
            case Store(buffer=b, at=old) if b.name in new:
                return replace(n, buffer=new[b.name], at=at(old))
            case Reduce(buffers=bs, at=old) if bs[0].name in new:
                return replace(n, buffers=tuple(new[b.name] for b in bs), at=at(old))
            case _:
                return n

    return cast(N, visit(node))


def confined(func: Func, names: set[str], loop: str, box: Box) -> Func:
    """`func` with the buffers called `names`, used in `loop` alone, allocated there, and as large as `box`."""
    where = find_loop(func, loop)
    old = {s.buffer.name: s for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.name in names}
    plain = all(s.buffer.layout is None for s in old.values())
    new = {n: replace(s.buffer, shape=box.size) if plain else s.buffer for n, s in old.items()}

    def shifted(at: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(ix - base for ix, base in zip(at, box.base, strict=True)) if plain else at

    body = tuple(reindexed(s, new, shifted) for s in where.body)
    for n in reversed(list(old)):
        body = (Alloc(new[n], body),)
    known = known_at(func, where)
    (after,) = simplify_body((replace(where, body=body),), known, old=where.body)
    for n in old:
        there = next(s for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.name == n)
        func = exchanged(func, there, there.body)
    return exchanged(func, where, after)


def renewable(func: Func, names: set[str], loop: Loop) -> bool:
    """Whether `loop` may have memory of its own for the buffers: they are the Func's, and no thread's of a block."""
    allocs = {s.buffer.name: s for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.name in names}
    if len({b.buffer.shape for b in allocs.values()}) > 1:
        return False
    threads = any(isinstance(s, Loop) and s.kind in THREAD_AXES for s in chain(func.body, loop))
    return set(allocs) == names and not (threads and any(s.buffer.scope == "shared" for s in allocs.values()))


def settled(func: Func, names: set[str], loop: str) -> Func:
    """`func` with the buffers called `names` allocated in `loop`, if they are used there alone and carry nothing over.

    Nothing is carried over if no iteration reads what another wrote: of `loop`, or of a loop around it.
    """
    where = find_loop(func, loop)
    inside = [s for s in statements_of(func) if loop in s.dims]
    elsewhere = (s for s in statements_of(func) if loop not in s.dims)  # a reduction's start, for one
    if any(s.uses(names) for s in elsewhere) or not renewable(func, names, where):
        return func
    start = next(s.when[: s.when.index(loop) + 1] for s in inside if not s.init)
    using = [s for s in inside if s.uses(names)]
    if any(s.when[: len(start)] != start for s in using):
        return func  # a reduction that starts outside
    earlier = before(times(start, "s"), times(start, "t"))

    def clear(s: Statement, a: Access, t: Statement, b: Access) -> bool:
        return not Pair(func, s, a, t, b).possible(earlier)

    for s, t in product(using, using):
        for a, b in unclear(s, t, clear, lambda a, b: a.write and a.buffer in names and not b.write):
            if not clear(s, a, t, b):
                return func
    one = next(s.buffer for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.name in names)
    box = touched(func, where, one, names)
    return func if box is None else confined(func, names, loop, box)
