"""From a graph of stages to a Func: each stage its own nest, one after the other, intermediates allocated around."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from loopir.arith.simplify_func import simplify_func
from loopir.errors import ExprError
from loopir.ir.grammar import TRUE, Alloc, Arg, Body, Buffer, Func, If, Loop, Reduce, Size, Stmt, Store, Var
from loopir.ir.recursion import deep
from loopir.ir.traverse.clone import renamed_declarations
from loopir.ir.traverse.walk import fresh_name, replace_buffers, substitute, take_name
from loopir.tensor.core import Expr, Source, Updates, as_stage
from loopir.tensor.index import Symbol

MAX_STAGES = 1000
"""Stages of a program: their memory is allocated one in the scope of the other, as deep as there are stages."""


@deep(ExprError)
def to_func(outputs: Sequence[Expr], name: str | None = None) -> Func:
    """The program that computes `outputs`: sizes, then placeholders in the order they were made, then the outputs.

    An output that is not stored yet, or is a placeholder, or is listed twice, gets a stage of its own. Raises
    ExprError where two placeholders share a name or one symbol is declared in two ways.
    """
    stored = _stored(outputs)
    sources = _sorted(t.source[0] for t in stored if t.source is not None)
    if len(sources) > MAX_STAGES:
        raise ExprError(
            f"a program of {len(sources)} stages, where {MAX_STAGES} are the most; take it apart into several"
        )
    sources, twins = _without_twins(sources, {_buffer(t).name for t in stored})
    names = _Names(sources, twins)
    placeholders = [s for s in sources if s.is_placeholder]
    symbols = _symbols(sources)
    params = (
        *(Size(n) for n in symbols),
        *(Arg(names.buffers[s.buffers[0].name], "in") for s in placeholders),
        *(Arg(names.buffers[_buffer(t).name], "out") for t in stored),
    )
    body = names.body(sources)
    kept = {_buffer(t).name for t in stored}
    for s in reversed([s for s in sources if not s.is_placeholder]):
        for b in reversed(s.buffers):
            if b.name not in kept:
                body = (Alloc(names.buffers[b.name], body),)
    assumes = tuple(dict.fromkeys(c for s in symbols.values() for c in s.assumes()))
    title = fresh_name(name or f"compute_{names.buffers[_buffer(stored[0]).name].name}", names.taken)
    return simplify_func(Func(title, tuple(params), assumes, body))


def _buffer(t: Expr) -> Buffer:
    assert t.source is not None
    return t.source[0].buffers[t.source[1]]


def _stored(outputs: Sequence[Expr]) -> list[Expr]:
    if isinstance(outputs, Expr) or not isinstance(outputs, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"to_func takes a list of tensors, not {outputs!r}; lp.Schedule takes one tensor, too")
    out: list[Expr] = []
    seen: set[str] = set()
    for t in outputs:
        if t.source is None or t.source[0].is_placeholder or _buffer(t).name in seen:
            t = as_stage(t, "out" if t.name is None else f"{t.name}_out")
        seen.add(_buffer(t).name)
        out.append(t)
    return out


def _sorted(roots: Iterable[Source]) -> list[Source]:
    """All sources that `roots` need, in the order they were made, which is an order of computation."""
    found: dict[int, Source] = {}
    stack = list(roots)
    while stack:
        s = stack.pop()
        if s.order not in found:
            found[s.order] = s
            stack += s.deps
    return [found[n] for n in sorted(found)]


def _without_twins(sources: Sequence[Source], kept: set[str]) -> tuple[list[Source], dict[str, Buffer]]:
    """The sources without stages that compute what an earlier one of the same name does, and what is read instead of
    their buffers; those of the buffers `kept` stay."""
    shapes = [_shape_of(s) for s in sources]
    several = {x for x, count in Counter(shapes).items() if count > 1}
    found: dict[object, Source] = {}
    read: dict[str, Buffer] = {}
    out: list[Source] = []
    for s, shape in zip(sources, shapes, strict=True):
        if s.is_placeholder or s.updates is not None or s.body or shape not in several:
            out.append(s)
            continue
        env = {v: Var(f"#{n}") for n, v in enumerate((*(v for v, _ in s.loops), *(a.name for a in s.axes)))}
        values = tuple(substitute(replace_buffers(v, read) if read else v, env) for v in s.values)
        first = found.setdefault((shape, values), s)
        if first is s or any(b.name in kept for b in s.buffers):
            out.append(s)
        else:
            read |= {b.name: x for b, x in zip(s.buffers, first.buffers, strict=True)}
    return out, read


def _shape_of(s: Source) -> object:
    """What stages that compute the same have in common, but for the values."""
    return s.name, tuple(n for _, n in s.loops), tuple(a.extent for a in s.axes), s.monoid, len(s.values)


def _symbols(sources: Iterable[Source]) -> dict[str, Symbol]:
    out: dict[str, Symbol] = {}
    for s in sources:
        for name, symbol in s.symbols.items():
            if out.setdefault(name, symbol) != symbol:
                raise ExprError(f"size {name!r} is declared twice, as {out[name]} and as {symbol}")
    return out


class _Names:
    """The names a person sees: those that were given, made unique in the order of the stages."""

    def __init__(self, sources: Sequence[Source], twins: Mapping[str, Buffer]) -> None:
        self.taken = {n for s in sources for n in s.symbols}
        self.buffers: dict[str, Buffer] = {}
        self.loops: dict[str, str] = {}
        for s in sources:
            if s.is_placeholder:
                if s.name in self.taken:
                    raise ExprError(f"two placeholders or sizes are called {s.name!r}; name them apart")
                self._buffer(s.buffers[0])
        for s in sources:
            if not s.is_placeholder:
                for b in s.buffers:
                    self._buffer(b)
        self.buffers |= {name: self.buffers[b.name] for name, b in twins.items()}

    def _buffer(self, b: Buffer) -> None:
        name = self.free(b.name)
        self.buffers[b.name] = replace(b, name=name)

    def free(self, internal: str) -> str:
        name = take_name(internal.partition("#")[0], self.taken)
        return name

    def body(self, sources: Sequence[Source]) -> Body:
        """The nests of the stages, each with that of what is folded into it then."""
        found: list[Stmt] = []
        for s in sources:
            found += [self.nest(s)] if s.values else self.called(s)
            found += [] if s.updates is None else [self.updates(s, s.updates)]
        return tuple(found)

    def called(self, s: Source) -> Body:
        """The loops of a nest that is called, under names of their own."""
        found = renamed_declarations(s.body, self.free, self.free)
        return tuple(replace_buffers(x, self.buffers) for x in found)

    def updates(self, s: Source, u: Updates) -> Stmt:
        """The loops around the folds into a stage that is stored."""
        env = {v: Var(self.free(v)) for v, _ in u.loops}
        buffer = self.buffers[s.buffers[0].name]
        at = tuple(substitute(replace_buffers(x, self.buffers), env) for x in u.at)
        value = substitute(replace_buffers(u.value, self.buffers), env)
        stmt: Stmt = Reduce(self.free(f"{buffer.name}_updates"), (buffer,), at, u.monoid, (value,))
        if u.cond != TRUE:
            stmt = If(substitute(replace_buffers(u.cond, self.buffers), env), (stmt,))
        for v, extent in reversed(u.loops):
            stmt = Loop(env[v].name, extent, "serial", (stmt,))
        return stmt

    def nest(self, s: Source) -> Stmt:
        """The loops of a stage around its store, or its reduction."""
        loops = [*s.loops, *((a.name, a.extent) for a in s.axes)]
        new = {v: self.free(v) for v, _ in loops}
        buffers = tuple(self.buffers[b.name] for b in s.buffers)
        at = tuple(Var(new[v]) for v, _ in s.loops)
        env = {v: Var(n) for v, n in new.items()}
        values = tuple(substitute(replace_buffers(v, self.buffers), env) for v in s.values)
        stmt: Stmt
        if s.monoid is None:
            stmt = Store(buffers[0].name, buffers[0], at, values[0])
        else:
            over = tuple(new[a.name] for a in s.axes)
            stmt = Reduce(buffers[0].name, buffers, at, s.monoid, values, over, s.monoid.identity)
        for v, extent in reversed(loops):
            stmt = Loop(new[v], extent, "serial", (stmt,))
        return stmt
