"""Expansions of elementary functions into simpler operations, so that they run on vectors of any width.

Each takes IR values and gives one, or None where the type has no expansion and the target's library is called.
Ranges are reduced in the manner of Cody and Waite ("Software Manual for the Elementary Functions", 1980); the
polynomials are minimax fits made with mpmath's `chebyfit` at 200 bits. `benchmarks/ulp.py` measures the errors
over all floats; the tests hold a sample to the bounds that the records state.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopir.intrinsics.ops import arith, compare
from loopir.ir.dtypes import DType, float32, float64
from loopir.ir.grammar import Cast, Const, Op, Select, Value, ValueToCond
from loopir.ir.ops import Intrinsic

FLOAT = frozenset({"float"})


def _private(name: str, fn: Callable[..., Any], llvm: str, c: str) -> Intrinsic:
    """A record of one argument that only the expansions use."""
    cuda = {"float32": f"{c}f({{0}})", "float64": f"{c}({{0}})"}
    return Intrinsic(name, 1, FLOAT, fn, llvm={"float": llvm}, cuda=cuda, doc="Part of an expansion.")


_nearest = _private("nearest", np.rint, "llvm.roundeven", "rint")
_down = _private("round_down", np.floor, "llvm.floor", "floor")
_root = _private("square_root", np.sqrt, "llvm.sqrt", "sqrt")
_library = {
    name: _private(f"library_{name}", getattr(np, name), f"llvm.{name}", name) for name in ("sin", "cos", "exp")
}
_BIAS = 127
"""What the field of an exponent holds beyond it."""


def _scaling(name: str, fields: int) -> tuple[float, Intrinsic]:
    """A number, and x times 2^m, rounded once, from the sum of m and that number.

    A float32 of 2^23 to 2^24 is a whole number, its last bits; so the sum is of the nearest m, as the exponent's field
    of 2^m, or as the sum of `fields` of factors of which each is a normal number.
    """
    shift = 1.5 * 2.0**23 + fields * _BIAS
    return shift, Intrinsic(
        name, 2, FLOAT, lambda x, n: np.ldexp(x, (n - n.dtype.type(shift)).astype(np.int32)).astype(x.dtype)[()],
        llvm={"float32": f"scale {fields}"}, doc="Part of an expansion.",
    )  # fmt: skip


_ANY = _scaling("scaled", 2)
_NORMAL = _scaling("scaled_normal", 1)
_Scaling = tuple[float, Intrinsic]


def _binade(x: Any) -> tuple[Any, Any]:
    """x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for positive normal x."""
    m, e = np.frexp(x)
    low = m < x.dtype.type(_ROOT_HALF)
    return np.where(low, m * 2, m).astype(x.dtype)[()], np.where(low, e - 1, e).astype(x.dtype)[()]


_ROOT_HALF = float(np.float32(0.5**0.5))
_significand = Intrinsic(
    "significand", 1, FLOAT, lambda x: _binade(x)[0], llvm={"float32": "significand"},
    doc="m of x = m * 2^e, from sqrt(1/2) to sqrt(2), of a positive normal number; private to the expansions.",
)  # fmt: skip
_exponent = Intrinsic(
    "exponent", 1, FLOAT, lambda x: _binade(x)[1], llvm={"float32": "binade"},
    doc="e of x = m * 2^e, m from sqrt(1/2) to sqrt(2), of a positive normal number; private to the expansions.",
)  # fmt: skip


class X:
    """A value with Python operators; constants take its type."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def lift(self, x: X | float) -> Value:
        return x.value if isinstance(x, X) else Const(x, self.value.dtype)

    def op(self, fn: Intrinsic, *others: X | float) -> X:
        return X(Op(fn, (self.value, *map(self.lift, others))))

    def __add__(self, other: X | float) -> X:
        return self.op(arith.add, other)

    def __sub__(self, other: X | float) -> X:
        return self.op(arith.sub, other)

    def __mul__(self, other: X | float) -> X:
        return self.op(arith.mul, other)

    def clamp(self, low: float, high: float) -> X:
        """Into [low, high]; NaN stays. One instruction each on a CPU, as a comparison with NaN is false."""
        raised = X(Select(self.below(low), self.lift(low), self.value))
        above = ValueToCond(Op(compare.lt, (self.lift(high), raised.value)))
        return X(Select(above, self.lift(high), raised.value))

    def below(self, bound: float) -> ValueToCond:
        return ValueToCond(Op(compare.lt, (self.value, Const(bound, self.value.dtype))))

    def cast(self, to: DType) -> X:
        return X(Cast(self.value, to))


def _polynomial(x: X, coefficients: tuple[float, ...]) -> X:
    """Horner's rule, highest coefficient first; backends contract each step to an fma."""
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


_EXP = (0.0013926926614021907, 0.008363773874405574, 0.04166655011030512, 0.16666573381900845, 0.5)
_LN2 = (0.693145751953125, 1.4286068203094173e-06)


def _exp_reduced(r: X, n: X, scaled: Intrinsic) -> X:
    """e^r * 2^m for |r| <= ln(2)/2, and what is added to m in n."""
    return _polynomial(r, (*_EXP, 1.0, 1.0)).op(scaled, n)


def _exp(v: X, scaling: _Scaling) -> X:
    """e^v for |v| < 105."""
    shift, scaled = scaling
    shifted = v * 1.4426950408889634 + shift
    n = shifted - shift
    return _exp_reduced(v - n * _LN2[0] - n * _LN2[1], shifted, scaled)


def exp(x: Value) -> Value | None:
    return _exp(X(x).clamp(-104.0, 89.0), _ANY).value if x.dtype == float32 else None


def exp2(x: Value) -> Value | None:
    if x.dtype != float32:
        return None
    v, (shift, scaled) = X(x).clamp(-151.0, 128.5), _ANY
    shifted = v + shift
    return _exp_reduced((v - (shifted - shift)) * 0.6931471805599453, shifted, scaled).value


_TANH = (
    0.002269501684162354, -0.008323187058278775, 0.021762502907359264, -0.0539584616274522, 0.13333300146188914,
    -0.33333333149374506,
)  # fmt: skip


def tanh(x: Value) -> Value | None:
    if x.dtype != float32:
        return None
    v = X(x)
    size = v.op(arith.abs_)
    square = v * v
    small = _polynomial(square, _TANH) * square * v + v
    power = _exp((size * 2.0).clamp(0.0, 20.0), _NORMAL)
    large = X(Const(1.0, float32)) - X(Op(arith.div, (Const(2.0, float32), (power + 1.0).value)))
    signed = Select(v.below(0.0), large.op(arith.neg).value, large.value)
    return Select(size.below(0.63), small.value, signed)


_SIN = (2.724378140946123e-06, -0.00019840038872556747, 0.008333331785217696, -0.1666666666362283)
_COS = (-2.7230740927455e-07, 2.479979240562801e-05, -0.0013888884858429178, 0.04166666663497616, -0.4999999999996012)
_HALF_PI = (1.5707963109016418, 1.5893254773528196e-08)
_FAR = 2.0**26
"""Up to here n * _HALF_PI[0] is exact in float64: 25 bits of pi by 27 of n."""


def _turned(x: Value, quarters: float, name: str) -> Value | None:
    """sin(x + quarters * pi/2) for float32, reduced and evaluated in float64."""
    if x.dtype != float32:
        return None
    v = X(x).cast(float64)
    n = (v * 0.6366197723675814).op(_nearest)
    r = v - n * _HALF_PI[0] - n * _HALF_PI[1]
    square = r * r
    sine = _polynomial(square, _SIN) * square * r + r
    cosine = _polynomial(square, _COS) * square + 1.0
    turn = (n + quarters) * 0.25
    quadrant = (n + quarters) - turn.op(_down) * 4.0
    odd = ValueToCond(Op(compare.eq, ((quadrant - (quadrant * 0.5).op(_down) * 2.0).value, Const(1.0, float64))))
    picked = Select(odd, cosine.value, sine.value)
    signed = Select(quadrant.below(2.0), picked, Op(arith.neg, (picked,)))
    near = ValueToCond(Op(compare.lt, (Op(arith.abs_, (x,)), Const(_FAR, float32))))
    return Select(near, Cast(signed, float32), Op(_library[name], (x,)))


def sin(x: Value) -> Value | None:
    return _turned(x, 0.0, "sin")


def cos(x: Value) -> Value | None:
    return _turned(x, 1.0, "cos")


_LOG = (
    0.06971611471451178, -0.11479733846637635, 0.1168541992348674, -0.12425687331451106, 0.1424905764569748,
    -0.16667802319501254, 0.200007157488921, -0.24999996957950882, 0.33333331180030046,
)  # fmt: skip
"""(log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], to 2.9e-8."""
_LEAST_NORMAL = 2.0**-126


def log(x: Value) -> Value | None:
    if x.dtype != float32:
        return None
    v = X(x)
    subnormal = v.below(_LEAST_NORMAL)
    # What is not a positive number goes through the polynomial too, and is not taken.
    lifted = X(Select(subnormal, (v * 2.0**23).value, x))
    e = lifted.op(_exponent) - X(Select(subnormal, Const(23.0, float32), Const(0.0, float32)))
    f = lifted.op(_significand) - 1.0
    square = f * f
    small = _polynomial(f, _LOG) * (square * f) + e * _LN2[1] - square * 0.5
    value = (small + f + e * _LN2[0]).value
    below_infinity = Select(v.below(np.inf), value, x)  # infinity and NaN are their own logarithms
    zero = ValueToCond(Op(compare.eq, (x, Const(0.0, float32))))
    return Select(zero, Const(-np.inf, float32), Select(v.below(0.0), Const(np.nan, float32), below_infinity))


_ERF = (
    7.875875062685488e-05, -0.000801686428716587, 0.005189087423433974, -0.026854212010626412, 0.11283594715160218,
    -0.37612626666720334, 0.12837916584835093,
)  # fmt: skip
"""erf(x) / x - 1 in x^2 on [0, 1], to 1.2e-9."""
_ERFC = (
    2.1661804437527473e-07, -3.236754583850038e-06, 1.584388445597209e-06, 0.0003316854472871036,
    -0.003835511331439465, 0.02433230555011996, -0.10702251449278942, -0.6346172551821145, -1.1287928136258814,
)  # fmt: skip
"""log(erfc(x)) / x on [1, 4], to 2.9e-8."""


def erf(x: Value) -> Value | None:
    if x.dtype != float32:
        return None
    v = X(x)
    size = v.op(arith.abs_)
    near = _polynomial(v * v, _ERF) * v + v
    t = size.clamp(1.0, 4.0)
    far = X(Const(1.0, float32)) - _exp(_polynomial(t, _ERFC) * t, _NORMAL)
    signed = Select(v.below(0.0), far.op(arith.neg).value, far.value)
    return Select(size.below(1.0), near.value, signed)


def sigmoid(x: Value) -> Value:
    """e^-|x| never overflows; below 0 the quotient is that times what it is above."""
    v = X(x)
    minus = v.op(arith.abs_).op(arith.neg)
    power = _exp(minus.clamp(-104.0, 0.0), _ANY) if x.dtype == float32 else minus.op(_library["exp"])
    above = X(Op(arith.div, (Const(1.0, x.dtype), (power + 1.0).value)))
    return Select(v.below(0.0), (power * above).value, above.value)


def rsqrt(x: Value) -> Value:
    return Op(arith.div, (Const(1.0, x.dtype), Op(_root, (x,))))
