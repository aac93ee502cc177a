"""Trip counts of statements as formulas in the sizes, exact for guards that leave an interval of a loop.

A guard that is linear in a loop, with coefficient 1, leaves an interval of its iterations; the other side of the
condition gets the rest. Any other guard counts as true, with the more expensive side of its condition. So no count is
below the true one.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopir.arith.poly import coefficient, const_of, poly_scale, to_index
from loopir.arith.simplify import Context, poly, simplify, simplify_cond
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Add,
    Body,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    If,
    Index,
    Int,
    Loop,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Reduce,
    Store,
    Var,
    conjuncts,
    maximum,
    minimum,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import bodies, free_vars, nodes

Counts = Mapping[str, Any]
"""Formulas by what they count."""
Where = tuple[tuple[int, tuple[Cond, ...]], ...]
"""Where a statement runs: the instances under each of these guards are counted so many times, mostly 1 or -1."""
EVERYWHERE: Where = ((1, ()),)


class _Unknown(Exception):
    """The number of instances under a guard has no formula."""


def sum_over_instances(func: Func, each: Callable[[Store | Reduce], Counts]) -> dict[str, Any]:
    """The sum of `each` over all executed instances of a statement."""

    def of(body: Body, loops: tuple[Loop, ...], where: Where) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for s in body:
            if isinstance(s, Store | Reduce):
                times = sum(sign * instances(known, loops, conds) for sign, conds in where)
                _add_counts(out, {k: times * v for k, v in each(s).items()})
            elif isinstance(s, If):
                _add_counts(out, either(s, loops, where))
            else:
                inner = (*loops, s) if isinstance(s, Loop) else loops
                for b in bodies(s):
                    _add_counts(out, of(b, inner, where))
        return out

    def either(s: If, loops: tuple[Loop, ...], where: Where) -> dict[str, Any]:
        under = tuple((sign, (*conds, s.cond)) for sign, conds in where)
        try:
            out = of(s.then, loops, under)
            return _add_counts(out, of(s.orelse, loops, (*where, *((-sign, conds) for sign, conds in under))))
        except _Unknown:
            return _greater(of(s.then, loops, where), of(s.orelse, loops, where))

    known = Context.of(func)
    return of(func.body, (), EVERYWHERE)


def _add_counts(out: dict[str, Any], more: Counts) -> dict[str, Any]:
    for k, v in more.items():
        out[k] = out.get(k, 0) + v
    return out


def _greater(a: Counts, b: Counts) -> dict[str, Any]:
    import sympy

    return {k: sympy.Max(a[k], b[k]) if k in a and k in b else a.get(k, b.get(k)) for k in {**a, **b}}


def instances(known: Context, loops: Sequence[Loop], conds: Sequence[Cond]) -> Any:
    """How often what stands in `loops`, under `conds` that hold, runs; _Unknown where that is no formula."""
    import sympy

    terms = [t for c in conds for t in _comparisons(c)]
    order = [x.var for x in loops]
    spoken = [max((order.index(v) for v in free_vars(t) if v in order), default=-1) for t in terms]
    if not all(known.lasts(t) and simplify_cond(t, known) == TRUE for t, n in zip(terms, spoken, strict=True) if n < 0):
        raise _Unknown
    ranges: list[tuple[Index, Index]] = []
    for n, loop in enumerate(loops):
        cuts = [t for t, at in zip(terms, spoken, strict=True) if at == n]
        ranges.append(_range(loop, cuts, known, set(order[:n])))
        known = known.loop(loop.var, loop.extent).inside(*cuts)
    total = sympy.Integer(1)
    for loop, (first, size) in zip(reversed(loops), reversed(ranges), strict=True):
        var = symbol(loop.var)
        if total.has(var):  # a polynomial in where it starts and how far it goes, whichever of several these are
            start, count = symbol("[start]"), symbol("[count]")
            total = _summed(total, var, start, count)
            total = total.subs({start: to_sympy(first), count: to_sympy(size)})
        else:
            total = total * to_sympy(size)
    return sympy.expand(total)


def _summed(total: Any, var: Any, start: Any, count: Any) -> Any:
    """The sum of `total` over `count` values of `var` from `start` on: of what is a polynomial by Faulhaber's formula,
    the rest as a sum that stays one. sympy's own way there is to look for what cancels, for seconds."""
    import sympy

    out, end = sympy.Integer(0), start + count
    for term in sympy.Add.make_args(sympy.expand(total)):
        factor, rest = term.as_independent(var)
        if not rest.is_polynomial(var):
            out += factor * sympy.Sum(rest, (var, start, end - 1))
            continue
        for (d,), c in sympy.Poly(rest, var).terms():
            out += factor * c * (sympy.bernoulli(d + 1, end) - sympy.bernoulli(d + 1, start)) / (d + 1)
    return out


def _comparisons(c: Cond) -> Sequence[Cond]:
    """What has to hold for `c` to hold, comparisons where they can be."""
    match c:
        case Not(Cmp("<", a, b)):
            return (Cmp("<=", b, a),)
        case Not(Cmp("<=", a, b)):
            return (Cmp("<", b, a),)
        case _:
            return conjuncts(c)


def _range(loop: Loop, cuts: Sequence[Cond], known: Context, outer: set[str]) -> tuple[Index, Index]:
    """The first iteration under `cuts`, and how many there are."""
    if not cuts:
        return Int(0), loop.extent
    low: Index = Int(0)
    high = loop.extent
    for c in cuts:
        if simplify_cond(c, known.loop(loop.var, loop.extent)) == FALSE:
            return Int(0), Int(0)
        least, most = _ends(c, loop.var, known)
        low = low if least is None else maximum(low, least)
        high = high if most is None else minimum(high, most)
    low, size = simplify(low, known), simplify(maximum(high - low, Int(0)), known)
    if any(isinstance(x, Min | Max) and free_vars(x) & outer for part in (low, size) for x in nodes(part)):
        raise _Unknown
    return low, size


def _ends(c: Cond, var: str, known: Context) -> tuple[Index | None, Index | None]:
    """The least `var` for which `c` holds, and the one after the greatest, where it has such an end."""
    if not isinstance(c, Cmp) or c.op not in ("<", "<=", "==") or not known.lasts(c):
        raise _Unknown
    split = coefficient(poly(c.b - c.a - (1 if c.op == "<" else 0), known), Var(var))
    if split is None or const_of(split[0]) not in (1, -1) or var in free_vars(rest := to_index(split[1])):
        raise _Unknown
    sign = const_of(split[0])
    zero = to_index(poly_scale(split[1], -1)) if sign == 1 else rest  # where c.b - c.a is 0
    if c.op == "==":
        return zero, zero + 1
    return (zero, None) if sign == 1 else (None, zero + 1)


# ---------------------------------------------------------------- as sympy has it


def symbol(name: str) -> Any:
    """The sympy symbol of a size or loop: an integer of at least 0."""
    import sympy

    return sympy.Symbol(name, integer=True, nonnegative=True)


def to_sympy(ix: Index) -> Any:
    """An index as a sympy expression; what comes from memory is a symbol."""
    import sympy

    match ix:
        case Int(value):
            return sympy.Integer(value)
        case Var(name):
            return symbol(name)
        case Add(a, b):
            return to_sympy(a) + to_sympy(b)
        case Mul(a, b):
            return to_sympy(a) * to_sympy(b)
        case FloorDiv(a, b):
            return sympy.floor(to_sympy(a) / to_sympy(b))
        case Mod(a, b):
            return sympy.Mod(to_sympy(a), to_sympy(b))
        case Min(a, b):
            return sympy.Min(to_sympy(a), to_sympy(b))
        case Max(a, b):
            return sympy.Max(to_sympy(a), to_sympy(b))
        case _:
            return symbol(f"[{text(ix)}]")
