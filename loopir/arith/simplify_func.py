"""Simplify a whole Func: each index and guard in the context of the loops and guards around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import is_

from loopir.arith.simplify import Context, simplify, simplify_cond, simplify_node
from loopir.ir.grammar import (
    BLOCK_AXES,
    FALSE,
    TRUE,
    Body,
    Cond,
    Func,
    If,
    Index,
    InstrCall,
    InstrRegion,
    Int,
    Kernel,
    Loop,
    Node,
    Not,
    Prefetch,
    Reduce,
    Stmt,
    Store,
    conj,
    conjuncts,
)
from loopir.ir.traverse.walk import (
    bodies,
    free_vars,
    map_body,
    map_stmts,
    path_to,
    rebuild,
    reduction_start_loops,
    reduction_starts,
    replace,
    statements,
    substitute,
)


def simplify_func(func: Func, *, drop_unit_loops: bool = False) -> Func:
    """`func` with every index and guard simplified in its context; guards that are decided are removed.

    With `drop_unit_loops`, a serial loop of one iteration becomes its body, and the only block of a grid block 0.
    """
    return replace(func, body=simplify_body(func.body, Known.top(func), drop_unit_loops=drop_unit_loops))


def simplify_body(body: Body, known: Known, *, drop_unit_loops: bool = False, old: Iterable[Stmt] = ()) -> Body:
    """`body`, which stands where `known` holds, simplified; but for what stands in `old` already, as it is."""
    how = _How(drop_unit_loops, frozenset(map(id, statements(tuple(old)))))
    return map_body(body, lambda s: _simplified(s, known, how))


@dataclass(slots=True)
class Known:
    """What is known at a statement, and what is known where the reductions there start.

    A Reduce with `init` starts outside the loops that it is over, even if these run no iterations, at the elements
    that the other loops and the guards without an `over` variable give. So these are simplified by `start` alone:
    not by the range of an `over` loop, nor by a guard that speaks of one. `over` are the loops around that matter.

    Each of the two contexts is worked out once it is asked for: most indices are sums, which are simplified by none.
    """

    over: frozenset[str]
    _here: Context | Callable[[], Context]
    _start: Context | Callable[[], Context] | None = None
    """None where what is known is the same."""

    @staticmethod
    def top(func: Func) -> Known:
        """At the top of `func`."""
        return Known(frozenset(), lambda: Context.of(func))

    @property
    def here(self) -> Context:
        if not isinstance(self._here, Context):
            self._here = self._here()
        return self._here

    @property
    def start(self) -> Context:
        if self._start is None:
            return self.here
        if not isinstance(self._start, Context):
            self._start = self._start()
        return self._start

    def within(self, body: Body) -> Context:
        """What may be used to rewrite `body` as a whole, with the reductions in it."""
        return self.start if self.starting(body) else self.here

    def starting(self, body: Body) -> list[frozenset[str]]:
        """For each Reduce in `body` that starts further out, the loops that it is over."""
        if not self.over or not any(self.over & reduction_start_loops(s) for s in body):
            return []
        return [over for over in reduction_starts(body) if not self.over.isdisjoint(over)]

    def loop(self, var: str, extent: Index, body: Body, *, was: str | None = None) -> Known:
        """In the loop `var`, around `body`; `was`: in `body` it still has this name."""
        old = var if was is None else was
        starts = any(old in reduction_start_loops(s) for s in body)

        def here() -> Context:
            return self.here.loop(var, extent)

        def start() -> Context:
            return self.start if starts else self.start.loop(var, extent)

        if not starts and not self.over:
            return Known(self.over, here)
        return Known(self.over | {var, old} if starts else self.over, here, start)

    def given(self, cond: Cond) -> Known:
        def here() -> Context:
            return self.here.inside(cond)

        def start() -> Context:
            return self.start.inside(*[t for t in conjuncts(cond) if not free_vars(t) & self.over])

        return Known(self.over, here, start if self.over else None)


def known_at(func: Func, target: Stmt) -> Known:
    """What is known where `target` stands in `func`."""
    known = Known.top(func)
    way = path_to(func, target)
    if not way:
        raise LookupError("the statement is not in the Func")
    for s, inner in pairwise(way):
        if isinstance(s, Loop):
            known = known.loop(s.var, s.extent, s.body)
        elif isinstance(s, If):
            known = known.given(s.cond if any(x is inner for x in s.then) else Not(s.cond))
    return known


def statements_known(
    body: Body, known: Known, inside: Callable[[Stmt], bool] | None = None
) -> Iterator[tuple[Stmt, Known]]:
    """Every statement in `body`, outer ones first, with what is known where it stands; with `inside`, of those alone
    for which it holds, and that stand in such."""
    pending = [(s, known) for s in reversed(body)]
    while pending:
        s, here = pending.pop()
        if inside is not None and not inside(s):
            continue
        yield s, here
        within = here.loop(s.var, s.extent, s.body) if isinstance(s, Loop) else here
        for side, inner in reversed([*enumerate(bodies(s))]):
            there = within.given(Not(s.cond) if side else s.cond) if isinstance(s, If) else within
            pending += [(x, there) for x in reversed(inner)]


@dataclass(frozen=True, slots=True)
class _How:
    drop: bool
    """Whether loops of one iteration go."""
    there: frozenset[int]
    """Statements, by identity, that stay as they are."""


def _simplified(s: Stmt, known: Known, how: _How) -> Stmt | Body:
    if id(s) in how.there:
        return s
    match s:
        case Loop():
            return _simplified_loop(s, known, how)
        case If():
            return _simplified_if(s, known, how)
        case Reduce(at=at, values=values, init=init) if init is not None and known.over.intersection(s.over):
            at, init = (tuple([simplify_node(x, lambda: known.start) for x in part]) for part in (at, init))
            values = tuple([simplify_node(x, lambda: known.here) for x in values])
            same = all(map(is_, (*at, *values, *init), (*s.at, *s.values, *(s.init or ()))))
            return s if same else replace(s, at=at, values=values, init=init)
        case Store() | Reduce() | InstrCall() | Prefetch():
            return simplify_node(s, lambda: known.here)
        case InstrRegion() if how.drop:
            return _simplified(s, known, _How(False, how.there))  # an instruction's loops are those of its meaning
        case Kernel(_, inner):
            done = map_body(inner, lambda x: _simplified(x, known, how))
            return () if not done else s if done is inner else replace(s, body=done)
        case _:
            return map_stmts(s, lambda x: _simplified(x, known, how))


def _simplified_loop(s: Loop, known: Known, how: _How) -> Stmt | Body:
    """`s` with its extent and its body simplified; its body alone, of one iteration, where that is asked for."""
    inner, size = s.body, simplify(s.extent, known.within(s.body))
    if size == Int(1) and s.kind == "serial" and how.drop and not _reduced(inner, s.var):
        return map_body(substitute_body(inner, s.var), lambda x: _simplified(x, known, how))
    if size == Int(1) and s.kind in BLOCK_AXES and how.drop:
        inner = substitute_body(inner, s.var)  # which a compiler would not know
    within = known.loop(s.var, size, inner)
    done = map_body(inner, lambda x: _simplified(x, within, how))
    return s if done is inner and size is s.extent else Loop(s.var, size, s.kind, done)


def _simplified_if(s: If, known: Known, how: _How) -> Stmt | Body:
    """`s` with each branch simplified under what its condition says; the branch alone where that is decided."""
    c = _guard(s, known)
    if c in (TRUE, FALSE):
        return map_body(s.then if c == TRUE else s.orelse, lambda x: _simplified(x, known, how))
    yes, no = known.given(c), known.given(Not(c))
    then = map_body(s.then, lambda x: _simplified(x, yes, how))
    orelse = map_body(s.orelse, lambda x: _simplified(x, no, how))
    return s if c is s.cond and then is s.then and orelse is s.orelse else If(c, then, orelse)


def _guard(s: If, known: Known) -> Cond:
    """The condition of `s`, simplified so that the reductions in it start at the same elements."""
    if known.starting(s.orelse):
        return s.cond
    starting = known.starting(s.then)
    if not starting:
        return simplify_cond(s.cond, known.here)
    kept: list[Cond] = []
    for t in conjuncts(s.cond):
        spoken = not any(free_vars(t).isdisjoint(over) for over in starting)
        here = known.here if spoken else known.start
        tried = (f(t, here) for f in (simplify_cond, _undecided))
        kept.append(next((new for new in tried if starts_alike(t, new, starting)), t))
    new = conj(*kept)
    return s.cond if new == s.cond else new


def _undecided(c: Cond, known: Context) -> Cond:
    """`c` with its indices in their shortest form, compared as they were."""

    def visit(n: Node) -> Node:
        return simplify(n, known) if isinstance(n, Index) else rebuild(n, visit) if isinstance(n, Cond) else n

    return rebuild(c, visit)


def starts_alike(old: Cond, new: Cond, starting: Iterable[frozenset[str]]) -> bool:
    """Whether reductions over these loops start at the same elements with `new` for `old`, a term of a guard.

    No term that speaks of a loop which a reduction is over holds its start back, and any other does.
    """
    spoken = [(over, free_vars(old).isdisjoint(over)) for over in starting]
    return all(free_vars(n).isdisjoint(over) == free for n in conjuncts(new) for over, free in spoken)


def _reduced(body: Body, var: str) -> bool:
    return any(isinstance(s, Reduce) and var in s.over for s in statements(body))


def substitute_body(body: Body, var: str) -> Body:
    """`body` at iteration 0 of `var`."""
    return tuple(substitute(s, {var: Int(0)}) for s in body)


def context_at(func: Func, around: Iterable[Stmt]) -> Context:
    """What is known inside the loops among `around`, outermost first."""
    ctx = Context.of(func)
    for s in around:
        if isinstance(s, Loop):
            ctx = ctx.loop(s.var, s.extent)
    return ctx
