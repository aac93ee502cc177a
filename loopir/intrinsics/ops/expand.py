"""Expansions of elementary functions into simpler operations, so that they run on vectors of any width.

Each takes IR values and gives one, or None where the type has no expansion and the target's library is called. Narrow
floats are computed in float32. Ranges are reduced in the manner of Cody and Waite ("Software Manual for the Elementary
Functions", 1980); the polynomials are minimax fits, those of float32 made with mpmath's `chebyfit` at 200 bits, the
others by `benchmarks/minimax.py`. `benchmarks/ulp.py` measures the errors; the tests hold samples to the bounds that
the records state.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loopir.intrinsics.ops import arith, expand_float64
from loopir.intrinsics.ops.expand_power import power
from loopir.intrinsics.ops.expansion import (
    X,
    as_signed,
    exponent,
    library,
    parity,
    polynomial,
    root,
    scaled,
    scaled_normal,
    seldom,
    shift,
    signed,
    significand,
)
from loopir.ir.dtypes import float32
from loopir.ir.grammar import And, Const, Op, Select, Value

_EXP = (0.0013926926614021907, 0.008363773874405574, 0.04166655011030512, 0.16666573381900845, 0.5)
_LN2 = (0.693145751953125, 1.4286068203094173e-06)


def _exp_reduced(r: X, n: X, *, normal: bool = False) -> X:
    """e^r * 2^m for |r| <= ln(2)/2, and what is added to m in n."""
    return polynomial(r, (*_EXP, 1.0, 1.0)).op(scaled_normal if normal else scaled, n)


def _exp(v: X, *, normal: bool = False) -> X:
    """e^v for |v| < 105; where it is `normal`, for |v| < 87."""
    if v.value.dtype != float32:
        return expand_float64.exp_double(v, normal=normal)
    added = shift(float32, 1 if normal else 2)
    shifted = v * 1.4426950408889634 + added
    n = shifted - added
    return _exp_reduced(v - n * _LN2[0] - n * _LN2[1], shifted, normal=normal)


def _expm1(v: X, low: X) -> X:
    """e^(v + low) - 1 for |v + low| < 87, accurate near 0 too, where `low` is much smaller than v: with
    v + low = r + m ln(2) it is 2^m (e^r - 1) + (2^m - 1)."""
    single, total = v.value.dtype == float32, v + low
    added = shift(v.value.dtype, 1)
    shifted = total * 1.4426950408889634 + added
    n, parts = shifted - added, _LN2 if single else expand_float64.LN2
    high, low = v - n * parts[0], low - n * parts[1]
    r = high + low
    less = polynomial(r, _EXP if single else expand_float64.EXP) * (r * r) + low + high
    power = X(v.lift(1.0)).op(scaled_normal, shifted)
    return less * power + (power - 1.0)


def _vanishing(v: X, low: float, high: float, fn: Callable[[X], X]) -> X:
    """`fn` of `v`, which is 0 below `low`, and beyond `high` what it is of that.

    It is not computed there: a processor takes a hundred cycles and more for a product that underflows.
    """
    gone = v.below(low)
    some = X(Select(gone, v.lift(0.0), v.value))
    some = X(some.lift(high)).where(some.above(high), some)
    return X(Select(gone, v.lift(0.0), fn(some).value))


def exp(x: Value) -> Value:
    low, high = (-104.0, 89.0) if x.dtype == float32 else expand_float64.EXP_RANGE
    return _vanishing(X(x), low, high, _exp).value


def exp2(x: Value) -> Value:
    if x.dtype != float32:
        return _vanishing(X(x), *expand_float64.EXP2_RANGE, expand_float64.exp2_double).value
    return _vanishing(X(x), -151.0, 128.5, _exp2).value


def _exp2(v: X) -> X:
    added = shift(float32, 2)
    shifted = v + added
    return _exp_reduced((v - (shifted - added)) * 0.6931471805599453, shifted)


_TANH = (
    0.002269501684162354, -0.008323187058278775, 0.021762502907359264, -0.0539584616274522, 0.13333300146188914,
    -0.33333333149374506,
)  # fmt: skip


def tanh(x: Value) -> Value:
    v = X(x)
    size = abs(v)
    square = size * size
    bound, coefficients = (0.63, _TANH) if x.dtype == float32 else (0.55, expand_float64.TANH)
    small = polynomial(square, coefficients) * square * size + size
    growth = _exp((size * 2.0).clamp(0.0, 40.0), normal=True)
    large = 1.0 - 2.0 / (growth + 1.0)
    return small.where(size.below(bound), large).op(signed, v).value


_SIN = (
    -2.549378130822788e-08, 2.7626722385321045e-06, -0.00019843090558424592, 0.008333350531756878, -0.1666666716337204,
)  # fmt: skip
"""(sin(x) / x - 1) / x^2 in x^2 to a quarter turn and a little beyond, to 2^-31 of sin(x)."""
_PI = (3.1415929794311523, -3.2584136988589307e-07, 1.0780605906948477e-14)
"""The first of 22 bits: what it is times a whole number of 18 bits, less a float near that, is exact."""
_FAR = 2.0**17


def _sin_or_cos(x: Value, name: str) -> Value:
    """sin(x), or cos(x) = sin(x + pi/2): r is x less the nearest multiple of pi, and for cos of pi/2 beside one.

    That multiple says the sign. Beyond 2^17 a library is called, in a function of its own.
    """
    t = x.dtype
    coefficients, pi = (_SIN, _PI) if t == float32 else (expand_float64.SIN, expand_float64.PI)
    v = X(x)
    size = abs(v)
    turns = size * 0.3183098861837907
    added = shift(t)
    shifted = turns + added if name == "sin" else turns + 0.5 + added
    n = shifted - added if name == "sin" else shifted - added - 0.5
    r = size
    for part in pi:
        r = n.fma(-part, r)
    square = r * r
    value = (polynomial(square, coefficients) * square).fma(r, r).op(parity, shifted)
    value = value.op(as_signed, v) if name == "sin" else value
    return Select(size.below(_FAR), value.value, Op(library[name], (x,)))


def sin(x: Value) -> Value:
    return _sin_or_cos(x, "sin")


def cos(x: Value) -> Value:
    return _sin_or_cos(x, "cos")


_LOG = (
    0.06971611471451178, -0.11479733846637635, 0.1168541992348674, -0.12425687331451106, 0.1424905764569748,
    -0.16667802319501254, 0.200007157488921, -0.24999996957950882, 0.33333331180030046,
)  # fmt: skip
"""(log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], to 2.9e-8."""


def _log_normal(v: X, more: float = 0.0) -> X:
    """log(v * 2^more) of a positive normal number."""
    e = v.op(exponent) + more if more else v.op(exponent)
    f = v.op(significand) - 1.0
    if v.value.dtype != float32:
        return expand_float64.log_double(e, f)
    square = f * f
    small = polynomial(f, _LOG) * (square * f) + e * _LN2[1] - square * 0.5
    return small + f + e * _LN2[0]


def log(x: Value) -> Value:
    """What is no positive normal number is seldom, and apart."""
    v = X(x)
    least, more = (2.0**-126, 24.0) if x.dtype == float32 else (2.0**-1022, 54.0)
    subnormal = _log_normal(v * 2.0**more, -more)
    other = subnormal.where(v.below(least), v)  # infinity and NaN are their own logarithms
    other = X(other.lift(np.nan)).where(v.below(0.0), other)
    other = X(other.lift(-np.inf)).where(v.equals(0.0), other)
    normal = And((v.from_(least), v.below(np.inf)))
    return Select(normal, _log_normal(v).value, other.op(seldom).value)


_ERF = (
    -1.1941327125175558e-06, 2.136312791759949e-05, -0.00016751670100170562, 0.0007407654261443131,
    -0.0017994559235805967, 0.0002531379315734044, 0.019117661811658138, -0.102771269656255, -0.6366198353324164,
    -0.12837916660585164,
)  # fmt: skip
"""log(1 - erf(x)) / x + 1 on [0, 3.95], to 2^-31 of erf(x)."""


def erf(x: Value) -> Value:
    """1 less erfc, whose logarithm is x times a polynomial."""
    v = X(x)
    most, coefficients = (3.95, _ERF) if x.dtype == float32 else (6.0, expand_float64.ERF)
    size = abs(v)
    size = X(size.lift(most)).where(size.above(most), size)
    return (-_expm1(-size, polynomial(size, coefficients) * size)).op(signed, v).value


def sigmoid(x: Value) -> Value:
    """e^-|x| never overflows; below 0 it is the numerator."""
    v = X(x)
    falls = _exp((-abs(v)).clamp(-104.0 if x.dtype == float32 else expand_float64.EXP_RANGE[0], 0.0))
    return (falls.where(v.below(0.0), 1.0) / (falls + 1.0)).value


def pow(x: Value, y: Value) -> Value:
    return power(X(x), X(y)).value


def rsqrt(x: Value) -> Value:
    return Op(arith.div, (Const(1.0, x.dtype), Op(root, (x,))))
