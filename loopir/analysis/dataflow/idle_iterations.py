"""Find out whether an iteration of a loop does nothing where a condition of places turns out one case.

What an iteration leaves behind are the buffers that are not its own. It does nothing if each fold into one of these
folds the identity of its monoid, and each store leaves what was there. That is asked statement by statement, in order,
so that all that was there before is there still; what the iteration makes for itself is written out. A test of a value
for a constant, such as of a maximum of nothing yet, is decided both ways. What is given is taken to be finite: then
zero times anything is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product, takewhile
from math import isfinite, isinf
from typing import cast

import numpy as np

from loopir.analysis.dataflow.definitions import Definition, inlined
from loopir.arith.simplify import Context, simplify_cond
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Alloc,
    And,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    If,
    Load,
    Loop,
    Node,
    Not,
    Op,
    Or,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    ValueToCond,
)
from loopir.ir.traverse.walk import StmtPath, leaf_paths, leaf_writes, loaded_buffers, nodes, rebuild, statements

MOST_TESTS = 4
"""Tests of values for constants in one value, each of which is decided both ways."""
EXACT = (0.0, 1.0)
"""Finite constants that every type has, and no rounding changes."""


def busy_statement(loop: Loop, tests: Mapping[Cmp, bool]) -> str | None:
    """The label of a statement of which it is not proved that it does nothing in iterations of `loop` in which `tests`
    turn out so wherever they are asked; None if there is none."""
    body = tuple(cast(Stmt, _decided(s, tests)) for s in loop.body)
    own = {s.buffer.name for s in statements(body) if isinstance(s, Alloc)}
    here = [p for p in leaf_paths(body) if _is_reached(p) or _starts(p.stmt, loop)]
    made = _definitions(here, own)
    extremes = _extremes([p.stmt for p in here])
    for p in here:
        if not leaf_writes(p.stmt) <= own and not _does_nothing(p.stmt, loop, made, extremes):
            return p.stmt.label
    return None


def always_folds(stmt: Reduce, loop: Loop, values: tuple[Value, ...], here: Context) -> bool:
    """Whether `stmt` in `loop` folds the identity of its monoid where `here` holds, if what it folds is `values`, with
    what the iteration makes for itself written out, and if nothing is no number. Anything may be infinite."""
    own = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)}
    before = [*takewhile(lambda p: p.stmt is not stmt, leaf_paths(loop.body))]
    after = [p.stmt for p in [*leaf_paths(loop.body)][len(before) :]]
    stores = {p.stmt.label: n for n, p in enumerate(before)}
    made = {b: d for b, d in _definitions(before, own).items() if not any(b in leaf_writes(x) for x in after)}
    used = {name: d for name, d in made.items() if _is_as_of(d.store, stores, before)}

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        return replace(n, cond=simplify_cond(n.cond, here)) if isinstance(n, Select) else n

    found = zip(values, stmt.monoid.identity, strict=True)
    return all(_is_always(cast(Value, visit(inlined(v, used))), w, None) for v, w in found)


def _is_as_of(store: Store, order: Mapping[str, int], before: list[StmtPath]) -> bool:
    """Whether all that `store` loads has the value then that it has at the end of `before`."""
    read = loaded_buffers(store)
    later = [p.stmt for p in before[order[store.label] :]]
    return not any(leaf_writes(x) & read for x in later)


def _extremes(stmts: Iterable[Store | Reduce]) -> frozenset[str]:
    """Folds among `stmts` that start as infinities."""
    return frozenset(
        b.name
        for s in stmts
        if isinstance(s, Reduce)
        for b, c in zip(s.buffers, s.monoid.identity, strict=True)
        if isinstance(c.value, float) and isinf(c.value)
    )


def _decided(n: Node, tests: Mapping[Cmp, bool]) -> Node:
    if isinstance(n, Buffer):
        return n
    if isinstance(n, Cmp) and n in tests:
        return TRUE if tests[n] else FALSE
    return rebuild(n, lambda x: _decided(x, tests))


def _starts(s: Store | Reduce, loop: Loop) -> bool:
    """Whether `s` is a reduction that starts again in each iteration, or further out, whatever a guard says of it."""
    return isinstance(s, Reduce) and s.init is not None and loop.var not in s.over


def _outcome(c: Cond) -> bool | None:
    """Whether `c` holds, if its parts that are decided tell."""
    match c:
        case And(terms) | Or(terms):
            ends = isinstance(c, Or)
            told = [_outcome(t) for t in terms]
            return ends if ends in told else None if None in told else not ends
        case Not(term):
            told = _outcome(term)
            return None if told is None else not told
        case _:
            return True if c == TRUE else False if c == FALSE else None


def _is_reached(p: StmtPath) -> bool:
    """Whether no test that is decided holds the statement back."""
    return all(_outcome(c) is not (not yes) for c, yes in p.conds())


def _definitions(here: list[StmtPath], own: set[str]) -> dict[str, Definition]:
    """What the elements of buffers of the iteration are stored with, of those that one statement stores.

    Its guards do not matter: where they fail the element holds nothing yet, and is not read."""
    out: dict[str, Definition] = {}
    for name in own:
        writers = [p for p in here if name in leaf_writes(p.stmt)]
        if len(writers) == 1 and isinstance(s := writers[0].stmt, Store) and name not in loaded_buffers(s):
            out[name] = Definition(s, frozenset(x.var for x in writers[0].loops))
    return out


def _does_nothing(s: Store | Reduce, loop: Loop, made: Mapping[str, Definition], extremes: frozenset[str]) -> bool:
    if isinstance(s, Store):
        wanted: tuple[Value, ...] = (Load(s.buffer, s.at),)
        values: tuple[Value, ...] = (s.value,)
    else:
        if _starts(s, loop):
            return False
        wanted, values = s.monoid.identity, s.values
    return all(_is_always(inlined(v, made), w, extremes) for v, w in zip(values, wanted, strict=True))


def _is_always(v: Value, wanted: Value, extremes: frozenset[str] | None) -> bool:
    """Whether `v` is `wanted`, however the tests of values in it turn out."""
    tests = [*dict.fromkeys(n.value for n in nodes(v) if isinstance(n, ValueToCond) and _is_for_constant(n.value))]
    if len(tests) > MOST_TESTS:
        return False
    for outcome in product((True, False), repeat=len(tests)):
        case = _Case(extremes)
        for t, holds in zip(tests, outcome, strict=True):
            load, constant = cast(Op, t).args
            if holds and case.equal.get(load, constant) != constant:
                break  # it is another one already
            if holds:
                case.equal[load] = cast(Const, constant)
            else:
                case.other.add((load, constant))
        else:
            if not any(case.equal.get(x) == c for x, c in case.other) and not _is_equal(
                case.form(v), case.form(wanted)
            ):
                return False
    return True


def _is_for_constant(test: Value) -> bool:
    match test:
        case Op(fn, (x, Const())):
            return fn.name == "eq" and not isinstance(x, Const)
        case _:
            return False


def _is_equal(a: Value, b: Value) -> bool:
    if isinstance(a, Const) and isinstance(b, Const):
        return bool(a.value == b.value)
    return a == b


@dataclass(slots=True)
class _Case:
    """One outcome of all tests: which values equal a constant in it, and which pairs differ."""

    extremes: frozenset[str] | None
    """Folds that start as infinities, where all else is finite; None where anything may be infinite."""
    equal: dict[Value, Const] = field(default_factory=dict[Value, Const])
    other: set[tuple[Value, Value]] = field(default_factory=set[tuple[Value, Value]])

    def form(self, v: Value) -> Value:
        """`v` in a shorter form, equal to it this case."""
        if (known := self.equal.get(v)) is not None:
            return known
        match v:
            case Cast(x, t):
                inner = self.form(x)
                if isinstance(inner, Const) and (inner.value in EXACT or isinf(inner.value)) and t.is_float:
                    return Const(inner.value, t)
                return v if inner is x else Cast(inner, t)
            case Select(c, a, b):
                held = self.holds(c)
                if held is not None:
                    return self.form(a if held else b)
                one, other = self.form(a), self.form(b)
                return one if _is_equal(one, other) else v
            case Op(fn, args):
                return self.operation(v, fn.name, tuple(self.form(x) for x in args))
            case _:
                return v

    def holds(self, c: Cond) -> bool | None:
        if isinstance(c, ValueToCond) and _is_for_constant(c.value):
            load, constant = cast(Op, c.value).args
            if load in self.equal:
                return self.equal[load] == constant
            return False if (load, constant) in self.other else None
        return _outcome(c)

    def operation(self, v: Op, name: str, args: tuple[Value, ...]) -> Value:
        if v.dtype.is_float and all(isinstance(x, Const) for x in args):
            with np.errstate(all="ignore"):
                made = float(v.fn.meaning(*(np.float64(cast(Const, x).value) for x in args)))
            if made in EXACT or isinf(made):
                return Const(made, v.dtype)
        out = self.neutral(name, *args) if len(args) == 2 and name in ("mul", "add", "sub") else None
        return Op(v.fn, args) if out is None else out

    def neutral(self, name: str, a: Value, b: Value) -> Value | None:
        """The product, sum or difference of the two where one of them is neutral, or wins; None if none is."""
        if name == "mul":
            return self.product(a, b) or self.product(b, a)
        if name == "sub":
            gone = a == b and self.finite(a) and a.dtype.is_float
            return Const(0.0, a.dtype) if gone else a if _const_value(b) == 0 or self.wins(a, b, 1.0) else None
        won = a if _const_value(b) == 0 or self.wins(a, b, -1.0) else None
        return won or (b if _const_value(a) == 0 or self.wins(b, a, -1.0) else None)

    def product(self, a: Value, b: Value) -> Value | None:
        """The product where `a` is 0 or 1."""
        x = _const_value(a)
        return a if x == 0 and self.finite(b) else b if x == 1 else None

    def wins(self, a: Value, b: Value, sign: float) -> bool:
        """Whether `a` is an infinity, and `b` not that times `sign`."""
        x = _const_value(a)
        return x is not None and isinf(x) and (self.finite(b) or self.is_other(b, sign * x))

    def is_other(self, v: Value, infinity: float) -> bool:
        """Whether `v` is not `infinity`, this case, or a positive multiple of what is not."""
        if any(x == v and isinstance(c, Const) and c.value == infinity for x, c in self.other):
            return True
        match v:
            case Op(fn, (x, Const(k)) | (Const(k), x)) if fn.name == "mul" and 0 < k < float("inf"):
                return self.is_other(x, infinity)
            case _:
                return False

    def finite(self, v: Value) -> bool:
        """Whether `v` is made of what is finite, if what is given is."""
        return all(
            isfinite(n.value)
            if isinstance(n, Const)
            else self.extremes is not None and (n.buffer.name not in self.extremes or self.excluded(n))
            for n in _leaves(v)
        )

    def excluded(self, load: Load) -> bool:
        """Whether an extreme is of something, this case, as it is not the infinity that it starts as."""
        return any(x == load and isinstance(c, Const) and isinf(c.value) for x, c in self.other)


def _const_value(v: Value) -> float | None:
    return float(v.value) if isinstance(v, Const) else None


def _leaves(v: Value) -> Iterator[Const | Load]:
    return (n for n in nodes(v) if isinstance(n, Const | Load))


def guarding_tests(n: Node) -> Iterator[tuple[Cmp, bool]]:
    """The comparisons of places in `n`, a value or a statement without others inside, on whose turning out so or so a
    choice depends."""
    for x in nodes(n):
        if isinstance(x, Select):
            yield from _undecided_terms(x.cond, True)
            yield from _undecided_terms(x.cond, False)


def guards_around(s: Stmt) -> Iterator[tuple[Cmp, bool]]:
    """The comparisons on whose turning out so a statement in `s` depends."""
    if isinstance(s, If):
        yield from _undecided_terms(s.cond, True)
        yield from _undecided_terms(s.cond, False) if s.orelse else ()


def _undecided_terms(c: Cond, held: bool) -> Iterator[tuple[Cmp, bool]]:
    match c:
        case And(terms) | Or(terms):
            for t in terms:
                yield from _undecided_terms(t, held)
        case Not(term):
            yield from _undecided_terms(term, not held)
        case Cmp():
            yield c, held
        case _:
            pass
