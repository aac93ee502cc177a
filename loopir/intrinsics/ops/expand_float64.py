"""Expansions of elementary functions in float64; `benchmarks/minimax.py` makes their coefficients."""

from __future__ import annotations

from loopir.intrinsics.ops.expansion import X, polynomial, scaled, scaled_normal, shift
from loopir.ir.dtypes import float64

EXP_RANGE = (-746.0, 710.0)
"""Where e^x is neither 0 nor infinite, and a little beyond."""
EXP2_RANGE = (-1076.0, 1024.5)
LN2 = (0.6931471805598903, 5.497923018708371e-14)
"""The first of 42 bits: it times an exponent is exact."""
EXP = (
    2.5118042697242242e-08, 2.763141560445052e-07, 2.7557215730833408e-06, 2.4801489585834918e-05,
    0.0001984126991801428, 0.0013888888947335405, 0.008333333333306919, 0.04166666666651431, 0.166666666666667,
    0.5000000000000013,
)  # fmt: skip
"""(e^r - 1 - r) / r^2 for |r| <= ln(2)/2, to 2^-58 of e^r."""


def exp_reduced(r: X, n: X, *, normal: bool = False) -> X:
    """e^r * 2^m for |r| <= ln(2)/2, and what is added to m in n."""
    return (polynomial(r, EXP) * (r * r) + r + 1.0).op(scaled_normal if normal else scaled, n)


def exp_double(v: X, *, normal: bool = False) -> X:
    """e^v in `EXP_RANGE`; where it is `normal`, for |v| < 708."""
    added = shift(float64, 1 if normal else 2)
    shifted = v * 1.4426950408889634 + added
    n = shifted - added
    return exp_reduced(v - n * LN2[0] - n * LN2[1], shifted, normal=normal)


def exp2_double(v: X) -> X:
    """2^v in `EXP2_RANGE`."""
    added = shift(float64, 2)
    shifted = v + added
    return exp_reduced((v - (shifted - added)) * 0.6931471805599453, shifted)


SIN = (
    2.7210862069302437e-15, -7.642983252981278e-13, 1.605893939725213e-10, -2.505210686682804e-08,
    2.7557319211073964e-06, -0.00019841269841208863, 0.008333333333333193, -0.16666666666666666,
)  # fmt: skip
"""(sin(x) / x - 1) / x^2 in x^2 to a quarter turn, to 2^-61 of sin(x)."""
PI = (3.1415926534682512, 1.2154201013012384e-10, 7.0431197303664e-27)
"""The first of 33 bits."""
TANH = (
    5.1089581739714667e-05, -0.0002104048790520709, 0.0005792024655317847, -0.0014532398540941295,
    0.003591724608969222, -0.008863195147502527, 0.02186948602571078, -0.05396825387835772, 0.13333333333173705,
    -0.3333333333333235,
)  # fmt: skip
"""(tanh(x) / x - 1) / x^2 in x^2 on [0, 0.55], to 2^-55."""
_LOG = (
    0.14795988112829342, 0.15314046547013538, 0.18183564489565876, 0.22222198569910082, 0.2857142874242042,
    0.3999999999941453, 0.6666666666666734,
)  # fmt: skip
"""(2 atanh(s) / s - 2) / s^2 in s^2, for s = f / (2 + f) of f as below, to 2^-58 of the logarithm."""


def log_double(e: X, f: X) -> X:
    """log((1 + f) * 2^e) of f in [sqrt(1/2) - 1, sqrt(2) - 1): with s = f / (2 + f) it is 2 atanh(s), and f less what
    that is too much (Tang 1990)."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    return e * LN2[0] - ((half - (s * (half + polynomial(z, _LOG) * z) + e * LN2[1])) - f)


ERF = (
    3.5823686276812295e-15, -1.6106405890790152e-13, 3.35589841689532e-12, -4.2913773254589485e-11,
    3.751856711597734e-10, -2.3549890707745344e-09, 1.074713228585628e-08, -3.4488101514613266e-08,
    6.545186279158305e-08, 1.236091150760475e-08, -5.718414462099612e-07, 2.038980186658085e-06,
    -3.1350818508634187e-06, -3.167681065526901e-06, 2.9574196877006392e-05, -6.441962860564128e-05,
    -2.590486831132635e-05, 0.0005901325498350957, -0.0016962076977821473, 0.00020919485838135452,
    0.019128446992640234, -0.10277260330128898, -0.6366197723675917, -0.12837916709551253,
)  # fmt: skip
"""log(1 - erf(x)) / x + 1 on [0, 6], to 2^-55 of erf(x)."""
