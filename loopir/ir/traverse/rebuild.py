"""Generic access to nodes: their fields and children; rebuild one node, or a tree, with changed children.

On the hot path of every rewrite, so the most frequent kinds of nodes have fast paths. Rewrites share what they do not
change: `rebuild` returns the same node when no child changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter, is_, is_not
from typing import Any, TypeVar, cast

from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Add,
    Buffer,
    Const,
    FloorDiv,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Op,
    Var,
    Xor,
)
from loopir.ir.traverse.memo import cache_of

N = TypeVar("N", bound=Node)
_FIELDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}


def _fields(node: Node) -> tuple[Any, ...]:
    """What the fields of `node` hold, in order."""
    kind = type(node)
    found = _FIELDS.get(kind)
    if found is None:
        names = [f.name for f in fields(kind)]  # pyright: ignore[reportArgumentType]
        found = _FIELDS[kind] = attrgetter(*names) if len(names) > 1 else _few(names)
    return found(node)


def _few(names: list[str]) -> Callable[[Node], tuple[Any, ...]]:
    """What an attrgetter is not for: no name, or one, which it gives no tuple of."""
    return lambda n: tuple([getattr(n, name) for name in names])


R = TypeVar("R")


def replace(node: R, **new: object) -> R:
    """`node`, or another frozen record, with some fields replaced: a faster `dataclasses.replace`."""
    kind = type(node)
    return kind(**{name: getattr(node, name) for name in kind.__match_args__} | new)  # type: ignore[attr-defined]


LEAVES = frozenset({Var, Int, Const})
"""Nodes that hold no others, and are met most."""


PAIRS = frozenset({Add, Mul, FloorDiv, Mod, Min, Max, Xor})
"""Nodes that hold two others, `a` and `b`, and are met most of those that hold any."""


def children(node: Node) -> list[Node]:
    """The nodes directly under `node`, in the order they are written."""
    if type(node) in PAIRS:
        return [node.a, node.b]  # type: ignore[attr-defined]
    out: list[Node] = []
    for child in _fields(node):
        if child.__class__ is tuple:
            out += [c for c in child if isinstance(c, Node)]
        elif isinstance(child, Node):
            out.append(child)
    return out


def nodes(node: Node) -> Iterator[Node]:
    """`node` and everything under it, parents first; a Buffer is yielded and not entered."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if type(node) not in LEAVES and type(node) is not Buffer:
            pending += reversed(children(node))


def distinct_nodes(node: Node, but: Callable[[Node], bool] = lambda _: False) -> Iterator[Node]:
    """`node` and everything under it, each object once, however often it is shared, `but` for some and what is under
    these; a Buffer is not entered."""
    pending, seen = [node], {id(node)}
    while pending:
        node = pending.pop()
        if but(node):
            continue
        yield node
        if type(node) not in LEAVES and type(node) is not Buffer:
            new = {id(x): x for x in children(node) if id(x) not in seen}
            seen |= new.keys()
            pending += new.values()


def rebuild(node: N, fn: Callable[[Node], Node]) -> N:
    """`node` with `fn` applied to each direct child; the same object if nothing changed."""
    kind: Any = type(node)
    if kind in LEAVES:
        return node
    if kind in PAIRS:
        pair: Any = node
        a: Any = fn(pair.a)
        b: Any = fn(pair.b)
        same: Any = node if a is pair.a and b is pair.b else kind(a, b)
        return same
    if kind is Op:
        op: Any = node
        args = [fn(a) for a in op.args]
        same = node if all(map(is_, args, op.args)) else Op(op.fn, tuple(args))  # type: ignore[arg-type]
        return cast(N, same)
    if kind is Load:
        load: Any = node
        buffer, at = fn(load.buffer), [fn(x) for x in load.at]
        moved = buffer is not load.buffer or any(map(is_not, at, load.at))
        return cast(N, Load(buffer, tuple(at))) if moved else node  # type: ignore[arg-type]
    return _rebuild_fields(node, fn)


def _rebuild_fields(node: N, fn: Callable[[Node], Node]) -> N:
    """`rebuild` of a node of any kind."""
    values: list[object] = []
    changed = False
    for old in _fields(node):
        new: Any = old
        if old.__class__ is tuple:
            if old:
                renewed = tuple([fn(c) if isinstance(c, Node) else c for c in old])
                if any(map(is_not, old, renewed)):
                    new, changed = renewed, True
        elif isinstance(old, Node):
            new = fn(old)
            changed = changed or new is not old
        values.append(new)
    return type(node)(*values) if changed else node


Operations = tuple[DType, tuple[Load, ...]]
"""Of a value that is operations on loads and constants alone: the type that it has, and the loads in order."""


def operations(node: Node) -> Operations | None:
    """The memo of a value found to consist of operations on loads alone, and legal except for the loads' accesses."""
    found: dict[object, Any] | None = getattr(node, "_kept", None)
    return None if found is None else found.get(operations)


def seed_operations(node: Node, found: Operations) -> None:
    """Record that `node` is such a value; done by the verifier, and for what `on_loads` makes of such a value."""
    cache_of(node)[operations] = found


def on_loads(node: N, fn: Callable[[Any], Any]) -> N:
    """`node`, a value, with `fn` applied to the operands of its operations: to loads, and all else but constants.

    Operations that were verified stay legal on operands of the same types, so the verifier need not visit them again.
    """
    known = operations(node)
    if known is None:
        return _on_loads(node, fn)
    loads: list[Load] = []
    sure = True

    def leaf(n: Any) -> Any:
        nonlocal sure
        new = fn(n)
        if new.__class__ is Load and new.buffer.dtype is n.buffer.dtype:
            loads.append(new)
        elif new.__class__ is Op and (more := operations(new)) is not None and more[0] is n.buffer.dtype:
            loads.extend(more[1])
        else:
            sure = False
        return new

    new = _on_loads(node, leaf)
    if sure and new is not node:
        seed_operations(new, (known[0], tuple(loads)))
    return new


def _on_loads(node: N, fn: Callable[[Any], Any]) -> N:
    def visit(n: Any) -> Any:
        kind = n.__class__
        if kind is not Op:
            return n if kind is Const else fn(n)
        args = n.args
        if len(args) == 2:
            a, b = args
            x, y = visit(a), visit(b)
            return n if x is a and y is b else Op(n.fn, (x, y))
        new = tuple([visit(a) for a in args])
        return n if all(map(is_, new, args)) else Op(n.fn, new)

    return visit(node)


def transform(node: N, fn: Callable[[Node], Node]) -> N:
    """Bottom-up: children first, then `fn` on the rebuilt node."""
    return cast(N, fn(rebuild(node, lambda child: transform(child, fn))))
