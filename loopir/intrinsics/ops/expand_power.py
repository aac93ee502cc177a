"""The expansion of x to the y: e^(y * log(x)), with a logarithm of more digits than the type has."""

from __future__ import annotations

import numpy as np

from loopir.intrinsics.ops import expand_float64
from loopir.intrinsics.ops.expansion import (
    X,
    down,
    exponent,
    polynomial,
    scaled_normal,
    seldom,
    shift,
    signed,
    significand,
)
from loopir.ir.dtypes import float32, float64
from loopir.ir.grammar import And, Cond, Not, Or, Select


def power(x: X, y: X) -> X:
    """x^y, with what C's `pow` gives of zeros, infinities, NaN and negative numbers, which are seldom and apart."""
    single = x.value.dtype == float32
    least, more = (2.0**-126, 24.0) if single else (2.0**-1022, 54.0)
    size = abs(x)
    e, m = size.op(exponent), size.op(significand)
    value = (_single if single else _double)(e, m, y)
    large = size * 2.0**more
    small = (_single if single else _double)(large.op(exponent) - more, large.op(significand), y)
    other = _special(x, y, size, small.where(size.below(least), value))
    usual = And((x.from_(least), x.below(np.inf), abs(y).below(np.inf)))
    return X(Select(usual, value.value, other.op(seldom).value))


def _special(x: X, y: X, size: X, value: X) -> X:
    """x^y of all numbers, where `value` is that of the magnitude of a finite x that is not 0 and a finite y."""
    zero, infinity = (X(x.lift(c)) for c in (0.0, np.inf))
    falls = y.below(0.0)
    value = infinity.where(falls, zero).where(size.equals(0.0), value)
    value = zero.where(falls, infinity).where(size.equals(np.inf), value)
    ends = infinity.where(size.above(1.0), zero), zero.where(size.above(1.0), infinity)
    ends = X(x.lift(1.0)).where(size.equals(1.0), ends[0].where(y.above(0.0), ends[1]))
    value = ends.where(abs(y).equals(np.inf), value)
    half = y * 0.5
    whole = y.equals(y.op(down))
    odd = And((whole, Not(half.equals(half.op(down)))))
    negative = X(x.lift(1.0)).op(signed, x).below(0.0)
    value = (-value).where(And((negative, odd)), value)
    nan = And((x.below(0.0), x.above(-np.inf), Not(whole)))
    value = X(x.lift(np.nan)).where(nan, value)
    value = (x + y).where(Or((_is_nan(x), _is_nan(y))), value)
    return X(x.lift(1.0)).where(Or((y.equals(0.0), x.equals(1.0))), value)


def _is_nan(x: X) -> Cond:
    return Not(x.equals(x))


_LOG_SINGLE = (0.3402192592711576, 0.4117062979310306, 0.577082852643623, 0.9617966791919116, 2.8853900817779268)
"""2 atanh(s) / (s ln(2)) in s^2, to 2^-36."""
_EXP2_SINGLE = (
    0.00015478237698571756, 0.0013400568464954278, 0.009617993820318232, 0.055503268711235, 0.24022651509119441,
    0.6931472068749731, 0.999999999919716,
)  # fmt: skip
"""2^r for |r| <= 1/2, to 2^-29."""


def _single(e: X, m: X, y: X) -> X:
    """(m * 2^e)^y of float32, in float64 but for what is exact in float32 and for the first digits of a quotient."""
    inverse, f = (1.0 / (m + 1.0)).cast(float64), (m - 1.0).cast(float64)
    s = f * (inverse * (2.0 - inverse * (f + 2.0)))  # a step of Newton's for 1 / (f + 2)
    logarithm = polynomial(s * s, _LOG_SINGLE) * s + e.cast(float64)
    t = (y.cast(float64) * logarithm).clamp(-200.0, 200.0)
    added = shift(float64, 1)
    shifted = t + added
    r = t - (shifted - added)
    return polynomial(r, _EXP2_SINGLE).op(scaled_normal, shifted).cast(float32)


_LOG_DOUBLE = (
    0.11988868484319185, 0.11674835963731549, 0.1333631655264179, 0.15384556893784396, 0.18181818869974045,
    0.2222222221753934, 0.285714285714451, 0.3999999999999998,
)  # fmt: skip
"""((2 atanh(s) / s - 2) / s^2 - 2/3) / s^2 in s^2, to 2^-72 of the logarithm."""
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def _double(e: X, m: X, y: X) -> X:
    """(m * 2^e)^y of float64, with numbers as the sum of two where one has too few digits (Dekker 1971).

    s = f / g = (m - 1) / (m + 1) is 2 atanh's argument; the remainders of its division and of the products are exact.
    """
    f, g = m - 1.0, m + 1.0
    g_low = m - (g - 1.0)
    inverse = 1.0 / g
    s = f * inverse
    s_low = ((-s).fma(g, f) - s * g_low) * inverse
    z = s * s
    z_low = s.fma(s, -z) + s * s_low * 2.0
    c = z * _TWO_THIRDS[0]
    c_low = z.fma(_TWO_THIRDS[0], -c) + z * _TWO_THIRDS[1] + z_low * _TWO_THIRDS[0]
    tail = z * z * polynomial(z, _LOG_DOUBLE)
    c, c_low = c + tail, (c - (c + tail)) + tail + c_low
    w = c + 2.0
    w_low = (2.0 - w) + c + c_low
    part = s * w
    part_low = s.fma(w, -part) + (s * w_low + s_low * w)
    first = e * expand_float64.LN2[0]
    logarithm = first + part
    log_low = (first - logarithm) + part + (e * expand_float64.LN2[1] + part_low)
    t = y * logarithm
    t_low = y.fma(logarithm, -t) + y * log_low
    t_low = t_low.where(abs(t).below(1000.0), 0.0)
    t = t.clamp(*expand_float64.EXP_RANGE)
    added = shift(float64, 2)
    shifted = t * 1.4426950408889634 + added
    n = shifted - added
    r = ((t - n * expand_float64.LN2[0]) - n * expand_float64.LN2[1]) + t_low
    return expand_float64.exp_reduced(r, shifted)
