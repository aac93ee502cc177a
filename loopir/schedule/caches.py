"""Copies of part of a buffer, kept near where they are used: where one stands, how large it is, what it is called.

A copy belongs to one statement in a loop: the outermost one in it around the stage. It is alive around that statement
alone, which nothing else may then write, or see, the copied elements in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from loopir.analysis.regions import Box, Touch, region, sized
from loopir.analysis.simplify import Context, simplify
from loopir.analysis.simplify_func import Known, simplify_body, statements_known
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Buffer, Do, Func, Index, Int, Load, Loop, Node, Reduce, Scope, Stmt
from loopir.ir.walk import Place, fresh, names, nodes, rebuild, rewrite
from loopir.schedule.effects import reads, writes
from loopir.schedule.facts import known_at
from loopir.schedule.find import find_loop, find_stage, listing
from loopir.schedule.naming import free_name
from loopir.schedule.scopes import require_place, scope_called

N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a copy stands: around `nest`, which holds the stage at `place`; `around` are the statements outside."""

    func: Func
    place: Place
    around: tuple[Stmt, ...]
    nest: Stmt
    known: Known

    @property
    def alone(self) -> bool:
        """Whether the nest is the stage alone, which reads before it writes."""
        return self.nest is self.place.stmt

    @property
    def inside(self) -> Known:
        """What is known at the stage."""
        return next(k for s, k in statements_known((self.nest,), self.known) if s is self.place.stmt)

    @property
    def starting(self) -> Context:
        """What is known where the stage, if it is a reduction, starts: the loops of the nest that it is not over."""
        s, ctx = self.place.stmt, self.known.here
        over = s.over if isinstance(s, Reduce) else ()
        for loop in self.place.loops:
            if loop.var not in over and not any(x is loop for x in self.around):
                ctx = ctx.loop(loop.var, loop.extent)
        return ctx

    def replaced(self, nest: Body) -> Func:
        """The Func with `nest` instead, simplified where it stands."""
        tidied = simplify_body(nest, self.known)
        return replace(self.func, body=rewrite(self.func.body, lambda s: tidied if s is self.nest else None))


def find_site(func: Func, stage: str, at: str | None, buffers: Iterable[str] | None = None) -> Site:
    """The statement in loop `at`, or on top, around the one that `stage` names, inside the allocation of `buffers`."""
    place, *more = find_stage(func, stage)
    if more:
        labels = listing(p.stmt.label for p in (place, *more))
        raise ScheduleError(f"{stage!r} is several statements: {labels}; name one")
    if any(isinstance(s, Do) for s in place.around):
        raise ScheduleError(f"{place.stmt.label} is one instruction", suggestion="make the copy before tensorize")
    start = 0
    if at is not None:
        loop = find_loop(func, at)
        start = next((n + 1 for n, s in enumerate(place.around) if s is loop), 0)
        if not start:
            around = listing(x.var for x in place.loops)
            reason = f"{loop.var!r} is no loop around {place.stmt.label}; the loops there are {around}"
            raise ScheduleError(reason, loop=loop.var)
    for n, s in enumerate(place.around):
        if isinstance(s, Alloc) and buffers is not None and s.buffer.name in buffers and n >= start:
            if any(isinstance(x, Loop) for x in place.around[start:n]):
                where = "inside the nest" if at is None else f"further inside {at!r}"
                raise ScheduleError(f"{s.buffer.name} is allocated {where}", suggestion="a loop inside its allocation")
            start = n + 1
    whole: tuple[Stmt, ...] = (*place.around, place.stmt)
    depth = next(n for n in range(start, len(whole)) if not isinstance(whole[n], Alloc))
    nest: Stmt = whole[depth]
    return Site(func, place, whole[:depth], nest, known_at(func, nest))


@dataclass(frozen=True, slots=True)
class Copied:
    """The part `box` of `source` that `cache` holds; dimensions of one element are left out of it."""

    source: Buffer
    cache: Buffer
    box: Box
    dims: tuple[int, ...]

    def at(self, at: Sequence[Index], ctx: Context) -> tuple[Index, ...]:
        """Where the cache holds element `at`."""
        return tuple(simplify(at[d] - self.box.base[d], ctx) for d in self.dims)


def copied(
    site: Site, source: Buffer, found: Sequence[Touch], scope: str, name: str | None, taken: Iterable[str] = ()
) -> Copied:
    """The box around what `found` touches of `source`, as a buffer of its own in `scope`, called none of `taken`."""
    kind = scope_called(scope)
    require_place(source.name if name is None else name, kind, site.around, (site.nest,))
    box = sized(region(found, site.known.here, source.shape), source.shape, site.func.sizes)
    dims = tuple(d for d, size in enumerate(box.size) if size != Int(1)) or (len(source.shape) - 1,) * bool(
        source.shape
    )
    used = {*names(site.func), *taken}
    called = free_name(name, used) if name is not None else fresh(f"{source.name}_{scope}", used)
    return Copied(source, _cache(called, source, tuple(box.size[d] for d in dims), kind), box, dims)


def _cache(name: str, source: Buffer, shape: tuple[Index, ...], scope: Scope) -> Buffer:
    return Buffer(name, shape, source.dtype, scope)


def require_unwritten(site: Site, parts: Iterable[Node], what: str) -> None:
    """Refuse if `parts`, which are evaluated for the copy, too, read memory that the nest writes."""
    if changed := sorted(reads(parts) & writes((site.nest,))):
        reason = f"{what} is read from {listing(changed)}, which is written in the same nest"
        raise ScheduleError(reason, suggestion="a loop further inside, around the reads alone")


def redirected(node: N, copies: Copied, ctx: Context) -> N:
    """`node` with each element of the source that it loads taken from the cache."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Load) and n.buffer.name == copies.source.name:
            return Load(copies.cache, copies.at(n.at, ctx))
        return n

    return cast(N, visit(node))


def loads(parts: Iterable[Node], buffer: str, known: Context) -> list[Touch]:
    """The loads of `buffer` in `parts`."""
    found = (n for part in parts for n in nodes(part) if isinstance(n, Load) and n.buffer.name == buffer)
    return [Touch(n.buffer, n.at, False, known) for n in found]


def inside_nest(nest: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """`nest` with the leaf statement `old` replaced."""
    return rewrite((nest,), lambda s: new if s is old else None)[0]
