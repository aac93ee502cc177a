"""How far from its exact value a program's result may be: a bound that is proved, from the depth of what computes it.

The program is interpreted over numbers that carry how they came about. `m` bounds the sum of the absolute values of the
terms of a number, `h` is the number of roundings on the longest way to it: the real depth of the reduction tree and of
the elementwise chain, whichever order the schedule gave them. Then

    |computed - exact| <= gamma_h * m,   gamma_h = h*u / (1 - h*u)

with u the unit roundoff: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, sec. 3.1, lemmas
3.1 (gamma_h) and 3.3 (the rules for products and quotients used below). As there, nothing underflows or overflows.
What is carried is itself computed in float64, so u is larger by two roundings of that.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeArgument=false, reportMissingImports=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from loopir.interp.interpret import interpret
from loopir.interp.value_domains import DOMAINS, Real
from loopir.ir.dtypes import Array, DType
from loopir.ir.grammar import Buffer, Cast, Func
from loopir.ir.ops import Intrinsic
from loopir.ir.traverse.walk import nodes


class NoBound(ValueError):
    """No bound is proved for a program: it uses a function, or a test of rounded numbers, that has no rule here."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """A number `v` whose computed value differs from it by at most gamma_h * m; m >= |v|."""

    v: float
    m: float
    h: int = 0

    @property
    def error(self) -> float:
        return gamma(self.h, _LARGEST) * self.m if self.h else 0.0


_LARGEST = 2.0**-8
"""The unit roundoff of bfloat16: tests on rounded numbers are decided as if all were that coarse."""


def gamma(h: int, u: float) -> float:
    """h*u / (1 - h*u); infinite where h*u >= 1."""
    return h * u / (1 - h * u) if h * u < 1 else math.inf


def roundoff(t: DType) -> float:
    """The unit roundoff of rounding to nearest: half the distance from 1 to the next number of `t`."""
    return float(ml_dtypes.finfo(t.numpy).eps) / 2


def error_bounds(func: Func, arrays: Mapping[str, Array] | Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
    """For each output of `func`, by how much each element may differ from its exact value; 0 for integers and bools.

    Raises NoBound where a function has no rule.
    """
    u = max(map(roundoff, _floats(func)), default=0.0) + 2.0**-52
    out: list[Array] = []
    for found in interpret(func, arrays, sizes, domain=Rounding.name).values():
        if found.dtype != object:
            out.append(np.zeros(found.shape))
            continue
        bounds = [gamma(x.h, u) * x.m * (1 + 2 * gamma(x.h, 2.0**-52)) if x.h else 0.0 for x in found.ravel()]
        out.append(np.array(bounds, np.float64).reshape(found.shape))
    return out


def _floats(func: Func) -> Iterator[DType]:
    for n in nodes(func):
        if isinstance(n, Buffer | Cast):
            t = n.dtype if isinstance(n, Buffer) else n.type
            if t.is_float:
                yield t


class Rounding:
    """The domain of the interpreter in which floats are `Rounded`; integers and bools are what they are."""

    name = "rounding"

    def __init__(self) -> None:
        self.real = Real()

    def const(self, value: float, t: DType) -> Any:
        x = self.real.const(value, t)
        return Rounded(float(x), abs(float(x))) if t.is_float else x

    def op(self, fn: Intrinsic, t: DType) -> Callable[..., Any]:
        if not t.is_float:
            return self.real.op(fn, t)
        if fn.name not in _RULES:
            raise NoBound(f"no bound is known for what {fn.name} of a rounded number is; compare over the ring")
        return _RULES[fn.name]

    def cast(self, source: DType, to: DType) -> Callable[[Any], Any]:
        if source.is_float and to.is_float:
            return lambda x: Rounded(x.v, x.m, x.h + 1)
        if to.is_float:
            return lambda x: Rounded(float(x), abs(float(x)), 1)
        make = self.real.cast(source, to)
        if not source.is_float:
            return make

        def decided(x: Rounded) -> Any:
            low, high = make(x.v - x.error), make(x.v + x.error)
            if low != high:
                raise NoBound("a rounded number becomes an integer, and which is not certain")
            return low

        return decided

    def load(self, array: Array, t: DType) -> list[Any]:
        if not t.is_float:
            return self.real.load(array, t)
        return [Rounded(float(x), abs(float(x))) for x in array.ravel()]

    def spelling(self, fn: Intrinsic, t: DType) -> str | None:
        return self.real.spelling(fn, t) if not t.is_float else None

    def dump(self, cells: list[Any], t: DType) -> Array:
        if not t.is_float:
            return self.real.dump(cells, t)
        out = np.empty(len(cells), object)
        out[:] = cells
        return out


DOMAINS.setdefault(Rounding.name, Rounding)


# ---------------------------------------------------------------- the rules


def _add_rounded(a: Rounded, b: Rounded) -> Rounded:
    return Rounded(a.v + b.v, a.m + b.m, max(a.h, b.h) + 1)


def _neg(a: Rounded) -> Rounded:
    return Rounded(-a.v, a.m, a.h)


def _mul(a: Rounded, b: Rounded) -> Rounded:
    return Rounded(a.v * b.v, a.m * b.m, a.h + b.h + 1)


def _div(a: Rounded, b: Rounded) -> Rounded:
    """Lemma 3.3: (1 + theta_j) / (1 + theta_k) = 1 + theta_(j + 2k), for a divisor with a relative error."""
    if b.v == 0 or (b.h and b.m > abs(b.v)):
        raise NoBound("a quotient's divisor may be any number near 0, as its terms cancel")
    return Rounded(a.v / b.v, a.m / abs(b.v), a.h + 2 * b.h + 1)


def _extreme(choose: Callable[[float, float], float]) -> Callable[[Rounded, Rounded], Rounded]:
    """Neither rounds: the error is at most the larger of the two errors, and an exact side has none."""

    def extreme(a: Rounded, b: Rounded) -> Rounded:
        v = choose(a.v, b.v)
        return Rounded(v, max([abs(v), *(x.m for x in (a, b) if x.h)]), max(a.h, b.h))

    return extreme


def _test(holds: Callable[[float, float], bool]) -> Callable[[Rounded, Rounded], Any]:
    def test(a: Rounded, b: Rounded) -> Any:
        if (a.h or b.h) and not abs(a.v - b.v) > a.error + b.error:
            raise NoBound("two rounded numbers are compared, and which is larger is not certain")
        return np.bool_(holds(a.v, b.v))

    return test


_RULES: dict[str, Callable[..., Any]] = {
    "add": _add_rounded,
    "sub": lambda a, b: _add_rounded(a, _neg(b)),
    "mul": _mul,
    "neg": _neg,
    "abs": lambda a: Rounded(abs(a.v), a.m, a.h),
    "div": _div,
    "fma": lambda a, b, c: _add_rounded(_mul(a, b), c),
    "maximum": _extreme(max),
    "minimum": _extreme(min),
    "lt": _test(operator.lt),
    "le": _test(operator.le),
    "eq": _test(operator.eq),
    "ne": _test(operator.ne),
}
