"""Corrections of online folds: update a partial fold when another running fold, which its terms read, has changed.

A term g(c, r) depends on the elements c of the fold, and on the running value r of another fold. The fold so far is
that of g(c, r); once r has become r', that of g(c, r') is needed. There is a correction if some map h of folds has

    h(g(c, r), r, r') = g(c, r')  for all c,   h(a . b) = h(a) . h(b),   h(identity) = identity.

For a sum h is a scale, for a maximum or minimum a shift or a positive scale; of a fold of several values each has its
own. So the question is whether g(c, r') / g(c, r), or the difference of the two, is free of c: the test of RedFuser
(ASPLOS 2026, "fixed points") with the unknown eliminated. The form of the term answers it in most cases, sympy
proposes a correction in others (`correction_symbolic`); either is checked at random points, and the second rule by the
monoid's own `combine`. A scale has to be proved positive and defined whatever r is on the way (`signs`): what divides
by a fold that may be 0 for a while has no correction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from loopir.arith.signs import EXPONENTIALS, is_defined, is_positive
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Buffer, Cast, Const, Load, Monoid, Node, Op, Select, Value, ValueToCond
from loopir.ir.ops import REGISTRY
from loopir.ir.printer import text
from loopir.ir.traverse.walk import nodes, rebuild

Repair = Literal["same", "scale", "shift"]
Make = Callable[[Sequence[Value], Sequence[Value], DType], Value]
"""The scale or shift, of a dtype, from what the atoms were and what they are."""
POINTS = 6


class NoCorrection(Exception):
    """Why there is none, with numbers."""


@dataclass(frozen=True)
class Correction:
    """What becomes of each value of a fold, and the atoms: the largest parts of the terms that are made of r alone."""

    kinds: tuple[Repair, ...]
    make: tuple[Make | None, ...]
    atoms: tuple[Value, ...]


def correction(
    monoid: Monoid,
    values: Sequence[Value],
    moving: Collection[str],
    nonnegative: Collection[str],
    propose: Propose,
    fixed: Collection[Load] = (),
) -> Correction | None:
    """How a fold by `monoid` of terms `values` is corrected as the buffers called `moving` go on; None if no term reads
    them.

    The `nonnegative` ones are known never to be below 0, and the loads `fixed` give one value all along the fold.
    `propose` is asked where the form of the terms does not tell (`correction_symbolic.propose`). Raises NoCorrection.
    """
    known = frozenset(moving), frozenset(nonnegative), frozenset(fixed)
    return _correction(monoid, tuple(values), *known, propose)


Propose = Callable[[Monoid, Sequence[Value], frozenset[str]], Correction]


@lru_cache(maxsize=512)
def _correction(
    monoid: Monoid,
    values: tuple[Value, ...],
    moving: frozenset[str],
    nonnegative: frozenset[str],
    fixed: frozenset[Load],
    propose: Propose,
) -> Correction | None:
    if not any(reads(v, moving) for v in values):
        return None
    found = by_form(monoid, values, moving, fixed) or propose(monoid, values, moving)
    require_homomorphism(monoid, found.kinds)
    for kind, make, v in zip(found.kinds, found.make, values, strict=True):
        if make is None:
            continue
        if kind == "scale" and not v.dtype.is_float:
            raise NoCorrection(f"{text(v)} changes by a scale, and there is none of integers")
        if not _agrees(v, kind, make, found.atoms, moving):
            raise NoCorrection(f"{text(v)} changes otherwise than its form tells")
        before = [_before(a, moving) for a in found.atoms]
        by = make(before, found.atoms, v.dtype)

        def known(x: Load) -> bool:
            return x.buffer.name.removesuffix(_BEFORE) in nonnegative

        if not is_defined(by, known) or (kind == "scale" and not is_positive(by, known)):
            raise NoCorrection(
                f"{kind} by {text(make(found.atoms, found.atoms, v.dtype))}, of values before and after, is not proved "
                f"to be {'positive' if kind == 'scale' else 'defined'} at every step"
            )
    return found


def reads(v: Value, moving: Collection[str]) -> bool:
    """Whether `v` loads from a buffer that goes on."""
    return any(isinstance(n, Load) and n.buffer.name in moving for n in nodes(v))


def reads_only(v: Value, moving: Collection[str], fixed: Collection[Load] = ()) -> bool:
    """Whether `v` is made of such loads, of those that are `fixed`, and of numbers."""
    loads = [n for n in nodes(v) if isinstance(n, Load)]
    return bool(loads) and all(n.buffer.name in moving or n in fixed for n in loads)


_BEFORE = "'"


def _before(v: Value, moving: Collection[str]) -> Value:
    """`v` with what it loads called otherwise, as it was before."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Load) and n.buffer.name in moving:
            b = n.buffer
            return Load(Buffer(b.name + _BEFORE, b.shape, b.dtype, b.scope), n.at)
        return n

    return visit(v)  # pyright: ignore[reportReturnType]


# ---------------------------------------------------------------- by the form of the terms


@dataclass(frozen=True)
class _Part:
    """A factor of a term (or the whole of it, in a fold by an extreme) that reads r: `power` is 1 or -1, `exponential`
    the function applied, if any, and `summed` what is added up in it, by sign."""

    power: int
    exponential: str
    summed: tuple[tuple[int, Value], ...]


def by_form(
    monoid: Monoid, values: Sequence[Value], moving: Collection[str], fixed: Collection[Load] = ()
) -> Correction | None:
    """The correction of a product whose factors read r, and what is `fixed` along the fold, alone, or not r at all, or
    are exponentials of sums of such; of a sum of such in a fold by an extreme. None for other terms."""
    if len(values) != 1 or monoid.name not in ("sum", "max", "min"):
        return None
    summing = monoid.name == "sum"
    parts: list[_Part] = []
    for power, v in _factors(values[0]) if summing else [(1, values[0])]:
        if not reads(v, moving):
            continue
        if summing and isinstance(v, Op) and v.fn.name in EXPONENTIALS:
            of, name = v.args[0], EXACT[v.fn.name]
        elif summing and reads_only(v, moving, fixed):
            parts.append(_Part(power, "", ((1, v),)))
            continue
        else:
            of, name = v, ""
        summed = tuple((sign, x) for sign, x in _summands(of) if reads(x, moving))
        if (summing and not name) or not all(reads_only(x, moving, fixed) for _, x in summed):
            return None
        parts.append(_Part(power, name, summed))
    atoms = tuple(dict.fromkeys(x for p in parts for _, x in p.summed))

    def make(before: Sequence[Value], now: Sequence[Value], t: DType) -> Value:
        old, new = dict(zip(atoms, before, strict=True)), dict(zip(atoms, now, strict=True))
        if not summing:
            return _difference(parts[0], old, new, t)
        top: list[Value] = []
        below: list[Value] = []
        for p in parts:
            if p.exponential:
                top.append(Op(REGISTRY[p.exponential], (_difference(p, old, new, t),)))
            else:
                x = p.summed[0][1]
                one, other = (top, below) if p.power > 0 else (below, top)
                one.append(new[x])
                other.append(old[x])
        scale = _product_of(top, t)
        return Op(REGISTRY["div"], (scale, _product_of(below, t))) if below else scale

    return Correction(("scale" if summing else "shift",), (make,), atoms)


EXACT = {name: name.removesuffix("_16") for name in EXPONENTIALS}
"""In a correction, which is one number a row, an exponential is the exact one."""


def _difference(p: _Part, old: dict[Value, Value], new: dict[Value, Value], t: DType) -> Value:
    signed = [(s * p.power * way, side[x]) for s, x in p.summed for way, side in ((1, new), (-1, old))]
    signed.sort(key=lambda y: -y[0])
    scales = {x.args[1] if isinstance(x, Op) and x.fn.name == "mul" else None for _, x in signed}
    scale = next(iter(scales))
    if len(scales) > 1 or not isinstance(scale, Const):
        return _total(signed, t)
    # multiplied last, what is nearly the same is subtracted exactly, and what is the same is 0, however large
    apart = _total([(sign, x.args[0]) for sign, x in signed if isinstance(x, Op)], t)
    return Op(REGISTRY["mul"], (apart, _as(scale, t)))


def _factors(v: Value, power: int = 1) -> list[tuple[int, Value]]:
    match v:
        case Op(fn, (a, b)) if fn.name in ("mul", "div"):
            return _factors(a, power) + _factors(b, power if fn.name == "mul" else -power)
        case Op(fn, (a,)) if fn.name == "neg":
            return _factors(a, power)
        case Cast(a, t) if t.is_float and a.dtype.is_float:
            return _factors(a, power)  # rounding is left aside, as it is where sums are reordered
        case _:
            return [(power, v)]


def _summands(v: Value, sign: int = 1) -> list[tuple[int, Value]]:
    match v:
        case Op(fn, (a, b)) if fn.name in ("add", "sub"):
            return _summands(a, sign) + _summands(b, sign if fn.name == "add" else -sign)
        case Op(fn, (a,)) if fn.name == "neg":
            return _summands(a, -sign)
        case Op(fn, (a, Const() as c)) if fn.name in ("mul", "div") and len(_summands(a)) > 1:
            return [(s, Op(fn, (x, c))) for s, x in _summands(a, sign)]
        case Op(fn, (Const() as c, a)) if fn.name == "mul" and len(_summands(a)) > 1:
            return [(s, Op(fn, (c, x))) for s, x in _summands(a, sign)]
        case Cast(a, t) if t.is_float and a.dtype.is_float:
            return _summands(a, sign)
        case _:
            return [(sign, v)]


def _total(signed: Sequence[tuple[int, Value]], t: DType) -> Value:
    (sign, first), *rest = [(sign, _as(x, t)) for sign, x in signed]
    out = first if sign > 0 else Op(REGISTRY["neg"], (first,))
    for sign, x in rest:
        out = Op(REGISTRY["add" if sign > 0 else "sub"], (out, x))
    return out


def _product_of(xs: Sequence[Value], t: DType) -> Value:
    out: Value | None = None
    for x in xs:
        out = _as(x, t) if out is None else Op(REGISTRY["mul"], (out, _as(x, t)))
    return Const(1.0, t) if out is None else out


def _as(x: Value, t: DType) -> Value:
    return x if x.dtype == t else Cast(x, t)


# ---------------------------------------------------------------- by numbers


def _agrees(v: Value, kind: Repair, make: Make, atoms: Sequence[Value], moving: Collection[str]) -> bool:
    """Whether the correction of term `v` is right at random points, in float64."""
    rng = random.Random(4)
    for _ in range(POINTS):
        some: dict[object, float] = {}

        def of(n: Any, time: int, some: dict[object, float] = some) -> float:
            moved = isinstance(n, Load) and n.buffer.name in moving
            return some.setdefault((n, time) if moved else n, rng.uniform(0.5, 2.0))

        def at(v: Value, time: int) -> float:
            return float(number(v, lambda n: of(n, time)))

        old, new = at(v, 0), at(v, 1)
        before, now = ([Const(at(a, time), v.dtype) for a in atoms] for time in (0, 1))
        by = float(number(make(before, now, v.dtype), lambda n: of(n, 0)))
        wanted = old * by if kind == "scale" else old + by
        if new != wanted and not abs(new - wanted) <= 1e-9 * max(abs(new), abs(wanted)):
            return False
    return True


def require_homomorphism(monoid: Monoid, kinds: Sequence[Repair]) -> None:
    """Refuse unless correcting two folds and combining them is combining them and correcting, as numbers tell."""
    rng = random.Random(2)
    for _ in range(POINTS):
        a, b = ([rng.uniform(-3, 3) for _ in kinds] for _ in range(2))
        by = [rng.uniform(0.25, 4) if k == "scale" else rng.uniform(-3, 3) for k in kinds]
        one = _corrected(_combined(monoid, a, b), kinds, by)
        other = _combined(monoid, _corrected(a, kinds, by), _corrected(b, kinds, by))
        if any(abs(x - y) > 1e-9 * max(1.0, abs(x), abs(y)) for x, y in zip(one, other, strict=True)):
            raise NoCorrection(f"a fold by {monoid.name} does not keep a {' and a '.join(kinds)} of its terms")


def _corrected(x: Sequence[float], kinds: Sequence[Repair], by: Sequence[float]) -> list[float]:
    return [v * y if k == "scale" else v + y if k == "shift" else v for v, k, y in zip(x, kinds, by, strict=True)]


def _combined(monoid: Monoid, a: Sequence[float], b: Sequence[float]) -> list[float]:
    env = {p.name: x for ps, xs in ((monoid.left, a), (monoid.right, b)) for p, x in zip(ps, xs, strict=True)}
    return [float(number(v, lambda n: env[n.name])) for v in monoid.combine]


def number(v: Value, of: Callable[[Any], Any]) -> Any:
    """The value of `v` in float64; `of` gives that of a Param or a Load."""
    match v:
        case Const(x, t):
            return np.float64(x) if t.is_float else x
        case Op(fn, args):
            given = [np.bool_(x) if a.dtype.kind == "bool" else np.float64(x) for a in args for x in (number(a, of),)]
            try:
                with np.errstate(all="ignore"):
                    return fn.meaning(*given)
            except TypeError:  # bits of integers
                raise NoCorrection(f"how {fn} of integers changes is not known") from None
        case Cast(x, _):
            return number(x, of)
        case Select(ValueToCond(c), a, b):
            return number(a, of) if number(c, of) else number(b, of)
        case Select(_, a, b):  # a test of places: the side that is less of a number
            return min((number(x, of) for x in (a, b)), key=lambda x: (x == x, abs(x) != float("inf")))
        case _:
            return of(v)


def differing(value: Value, kind: Repair, moving: Collection[str]) -> str:
    """A sentence with two elements that would have to be corrected differently."""
    rng = random.Random(1)
    loads = [*dict.fromkeys(n for n in nodes(value) if isinstance(n, Load))]
    goes = {n: (round(rng.uniform(0.5, 1), 2), round(rng.uniform(1.5, 2), 2)) for n in loads if n.buffer.name in moving}
    shown: list[tuple[float, str]] = []
    for change, where in _changes(value, kind, goes, [n for n in loads if n not in goes], rng):
        if change == change and abs(change) < 1e6 and all(abs(change - c) > 1e-3 for c, _ in shown):
            shown.append((change, f"{'times' if kind == 'scale' else 'plus'} {change:.3g} where {where}"))
    moved = " and ".join(f"{text(v)} goes from {a:g} to {b:g}" for v, (a, b) in goes.items())
    if len(shown) < 2:
        return f"how {text(value)} changes as {moved} is not known"
    return f"{text(value)} changes by no one amount as {moved}: {shown[0][1]}, and {shown[1][1]}"


def _changes(
    value: Value, kind: Repair, goes: dict[Load, tuple[float, float]], others: Sequence[Load], rng: random.Random
) -> Iterator[tuple[float, str]]:
    """What `value` changes by at random points, and where."""
    for _ in range(40):
        at = {v: round(rng.uniform(-3, 3), 2) for v in others}
        old, new = (
            float(number(value, lambda n, k=k, at=at: goes[n][k] if n in goes else at.get(n, 1.0))) for k in (0, 1)
        )
        change = new - old if kind == "shift" else new / old if old else float("nan")
        yield change, ", ".join(f"{text(v)} = {x:g}" for v, x in at.items())
