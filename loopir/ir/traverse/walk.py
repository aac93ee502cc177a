"""Traverse and rewrite trees: paths of statements, nests, replacement.

Every rewrite shares what it does not change: `rebuild` returns the node it was given when no child moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import is_
from types import MappingProxyType
from typing import Any, TypeVar, cast

from loopir.ir.grammar import (
    Alloc,
    Arg,
    Body,
    Buffer,
    Cond,
    Func,
    If,
    InstrRegion,
    InTurn,
    Kernel,
    Loop,
    Node,
    Reduce,
    Stmt,
    Store,
    WarpSpecialized,
    conj,
    record,
)
from loopir.ir.traverse.free_vars import (
    free_vars as free_vars,
    guarded_loads as guarded_loads,
    is_affine_visible as is_affine_visible,
)
from loopir.ir.traverse.fresh_names import (
    fresh_name as fresh_name,
    replace_names as replace_names,
    take_name as take_name,
)
from loopir.ir.traverse.memo import cached, memoized, peek_memo
from loopir.ir.traverse.queries import (
    NESTS,
    accessed_buffers as accessed_buffers,
    bodies as bodies,
    child_stmts as child_stmts,
    declared_names as declared_names,
    has_lockstep_lanes as has_lockstep_lanes,
    is_vector_reduction as is_vector_reduction,
    leaf_writes as leaf_writes,
    loaded_buffers as loaded_buffers,
    name_of_stmt as name_of_stmt,
    reduction_start_loops as reduction_start_loops,
    statements as statements,
    stored_buffers as stored_buffers,
)
from loopir.ir.traverse.rebuild import (
    children as children,
    nodes as nodes,
    on_loads as on_loads,
    rebuild as rebuild,
    replace as replace,
    transform as transform,
)
from loopir.ir.traverse.substitute import (
    keep_mentions as keep_mentions,
    reduction_starts as reduction_starts,
    refold as refold,
    substitute as substitute,
    substitute_guard as substitute_guard,
)

N = TypeVar("N", bound=Node)


def replace_buffers(node: N, env: Mapping[str, Buffer]) -> N:
    """`node` with each buffer named in `env` replaced wherever it is declared, read or written."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return env.get(n.name, n)
        if type(n) is Loop and free_of_names(n, env):
            return n
        return rebuild(n, visit)

    return for_each_nest(node, env.keys(), visit)


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


def with_body(stmt: Loop | Alloc | InstrRegion | WarpSpecialized | InTurn | Kernel, body: Body) -> Stmt:
    """`stmt` around `body`."""
    if isinstance(stmt, Loop):
        return Loop(stmt.var, stmt.extent, stmt.kind, body)
    return Alloc(stmt.buffer, body) if isinstance(stmt, Alloc) else replace(stmt, body=body)


def rewrite(body: Body, fn: Callable[[Stmt], Stmt | Body | None]) -> Body:
    """Rewrite statements top-down: what `fn` gives replaces a statement and is not visited; at None, go inside."""

    def visit(s: Stmt) -> Stmt | Body:
        new = fn(s)
        return map_stmts(s, visit) if new is None else new

    return map_body(body, visit)


def map_kernels(func: Func, fn: Callable[[Kernel], Stmt]) -> Func:
    """`func` with each kernel replaced by what `fn` gives."""
    return replace(func, body=rewrite(func.body, lambda s: fn(s) if isinstance(s, Kernel) else None))


def siblings(body: Body, s: Stmt) -> tuple[Body, Body]:
    """What stands before `s` in the statement list that it is in, `body` or one inside, and after it."""
    for b in (body, *(b for x in statements(body) for b in bodies(x))):
        for n, x in enumerate(b):
            if x is s:
                return b[:n], b[n + 1 :]
    return (), ()


def guard_body(body: Body, conds: Collection[Cond]) -> Body:
    """`body`, run only where all of `conds` hold."""
    return (If(conj(*conds), body),) if conds else body


def replace_over(body: Body, new: Mapping[str, tuple[str, ...]]) -> Body:
    """`body` with `replace_names` applied to what each Reduce in it folds over."""

    def visit(s: Stmt) -> Stmt | None:
        return replace(s, over=replace_names(s.over, new)) if isinstance(s, Reduce) else None

    return rewrite(body, visit)


@record
class StmtPath:
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

    def is_in(self, s: Stmt | None) -> bool:
        """Whether it is `s`, or stands in `s`."""
        return self.stmt is s or any(x is s for x in self.around)

    @property
    def is_in_role(self) -> bool:
        """Whether it stands in a WarpSpecialized statement, which warps of their own run."""
        return any(isinstance(s, WarpSpecialized) for s in self.around)

    def conds(self) -> Iterator[tuple[Cond, bool]]:
        """The conditions of the Ifs around it, each with the side it stands on."""
        for depth, s in enumerate(self.around):
            if isinstance(s, If):
                yield s.cond, self.path[depth + 1] < len(s.then)


def leaf_paths(body: Body, touching: str | None = None) -> Iterator[StmtPath]:
    """Every leaf statement of `body` in textual order, with its path; of these, those that access the buffer
    `touching` themselves, if it is given."""
    pending: list[tuple[Stmt, tuple[Stmt, ...], tuple[int, ...]]] = [(s, (), (n,)) for n, s in enumerate(body)][::-1]
    while pending:
        s, outer, here = pending.pop()
        kind = type(s)
        if touching is not None and kind is not Alloc and touching not in accessed_buffers(s):
            continue  # which an Alloc is not asked, as it is around most of what there is
        if kind is Store or kind is Reduce:
            yield StmtPath(s, outer, here)  # type: ignore[arg-type]
        elif kind is If or kind in NESTS:
            inner = child_stmts(s)
            outer = (*outer, s)
            pending += [(x, outer, (*here, n)) for n, x in enumerate(inner)][::-1]


def is_filled_by_role(name: str, body: Body) -> bool:
    """Whether warps of their own, for one warpgroup after the other, fill the buffer `name` in `body`."""
    filling = [p for p in leaf_paths(body) if name in leaf_writes(p.stmt)]
    return bool(filling) and all(p.is_in_role for p in filling)


@dataclass(eq=False)
class TopLevelNest:
    """The `nth` nest of a Func: an outermost statement but for the allocations `around` it."""

    nth: int
    nest: Stmt
    around: tuple[Stmt, ...]
    path: tuple[int, ...]

    @cached
    def places(self) -> list[StmtPath]:
        """Its leaf statements, as they stand in the Func."""
        around, path = self.around, self.path
        allocs = len(around)
        return [StmtPath(p.stmt, around + p.around, path + p.path, allocs) for p in _nest_contents(self.nest).places]


@memoized
def top_level_nests(func: Func) -> list[TopLevelNest]:
    """The outermost nests of `func`, in order."""
    out: list[TopLevelNest] = []
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
            out.append(TopLevelNest(len(out), s, around, (*at, n)))
    return out


Which = Callable[[Stmt], bool]
"""Which nests are asked for."""


@dataclass(frozen=True, slots=True)
class ByName:
    """A selection of nests by the names that occur in them, looked up in an index instead of visiting all nests."""

    of: Callable[[Stmt], frozenset[str]]
    index: Callable[[Func], Mapping[str, Sequence[int]]]
    names: tuple[str, ...]

    def __call__(self, nest: Stmt) -> bool:
        return not self.of(nest).isdisjoint(self.names)

    def among(self, func: Func) -> list[TopLevelNest]:
        index, every = self.index(func), top_level_nests(func)
        if len(self.names) == 1:
            return [every[n] for n in index.get(self.names[0], ())]
        return [every[n] for n in sorted({n for name in self.names for n in index.get(name, ())})]


def _indexed(func: Func, of: Callable[[Stmt], frozenset[str]]) -> Mapping[str, Sequence[int]]:
    out: dict[str, list[int]] = {}
    for top in top_level_nests(func):
        for name in of(top.nest):
            out.setdefault(name, []).append(top.nth)
    return out


@memoized
def _declaring(func: Func) -> Mapping[str, Sequence[int]]:
    """By name, the nests in which a loop, a statement or memory is called so."""
    found = [(name, (top.nth,)) for top in top_level_nests(func) for name in declared_names(top.nest)]
    once = dict(found)
    return once if len(once) == len(found) else _indexed(func, declared_names)  # a label may be a loop's name elsewhere


@memoized
def _touching(func: Func) -> Mapping[str, Sequence[int]]:
    """By buffer, the nests that read or write it."""
    return _indexed(func, accessed_buffers)


def nests_declaring(*names: str) -> ByName:
    """Select the nests that declare a loop, a statement or a buffer of one of these names."""
    return ByName(declared_names, _declaring, names)


def nests_touching(*names: str) -> ByName:
    """Select the nests that read or write one of these buffers."""
    return ByName(accessed_buffers, _touching, names)


def top_level_nests_in(func: Func, which: Which) -> list[TopLevelNest]:
    """The selected nests of `func`, in order."""
    return which.among(func) if isinstance(which, ByName) else [top for top in top_level_nests(func) if which(top.nest)]


def leaf_paths_in(func: Func, which: Which) -> list[StmtPath]:
    """The leaf statements of the selected nests of `func`, in textual order, with their paths."""
    return [p for top in top_level_nests_in(func, which) for p in top.places]


@memoized
def labels_of(func: Func) -> tuple[str, ...]:
    """The labels of the leaf statements of `func`, in textual order."""
    return tuple([p.stmt.label for top in top_level_nests(func) for p in _nest_contents(top.nest).places])


@memoized
def leaf_paths_of(func: Func) -> tuple[StmtPath, ...]:
    """Every leaf statement of `func` in textual order, with its path."""
    return tuple([p for top in top_level_nests(func) for p in top.places])


@dataclass(frozen=True, slots=True)
class _NestContents:
    """What a nest holds: its leaf statements, as `leaf_paths` of it, its loops and what it allocates."""

    places: list[StmtPath]
    loops: dict[str, Loop]
    allocs: dict[str, Alloc]


@memoized
def _nest_contents(nest: Stmt) -> _NestContents:
    out = _NestContents([], {}, {})
    pending: list[tuple[Stmt, tuple[Stmt, ...], tuple[int, ...], bool]] = [(nest, (), (), False)]
    while pending:
        s, outer, here, beside = pending.pop()
        kind = type(s)
        if kind is Store or kind is Reduce:
            out.places.append(StmtPath(s, outer, here))  # type: ignore[arg-type]
            continue
        if kind is Loop and beside:  # of loops beside one another a step changes few
            known = _nest_contents(s)
            out.places.extend([StmtPath(p.stmt, outer + p.around, here + p.path) for p in known.places])
            out.loops.update(known.loops)
            out.allocs.update(known.allocs)
            continue
        if kind is Loop:
            out.loops[s.var] = s  # type: ignore[attr-defined]
        elif kind is Alloc:
            out.allocs[s.buffer.name] = s  # type: ignore[attr-defined]
        inner = child_stmts(s)
        outer, beside = (*outer, s), len(inner) > 1
        pending += [(x, outer, (*here, n), beside) for n, x in enumerate(inner)][::-1]
    return out


def only_leaf(func: Func, nest: Stmt) -> StmtPath | None:
    """The path of the only leaf statement in `nest`; None if there are several."""
    inside = _nest_contents(nest).places
    if len(inside) != 1:
        return None
    top = next((s for s in path_within(func.body, nest) if type(s) is not Alloc), nest)
    found = next(p for p in _nest_contents(top).places if p.stmt is inside[0].stmt)
    return StmtPath(found.stmt, found.around, (0, *found.path))


def enclosing_nest(place: StmtPath) -> Stmt:
    """The outermost nest that contains `place`."""
    return next((s for s in place.around if type(s) is not Alloc), place.stmt)


def nests(body: Body) -> Iterator[Stmt]:
    """The outermost nests of `body`, those under allocations included, in order."""
    pending = [*reversed(body)]
    while pending:
        s = pending.pop()
        if type(s) is Alloc:
            pending += s.body[::-1]
        else:
            yield s


def path_within(body: Body, target: Stmt) -> tuple[Stmt, ...]:
    """The statements around `target`, outermost first, and `target` itself; empty if it is not in `body`.

    Nests that do not declare the target's name are skipped.
    """
    name = name_of_stmt(target)
    around: tuple[Stmt, ...] = ()
    later: list[tuple[Alloc, tuple[Stmt, ...]]] = []
    while True:
        for s in body:
            if s is target:
                return (*around, s)
            if type(s) is Alloc:
                later.append((s, around))
            elif (name is None or name in declared_names(s)) and (found := _within(s, target, name)):
                return (*around, *found)
        if not later:
            return ()
        alloc, around = later.pop()
        around, body = (*around, alloc), alloc.body


def _within(s: Stmt, target: Stmt, name: str | None) -> tuple[Stmt, ...]:
    """`s` and what is in it around `target`, which declares `name`, and that; none if it is not there."""
    way = [s]
    while type(s) is Alloc and len(s.body) == 1 and s.body[0] is not target:  # memory of one nest, one by one
        s = s.body[0]
        way.append(s)
    for body in bodies(s):
        for x in body:
            if x is target:
                return (*way, x)
            names = None if name is None else peek_memo(declared_names, x)
            if (names is None or name in names) and (found := _within(x, target, name)):
                return (*way, *found)
    return ()


def path_to(func: Func, target: Stmt) -> tuple[Stmt, ...]:
    """`path_within(func.body, target)`, by the index of names of `func`."""
    name = name_of_stmt(target)
    if name is None or (index := peek_memo(_declaring, func)) is None:
        return path_within(func.body, target)
    for n in index.get(name, ()):
        top = top_level_nests(func)[n]
        if found := (top.nest,) if top.nest is target else _within(top.nest, target, name):
            return (*top.around, *found)
    return path_within(func.body, target)


def replace_stmt(func: Func, old: Stmt, new: Stmt | Body, *, opened: Sequence[Alloc] = ()) -> Func:
    """`func` with `old` replaced by `new`; only the statements around it are rebuilt.

    Enclosing allocations in `opened` are replaced by their bodies.
    """
    way = path_to(func, old)
    made = rebuild_path(way, new if isinstance(new, tuple) else (new,), opened)
    return replace(func, body=_splice(func.body, way[0], made))


def replace_block(func: Func, around: Sequence[Stmt], level: Body, made: Body, *, opened: Sequence[Alloc] = ()) -> Func:
    """`func` with the statement list `level`, inside the last of the nested statements `around`, replaced by `made`.

    Allocations of `around` in `opened` are replaced by their bodies.
    """
    if not around:
        return replace(func, body=made)
    last: Any = around[-1]
    if not any(last is x for x in opened):
        side = "body" if not isinstance(last, If) else "then" if level is last.then else "orelse"
        made = (replace(last, **{side: made}),)
    return replace(func, body=_splice(func.body, around[0], rebuild_path(around, made, opened)))


def rebuild_path(way: Sequence[Stmt], made: Body, opened: Sequence[Alloc] = ()) -> Body:
    """Rebuild the nested statements `way` from the innermost out, with `made` in place of the last one."""
    for outer, inner in reversed([*pairwise(way)]):
        gone = opened and any(outer is x for x in opened)
        made = _splice(outer.body, inner, made) if gone else (_spliced(outer, inner, made),)  # type: ignore[attr-defined]
    return made


def _spliced(outer: Stmt, inner: Stmt, made: Body) -> Stmt:
    if type(outer) is Alloc:
        return Alloc(outer.buffer, _splice(outer.body, inner, made))
    if isinstance(outer, If):
        if any(s is inner for s in outer.then):
            return If(outer.cond, _splice(outer.then, inner, made), outer.orelse)
        return If(outer.cond, outer.then, _splice(outer.orelse, inner, made))
    assert isinstance(outer, Loop | InstrRegion | WarpSpecialized | InTurn | Kernel)
    return with_body(outer, _splice(outer.body, inner, made))


def _splice(body: Body, old: Stmt, made: Body) -> Body:
    out: list[Stmt] = []
    for s in body:
        out += made if s is old else (s,)
    return tuple(out)


def loops(body: Body) -> Iterator[Loop]:
    """Every loop, outer ones first."""
    return (s for s in statements(body) if isinstance(s, Loop))


@memoized
def loops_of(func: Func) -> Mapping[str, Loop]:
    """The loops of `func` by their names, outer ones first."""
    found: dict[str, Loop] = {}
    for s in nests(func.body):
        found.update(_nest_contents(s).loops)
    return MappingProxyType(found)


def allocated_buffers(func: Func) -> Iterator[Buffer]:
    """What `func` allocates, in textual order."""
    pending = [*reversed(func.body)]
    while pending:
        s = pending.pop()
        if type(s) is Alloc:
            yield s.buffer
            pending += s.body[::-1]
        else:
            yield from (x.buffer for x in _nest_contents(s).allocs.values())


def loop_of(func: Func, name: str) -> Loop | None:
    """The loop called `name` in `func`, by the index of names."""
    index = peek_memo(_declaring, func)
    near = nests(func.body) if index is None else (top_level_nests(func)[n].nest for n in index.get(name, ()))
    for s in near:
        if name in declared_names(s) and (found := _nest_contents(s).loops.get(name)) is not None:
            return found
    return None


def alloc_of(func: Func, buffer: str) -> Alloc | None:
    """The Alloc of `buffer` in `func`."""
    pending = [*func.body]
    for s in pending:  # which grows on the way
        if type(s) is Alloc:
            if s.buffer.name == buffer:
                return s
            pending += s.body
        elif buffer in declared_names(s) and (found := _nest_contents(s).allocs.get(buffer)):
            return found
    return None


def replace_loop(func: Func, name: str, fn: Callable[[Loop], Stmt | Body]) -> Func:
    """`func` with the loop called `name` replaced by what `fn` makes of it."""
    loop = loop_of(func, name)
    assert loop is not None
    return replace_stmt(func, loop, fn(loop))


def for_each_nest(node: N, spoken: Collection[str], visit: Callable[[Node], Node]) -> N:
    """`visit(node)`, skipping the nests of a Func that neither declare nor access a name in `spoken`.

    For rewrites of what has these names.
    """
    if not isinstance(node, Func):
        return cast(N, visit(node))

    def nest(s: Stmt) -> Stmt:
        if isinstance(s, Alloc):
            return Alloc(cast(Buffer, visit(s.buffer)), map_body(s.body, nest))
        return s if isinstance(s, Loop) and free_of_names(s, spoken) else cast(Stmt, visit(s))

    head = cast(Func, visit(replace(node, body=())))
    return cast(N, replace(head, body=map_body(node.body, nest)))


def free_of_names(s: Stmt, spoken: Collection[str]) -> bool:
    """Whether none of the names `spoken` is declared or accessed in `s`."""
    return not any(n in declared_names(s) or n in accessed_buffers(s) for n in spoken)


def taken_names(func: Func) -> set[str]:
    """Every name taken in `func`: sizes, buffers, loops, labels, kernels."""
    taken = {func.name} | {p.buffer.name if isinstance(p, Arg) else p.name for p in func.params}
    pending = [*func.body]
    for s in pending:  # which grows on the way
        if type(s) is Alloc:
            taken.add(s.buffer.name)
            pending += s.body
        else:
            taken |= declared_names(s)
    return taken
