"""Find corrections with sympy where the form of a term is not recognized; random points with 40 digits check them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from loopir.analysis.dataflow.correction import (
    POINTS,
    Correction,
    Make,
    NoCorrection,
    Repair,
    differing,
    reads,
    reads_only,
)
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Cast, Const, Load, Monoid, Op, Select, Value
from loopir.ir.ops import REGISTRY
from loopir.ir.printer import text
from loopir.ir.traverse.walk import nodes

DIGITS = 40


def propose(monoid: Monoid, values: Sequence[Value], moving: frozenset[str]) -> Correction:
    """The correction of a fold by `monoid` of terms `values`, as sympy finds it. Raises NoCorrection."""
    import sympy as sp

    terms = _Terms(moving)
    ways = [terms.ways(v) if reads(v, moving) else None for v in values]
    before = list(terms.atoms.values())
    now = [sp.Symbol(f"{r.name}_", real=True) for r in before]
    later = dict(zip(before, now, strict=True))
    found: list[tuple[Repair, Any]] = []
    for v, some, neutral in zip(values, ways, monoid.identity, strict=True):
        found.append(("same", None) if some is None else _found(monoid, v, some, neutral, later, terms))
    make = tuple(None if e is None else _maker(e, before, now, terms) for _, e in found)
    return Correction(tuple(kind for kind, _ in found), make, tuple(terms.atoms))


@dataclass
class _Terms:
    """Values as sympy expressions, whose symbols are parts of r alone (`atoms`) and parts that do not read r."""

    moving: frozenset[str]
    atoms: dict[Value, Any] = field(default_factory=dict[Value, Any])
    others: dict[Value, Any] = field(default_factory=dict[Value, Any])
    constants: dict[Value, Any] = field(default_factory=dict[Value, Any])

    def constant(self, v: Const) -> Any:
        """A number as itself if it is a short one, else as a symbol: what sympy would make of its digits is no use."""
        import sympy as sp

        if v.value in (0, 1, -1, 2) or abs(v.value) == float("inf"):
            return _exactly(v.value)
        if v.value < 0:
            return -self.constant(Const(-v.value, v.type))
        return self.constants.setdefault(v, sp.Symbol(f"k{len(self.constants)}", positive=True))

    def ways(self, v: Value) -> list[Any]:
        """What `v` may be, by the tests in it that do not read r."""
        import sympy as sp

        if not reads(v, self.moving):
            if isinstance(v, Const) and v.value == v.value:
                return [self.constant(v)]
            return [self.others.setdefault(v, sp.Symbol(f"c{len(self.others)}", real=True))]
        unknown = isinstance(v, Load | Select) or (isinstance(v, Op) and v.fn.name not in _PLAIN)
        if unknown and reads_only(v, self.moving):
            return [self.atoms.setdefault(v, sp.Symbol(f"r{len(self.atoms)}", real=True))]
        match v:
            case Cast(of, t) if t.is_float and of.dtype.is_float:
                return self.ways(of)  # rounding is left aside, as it is where sums are reordered
            case Select(cond, a, b) if not any(
                isinstance(n, Load) and n.buffer.name in self.moving for n in nodes(cond)
            ):
                return [*self.ways(a), *self.ways(b)]
            case Op(fn, args) if fn.name in _PLAIN:
                return [_PLAIN[fn.name](*xs) for xs in product(*map(self.ways, args))]
            case Op(fn, args):
                return [sp.Function(fn.name)(*xs) for xs in product(*map(self.ways, args))]
            case _:
                raise NoCorrection(f"{text(v)} is no sum, product or exponential of what changes")


def _sympy(name: str) -> Any:
    import sympy as sp

    return getattr(sp, name)


def _exp2(a: Any) -> Any:
    return _sympy("exp")(a * _sympy("Symbol")("ln2", positive=True))


_PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "fma": lambda a, b, c: a * b + c,
    "exp": lambda a: _sympy("exp")(a),
    "exp_16": lambda a: _sympy("exp")(a),
    "exp2": _exp2,
    "exp2_16": _exp2,
    "sqrt": lambda a: _sympy("sqrt")(a),
    "rsqrt": lambda a: 1 / _sympy("sqrt")(a),
}


def _found(
    monoid: Monoid, value: Value, ways: list[Any], neutral: Const, later: dict[Any, Any], terms: _Terms
) -> tuple[Repair, Any]:
    """The kind of correction of one value of a fold, and the scale or shift."""
    import sympy as sp

    some = [e for e in ways if e.free_symbols & {*later}]
    fixed = [e for e in ways if not e.free_symbols & {*later} and e != _exactly(neutral.value)]
    kinds: tuple[Repair, ...] = ("scale",) if monoid.name == "sum" else ("shift", "scale")
    for kind in kinds if some and not fixed else ():  # what does not change, and is not neutral, wants no correction
        changes = [_change(e, kind, later) for e in some]
        free = [c for c in changes if not c.free_symbols & {*terms.others.values()}]
        alike = len(free) == len(changes) and all(sp.simplify(c - free[0]) == 0 for c in free)
        if alike and all(_agrees_numerically(e, free[0], kind, later) for e in some):
            return kind, free[0]
    raise NoCorrection(differing(value, "scale" if monoid.name == "sum" else "shift", terms.moving))


def _exactly(x: float) -> Any:
    import sympy as sp

    return sp.nsimplify(x, rational=True) if abs(x) != float("inf") else sp.oo if x > 0 else -sp.oo


def _change(e: Any, kind: Repair, later: dict[Any, Any]) -> Any:
    import sympy as sp

    new = e.subs(later, simultaneous=True)
    if kind == "shift":
        return sp.simplify(sp.expand(new - e))
    ratio: Any = sp.factor(new) / sp.factor(e)  # pyright: ignore[reportOperatorIssue]
    return sp.powsimp(sp.simplify(sp.powsimp(sp.expand_power_exp(ratio), force=True)))


def _numbers(symbols: Collection[Any], rng: random.Random) -> dict[Any, Any]:
    import sympy as sp

    return {s: sp.Float(rng.uniform(0.5, 3.0) * (1 if s.is_positive else rng.choice((-1, 1))), DIGITS) for s in symbols}


def _agrees_numerically(e: Any, change: Any, kind: Repair, later: dict[Any, Any]) -> bool:
    """Whether the change is right at random points: what sympy proposes is believed for that alone."""
    rng = random.Random(0)
    for _ in range(POINTS):
        at = _numbers(sorted(e.free_symbols | change.free_symbols | {*later.values()}, key=str), rng)
        old, new, by = (x.subs(at).evalf(DIGITS) for x in (e, e.subs(later, simultaneous=True), change))
        gap = new - (old * by if kind == "scale" else old + by)
        if not (new.is_finite and gap.is_finite and abs(gap) <= abs(new) * 10 ** (6 - DIGITS)):
            return False
    return True


# ---------------------------------------------------------------- back to values


def _maker(e: Any, before: list[Any], now: list[Any], terms: _Terms) -> Make:
    """`e` as a function of what the atoms were and are."""
    places = {s: (0, k) for k, s in enumerate(before)} | {s: (1, k) for k, s in enumerate(now)}
    constants = {s: v for v, s in terms.constants.items()}

    def make(old: Sequence[Value], new: Sequence[Value], t: DType) -> Value:
        return _value(e, lambda s: constants[s] if s in constants else (old, new)[places[s][0]][places[s][1]], t)

    return make


def _value(e: Any, of: Callable[[Any], Value], t: DType) -> Value:
    """sympy's `e` as a Value of dtype `t`; `of` gives that of a symbol."""
    import sympy as sp

    def op(name: str, *args: Value) -> Value:
        return Op(REGISTRY[name], args)

    def visit(x: Any) -> Value:
        if x.is_Symbol:
            v = of(x)
            return v if v.dtype == t else Cast(v, t)
        if x.is_number and x.is_real:
            return Const(float(x), t)
        if x.is_Add:
            return added(x)
        if x.is_Mul:
            return multiplied(x)
        if isinstance(x, sp.exp):
            ln2 = sp.Symbol("ln2", positive=True)
            inner = sp.expand(x.args[0])
            if ln2 in inner.free_symbols:
                return op("exp2", visit(sp.simplify(inner / ln2)))
            return op("exp", visit(sp.factor_terms(inner)))
        if x.is_Pow and x.exp == sp.Rational(1, 2):
            return op("sqrt", visit(x.base))
        if x.is_Pow and x.exp.is_Integer and x.exp > 0:
            return product_of([x.base] * int(x.exp))
        if x.is_Pow and x.exp.is_negative:
            return op("div", Const(1.0, t), visit(1 / x))
        raise NoCorrection(f"{x} is made of what a schedule does not write")

    def added(x: Any) -> Value:
        plus = [a for a in x.args if not a.could_extract_minus_sign()]
        minus = [-a for a in x.args if a.could_extract_minus_sign()]
        out = visit(plus[0]) if plus else op("neg", visit(minus.pop(0)))
        for a in plus[1:]:
            out = op("add", out, visit(a))
        for a in minus:
            out = op("sub", out, visit(a))
        return out

    def multiplied(x: Any) -> Value:
        top, below = sp.fraction(x)
        if below != 1:
            return op("div", visit(top), visit(below))
        if x.could_extract_minus_sign() and x.args[0] == -1:
            return op("neg", visit(-x))
        return product_of(x.args)

    def product_of(xs: Sequence[Any]) -> Value:
        out = visit(xs[0])
        for a in xs[1:]:
            out = op("mul", out, visit(a))
        return out

    return visit(e)
