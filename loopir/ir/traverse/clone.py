"""Clone statements under fresh names of loops and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from typing import Any, TypeVar

from loopir.ir.grammar import Alloc, Body, Buffer, Func, Int, Load, Loop, Node, Op, Reduce, Store, Var
from loopir.ir.index import FOLDED
from loopir.ir.traverse.labels import labels_of
from loopir.ir.traverse.rebuild import LEAVES, on_loads
from loopir.ir.traverse.walk import (
    for_each_nest,
    fresh_name,
    map_body,
    rebuild,
    replace,
    replace_names,
    statements,
    taken_names,
)

N = TypeVar("N", bound=Node)


@dataclass(slots=True)
class Renaming:
    """New names: of loops and of labels by the old name, and buffers by the buffer they replace."""

    loops: dict[str, str] = field(default_factory=dict[str, str])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])


def rename_symbols(node: N, new: Renaming) -> N:
    """`node` with the names in `new` exchanged wherever they are declared or used."""

    loops = {old: Var(name) for old, name in new.loops.items()}
    over = {old: (name,) for old, name in new.loops.items()}

    def visit(n: Any) -> Any:
        kind = n.__class__
        if kind is Var:
            return loops.get(n.name, n)
        if kind in FOLDED:  # two indices, of which the second is most often a number
            a, b = visit(n.a), n.b if n.b.__class__ is Int else visit(n.b)
            return n if a is n.a and b is n.b else kind(a, b)
        if kind is Load:
            old: Buffer = n.buffer
            at, buffer = tuple([visit(x) for x in n.at]), new.buffers.get(old.name, old)
            return n if buffer is old and all(map(is_, at, n.at)) else Load(buffer, at)
        if kind is Op:
            return on_loads(n, visit)
        if kind in LEAVES:
            return n
        if kind is Buffer:
            return new.buffers.get(n.name, n)
        if kind is Loop:
            extent, body = visit(n.extent), map_body(n.body, visit)
            same = extent is n.extent and body is n.body and n.var not in loops
            return n if same else Loop(new.loops.get(n.var) or n.var, extent, n.kind, body)
        return rename_statement(rebuild(n, visit))

    def rename_statement(s: Any) -> Any:
        """`s` with its label, and the loops that it folds over, under their new names."""
        if isinstance(s, Store | Reduce) and s.label in new.labels:
            s = replace(s, label=new.labels[s.label])
        if isinstance(s, Reduce) and any(v in new.loops for v in s.over):
            s = replace(s, over=replace_names(s.over, over))
        return s

    return for_each_nest(node, {*new.loops, *new.labels, *new.buffers}, visit)


def clone_fresh(func: Func, body: Body, taken: set[str]) -> Body:
    """A copy of `body`, for `func`, whose loops, labels and allocations have names of their own, not in `taken`."""
    return UsedNames(set(taken), labels_of(func)).copy(body)


@dataclass(slots=True)
class UsedNames:
    """The names and labels in use while copies are made."""

    names: set[str]
    labels: set[str]

    @staticmethod
    def of(func: Func) -> UsedNames:
        return UsedNames(taken_names(func), labels_of(func))

    def name(self, hint: str) -> str:
        """A new name."""
        self.names.add(made := fresh_name(hint, self.names))
        return made

    def label(self, hint: str) -> str:
        """A new label."""
        self.labels.add(made := fresh_name(hint, self.labels))
        return made

    def copy(self, body: Body) -> Body:
        """A copy of `body` whose loops, labels and allocations have new names."""
        return renamed_declarations(body, self.name, self.label)


def renamed_declarations(body: Body, name: Callable[[str], str], label: Callable[[str], str]) -> Body:
    """A copy of `body` whose loops and allocations are called what `name` gives for theirs, and statements `label`."""
    new = Renaming()
    for s in statements(body):
        match s:
            case Loop(var):
                new.loops[var] = name(var)
            case Store(old) | Reduce(old):
                new.labels[old] = label(old)
            case Alloc(buffer):
                new.buffers[buffer.name] = replace(buffer, name=name(buffer.name))
            case _:
                pass
    return tuple(rename_symbols(s, new) for s in body)
