"""Reading and rewriting trees: children, substitution, and where each statement stands.

Every rewrite shares what it does not change: `rebuild` returns the node it was given when no child moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import is_
from types import MappingProxyType
from typing import Any, TypeVar, cast

from loopir.ir.fresh import fresh as fresh, replaced as replaced
from loopir.ir.grammar import (
    Alloc,
    Arg,
    Body,
    Buffer,
    Cond,
    Do,
    Func,
    If,
    Kernel,
    Loop,
    Node,
    Reduce,
    Role,
    Stmt,
    Store,
    record,
)
from loopir.ir.holds import (
    NESTS,
    accessed as accessed,
    bodies as bodies,
    called as called,
    declared as declared,
    inside as inside,
    loaded as loaded,
    started as started,
    statements as statements,
    stored as stored,
    written as written,
)
from loopir.ir.kept import kept, known, once
from loopir.ir.rebuild import (
    children as children,
    nodes as nodes,
    on_loads as on_loads,
    rebuild as rebuild,
    replace as replace,
    transform as transform,
)
from loopir.ir.spoken import loads_of as loads_of, sees as sees, variables as variables
from loopir.ir.substitute import (
    guard as guard,
    refold as refold,
    speaking as speaking,
    starts_in as starts_in,
    substitute as substitute,
)

N = TypeVar("N", bound=Node)


def rebuffer(node: N, env: Mapping[str, Buffer]) -> N:
    """`node` with each buffer named in `env` replaced wherever it is declared, read or written."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return env.get(n.name, n)
        return rebuild(n, visit)

    return each_nest(node, env.keys(), visit)


def map_body(body: Body, fn: Callable[[Stmt], Stmt | Body]) -> Body:
    """`body` with each statement replaced by what `fn` gives: one statement, or several, or none."""
    out: list[Stmt] = []
    for s in body:
        new = fn(s)
        out.extend(new) if isinstance(new, tuple) else out.append(new)
    return body if len(out) == len(body) and all(map(is_, out, body)) else tuple(out)


def map_stmts(stmt: Stmt, fn: Callable[[Stmt], Stmt | Body]) -> Stmt:
    """`stmt` with `fn` applied to the statements directly inside it."""
    if type(stmt) in NESTS:
        nest: Any = stmt
        body = map_body(nest.body, fn)
        return nest if body is nest.body else with_body(nest, body)
    if isinstance(stmt, If):
        then, orelse = map_body(stmt.then, fn), map_body(stmt.orelse, fn)
        same = then is stmt.then and orelse is stmt.orelse
        return stmt if same else If(stmt.cond, then, orelse)
    return stmt


def with_body(stmt: Loop | Alloc | Do | Role | Kernel, body: Body) -> Stmt:
    """`stmt` around `body`."""
    if isinstance(stmt, Loop):
        return Loop(stmt.var, stmt.extent, stmt.kind, body)
    return Alloc(stmt.buffer, body) if isinstance(stmt, Alloc) else replace(stmt, body=body)


def rewrite(body: Body, fn: Callable[[Stmt], Stmt | Body | None]) -> Body:
    """Top-down over statements: where `fn` gives something it stands as it is; where None, go inside."""

    def visit(s: Stmt) -> Stmt | Body:
        new = fn(s)
        return map_stmts(s, visit) if new is None else new

    return map_body(body, visit)


def over_replaced(body: Body, new: Mapping[str, tuple[str, ...]]) -> Body:
    """`body` with `replaced` applied to what each Reduce in it folds over."""

    def visit(s: Stmt) -> Stmt | None:
        return replace(s, over=replaced(s.over, new)) if isinstance(s, Reduce) else None

    return rewrite(body, visit)


@record
class Place:
    """A leaf statement (Store or Reduce) and what encloses it, outermost first."""

    stmt: Store | Reduce
    around: tuple[Stmt, ...]
    path: tuple[int, ...]
    """Position in each enclosing statement list; an If counts its `orelse` after its `then`."""
    allocs: int = 0
    """How many of `around` are, first of all, allocations."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple([s for s in self.around[self.allocs :] if type(s) is Loop])

    def conds(self) -> Iterator[tuple[Cond, bool]]:
        """The conditions of the Ifs around it, each with the side it stands on."""
        for depth, s in enumerate(self.around):
            if isinstance(s, If):
                yield s.cond, self.path[depth + 1] < len(s.then)


def places(body: Body, around: tuple[Stmt, ...] = (), path: tuple[int, ...] = ()) -> Iterator[Place]:
    """Every leaf statement of `body` in textual order, with where it stands."""
    pending = [(s, around, (*path, n)) for n, s in enumerate(body)][::-1]
    while pending:
        s, outer, here = pending.pop()
        kind = type(s)
        if kind is Store or kind is Reduce:
            yield Place(s, outer, here)  # type: ignore[arg-type]
        elif kind is If or kind in NESTS:
            inner = inside(s)
            outer = (*outer, s)
            pending += [(x, outer, (*here, n)) for n, x in enumerate(inner)][::-1]


@dataclass(eq=False)
class Top:
    """The `nth` nest of a Func, which stands under nothing but the allocations `around` it."""

    nth: int
    nest: Stmt
    around: tuple[Stmt, ...]
    path: tuple[int, ...]

    @once
    def places(self) -> list[Place]:
        """Its leaf statements, as they stand in the Func."""
        around, path = self.around, self.path
        allocs = len(around)
        return [Place(p.stmt, around + p.around, path + p.path, allocs) for p in _held(self.nest).places]


@kept
def tops(func: Func) -> list[Top]:
    """The nests of `func`, in order, each with where it stands."""
    out: list[Top] = []
    allocs: list[Stmt] = []
    at: list[int] = []
    levels = [enumerate(func.body)]  # of the allocations on the way, each where it was left
    around: tuple[Stmt, ...] | None = ()
    while levels:
        n, s = next(levels[-1], (-1, None))
        if s is None:
            levels.pop()
            del allocs[-1:], at[-1:]
            around = None
        elif type(s) is Alloc:
            allocs.append(s)
            at.append(n)
            levels.append(enumerate(s.body))
            around = None
        else:
            around = tuple(allocs) if around is None else around
            out.append(Top(len(out), s, around, (*at, n)))
    return out


Which = Callable[[Stmt], bool]
"""Which nests are asked for."""


@dataclass(frozen=True, slots=True)
class Called:
    """The nests in which something is called by one of `names`: found by these, where all would be asked otherwise."""

    of: Callable[[Stmt], frozenset[str]]
    index: Callable[[Func], Mapping[str, Sequence[int]]]
    names: tuple[str, ...]

    def __call__(self, nest: Stmt) -> bool:
        return not self.of(nest).isdisjoint(self.names)

    def among(self, func: Func) -> list[Top]:
        index, every = self.index(func), tops(func)
        if len(self.names) == 1:
            return [every[n] for n in index.get(self.names[0], ())]
        return [every[n] for n in sorted({n for name in self.names for n in index.get(name, ())})]


def _indexed(func: Func, of: Callable[[Stmt], frozenset[str]]) -> Mapping[str, Sequence[int]]:
    out: dict[str, list[int]] = {}
    for top in tops(func):
        for name in of(top.nest):
            out.setdefault(name, []).append(top.nth)
    return out


@kept
def _declaring(func: Func) -> Mapping[str, Sequence[int]]:
    """By name, the nests in which a loop, a statement or memory is called so."""
    found = [(name, (top.nth,)) for top in tops(func) for name in declared(top.nest)]
    once = dict(found)
    return once if len(once) == len(found) else _indexed(func, declared)  # a label may be a loop's name elsewhere


@kept
def _touching(func: Func) -> Mapping[str, Sequence[int]]:
    """By buffer, the nests that read or write it."""
    return _indexed(func, accessed)


def declaring(*names: str) -> Called:
    """Which nests: those in which a loop, a statement or memory is called so."""
    return Called(declared, _declaring, names)


def touching(*names: str) -> Called:
    """Which nests: those that read or write one of these buffers."""
    return Called(accessed, _touching, names)


def tops_in(func: Func, which: Which) -> list[Top]:
    """Those nests of `func` that are asked for, in order."""
    return which.among(func) if isinstance(which, Called) else [top for top in tops(func) if which(top.nest)]


def places_in(func: Func, which: Which) -> list[Place]:
    """The leaf statements of those nests of `func` that are asked for, in textual order, with where they stand."""
    return [p for top in tops_in(func, which) for p in top.places]


@kept
def labels_of(func: Func) -> tuple[str, ...]:
    """The labels of the leaf statements of `func`, in textual order."""
    return tuple([p.stmt.label for top in tops(func) for p in _held(top.nest).places])


@kept
def places_of(func: Func) -> tuple[Place, ...]:
    """Every leaf statement of `func` in textual order, with where it stands."""
    return tuple([p for top in tops(func) for p in top.places])


@dataclass(frozen=True, slots=True)
class _Held:
    """What a nest holds: its leaf statements, as `places` of it, its loops and what it allocates."""

    places: list[Place]
    loops: dict[str, Loop]
    allocs: dict[str, Alloc]


@kept
def _held(nest: Stmt) -> _Held:
    out = _Held([], {}, {})
    pending: list[tuple[Stmt, tuple[Stmt, ...], tuple[int, ...]]] = [(nest, (), ())]
    while pending:
        s, outer, here = pending.pop()
        kind = type(s)
        if kind is Store or kind is Reduce:
            out.places.append(Place(s, outer, here))  # type: ignore[arg-type]
            continue
        if kind is Loop:
            out.loops[s.var] = s  # type: ignore[attr-defined]
        elif kind is Alloc:
            out.allocs[s.buffer.name] = s  # type: ignore[attr-defined]
        inner = inside(s)
        outer = (*outer, s)
        pending += [(x, outer, (*here, n)) for n, x in enumerate(inner)][::-1]
    return out


def sole(func: Func, nest: Stmt) -> Place | None:
    """The one leaf statement in `nest`, where it stands in its outermost loop; None if there are several."""
    top = next((s for s in chain(func.body, nest) if type(s) is not Alloc), nest)
    found = [p for p in _held(top).places if any(s is nest for s in p.around)]
    return Place(found[0].stmt, found[0].around, (0, *found[0].path)) if len(found) == 1 else None


def root(place: Place) -> Stmt:
    """The nest that `place` is in: what stands under nothing but allocations."""
    return next((s for s in place.around if type(s) is not Alloc), place.stmt)


def nests(body: Body) -> Iterator[Stmt]:
    """What stands in `body` under nothing but allocations, in order."""
    pending = [*reversed(body)]
    while pending:
        s = pending.pop()
        if type(s) is Alloc:
            pending += s.body[::-1]
        else:
            yield s


def chain(body: Body, target: Stmt) -> tuple[Stmt, ...]:
    """The statements around `target`, outermost first, and `target`; none if it is not in `body`.

    Nests in which nothing is called as the target is are passed by.
    """
    name = called(target)
    around: tuple[Stmt, ...] = ()
    later: list[tuple[Alloc, tuple[Stmt, ...]]] = []
    while True:
        for s in body:
            if s is target:
                return (*around, s)
            if type(s) is Alloc:
                later.append((s, around))
            elif (type(s) is not Loop or name is None or name in declared(s)) and (found := _within(s, target)):
                return (*around, *found)
        if not later:
            return ()
        alloc, around = later.pop()
        around, body = (*around, alloc), alloc.body


def _within(s: Stmt, target: Stmt) -> tuple[Stmt, ...]:
    """`s` and what is in it around `target`, and that; none if it is not there."""
    for body in bodies(s):
        for x in body:
            if x is target:
                return (s, x)
            if found := _within(x, target):
                return (s, *found)
    return ()


def way_to(func: Func, target: Stmt) -> tuple[Stmt, ...]:
    """`chain(func.body, target)`, found by name where the nests of `func` are known."""
    name = called(target)
    if name is None or (index := known(_declaring, func)) is None:
        return chain(func.body, target)
    for n in index.get(name, ()):
        top = tops(func)[n]
        if found := (top.nest,) if top.nest is target else _within(top.nest, target):
            return (*top.around, *found)
    return chain(func.body, target)


def exchanged(func: Func, old: Stmt, new: Stmt | Body, *, opened: Sequence[Alloc] = ()) -> Func:
    """`func` with `new` where `old` stands: what is around it is made anew, and nothing else is looked at.

    Of the allocations around it, those `opened` become what is in them.
    """
    way = way_to(func, old)
    made = along(way, new if isinstance(new, tuple) else (new,), opened)
    return replace(func, body=_put(func.body, way[0], made))


def relisted(func: Func, around: Sequence[Stmt], level: Body, made: Body, *, opened: Sequence[Alloc] = ()) -> Func:
    """`func` with `made` for the statement list `level` of the last of `around`, each of which holds the next one.

    Of the allocations in `around`, those `opened` become what is in them.
    """
    if not around:
        return replace(func, body=made)
    last: Any = around[-1]
    if not any(last is x for x in opened):
        side = "body" if not isinstance(last, If) else "then" if level is last.then else "orelse"
        made = (replace(last, **{side: made}),)
    return replace(func, body=_put(func.body, around[0], along(around, made, opened)))


def along(way: Sequence[Stmt], made: Body, opened: Sequence[Alloc] = ()) -> Body:
    """What the first of `way`, each of which holds the next one, becomes with `made` where the last one stands."""
    for outer, inner in reversed([*pairwise(way)]):
        gone = opened and any(outer is x for x in opened)
        made = _put(outer.body, inner, made) if gone else (_spliced(outer, inner, made),)  # type: ignore[attr-defined]
    return made


def _spliced(outer: Stmt, inner: Stmt, made: Body) -> Stmt:
    if type(outer) is Alloc:
        return Alloc(outer.buffer, _put(outer.body, inner, made))
    if isinstance(outer, If):
        if any(s is inner for s in outer.then):
            return If(outer.cond, _put(outer.then, inner, made), outer.orelse)
        return If(outer.cond, outer.then, _put(outer.orelse, inner, made))
    assert isinstance(outer, Loop | Do | Role | Kernel)
    return with_body(outer, _put(outer.body, inner, made))


def _put(body: Body, old: Stmt, made: Body) -> Body:
    out: list[Stmt] = []
    for s in body:
        out += made if s is old else (s,)
    return tuple(out)


def loops(body: Body) -> Iterator[Loop]:
    """Every loop, outer ones first."""
    return (s for s in statements(body) if isinstance(s, Loop))


@kept
def loops_of(func: Func) -> Mapping[str, Loop]:
    """The loops of `func` by their names, outer ones first."""
    found: dict[str, Loop] = {}
    for s in nests(func.body):
        found.update(_held(s).loops)
    return MappingProxyType(found)


def loop_of(func: Func, name: str) -> Loop | None:
    """The loop called `name` in `func`; found sooner than all of them."""
    index = known(_declaring, func)
    near = nests(func.body) if index is None else (tops(func)[n].nest for n in index.get(name, ()))
    for s in near:
        if name in declared(s) and (found := _held(s).loops.get(name)) is not None:
            return found
    return None


def alloc_of(func: Func, buffer: str) -> Alloc | None:
    """What allocates `buffer` in `func`."""
    pending = [*func.body]
    for s in pending:  # which grows on the way
        if type(s) is Alloc:
            if s.buffer.name == buffer:
                return s
            pending += s.body
        elif buffer in declared(s) and (found := _held(s).allocs.get(buffer)):
            return found
    return None


def replace_loop(func: Func, name: str, fn: Callable[[Loop], Stmt | Body]) -> Func:
    """`func` with the loop called `name` replaced by what `fn` makes of it."""
    loop = loop_of(func, name)
    assert loop is not None
    return exchanged(func, loop, fn(loop))


def each_nest(node: N, spoken: Collection[str], visit: Callable[[Node], Node]) -> N:
    """`visit(node)`, but nests of a Func in which no name in `spoken` is declared or accessed stay as they are.

    For rewrites of what is called by these names: loops are spoken of nowhere but inside.
    """
    if not isinstance(node, Func):
        return cast(N, visit(node))

    def nest(s: Stmt) -> Stmt:
        if isinstance(s, Alloc):
            return Alloc(cast(Buffer, visit(s.buffer)), map_body(s.body, nest))
        free = isinstance(s, Loop) and not any(n in declared(s) or n in accessed(s) for n in spoken)
        return s if free else cast(Stmt, visit(s))

    head = cast(Func, visit(replace(node, body=())))
    return cast(N, replace(head, body=map_body(node.body, nest)))


def names(func: Func) -> set[str]:
    """Every name taken in `func`: sizes, buffers, loops, labels, kernels."""
    taken = {func.name} | {p.buffer.name if isinstance(p, Arg) else p.name for p in func.params}
    pending = [*func.body]
    for s in pending:  # which grows on the way
        if type(s) is Alloc:
            taken.add(s.buffer.name)
            pending += s.body
        else:
            taken |= declared(s)
    return taken
