"""Index simplification: on the hot path of every rewrite, so by a canonical form and bounds rather than by a solver.

A `Context` holds what is known where an index stands: the loops around it, the guards that hold, what the Func
assumes of its sizes. Every rule is checked against enumeration and isl in tests/analysis; a rule that cannot be proved
in the context is not applied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TypeVar, cast

from loopir.analysis.affine import (
    Monomial,
    Poly,
    atom,
    coefficient,
    const_of,
    constant,
    plus,
    scaled,
    times,
    to_index,
)
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Add,
    And,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    Index,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Opaque,
    Or,
    Select,
    Truth,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.walk import nodes, rebuild

N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class Context:
    """What is known: `0 <= loop <= top` for each loop, sizes' lower bounds and divisors, polynomials that are >= 0.

    `stable` are the buffers that nothing writes. What others held when a guard or a loop was entered says nothing of
    the statements inside: one before them may have written there.
    """

    tops: tuple[tuple[Var, Poly], ...] = ()
    lows: tuple[tuple[str, int], ...] = ()
    multiples: tuple[tuple[str, int], ...] = ()
    facts: tuple[Poly, ...] = ()
    stable: frozenset[str] = frozenset()

    @staticmethod
    def of(func: Func) -> Context:
        """What `func` assumes of its sizes."""
        return Context(stable=frozenset(a.buffer.name for a in func.args if a.access == "in")).given(*func.assumes)

    def loop(self, var: str, extent: Index) -> Context:
        """Inside a loop: 0 <= var < extent, so the extent is at least 1."""
        if not self.lasts(extent):
            return self
        size = poly(extent, self)
        top = plus(size, constant(-1))
        if const_of(size) is not None:
            return replace(self, tops=((Var(var), top), *self.tops))
        lows = {**dict(self.lows), **self._factors(size)}
        return replace(self, tops=((Var(var), top), *self.tops), facts=(*self.facts, top), lows=tuple(lows.items()))

    def _factors(self, p: Poly) -> dict[str, int]:
        """Where p > 0, the variables that divide it are at least 1, as none is negative; their lower bounds."""
        common = set[Index].intersection(*(set(m) for m in p)) if p else set[Index]()
        lows = dict(self.lows)
        return {a.name: max(1, lows.get(a.name, 0)) for a in common if isinstance(a, Var)}

    def inside(self, *conds: Cond) -> Context:
        """Inside a guard of `conds`."""
        return self.given(*(t for c in conds for t in conjuncts(c) if self.lasts(t)))

    def lasts(self, n: Node) -> bool:
        """Whether `n` stays as it is while the program runs: what it reads is not written."""
        return all(x.buffer.name in self.stable for x in nodes(n) if isinstance(x, Load))

    def given(self, *conds: Cond) -> Context:
        """At a moment when `conds` hold. What they say beyond linear facts is left unused."""
        lows, multiples, facts = dict(self.lows), dict(self.multiples), list(self.facts)
        for c in (t for cond in conds for t in conjuncts(cond)):
            match c:
                case Cmp("==", Mod(Var(name), Int(n)), Int(0)) | Cmp("==", Int(0), Mod(Var(name), Int(n))):
                    multiples[name] = n * multiples.get(name, 1) // gcd(n, multiples.get(name, 1))
                case Cmp("<=", Int(n), Var(name)):
                    lows[name] = max(n, lows.get(name, 0))
                case Cmp("<", Int(n), Var(name)):
                    lows[name] = max(n + 1, lows.get(name, 0))
                case Cmp(op, a, b):
                    d = plus(poly(b, self), poly(a, self), -1)
                    if op == "<" and nonnegative(poly(a, self), self):
                        lows |= self._factors(poly(b, self))
                    if op in ("<", "<="):
                        facts.append(plus(d, constant(-1 if op == "<" else 0)))
                    elif op == "==":
                        facts += (d, scaled(d, -1))
                case Not(Cmp("<", a, b)):
                    facts.append(plus(poly(a, self), poly(b, self), -1))
                case Not(Cmp("<=", a, b)):
                    facts.append(plus(plus(poly(a, self), poly(b, self), -1), constant(-1)))
                case _:
                    pass
        return replace(self, lows=tuple(lows.items()), multiples=tuple(multiples.items()), facts=tuple(facts))

    def divides(self, n: int, a: Index) -> bool:
        """Whether the size `a` is known to be a multiple of `n`."""
        return isinstance(a, Var) and any(a.name == name and m % n == 0 for name, m in self.multiples)


EMPTY = Context()


# ---------------------------------------------------------------- the canonical form


def poly(ix: Index, ctx: Context) -> Poly:
    """`ix` as a polynomial, its divisions and minima simplified in `ctx`."""
    match ix:
        case Int(value):
            return constant(value)
        case Var():
            return atom(ix)
        case Add(a, b):
            return fold(plus(poly(a, ctx), poly(b, ctx)), ctx)
        case Mul(a, b):
            return fold(times(poly(a, ctx), poly(b, ctx)), ctx)
        case FloorDiv(a, b):
            return divide(poly(a, ctx), poly(b, ctx), ctx)
        case Mod(a, b):
            return modulo(poly(a, ctx), poly(b, ctx), ctx)
        case Min(a, b) | Max(a, b):
            return extreme(poly(a, ctx), poly(b, ctx), isinstance(ix, Min), ctx)
        case _:
            return atom(ix)


def fold(p: Poly, ctx: Context) -> Poly:
    """c * (y // c) + y % c = y, also scaled; k * (n // c) = (k / c) * n where c divides k and n."""
    for m, k in p.items():
        for a in m:
            if not isinstance(a, FloorDiv):
                continue
            rest = list(m)
            rest.remove(a)
            if isinstance(a.b, Int) and len(m) == 1 and (twin := Mod(a.a, a.b)) and p.get((twin,), 0) * a.b.value == k:
                whole = scaled(poly(a.a, EMPTY), k // a.b.value)
                return fold(plus({x: c for x, c in p.items() if x not in (m, (twin,))}, whole), ctx)
            if a.b in rest and p.get((twin := Mod(a.a, a.b), *_without(rest, a.b)), 0) == k:
                key = (twin, *_without(rest, a.b))
                whole = times(poly(a.a, EMPTY), {tuple(_without(rest, a.b)): k})
                return fold(plus({x: c for x, c in p.items() if x not in (m, key)}, whole), ctx)
            if isinstance(a.b, Int) and k % a.b.value == 0 and ctx.divides(a.b.value, a.a):
                whole = times(atom(a.a), {tuple(rest): k // a.b.value})
                return fold(plus({x: c for x, c in p.items() if x != m}, whole), ctx)
    return p


def _without(items: list[Index], a: Index) -> list[Index]:
    out = list(items)
    out.remove(a)
    return out


def _split(p: Poly, b: Poly, ctx: Context) -> tuple[Poly, Poly]:
    """(q, r) with p = q * b + r, as much as can be seen in q; `b` is one monomial."""
    ((mono, c),) = b.items()
    q: Poly = {}
    r: Poly = {}
    for m, k in p.items():
        rest = list(m)
        inside = all(x in rest and not rest.remove(x) for x in mono)  # type: ignore[func-returns-value]
        if inside and k % c == 0:
            q[tuple(rest)] = k // c
        elif not mono and len(m) == 1 and k % c and c % abs(k) == 0 and ctx.divides(c // abs(k), m[0]):
            q = plus(q, atom(FloorDiv(m[0], Int(c // abs(k)))), 1 if k > 0 else -1)
        elif not m and not mono:
            q, r = plus(q, constant(k // c)), plus(r, constant(k % c))
        else:
            r[m] = k
    return q, r


def divide(p: Poly, b: Poly, ctx: Context) -> Poly:
    """`p // b`."""
    if len(b) != 1:
        return atom(FloorDiv(to_index(p), to_index(b)))
    q, r = _split(p, b, ctx)
    if not r or (nonnegative(r, ctx) and nonnegative(plus(plus(b, r, -1), constant(-1)), ctx)):
        return fold(q, ctx)
    c = const_of(b)
    if c is None:
        return fold(plus(q, atom(FloorDiv(to_index(r), to_index(b)))), ctx)
    if (nested := _nested(r, c, ctx)) is not None:
        return fold(plus(q, nested), ctx)
    return fold(plus(q, atom(FloorDiv(to_index(r), Int(c)))), ctx)


def _nested(r: Poly, c: int, ctx: Context) -> Poly | None:
    """(g*y + s) // c = y // (c/g) where g divides c and 0 <= s < g; (x // d) // c = x // (d*c);
    (x % d) // c = (x // c) % (d/c) where c divides d."""
    for k in {gcd(k, c) for m, k in r.items() if m}:
        if k == 1:
            continue
        big = {m: v // k for m, v in r.items() if v % k == 0}
        small = {m: v for m, v in r.items() if v % k}
        if () in r and r[()] % k:
            big = plus(big, constant(r[()] // k))
            small = plus({m: v for m, v in small.items() if m}, constant(r[()] % k))
        if nonnegative(small, ctx) and nonnegative(plus(constant(k - 1), small, -1), ctx):
            return divide(big, constant(c // k), ctx)
    if len(r) == 1:
        ((m, k),) = r.items()
        if k == 1 and len(m) == 1 and isinstance(m[0], FloorDiv) and isinstance(m[0].b, Int):
            return divide(poly(m[0].a, ctx), constant(m[0].b.value * c), ctx)
        if k == 1 and len(m) == 1 and isinstance(m[0], Mod) and isinstance(m[0].b, Int) and m[0].b.value % c == 0:
            inner = divide(poly(m[0].a, ctx), constant(c), ctx)
            return modulo(inner, constant(m[0].b.value // c), ctx)
    return None


def modulo(p: Poly, b: Poly, ctx: Context) -> Poly:
    """`p % b`."""
    if len(b) != 1:
        return atom(Mod(to_index(p), to_index(b)))
    r = _split(p, b, ctx)[1]
    c = const_of(b)
    if c is not None:
        r = {m: k % c for m, k in r.items() if k % c}
        r = _split(_strip_mods(r, c, ctx), b, ctx)[1]
    if not r or (nonnegative(r, ctx) and nonnegative(plus(plus(b, r, -1), constant(-1)), ctx)):
        return r
    return atom(Mod(to_index(r), to_index(b)))


def _strip_mods(r: Poly, c: int, ctx: Context) -> Poly:
    """(k * (x % d)) % c = (k * x) % c where c divides k * d."""
    for m, k in r.items():
        if len(m) == 1 and isinstance(m[0], Mod) and isinstance(m[0].b, Int) and k * m[0].b.value % c == 0:
            rest = {x: v for x, v in r.items() if x != m}
            whole = plus(rest, scaled(poly(m[0].a, ctx), k))
            return _strip_mods({x: v % c for x, v in whole.items() if v % c}, c, ctx)
    return r


def extreme(a: Poly, b: Poly, smaller: bool, ctx: Context) -> Poly:
    """`min(a, b)` or `max(a, b)`; the one side where it is known."""
    if nonnegative(plus(b, a, -1), ctx):
        return a if smaller else b
    if nonnegative(plus(a, b, -1), ctx):
        return b if smaller else a
    return atom((Min if smaller else Max)(to_index(a), to_index(b)))


# ---------------------------------------------------------------- bounds


def nonnegative(p: Poly, ctx: Context) -> bool:
    """Whether `p >= 0` is proved in `ctx`; False means that it is not known."""
    return _nonnegative(p, ctx) or any(_nonnegative(plus(p, f, -1), ctx) for f in ctx.facts)


def _nonnegative(p: Poly, ctx: Context) -> bool:
    """Atoms are eliminated one by one, divisions and inner loops first, each at the end that makes `p` least."""
    for _ in range(12):
        if all(c >= 0 for c in p.values()) and all(_known_nonnegative(a, ctx) for m in p for a in m):
            return True
        pick = _next(p, ctx)
        if pick is None:
            break
        p = pick
    return _at_least(p, ctx)


def _next(p: Poly, ctx: Context) -> Poly | None:
    """`p` with one atom replaced by the bound that makes `p` least."""
    for a in {x: None for m in p for x in m if not isinstance(x, Var)}:
        split = coefficient(p, a)
        k = const_of(split[0]) if split is not None else None
        if split is None or k is None:
            continue
        bound = _bound(a, k > 0, k, ctx)
        if bound is not None:
            return plus(split[1], bound)
        if isinstance(a, FloorDiv) and isinstance(a.b, Int):  # p >= 0 exactly if c * p + c - 1 >= 0
            c = a.b.value // gcd(a.b.value, k)
            return plus(plus(scaled(split[1], c), constant(c - 1)), _bound(a, k > 0, k * c, ctx) or {})
    for v, top in ctx.tops:
        split = coefficient(p, v)
        if split is None or not split[0]:
            continue
        if _at_least(split[0], ctx):
            return split[1]
        if _at_least(scaled(split[0], -1), ctx):
            return plus(split[1], times(split[0], top))
    return None


def _bound(a: Index, low: bool, k: int, ctx: Context) -> Poly | None:
    """The least value of `k * a` for a division, remainder or minimum `a`, as a polynomial."""
    match a:
        case FloorDiv(x, Int(c)) if k % c == 0:
            return scaled(plus(poly(x, EMPTY), constant(1 - c if low else 0)), k // c)
        case FloorDiv(x, Int(c)):
            lo, hi = interval(poly(x, EMPTY), ctx)
            end = lo if low else hi
            return None if end is None else constant(k * (end // c))
        case Mod(_, b):
            return {} if low else scaled(plus(poly(b, EMPTY), constant(-1)), k)
        case Min(x, y) if not low:
            return scaled(poly(x if not isinstance(x, Int) else y, EMPTY), k)
        case Max(x, y) if low:
            return scaled(poly(x if not isinstance(x, Int) else y, EMPTY), k)
        case _:
            return None


def interval(p: Poly, ctx: Context) -> tuple[int | None, int | None]:
    """Constant bounds of `p`: (least, greatest), None where there is none known."""
    lo: int | None = 0
    hi: int | None = 0
    for m, c in p.items():
        a, b = _monomial_interval(m, ctx)
        if c < 0:
            a, b = b, a
        lo = None if lo is None or a is None else lo + c * a
        hi = None if hi is None or b is None else hi + c * b
    return lo, hi


def _monomial_interval(m: Monomial, ctx: Context) -> tuple[int | None, int | None]:
    lo, hi = 1, 1
    for a in m:
        x, y = _atom_interval(a, ctx)
        if x is None or x < 0 or lo is None:
            return (x, y) if len(m) == 1 else (None, None)
        lo, hi = lo * x, None if y is None or hi is None else hi * y
    return lo, hi


def _atom_interval(a: Index, ctx: Context) -> tuple[int | None, int | None]:
    match a:
        case Var(name):
            for v, top in ctx.tops:
                if v == a:
                    return 0, interval(top, ctx)[1]
            return dict(ctx.lows).get(name, 0), None
        case FloorDiv(x, Int(c)):
            lo, hi = interval(poly(x, EMPTY), ctx)
            return None if lo is None else lo // c, None if hi is None else hi // c
        case Mod(_, Int(c)):
            return 0, c - 1
        case Mod():
            return 0, None
        case Min(x, y) | Max(x, y):
            (a0, a1), (b0, b1) = interval(poly(x, EMPTY), ctx), interval(poly(y, EMPTY), ctx)
            return _min_max(a0, b0, isinstance(a, Min), low=True), _min_max(a1, b1, isinstance(a, Min), low=False)
        case _:
            return None, None


def _min_max(a: int | None, b: int | None, smaller: bool, *, low: bool) -> int | None:
    if a is None or b is None:
        # min has an upper bound, and max a lower one, if either side has
        return (b if a is None else a) if smaller != low else None
    return min(a, b) if smaller else max(a, b)


def _known_nonnegative(a: Index, ctx: Context) -> bool:
    lo = _atom_interval(a, ctx)[0]
    return lo is not None and lo >= 0


def _at_least(p: Poly, ctx: Context) -> bool:
    lo = interval(p, ctx)[0]
    return lo is not None and lo >= 0


# ---------------------------------------------------------------- the public calls


def simplify(ix: Index, ctx: Context = EMPTY) -> Index:
    """`ix` in its shortest readable form, equal to it wherever `ctx` holds."""
    if isinstance(ix, Int | Var):
        return ix
    return to_index(poly(_simplify_inside(ix, ctx), ctx))


def _simplify_inside(ix: Index, ctx: Context) -> Index:
    """Memory reads inside an index have indices of their own."""
    if isinstance(ix, Opaque):
        return simplify_node(ix, ctx)
    return rebuild(ix, lambda n: _simplify_inside(n, ctx) if isinstance(n, Index) else n)


def simplify_cond(c: Cond, ctx: Context = EMPTY) -> Cond:
    """`c`, or TRUE or FALSE where that is proved in `ctx`."""
    match c:
        case And(terms):
            done: list[Cond] = []
            for t in terms:
                s = simplify_cond(t, ctx.given(*done))
                done.append(s)
            return conj(*done)
        case Or(terms):
            kept = [s for s in (simplify_cond(t, ctx) for t in terms) if s != FALSE]
            if TRUE in kept:
                return TRUE
            return kept[0] if len(kept) == 1 else Or(tuple(kept))
        case Not(term):
            s = simplify_cond(term, ctx)
            return FALSE if s == TRUE else TRUE if s == FALSE else s.term if isinstance(s, Not) else Not(s)
        case Cmp(op, a, b):
            return _compare(op, a, b, ctx)
        case Truth():
            return simplify_node(c, ctx)
        case _:
            return c


def _compare(op: str, a: Index, b: Index, ctx: Context) -> Cond:
    x, y = poly(_simplify_inside(a, ctx), ctx), poly(_simplify_inside(b, ctx), ctx)
    d = plus(y, x, -1)
    strict = plus(d, constant(-1))  # b - a - 1 >= 0 is a < b
    back = scaled(d, -1)  # a - b >= 0
    if op in ("==", "!="):
        if not d:
            return TRUE if op == "==" else FALSE
        if nonnegative(strict, ctx) or nonnegative(plus(back, constant(-1)), ctx):
            return FALSE if op == "==" else TRUE
    else:
        holds, fails = (strict, back) if op == "<" else (d, plus(back, constant(-1)))
        if nonnegative(holds, ctx):
            return TRUE
        if nonnegative(fails, ctx):
            return FALSE
    return Cmp(op, to_index(x), to_index(y))  # type: ignore[arg-type]


def simplify_node(node: N, ctx: Context) -> N:
    """`node` with every index and condition in it simplified; arms of a Select know its condition."""

    def visit(n: Node) -> Node:
        if isinstance(n, Opaque | Truth):
            return rebuild(n, visit)
        if isinstance(n, Index):
            return simplify(n, ctx)
        if isinstance(n, Cond):
            return simplify_cond(n, ctx)
        if isinstance(n, Select):
            c = simplify_cond(n.cond, ctx)
            if c in (TRUE, FALSE):
                return simplify_node(n.a if c == TRUE else n.b, ctx)
            return Select(c, simplify_node(n.a, ctx.given(c)), simplify_node(n.b, ctx.given(Not(c))))
        return n if isinstance(n, Buffer) else rebuild(n, visit)

    return cast(N, visit(node))
