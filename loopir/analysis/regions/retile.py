"""Retile a nest: the same iterations in the same order, over other loops.

Only what depends on the replaced loops is rewritten, and guards are normalized without being decided, as simplifying
the whole body costs most where it finds nothing. No proof is lost: the old positions take the same values as before, so
a guard is always true now only if it always was. That does not hold for a part of a loop, where guards on it are
decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import is_not
from typing import TypeVar, cast

from loopir.arith.poly import Monomial, Poly, constant_poly, expand_index, poly_add, poly_add_to, poly_mul, to_index
from loopir.arith.rules import fold
from loopir.arith.simplify import EMPTY, Context, compared, simplify, simplify_cond
from loopir.arith.simplify_func import Known
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Add,
    And,
    Body,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    If,
    Index,
    Int,
    Load,
    Loop,
    Max,
    Min,
    Mod,
    Node,
    Not,
    Op,
    Prefetch,
    Reduce,
    Select,
    Stmt,
    Store,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import (
    children,
    free_vars,
    keep_mentions,
    map_body,
    map_stmts,
    on_loads,
    rebuild,
    replace,
    replace_names,
    substitute,
    substitute_guard,
)

_FORMS: frozenset[type[Index]] = frozenset({Var, FloorDiv, Mod, Min, Max})
"""What positions are sums of, each in its shortest form where the loop starts."""
N = TypeVar("N", bound=Node)
Ask = Callable[[], Context]
"""What is known, once it is asked for."""


@dataclass(slots=True)
class Retiling:
    """The loops in `position` are said by the new loops, which stand around by now; folds are over `over` instead."""

    position: dict[str, Index]
    over: dict[str, tuple[str, ...]]
    decides: bool = False
    """Whether guards that speak of the loops are decided: there are fewer iterations now, for which they may be."""
    decided: Mapping[Cond, tuple[bool, bool]] = field(default_factory=dict[Cond, tuple[bool, bool]])
    """How conditions turn out, as they stood, if they are decided, and whether that is sure."""
    parts: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """New loops that begin where the old ones did (True), or end there: what is least, or greatest, there still is."""
    done: dict[object, Index] = field(default_factory=dict[object, Index])
    """Indices that needed no context; those met most by variable and constant, which are told apart sooner."""
    sums: dict[str, Poly] = field(default_factory=dict[str, Poly])
    """Positions that are sums of products of variables."""

    def became(self, loop: str, position: Index, over: tuple[str, ...]) -> None:
        """From here on inside, `loop` is at `position` of the loops `over`."""
        self.position[loop], self.over[loop] = position, over

    def body(self, body: Body, known: Known) -> Body:
        """`body`, which stands where `known` holds."""
        only = len(body) == 1  # then what speaks of the loops is most likely there, and is found on the way
        return map_body(body, lambda s: self.stmt(s, known) if only or self._mentioned(s) else s)

    def _mentioned(self, s: Stmt) -> bool:
        return not self.position.keys().isdisjoint(_mentions(s))

    def stmt(self, s: Stmt, known: Known) -> Stmt | Body:
        if isinstance(s, Loop):
            size = self.index(s.extent, lambda: known.within(s.body))
            body = self.body(s.body, known.loop(s.var, size, s.body))
            return s if body is s.body and size is s.extent else Loop(s.var, size, s.kind, body)
        if isinstance(s, Store):
            ask = lambda: known.here  # noqa: E731
            at, value = tuple([self.index(x, ask) for x in s.at]), self.node(s.value, ask)
            same = value is s.value and not any(map(is_not, at, s.at))
            return s if same else Store(s.label, s.buffer, at, value)
        if isinstance(s, Prefetch):
            return self.node(s, lambda: known.here)
        if isinstance(s, Reduce):
            return self._reduce(s, known)
        if isinstance(s, If):
            c = s.cond if self.position.keys().isdisjoint(free_vars(s.cond)) else self.guard(s, known)
            if self.decides and c in (TRUE, FALSE):
                return self.body(s.then if c == TRUE else s.orelse, known)
            then, orelse = self.body(s.then, known.given(c)), self.body(s.orelse, known.given(Not(c)))
            return s if c is s.cond and then is s.then and orelse is s.orelse else If(c, then, orelse)
        return map_stmts(s, lambda x: self.stmt(x, known))

    def _reduce(self, s: Reduce, known: Known) -> Reduce:
        begun = s.init is not None and known.over.intersection(s.over)
        here, start = lambda: known.here, lambda: known.start if begun else known.here
        over = replace_names(s.over, self.over)
        at = tuple([self.index(x, start) for x in s.at])
        values = tuple([self.node(v, here) for v in s.values])
        init = None if s.init is None else tuple([self.node(v, start) for v in s.init])
        same = over == s.over and not any(
            map(is_not, (*at, *values, *(init or ())), (*s.at, *s.values, *(s.init or ())))
        )
        return s if same else replace(s, at=at, values=values, init=init, over=over)

    def node(self, n: N, ask: Ask) -> N:
        """A value, or a statement without others inside."""
        if isinstance(n, Load):
            at = [self.index(x, ask) for x in n.at]
            return cast(N, Load(n.buffer, tuple(at)) if any(map(is_not, at, n.at)) else n)
        if isinstance(n, Index):
            return cast(N, self.index(n, ask))
        if isinstance(n, Op):
            return on_loads(n, lambda x: self.node(x, ask))
        if isinstance(n, Buffer):
            return n
        if isinstance(n, Select):
            c = self.cond(n.cond, ask)
            if self.decides and c in (TRUE, FALSE):
                return cast(N, self.node(n.a if c == TRUE else n.b, ask))
            a, b = self.node(n.a, lambda: ask().given(c)), self.node(n.b, lambda: ask().given(Not(c)))
            return cast(N, n if c is n.cond and a is n.a and b is n.b else Select(c, a, b))
        if isinstance(n, And):
            return cast(N, conj(*(self.node(t, ask) for t in n.terms)))
        return rebuild(n, lambda child: self.node(child, ask))

    def cond(self, c: Cond, ask: Ask) -> Cond:
        """A condition, term by term, and decided if that is wanted."""
        if not self.decides:
            return self.node(c, ask)
        done = (t if self.position.keys().isdisjoint(free_vars(t)) else self._decided(t, ask) for t in conjuncts(c))
        return conj(*done)

    def _decided(self, c: Cond, ask: Ask) -> Cond:
        only, sure = self.decided.get(c, (None, False)) if self.decided else (None, False)
        if sure:
            return TRUE if only else FALSE
        if isinstance(c, Cmp):
            x, y = (self._sum(ix) for ix in (c.a, c.b))
            if x is not None and y is not None:
                return compared(c.op, x, y, ask(), self._open(x, y) if only is None else only)
        return simplify_cond(substitute(c, self.position), ask())

    def _open(self, x: Poly, y: Poly) -> bool | None:
        """Which of the two `x < y` may turn out to be in a part of a loop alone; None if it may be both.

        It is true in all of the loop if it is so in the last iteration and `y - x` falls; the part may be without that.
        """
        for v, begins in self.parts.items():
            mine = {m for m in (*x, *y) if any(v in free_vars(a) for a in m)}
            (m,) = mine if len(mine) == 1 else ((),)
            if m == (Var(v),):
                return (y.get(m, 0) < x.get(m, 0)) == begins
        return None

    def index(self, ix: Index, ask: Ask) -> Index:
        """`ix` in its shortest form."""
        kind = type(ix)
        key: object = ix
        if kind is Int:
            return ix
        if kind is Var or (kind is Add and type(ix.a) is Var and type(ix.b) is Int):  # type: ignore[attr-defined]
            v, key = (ix.name, ix.name) if kind is Var else (ix.a.name, (ix.a.name, ix.b.value))  # type: ignore[attr-defined]
            if v not in self.position:
                return ix
        found = self.done.get(key)
        if found is not None:
            return found
        if key is ix and free_vars(ix).isdisjoint(self.position):
            return ix
        new = self._sum(ix)
        if new is None:
            return simplify(substitute(ix, self.position), ask())
        found = self.done[key] = to_index(new)
        return found

    def _sum(self, ix: Index) -> Poly | None:
        """The relabelled `ix` if it is a sum of products of variables, which no context makes shorter.

        Quotients, remainders and extremes in the positions are taken to be in their shortest form.
        """
        if type(ix) is Add and type(ix.b) is Int and type(ix.a) is Var and ix.a.name in self.sums:  # as is met most
            return poly_add(self.sums[ix.a.name], constant_poly(ix.b.value))
        new: Poly = {}
        whole = True
        for m, c in expand_index(ix).items():
            term: Mapping[Monomial, int] = {(): 1}
            for a in m:
                if not isinstance(a, Var):
                    return None
                by: Mapping[Monomial, int] = expand_index(self.position.get(a.name, a))
                atoms = {type(x) for n in by for x in n}
                if not atoms <= _FORMS:
                    return None
                whole = whole and atoms <= {Var}
                term = poly_mul(term, by)
            poly_add_to(new, term, c)
        if whole and type(ix) is Var:
            self.sums[ix.name] = new
        return new if whole else fold(new, EMPTY)

    def guard(self, s: If, known: Known) -> Cond:
        """The condition of `s`, such that the reductions in it start at the same elements."""
        if known.starting(s.orelse):
            return substitute_guard(s, self.position)
        starting = known.starting(s.then)
        if not starting:
            return self.cond(s.cond, lambda: known.here)
        return conj(*(self._term(t, starting, known) for t in conjuncts(s.cond)))

    def _term(self, t: Cond, starting: list[frozenset[str]], known: Known) -> Cond:
        """`t`, which comes to speak of what these reductions are over only if it did before."""
        speaks = {self._speaks(t, over) for over in starting}
        if len(speaks) == 1:
            new = self.cond(t, lambda: known.here if True in speaks else known.start)
            if all(self._speaks(n, over) in speaks for n in conjuncts(new) for over in starting):
                return new
        return keep_mentions(t, self.position, starting)

    def _speaks(self, t: Cond, over: frozenset[str]) -> bool:
        """Whether `t` speaks of what a reduction is over, by its old name or by its new ones."""
        return not free_vars(t).isdisjoint({*over, *replace_names(tuple(over), self.over)})


@memoized
def _mentions(s: Stmt) -> frozenset[str]:
    """The variables that are read, or folded over, anywhere in `s`."""
    found: set[str] = set(s.over) if isinstance(s, Reduce) else set()
    for n in children(s):
        found |= _mentions(n) if isinstance(n, Stmt) else free_vars(n) if not isinstance(n, Buffer) else set()
    return frozenset(found)
