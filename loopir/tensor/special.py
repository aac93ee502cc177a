"""Special functions, as SciPy and torch.special have them, made of those that the language has.

Each is computed in the type of its argument, of narrow floats in float32, by formulas that hold for both precisions.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any

from loopir.errors import ExprError
from loopir.ir.dtypes import float64
from loopir.tensor.core import as_expr, cast, common_type
from loopir.tensor.elementwise import copysign, xlogy
from loopir.tensor.functions import (
    abs as absolute,
    cos,
    erf,
    erfc,
    exp,
    expm1,
    floor,
    lgamma,
    log,
    log1p,
    logical_and,
    logical_or,
    maximum,
    minimum,
    sigmoid,
    sin,
    sqrt,
    tgamma,
    where,
    widened_input,
)
from loopir.tensor.neural_layers import log_sigmoid
from loopir.tensor.tensor import Tensor, power, real_type

__all__ = [
    "beta", "betaln", "binom", "boxcox", "boxcox1p", "digamma", "entr", "erfcx", "erfinv", "exp10", "expit", "exprel",
    "factorial", "gamma", "gammaln", "huber", "i0", "i0e", "i1", "i1e", "inv_boxcox", "inv_boxcox1p",
    "kl_div", "lgamma", "log_expit", "log_ndtr", "multigammaln", "ndtr", "ndtri", "pseudo_huber", "psi", "rel_entr",
    "xlog1py",
]  # fmt: skip

gammaln, gamma, expit = lgamma, tgamma, sigmoid
log_expit = log_sigmoid


def _several(*xs: Any) -> tuple[list[Tensor], Any]:
    """The arguments in the type that a function of them all is computed in, and that of the result."""
    t = real_type(common_type(xs))
    return [widened_input(cast(as_expr(Tensor, x, t), t))[0] for x in xs], t


def exp10(x: Any) -> Tensor:
    """10 to the x."""
    e, t = widened_input(x)
    return cast(power(10.0, e), t)


def exprel(x: Any) -> Tensor:
    """(exp(x) - 1) / x, 1 at 0."""
    e, t = widened_input(x)
    plain = logical_and(e != 0.0, absolute(e) != math.inf)
    some = where(plain, e, 1.0)
    return cast(where(plain, expm1(some) / some, where(e == 0.0, 1.0, where(e < 0.0, 0.0, e))), t)


def xlog1py(x: Any, y: Any) -> Tensor:
    """x * log(1 + y), 0 where x is 0 and y is not NaN."""
    (e, other), t = _several(x, y)
    none = logical_and(e == 0.0, other == other)
    return cast(where(none, 0.0, e * log1p(where(none, 0.0, other))), t)


def entr(x: Any) -> Tensor:
    """-x * log(x), 0 at 0, and -infinity below."""
    e, t = widened_input(x)
    return cast(where(e < 0.0, -math.inf, -xlogy(e, e)), t)


def rel_entr(x: Any, y: Any) -> Tensor:
    """x * log(x / y); 0 where x is 0 and y is not below; infinity where one of them is 0 or below otherwise."""
    (e, other), t = _several(x, y)
    both = logical_and(e > 0.0, other > 0.0)
    made = where(both, e, 1.0) * log(where(both, e, 1.0) / where(both, other, 1.0))
    edge = where(logical_and(e == 0.0, other >= 0.0), 0.0, math.inf)
    return cast(where(logical_or(e != e, other != other), e + other, where(both, made, edge)), t)


def kl_div(x: Any, y: Any) -> Tensor:
    """x * log(x / y) - x + y, as SciPy's; torch's is y * (log(y) - x) of these."""
    (e, other), t = _several(x, y)
    made = rel_entr(e, other)
    return cast(where(made == math.inf, made, made - e + other), t)


def boxcox(x: Any, lmbda: Any) -> Tensor:
    """(x**lmbda - 1) / lmbda, log(x) where lmbda is 0."""
    (e, by), t = _several(x, lmbda)
    none = by == 0.0
    return cast(where(none, log(e), expm1(by * log(e)) / where(none, 1.0, by)), t)


def boxcox1p(x: Any, lmbda: Any) -> Tensor:
    """The Box-Cox transform of 1 + x, exact where x is small."""
    (e, by), t = _several(x, lmbda)
    none = by == 0.0
    return cast(where(none, log1p(e), expm1(by * log1p(e)) / where(none, 1.0, by)), t)


def inv_boxcox(y: Any, lmbda: Any) -> Tensor:
    """The x of which `y` is the Box-Cox transform."""
    (e, by), t = _several(y, lmbda)
    none = by == 0.0
    return cast(where(none, exp(e), exp(log1p(by * e) / where(none, 1.0, by))), t)


def inv_boxcox1p(y: Any, lmbda: Any) -> Tensor:
    """The x of which `y` is the Box-Cox transform of 1 + x."""
    (e, by), t = _several(y, lmbda)
    none = by == 0.0
    return cast(where(none, expm1(e), expm1(log1p(by * e) / where(none, 1.0, by))), t)


def huber(delta: Any, r: Any) -> Tensor:
    """r * r / 2 where |r| <= delta, else delta * (|r| - delta / 2); infinity where delta is negative."""
    (d, e), t = _several(delta, r)
    size = absolute(e)
    return cast(where(d < 0.0, math.inf, where(size <= d, 0.5 * e * e, d * (size - 0.5 * d))), t)


def pseudo_huber(delta: Any, r: Any) -> Tensor:
    """delta**2 * (sqrt(1 + (r / delta)**2) - 1), 0 where one of them is 0; infinity where delta is negative."""
    (d, e), t = _several(delta, r)
    none = logical_or(d == 0.0, e == 0.0)
    ratio = where(none, 0.0, e) / where(none, 1.0, d)
    square = ratio * ratio  # sqrt(1 + s) - 1 is s / (1 + sqrt(1 + s)), in which no digits are lost
    return cast(where(d < 0.0, math.inf, d * d * (square / (1.0 + sqrt(1.0 + square)))), t)


# ---------------------------------------------------------------- the gamma function


def factorial(n: Any) -> Tensor:
    """gamma(n + 1) in floats: 1 * 2 * ... * n of whole numbers, 0 of negative ones."""
    e, t = widened_input(n)
    return cast(where(e < 0.0, 0.0, tgamma(maximum(e, 0.0) + 1.0)), t)


def _sign_of_gamma(e: Tensor) -> Tensor:
    below = floor(e)
    return where(logical_and(e < 0.0, below - 2.0 * floor(0.5 * below) == 1.0), -1.0, 1.0)


def betaln(a: Any, b: Any) -> Tensor:
    """log(abs(beta(a, b)))."""
    (x, y), t = _several(a, b)
    return cast(lgamma(x) + lgamma(y) - lgamma(x + y), t)


def beta(a: Any, b: Any) -> Tensor:
    """gamma(a) * gamma(b) / gamma(a + b)."""
    (x, y), t = _several(a, b)
    sign = _sign_of_gamma(x) * _sign_of_gamma(y) * _sign_of_gamma(x + y)
    return cast(sign * exp(betaln(x, y)), t)


def binom(n: Any, k: Any) -> Tensor:
    """How many choices of k of n things there are, gamma(n + 1) / (gamma(k + 1) * gamma(n - k + 1)), for k in 0..n."""
    (x, y), t = _several(n, k)
    rest = x - y
    made = exp(lgamma(x + 1.0) - lgamma(y + 1.0) - lgamma(rest + 1.0))
    whole = logical_and(x == floor(x), y == floor(y))
    near = floor(made + 0.5)
    inside = logical_and(y >= 0.0, rest >= 0.0)
    return cast(where(inside, where(logical_and(whole, made < 1e6), near, made), where(x != x, x, 0.0)), t)


def multigammaln(a: Any, d: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `d`."""
    if not isinstance(d, int) or d < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"multigammaln of dimension {d!r}; it is a number from 1 on")
    e, t = widened_input(a)
    made = lgamma(e) + d * (d - 1) / 4 * math.log(math.pi)
    for k in range(1, d):
        made = made + lgamma(e - k / 2)
    return cast(made, t)


_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 5 / 660, -691 / 32760, 1 / 12)
"""B(2k) / (2k), the terms of the asymptotic expansion of digamma (NIST DLMF 5.11.2)."""
_SHIFT = 10
"""Steps by which arguments are made large enough for that expansion."""


def digamma(x: Any) -> Tensor:
    """The derivative of log(gamma(x)): NaN at -1, -2, ..., and infinite at 0. In float64, rounded at the end.

    Upwards by psi(x) = psi(x + 1) - 1 / x, from below 1/2 by psi(1 - x) - psi(x) = pi / tan(pi x), then asymptotically.
    """
    given = as_expr(Tensor, x, None)
    e, t = cast(given, float64), real_type(given.dtype)
    mirrored = e < 0.5
    size = where(mirrored, 1.0 - e, e)
    made, at = as_expr(Tensor, 0.0, float64), size
    for _ in range(_SHIFT):
        made = made - where(at < _SHIFT, 1.0 / at, 0.0)
        at = where(at < _SHIFT, at + 1.0, at)
    far = 1.0 / (at * at)
    series = as_expr(Tensor, 0.0, float64)
    for term in reversed(_BERNOULLI):
        series = (series + term) * far
    made = made + log(at) - 0.5 / at - series
    part = e - floor(e + 0.5)  # from -1/2 to 1/2, and 0 of a pole
    turn = math.pi * cos(math.pi * part) / sin(math.pi * where(part == 0.0, 0.25, part))
    found = where(mirrored, made - turn, made)
    pole = logical_and(mirrored, part == 0.0)
    found = where(pole, where(e == 0.0, copysign(math.inf, -e), math.nan), found)
    return cast(where(e == math.inf, e, found), t)


psi = digamma


# ---------------------------------------------------------------- the normal distribution


_ERFCX = (
    -0.6513268598908547, 0.6419697923564902, 0.019476473204185836, -0.009561514786808632, -0.0009465953444820369,
    0.00036683949785276145, 4.252332480690777e-05, -2.0278578112534242e-05, -1.6242900046470256e-06,
    1.3036558355805232e-06, 1.5626441722066142e-08, -8.523809591492654e-08, 6.529054439098852e-09,
    5.0593434955514685e-09, -9.913641564930386e-10, -2.2736512229315695e-10, 9.646791102011655e-11,
    2.394038082903079e-12, -6.886027525619135e-12, 8.944879256705278e-13, 3.130921365446622e-13,
    -1.1270819569035919e-13, 3.810308294386971e-16, 7.106023845200304e-15, -1.5221835936888534e-15,
    -9.690304997086527e-17, 1.2097368886683343e-16,
)  # fmt: skip
"""Coefficients of Chebyshev polynomials of 2 s - 1 for log(erfcx(2 / s - 2) / s), interpolated at their 27 nodes with
50 digits: to 4e-17 for s from 0 to 1."""


def erfcx(x: Any) -> Tensor:
    """exp(x * x) * erfc(x), where erfc itself would be 0 too."""
    e, t = widened_input(x)
    size = absolute(e)
    s = 2.0 / (2.0 + size)
    point = 2.0 * s - 1.0
    after, last = as_expr(Tensor, 0.0, e.dtype), as_expr(Tensor, 0.0, e.dtype)
    for c in reversed(_ERFCX[1:]):  # Clenshaw's recurrence
        after, last = 2.0 * point * after - last + c, after
    scaled = s * exp(point * after - last + _ERFCX[0])
    below = 2.0 * exp(minimum(e * e, 1e4)) - scaled
    return cast(where(e != e, e, where(e < 0.0, below, where(e == math.inf, 0.0, scaled))), t)


def ndtr(x: Any) -> Tensor:
    """The share of the standard normal distribution that is below x."""
    e, t = widened_input(x)
    return cast(0.5 * erfc(e * -math.sqrt(0.5)), t)


def log_ndtr(x: Any) -> Tensor:
    """log(ndtr(x)), where that itself would be 0 or 1 too."""
    e, t = widened_input(x)
    low = minimum(e, -1.0) * -math.sqrt(0.5)
    below = log(0.5 * erfcx(low)) - low * low
    above = log1p(-0.5 * erfc(maximum(e, -1.0) * math.sqrt(0.5)))
    return cast(where(e != e, e, where(e == -math.inf, e, where(e < -1.0, below, above))), t)


def _first_guess(log_of_product: Tensor) -> Tensor:
    """|erfinv(y)| to 2e-3 of itself, of log(1 - y * y): Winitzki, "A handy approximation for the error function and its
    inverse", 2008."""
    a = 0.147
    half = 2.0 / (math.pi * a) + 0.5 * log_of_product
    return sqrt(maximum(sqrt(half * half - log_of_product * (1.0 / a)) - half, 0.0))


def erfinv(y: Any) -> Tensor:
    """The x with erf(x) = y; infinite at -1 and 1, NaN beyond."""
    e, t = widened_input(y)
    size = absolute(e)
    inside = where(size < 1.0, size, 0.5)
    x = _first_guess(log1p(-inside * inside))
    for _ in range(2):  # Halley's steps
        error = where(inside < 0.5, erf(x) - inside, (1.0 - inside) - erfc(x))
        step = error * exp(x * x) * (0.5 * math.sqrt(math.pi))
        x = x - step / (1.0 + x * step)
    edge = where(size == 1.0, math.inf, math.nan)
    return cast(copysign(where(size < 1.0, x, edge), e), t)


def ndtri(p: Any) -> Tensor:
    """The x with ndtr(x) = p; infinite at 0 and 1, NaN beyond. Small shares keep their digits."""
    e, t = widened_input(p)
    inside = logical_and(e > 0.0, e < 1.0)
    share = 2.0 * where(inside, minimum(e, 1.0 - e), 0.25)
    x = _first_guess(log(share) + log(2.0 - share))
    for _ in range(3):
        step = (share / erfc(x) - 1.0) * erfcx(x) * (-0.5 * math.sqrt(math.pi))
        x = x + step / (1.0 - x * step)
    found = where(e < 0.5, -x, x) * math.sqrt(2.0)
    edge = where(e == 0.0, -math.inf, where(e == 1.0, math.inf, math.nan))
    return cast(where(inside, found, edge), t)


# ---------------------------------------------------------------- Bessel functions


_FAR = 20.0
"""From here on the asymptotic expansion has the digits of float64: its error is about exp(-2 x)."""


def _bessel_i(order: int, e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """|I_order(x)| near 0, what exp(|x|) is to be multiplied with to give it far off, and whether x is near.

    By the power series, all of whose terms are positive (NIST DLMF 10.25.2), and the asymptotic one (10.40.1).
    """
    size = absolute(e)
    near = size < _FAR
    square = where(near, size * size * 0.25, 0.0)
    series = as_expr(Tensor, 1.0, e.dtype)
    for k in range(48, 0, -1):
        series = 1.0 + series * square * (1.0 / (k * (k + order)))
    series = series if order == 0 else series * (size * 0.5)
    inverse = 1.0 / where(near, _FAR, size)
    tail = as_expr(Tensor, 1.0, e.dtype)
    for k in range(24, 0, -1):
        tail = 1.0 + tail * inverse * (((2 * k - 1) ** 2 - 4 * order * order) / (8 * k))
    return series, tail * sqrt(inverse * (0.5 / math.pi)), near


def _signed(order: int, value: Tensor, e: Tensor) -> Tensor:
    return value if order == 0 else copysign(value, e)


def _modified(order: int, x: Any) -> Tensor:
    e, t = widened_input(x)
    series, tail, near = _bessel_i(order, e)
    half = exp(0.5 * absolute(e))  # twice: the exponential may be infinite where its product with the tail is not
    far = where(absolute(e) == math.inf, math.inf, tail * half * half)
    return cast(where(e != e, e, _signed(order, where(near, series, far), e)), t)


def _modified_scaled(order: int, x: Any) -> Tensor:
    e, t = widened_input(x)
    series, tail, near = _bessel_i(order, e)
    return cast(where(e != e, e, _signed(order, where(near, series * exp(-absolute(e)), tail), e)), t)


def i0(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return _modified(0, x)


def i1(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return _modified(1, x)


def i0e(x: Any) -> Tensor:
    """exp(-|x|) * i0(x)."""
    return _modified_scaled(0, x)


def i1e(x: Any) -> Tensor:
    """exp(-|x|) * i1(x)."""
    return _modified_scaled(1, x)
