"""Simplify indices and conditions; on the hot path of every rewrite, so by canonical forms and bounds, not by a solver.

A `Context` has the assumptions at an index: the loops around it, the guards that hold, and what the Func assumes of its
sizes. An index becomes a polynomial (`loopir.arith.poly`); its divisions and minima are simplified by `rules`, each of
which has its condition proved by `prove`, or is not applied. The tests prove every rule, and results, by integer sets.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TypeVar, cast

from loopir.arith.assumptions import Assumptions
from loopir.arith.index_conditions import index_condition
from loopir.arith.poly import (
    Poly,
    atom_poly,
    const_of,
    constant_poly,
    poly_add,
    poly_add_to,
    poly_mul,
    poly_scale,
    sum_of_products,
    to_index,
)
from loopir.arith.prove import interval, nonnegative
from loopir.arith.rules import divide, exclusive, extreme, fold, modulo
from loopir.ir.dtypes import DType, bool_
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Add,
    And,
    Buffer,
    Cmp,
    CmpOp,
    Cond,
    FloorDiv,
    Func,
    Index,
    IndexToValue,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    Select,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    Xor,
    conj,
    conjuncts,
)
from loopir.ir.traverse.walk import is_affine_visible, nodes, rebuild

__all__ = [
    "EMPTY",
    "Context",
    "clear_caches",
    "compared",
    "divide",
    "extreme",
    "interval",
    "modulo",
    "nonnegative",
    "poly",
    "simplify",
    "simplify_cond",
    "simplify_node",
    "sum_of_variables",
]  # fmt: skip

N = TypeVar("N", bound=Node)
MEMORY = 4096
"""How many contexts, and how many answers in each, are remembered before they are dropped."""


class Context(Assumptions):
    """What is known at a place: `Context.of(func)`, then `.loop(...)` and `.given(...)` from outside to inside."""

    __slots__ = ()
    made = 0

    @staticmethod
    def of(func: Func) -> Context:
        """What `func` assumes of its sizes."""
        stable = frozenset(a.buffer.name for a in func.args if a.access == "in")
        top = EMPTY._next(stable, lambda: Context(stable=stable)) if stable else EMPTY
        return top.given(*func.assumes)

    def loop(self, var: str, extent: Index) -> Context:
        """Inside a loop: 0 <= var < extent, so the extent is at least 1."""
        return self._next((var, extent), lambda: self._looped(var, extent) if self.lasts(extent) else self)

    def inside(self, *conds: Cond) -> Context:
        """Inside a guard of `conds`."""
        return self.given(*(t for c in conds for t in conjuncts(c) if self.lasts(t)))

    def given(self, *conds: Cond) -> Context:
        """At a moment when `conds` hold. What they say beyond linear facts is left unused."""
        return self._next(conds, lambda: self._given(conds)) if conds else self

    def lasts(self, n: Node) -> bool:
        """Whether `n` stays as it is while the program runs: what it reads is not written."""
        seen = isinstance(n, Index | Cond) and is_affine_visible(n)
        return seen or all(x.buffer.name in self.stable for x in nodes(n) if isinstance(x, Load))

    def _next(self, key: object, make: Callable[[], Context]) -> Context:
        found = self.after.get(key)
        if found is None:
            Context.made += 1
            if Context.made > MEMORY:
                clear_caches()
            found = self.after[key] = make()
        return found

    def _looped(self, var: str, extent: Index) -> Context:
        size = poly(extent, self) if type(extent) is not Int else constant_poly(extent.value)
        top = poly_add(size, {(): -1})
        tops = ((Var(var), top), *self.tops)
        if const_of(size) is not None:
            return Context(tops, self.lows, self.multiples, self.facts, self.stable, self)
        lows = {**self.lows, **self._factors(size)}
        return Context(tops, lows, self.multiples, (*self.facts, top), self.stable, self)

    def _factors(self, p: Poly) -> dict[str, int]:
        """Where p > 0, the variables that divide it are at least 1, as none is negative; their lower bounds."""
        common = set[Index].intersection(*(set(m) for m in p)) if p else set[Index]()
        return {a.name: max(1, self.lows.get(a.name, 0)) for a in common if isinstance(a, Var)}

    def _given(self, conds: tuple[Cond, ...]) -> Context:
        lows, multiples, facts = dict(self.lows), dict(self.multiples), list(self.facts)
        for c in (t for cond in conds for t in conjuncts(cond)):
            match c:
                case Cmp("==", Mod(Var(name), Int(n)), Int(0)) | Cmp("==", Int(0), Mod(Var(name), Int(n))):
                    multiples[name] = n * multiples.get(name, 1) // gcd(n, multiples.get(name, 1))
                case Cmp("<=", Int(n), Var(name)):
                    lows[name] = max(n, lows.get(name, 0))
                case Cmp("<", Int(n), Var(name)):
                    lows[name] = max(n + 1, lows.get(name, 0))
                case _:
                    facts += self._facts(c)
                    if isinstance(c, Cmp) and c.op == "<":
                        more = {v: n for v, n in self._factors(poly(c.b, self)).items() if n > lows.get(v, 0)}
                        lows.update(more if more and nonnegative(poly(c.a, self), self) else {})
        for name in multiples.keys() & lows.keys():
            lows[name] += -lows[name] % multiples[name]
        facts = tuple(f for f in facts if const_of(f) is None)
        return Context(self.tops, lows, multiples, facts, self.stable, self)

    def _facts(self, c: Cond) -> list[Poly]:
        """What is >= 0 where `c` holds."""
        match c:
            case Cmp("<", a, b):
                return [self._difference(b, a, -1)]
            case Cmp("<=", a, b):
                return [self._difference(b, a)]
            case Cmp("==", a, b):
                return [self._difference(a, b), self._difference(b, a)]
            case Not(Cmp("<", a, b)):
                return [self._difference(a, b)]
            case Not(Cmp("<=", a, b)):
                return [self._difference(a, b, -1)]
            case Not(Cmp("!=", a, b)):
                return self._facts(Cmp("==", a, b))
            case Not(Or(terms)):
                return [f for t in terms for f in self._facts(Not(t))]
            case And(terms):
                return [f for t in terms for f in self._facts(t)]
            case Not(Not(term)):
                return self._facts(term)
            case _:
                return []

    def _difference(self, a: Index, b: Index, more: int = 0) -> Poly:
        out = poly_add(poly(a, self), poly(b, self), -1)
        if more:
            poly_add_to(out, {(): more}, 1)
        return out


EMPTY = Context()


def clear_caches() -> None:
    """Drop what is remembered of contexts; those in use keep theirs."""
    EMPTY.after.clear()
    EMPTY.answers.clear()
    EMPTY.atoms.clear()
    Context.made = 0


# ---------------------------------------------------------------- the canonical form


def poly(ix: Index, ctx: Context) -> Poly:
    """`ix` as a polynomial, its divisions and minima simplified in `ctx`."""
    sum_ = sum_of_products(ix)
    if sum_ is not None:
        return dict(sum_)
    out: Poly = {}
    _accumulate(out, ix, 1, ctx)
    return fold(out, ctx)


def _accumulate(out: Poly, ix: Index, k: int, ctx: Context) -> None:
    """Make `out` be `out + k * ix`; `k` is not 0."""
    kind = ix.__class__
    if kind is Var or kind is Int:
        m, c = ((ix,), k) if kind is Var else ((), k * ix.value)  # type: ignore[attr-defined]
        total = out.get(m, 0) + c
        if total:
            out[m] = total
        else:
            out.pop(m, None)
    elif isinstance(ix, Add):
        _accumulate(out, ix.a, k, ctx)
        _accumulate(out, ix.b, k, ctx)
    elif isinstance(ix, Mul):
        a, b = (ix.b, ix.a) if isinstance(ix.a, Int) else (ix.a, ix.b)
        if not isinstance(b, Int):
            poly_add_to(out, poly_mul(poly(a, ctx), poly(b, ctx)), k)
        elif b.value:
            _accumulate(out, a, k * b.value, ctx)
    else:
        found = ctx.atoms.get(ix)
        if found is None:
            found = ctx.atoms[ix] = _atom(ix, ctx)
        poly_add_to(out, found, k)


def _atom(ix: Index, ctx: Context) -> Poly:
    """The polynomial of `ix`, which is no sum, product or variable: if nothing else, one atom."""
    if isinstance(ix, FloorDiv | Mod):
        a, b = poly(ix.a, ctx), poly(ix.b, ctx)
        if (c := const_of(b)) is not None and c < 1:  # then nothing runs there, and no rule holds
            return atom_poly(type(ix)(to_index(a), ix.b))
        return divide(a, b, ctx) if isinstance(ix, FloorDiv) else modulo(a, b, ctx)
    if isinstance(ix, Min | Max):
        return extreme(poly(ix.a, ctx), poly(ix.b, ctx), isinstance(ix, Min), ctx)
    if isinstance(ix, Xor):
        return exclusive(poly(ix.a, ctx), poly(ix.b, ctx), ctx)
    return {(simplify_node(ix, lambda: ctx),): 1}  # memory reads inside an index have indices of their own


# ---------------------------------------------------------------- the public calls


def simplify(ix: Index, ctx: Context = EMPTY) -> Index:
    """`ix` in its shortest readable form, equal to it wherever `ctx` holds; the same object if it is in that form."""
    kind = type(ix)
    if kind is Var or kind is Int:
        return ix
    if kind is Add and type(ix.a) is Var and type(ix.b) is Int and ix.b.value:  # type: ignore[attr-defined]
        return ix  # as it is met most
    found = ctx.answers.get(ix)
    return _remembered(ctx, ix, to_index(poly(ix, ctx))) if found is None else found


def sum_of_variables(ix: Index) -> Index | None:
    """`ix` in its shortest form if that is a sum of products of variables, which nothing known makes shorter."""
    p = sum_of_products(ix)
    if p is None:
        return None
    answer = to_index(p)
    return ix if answer == ix else answer


def simplify_cond(c: Cond, ctx: Context = EMPTY) -> Cond:
    """`c`, or TRUE or FALSE where that is proved in `ctx`."""
    found = ctx.answers.get(c)
    return _remembered(ctx, c, _simplified(c, ctx)) if found is None else found


def _remembered(ctx: Context, node: N, answer: N) -> N:
    if answer == node:
        answer = node
    if len(ctx.answers) > MEMORY:
        ctx.answers.clear()
        ctx.atoms.clear()
    ctx.answers[node] = answer
    return answer


def _simplified(c: Cond, ctx: Context) -> Cond:
    match c:
        case And(terms):
            done: list[Cond] = []
            for t in terms:
                ctx = ctx.given(*done[-1:])
                done.append(simplify_cond(t, ctx))
            return conj(*done)
        case Or(terms):
            kept = [s for s in (simplify_cond(t, ctx) for t in terms) if s != FALSE]
            if TRUE in kept:
                return TRUE
            return kept[0] if len(kept) == 1 else Or(tuple(kept))
        case Not(term):
            s = simplify_cond(term, ctx)
            return FALSE if s == TRUE else TRUE if s == FALSE else s.term if isinstance(s, Not) else Not(s)
        case Cmp():
            return _compare(c, ctx)
        case ValueToCond():
            return simplify_node(cast(Cond, c), lambda: ctx)
        case _:
            return c


def _compare(c: Cmp, ctx: Context) -> Cond:
    return compared(c.op, poly(c.a, ctx), poly(c.b, ctx), ctx)


def compared(op: CmpOp, x: Poly, y: Poly, ctx: Context, only: bool | None = None) -> Cond:
    """`x op y` for two in their shortest form; TRUE or FALSE where that is proved in `ctx`, and may be: `only` one."""
    d = poly_add(y, x, -1)
    strict, back = poly_add(d, {(): -1}), poly_scale(d, -1)  # b - a - 1 >= 0 is a < b; a - b >= 0
    if op in ("==", "!="):
        if not d:
            return TRUE if op == "==" else FALSE
        if nonnegative(strict, ctx) or nonnegative(poly_add(back, {(): -1}), ctx):
            return FALSE if op == "==" else TRUE
    else:
        holds, fails = (strict, back) if op == "<" else (d, poly_add(back, {(): -1}))
        if only is not False and nonnegative(holds, ctx):
            return TRUE
        if only is not True and nonnegative(fails, ctx):
            return FALSE
    return Cmp(op, to_index(x), to_index(y))


def _of_value(c: ValueToCond, ctx: Context) -> Cond:
    """`c` as a condition on indices, as far as it compares what is made of them."""
    found = index_condition(c.value, lambda ix, t: _is_representable(ix, t, ctx))
    return c if found is None else simplify_cond(found, ctx)


def _is_representable(ix: Index, t: DType, ctx: Context) -> bool:
    """Whether `ix` is always a number of the type `t`. That indices have 64 bits is checked when they are computed."""
    if t.kind == "int" and t.bits == 64:
        return True
    low, high = interval(poly(ix, ctx), ctx)
    if low is None or high is None:
        return False
    if t.is_float:
        return -(1 << t.digits) <= low and high <= 1 << t.digits
    return t.holds(low) and t.holds(high)


def simplify_node(node: N, ask: Callable[[], Context]) -> N:
    """`node` with every index and condition in it simplified; arms of a Select know its condition.

    What is known is asked for where an index is no sum of variables.
    """

    def visit(n: Node) -> Node:
        if isinstance(n, ValueToIndex):
            return rebuild(n, visit)
        if isinstance(n, ValueToCond):
            return _of_value(rebuild(n, visit), ask())
        if isinstance(n, Index):
            return simplify(n, ask()) if (short := sum_of_variables(n)) is None else short
        if isinstance(n, Cond):
            return simplify_cond(n, ask())
        if isinstance(n, Select):
            c = simplify_cond(n.cond, ask())
            if c in (TRUE, FALSE):
                return simplify_node(n.a if c == TRUE else n.b, ask)
            return Select(
                c, simplify_node(n.a, lambda: ask().given(c)), simplify_node(n.b, lambda: ask().given(Not(c)))
            )
        if isinstance(n, Op) and n.fn.result == "bool":
            return _compared_indices(rebuild(n, visit), ask)
        return n if isinstance(n, Buffer) else rebuild(n, visit)

    return cast(N, visit(node))


def _compared_indices(v: Op, ask: Callable[[], Context]) -> Value:
    """The comparison `v` as one of indices, if both sides are made of these."""
    if any(isinstance(a, Load) for a in v.args):
        return v  # as most are
    c = index_condition(v, lambda ix, t: _is_representable(ix, t, ask()))
    return v if c is None else IndexToValue(simplify_cond(c, ask()), bool_)
