"""Reading and rewriting trees: children, substitution, and where each statement stands.

Every rewrite shares what it does not change: `rebuild` returns the node it was given when no child moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from operator import is_not
from types import MappingProxyType
from typing import TypeVar, cast

from loopir.ir.grammar import (
    Add,
    Alloc,
    Arg,
    Body,
    Buffer,
    Cond,
    Const,
    Do,
    FloorDiv,
    Func,
    If,
    Index,
    Int,
    Kernel,
    Load,
    Loop,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Reduce,
    Role,
    Stmt,
    Store,
    Var,
    Xor,
    maximum,
    minimum,
)
from loopir.ir.kept import kept

N = TypeVar("N", bound=Node)
_FIELDS: dict[type, tuple[str, ...]] = {}


def _names(node: Node) -> tuple[str, ...]:
    kind = type(node)
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(f.name for f in fields(kind))  # pyright: ignore[reportArgumentType]
    return names


_LEAVES = frozenset({Var, Int, Const})
"""Nodes that hold no others, and are met most."""


_PAIRS = frozenset({Add, Mul, FloorDiv, Mod, Min, Max, Xor})
"""Nodes that hold two others, `a` and `b`, and are met most of those that hold any."""


def children(node: Node) -> list[Node]:
    """The nodes directly under `node`, in the order they are written."""
    if type(node) in _PAIRS:
        return [node.a, node.b]  # type: ignore[attr-defined]
    out: list[Node] = []
    for name in _names(node):
        child = getattr(node, name)
        if isinstance(child, Node):
            out.append(child)
        elif isinstance(child, tuple):
            out += [c for c in cast("tuple[object, ...]", child) if isinstance(c, Node)]
    return out


def nodes(node: Node) -> Iterator[Node]:
    """`node` and everything under it, parents first; a Buffer is yielded and not entered."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if type(node) not in _LEAVES and type(node) is not Buffer:
            pending += reversed(children(node))


def rebuild(node: N, fn: Callable[[Node], Node]) -> N:
    """`node` with `fn` applied to each direct child; the same object if nothing changed."""
    kind = type(node)
    if kind in _LEAVES:
        return node
    if kind in _PAIRS:
        pair = cast(Add, node)
        a, b = cast(Index, fn(pair.a)), cast(Index, fn(pair.b))
        return node if a is pair.a and b is pair.b else cast(N, cast("type[Add]", kind)(a, b))
    values: list[object] = []
    changed = False
    for name in _names(node):
        old = getattr(node, name)
        new = old
        if isinstance(old, Node):
            new = fn(old)
            changed = changed or new is not old
        elif isinstance(old, tuple) and old:
            items = cast("tuple[object, ...]", old)
            renewed = tuple([fn(c) if isinstance(c, Node) else c for c in items])
            if any(map(is_not, items, renewed)):
                new, changed = renewed, True
        values.append(new)
    return kind(*values) if changed else node


def transform(node: N, fn: Callable[[Node], Node]) -> N:
    """Bottom-up: children first, then `fn` on the rebuilt node."""
    return cast(N, fn(rebuild(node, lambda child: transform(child, fn))))


def substitute(node: N, env: Mapping[str, Index]) -> N:
    """`node` with each variable named in `env` replaced; indices fold as they are rebuilt.

    Loops are not renamed: `env` must not name a variable that a loop inside `node` binds. Buffers stay as
    they are: their shapes and layouts speak of sizes only.
    """
    if not env:
        return node

    def visit(n: Node) -> Node:
        kind = type(n)
        if kind is Var:
            return env.get(cast(Var, n).name, n)
        if kind is Buffer or kind in _LEAVES:
            return n
        out = rebuild(n, visit)
        return out if out is n or kind not in _PAIRS else refold(cast(Index, out))

    return cast(N, visit(node))


def refold(ix: Index) -> Index:
    """Apply the folding constructors to the top node, after its children changed."""
    match ix:
        case Add(a, b):
            return a + b
        case Mul(a, b):
            return a * b
        case FloorDiv(a, b):
            return a // b
        case Mod(a, b):
            return a % b
        case Min(a, b):
            return minimum(a, b)
        case Max(a, b):
            return maximum(a, b)
        case Xor(a, b):
            return a ^ b
        case _:
            return ix


def rebuffer(node: N, env: Mapping[str, Buffer]) -> N:
    """`node` with each buffer named in `env` replaced wherever it is declared, read or written."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return env.get(n.name, n)
        return rebuild(n, visit)

    return each_nest(node, env.keys(), visit)


_NESTS = frozenset({Loop, Alloc, Do, Role, Kernel})
"""Statements with one `body`."""


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """The statement lists inside `stmt`."""
    if type(stmt) in _NESTS:
        return (cast(Loop, stmt).body,)
    return (stmt.then, stmt.orelse) if isinstance(stmt, If) else ()


def inside(stmt: Stmt) -> list[Stmt]:
    """The statements directly in `stmt`."""
    return [s for body in bodies(stmt) for s in body]


def map_body(body: Body, fn: Callable[[Stmt], Stmt | Body]) -> Body:
    """`body` with each statement replaced by what `fn` gives: one statement, or several, or none."""
    out: list[Stmt] = []
    for s in body:
        new = fn(s)
        out.extend(new) if isinstance(new, tuple) else out.append(new)
    if len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True)):
        return body
    return tuple(out)


def map_stmts(stmt: Stmt, fn: Callable[[Stmt], Stmt | Body]) -> Stmt:
    """`stmt` with `fn` applied to the statements directly inside it."""
    if isinstance(stmt, If):
        then, orelse = map_body(stmt.then, fn), map_body(stmt.orelse, fn)
        same = then is stmt.then and orelse is stmt.orelse
        return stmt if same else If(stmt.cond, then, orelse)
    if isinstance(stmt, Loop | Alloc | Do | Role | Kernel):
        body = map_body(stmt.body, fn)
        return stmt if body is stmt.body else with_body(stmt, body)
    return stmt


def with_body(stmt: Loop | Alloc | Do | Role | Kernel, body: Body) -> Stmt:
    """`stmt` around `body`."""
    if isinstance(stmt, Loop):
        return Loop(stmt.var, stmt.extent, stmt.kind, body)
    return replace(stmt, body=body)


def rewrite(body: Body, fn: Callable[[Stmt], Stmt | Body | None]) -> Body:
    """Top-down over statements: where `fn` gives something it stands as it is; where None, go inside."""

    def visit(s: Stmt) -> Stmt | Body:
        new = fn(s)
        return map_stmts(s, visit) if new is None else new

    return map_body(body, visit)


def replaced(over: tuple[str, ...], new: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The loop names in `over` with each one in `new` replaced, in its place."""
    return tuple(name for old in over for name in new.get(old, (old,)))


def over_replaced(body: Body, new: Mapping[str, tuple[str, ...]]) -> Body:
    """`body` with `replaced` applied to what each Reduce in it folds over."""

    def visit(s: Stmt) -> Stmt | None:
        return replace(s, over=replaced(s.over, new)) if isinstance(s, Reduce) else None

    return rewrite(body, visit)


@dataclass(frozen=True, slots=True)
class Place:
    """A leaf statement (Store or Reduce) and what encloses it, outermost first."""

    stmt: Store | Reduce
    around: tuple[Stmt, ...]
    path: tuple[int, ...]
    """Position in each enclosing statement list; an If counts its `orelse` after its `then`."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(s for s in self.around if isinstance(s, Loop))

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
        if isinstance(s, Store | Reduce):
            yield Place(s, outer, here)
        elif isinstance(s, If | Loop | Alloc | Do | Role | Kernel):
            inner = s.then + s.orelse if isinstance(s, If) else s.body
            pending.extend([(x, (*outer, s), (*here, n)) for n, x in enumerate(inner)][::-1])


def root(place: Place) -> Stmt:
    """The nest that `place` is in: what stands under nothing but allocations."""
    return next((s for s in place.around if not isinstance(s, Alloc)), place.stmt)


def chain(body: Body, target: Stmt) -> tuple[Stmt, ...]:
    """The statements around `target`, outermost first, and `target`."""
    for s in body:
        if s is target:
            return (s,)
        for inner in bodies(s):
            if found := chain(inner, target):
                return (s, *found)
    return ()


def statements(body: Body) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    pending = [*reversed(body)]
    while pending:
        s = pending.pop()
        yield s
        if type(s) in _NESTS:
            pending += cast(Loop, s).body[::-1]
        elif isinstance(s, If):
            pending += (s.then + s.orelse)[::-1]


def loops(body: Body) -> Iterator[Loop]:
    """Every loop, outer ones first."""
    return (s for s in statements(body) if isinstance(s, Loop))


@kept
def loops_of(func: Func) -> Mapping[str, Loop]:
    """The loops of `func` by their names, outer ones first."""
    return MappingProxyType({loop.var: loop for loop in loops(func.body)})


def replace_loop(func: Func, name: str, fn: Callable[[Loop], Stmt | Body]) -> Func:
    """`func` with the loop called `name` replaced by what `fn` makes of it."""
    return replace(func, body=rewrite(func.body, lambda s: fn(s) if isinstance(s, Loop) and s.var == name else None))


def variables(node: Node) -> set[str]:
    """Names of the variables that `node` reads."""
    return {node.name} if isinstance(node, Var) else set(_variables(node))


@kept
def _variables(node: Node) -> frozenset[str]:
    return frozenset(n.name for n in nodes(node) if type(n) is Var)


def fresh(hint: str, taken: set[str]) -> str:
    """`hint`, or `hint_1`, `hint_2` ... : the first that is not in `taken`."""
    if hint not in taken:
        return hint
    n = 1
    while f"{hint}_{n}" in taken:
        n += 1
    return f"{hint}_{n}"


# ---------------------------------------------------------------- what a subtree holds, by name: kept with the node

_NOTHING: frozenset[str] = frozenset()


@kept
def loaded(node: Node) -> frozenset[str]:
    """The buffers that are loaded from anywhere in `node`; what a fold folds into is not."""
    if isinstance(node, Stmt) and (inner := inside(node)):
        return _own(node).union(*map(loaded, inner))
    found: set[str] = set()
    pending = [node]
    while pending:
        n = pending.pop()
        if type(n) is Load:
            found.add(n.buffer.name)
            pending += n.at
        elif type(n) not in _LEAVES and type(n) is not Buffer:
            pending += children(n)
    return frozenset(found)


def _own(s: Stmt) -> frozenset[str]:
    """What a statement that holds others reads itself."""
    return _NOTHING.union(*(loaded(x) for x in children(s) if not isinstance(x, Stmt | Buffer)))


@kept
def accessed(s: Stmt) -> frozenset[str]:
    """The buffers that are read or written anywhere in `s`."""
    if isinstance(s, Store | Reduce):
        return loaded(s) | written(s)
    return _own(s).union(*map(accessed, inside(s)))


def written(s: Store | Reduce) -> frozenset[str]:
    """The buffers that a leaf statement writes."""
    return frozenset((s.buffer.name,) if isinstance(s, Store) else (b.name for b in s.buffers))


@kept
def stored(s: Stmt) -> frozenset[str]:
    """The buffers that are written anywhere in `s`."""
    return written(s) if isinstance(s, Store | Reduce) else _NOTHING.union(*map(stored, inside(s)))


@kept
def declared(s: Stmt) -> frozenset[str]:
    """The loops, labels, buffers and kernels that are called something in `s`."""
    found: set[str] = set()
    for x in statements((s,)):
        match x:
            case Loop(name) | Store(name) | Reduce(name) | Kernel(name):
                found.add(name)
            case Alloc(buffer):
                found.add(buffer.name)
            case _:
                pass
    return frozenset(found)


@kept
def started(s: Stmt) -> frozenset[str]:
    """The loops outside of which a reduction in `s` starts: those that it folds over, if it has an `init`."""
    if isinstance(s, Reduce):
        return frozenset(s.over) if s.init is not None else _NOTHING
    return _NOTHING.union(*map(started, inside(s)))


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
    return taken.union(*map(declared, func.body))
