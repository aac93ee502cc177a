"""Operators on elements: arithmetic, comparisons, functions of real numbers, conversions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
import operator as py
from typing import Any

from loopir.frontend.torch.row import Unsupported, operator, pointwise
from loopir.ir import dtypes
from loopir.ir.grammar import Const
from loopir.tensor import functions as f, special
from loopir.tensor.core import as_expr
from loopir.tensor.elementwise import copysign as signed_as, fmod as exact_remainder, hypot, signbit, sinc
from loopir.tensor.integers import nextafter
from loopir.tensor.tensor import Tensor


def _is_float(*given: Any) -> bool:
    return any(isinstance(x, float) or (isinstance(x, Tensor) and x.dtype.is_float) for x in given)


def _like(x: Any, other: Any) -> Any:
    """`x` as an expression, a number in the type of `other`."""
    return x if isinstance(x, Tensor) else as_expr(Tensor, x, other.dtype if isinstance(other, Tensor) else None)


def _pair(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    return _like(a, b), _like(b, a)


def _add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    a, b = _pair(a, b)
    return a + (b if alpha == 1 else b * alpha)


def _sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    a, b = _pair(a, b)
    return a - (b if alpha == 1 else b * alpha)


def _rsub(a: Any, b: Any, alpha: Any = 1) -> Tensor:
    return _sub(b, a, alpha=alpha)


def _of_pair(fn: Any) -> Any:
    return lambda a, b: fn(*_pair(a, b))


def _trunc(x: Tensor) -> Tensor:
    return f.where(x < 0, f.ceil(x), f.floor(x)) if x.dtype.is_float else x


def _divisor(b: Tensor) -> int:
    """A divisor that is a number other than 0: torch raises for a 0 in a tensor."""
    value = b.element if not b.parts and not b.ndim else None
    if not isinstance(value, Const) or not value.value:
        raise Unsupported("integers divided by a tensor, which torch checks for 0")
    return int(value.value)


def _whole_quotient(a: Tensor, b: Tensor, rounding_mode: str) -> Tensor:
    if a.dtype == dtypes.bool_:
        raise Unsupported("bools divided")
    by = _divisor(b)
    if rounding_mode == "floor" or a.dtype.kind == "uint":
        return a // by
    quotient = a // by  # rounded down; the absolute value of the least integer is none
    return f.where(f.logical_and(quotient < 0, quotient * by != a), quotient + 1, quotient)


def _remainder(a: Any, b: Any) -> Tensor:
    """The sign is the divisor's."""
    a, b = _pair(a, b)
    if a.dtype == dtypes.bool_:
        raise Unsupported("remainders of bools")
    return a % b if a.dtype.is_float else a % _divisor(b)


def _fmod(a: Any, b: Any) -> Tensor:
    """The sign is that of what is divided."""
    a, b = _pair(a, b)
    if a.dtype == dtypes.bool_:
        raise Unsupported("remainders of bools")
    if a.dtype.is_float:
        return exact_remainder(a, b)
    by = abs(_divisor(b))
    rest = a % by
    return f.where(f.logical_and(a < 0, rest != 0), rest - by, rest) if a.dtype.kind == "int" else rest


def _divide_whole(a: Any, b: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Of integers torch raises for a divisor of 0, which no kernel does."""
    a, b = _pair(a, b)
    if not a.dtype.is_float:
        if rounding_mode is None:
            return a.astype("float32") / b.astype("float32")
        return _whole_quotient(a, b, rounding_mode)
    if rounding_mode == "floor":
        return a // b
    quotient = a / b
    return quotient if rounding_mode is None else _trunc(quotient)


def _pow(a: Any, b: Any) -> Tensor:
    if isinstance(b, int | float) and isinstance(a, Tensor) and a.dtype.is_float:
        whole = float(b).is_integer() and abs(b) <= 8
        if b == 0.5:
            return f.sqrt(a)
        if b == -0.5:
            return f.rsqrt(a)
        if whole and b >= 0:
            return f.pow(a, int(b))
        if whole:
            return 1.0 / f.pow(a, int(-b))
    if isinstance(a, Tensor) and not a.dtype.is_float:
        if isinstance(b, int) and not isinstance(b, bool) and 0 <= b <= 16 and a.dtype != dtypes.bool_:
            return f.pow(a, b)
        raise Unsupported("a power of integers by something else than a number from 0 to 16")
    a, b = _pair(a, b)
    return f.pow(a, b)


def _not(x: Tensor) -> Tensor:
    return f.logical_not(x) if x.dtype == dtypes.bool_ else ~x


def _clamp(x: Any, low: Any = None, high: Any = None) -> Tensor:
    x = as_expr(Tensor, x, None)
    return f.clip(x, None if low is None else _like(low, x), None if high is None else _like(high, x))


def _where(cond: Tensor, a: Any, b: Any) -> Tensor:
    a, b = _pair(a, b)
    if cond.dtype != dtypes.bool_:
        raise Unsupported(f"where of a condition of {cond.dtype}")
    return f.where(cond, a, b)


def _lerp(a: Tensor, b: Any, weight: Any) -> Tensor:
    """By torch's two formulas, each of which is exact at its end."""
    b = _like(b, a)
    off = b - a
    if isinstance(weight, int | float):
        return a + off * weight if abs(weight) < 0.5 else b - off * (1 - weight)
    return f.where(f.abs(weight) < 0.5, a + weight * off, b - off * (1 - weight))


def _sign(x: Tensor) -> Tensor:
    """As NumPy has it, but 0 of NaN."""
    return f.where(f.isnan(x), as_expr(Tensor, 0, x.dtype), f.sign(x)) if x.dtype.is_float else f.sign(x)


def _signed_bit(x: Tensor) -> Tensor:
    if x.dtype.is_float:
        return signbit(x)
    return x < 0 if x.dtype.kind == "int" else f.logical_and(x != x, x != x)


def _is_infinite(x: Tensor) -> Tensor:
    if not x.dtype.is_float:
        return x != x
    return f.abs(x) == math.inf


def _fmax(a: Tensor, b: Tensor, *, larger: bool) -> Tensor:
    """The one that is a number, where one is NaN."""
    both = f.maximum(a, b) if larger else f.minimum(a, b)
    return both if not a.dtype.is_float else f.where(f.isnan(a), b, f.where(f.isnan(b), a, both))


def _shifted(fn: Any) -> Any:
    def shift(a: Any, b: Any) -> Tensor:
        if not isinstance(b, int) or not 0 <= b < (a.dtype.bits if isinstance(a, Tensor) else 0):
            raise Unsupported("a shift by something else than a number of less than the type's bits")
        return fn(a, b)

    return shift


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return f.gelu(x, approximate)


def _elu(x: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    return f.where(x > 0, x * float(scale), f.expm1(x * float(input_scale)) * float(alpha * scale))


def _softplus(x: Tensor, beta: Any = 1, threshold: Any = 20) -> Tensor:
    scaled = x * float(beta)
    return f.where(scaled > float(threshold), x, f.log1p(f.exp(scaled)) / float(beta))


def _log_by(base: float) -> Any:
    return lambda x: f.log(x) * (1.0 / math.log(base))


pointwise({
    "add.Tensor|Scalar": _add, "sub.Tensor|Scalar": _sub, "rsub.Tensor|Scalar": _rsub,
    "mul.Tensor|Scalar": _of_pair(py.mul), "neg": py.neg, "abs": f.abs, "positive": lambda x: x,
    "maximum": _of_pair(f.maximum), "minimum": _of_pair(f.minimum), "relu": f.relu, "relu6": lambda x: f.clip(x, 0, 6),
    "sign": _sign, "floor": f.floor, "ceil": f.ceil, "round": f.round, "trunc": _trunc,
    "frac": lambda x: x - _trunc(x), "square": lambda x: x * x, "bitwise_not": _not,
    "bitwise_and.Tensor|Scalar|Scalar_Tensor": _of_pair(py.and_),
    "bitwise_or.Tensor|Scalar|Scalar_Tensor": _of_pair(py.or_),
    "bitwise_xor.Tensor|Scalar|Scalar_Tensor": _of_pair(py.xor),
    "bitwise_left_shift.Tensor_Scalar|Tensor": _shifted(py.lshift), "__lshift__.Scalar": _shifted(py.lshift),
    "bitwise_right_shift.Tensor_Scalar|Tensor": _shifted(py.rshift), "__rshift__.Scalar": _shifted(py.rshift),
    "clamp.default|Tensor": _clamp, "clamp_min.default|Tensor": _clamp,
    "clamp_max.default|Tensor": lambda x, high: _clamp(x, None, high), "hardtanh": lambda x, a=-1, b=1: _clamp(x, a, b),
    "fmax": lambda a, b: _fmax(a, b, larger=True), "fmin": lambda a, b: _fmax(a, b, larger=False),
    "remainder.Tensor|Scalar": _remainder, "fmod.Tensor|Scalar": _fmod,
    "hypot": hypot,
    "pow.Tensor_Scalar|Tensor_Tensor|Scalar": _pow, "lerp.Scalar|Tensor": _lerp, "silu": f.silu, "gelu": _gelu,
    "elu": _elu, "softplus": _softplus,
    "leaky_relu": lambda x, slope=0.01: f.where(x > 0, x, x * slope),
    "addcmul": lambda x, a, b, value=1: x + (a * b if value == 1 else a * b * value),
    "addcdiv": lambda x, a, b, value=1: x + (a / b if value == 1 else a / b * value),
    "threshold": lambda x, least, value: f.where(x <= least, _like(value, x), x),
    "threshold_backward": lambda g, x, least: f.where(x <= least, as_expr(Tensor, 0, g.dtype), g),
    "sigmoid_backward": lambda g, y: g * (y * (1.0 - y)), "tanh_backward": lambda g, y: g * (1.0 - y * y),
    "silu_backward": lambda g, x: g * f.sigmoid(x) * (1.0 + x * (1.0 - f.sigmoid(x))),
})  # fmt: skip

pointwise({
    "div.Tensor|Scalar": _of_pair(py.truediv), "reciprocal": lambda x: 1.0 / x, "exp": f.exp, "exp2": f.exp2,
    "expm1": f.expm1, "log": f.log, "log1p": f.log1p, "log2": _log_by(2.0), "log10": _log_by(10.0), "sqrt": f.sqrt,
    "rsqrt": f.rsqrt, "sigmoid": f.sigmoid, "tanh": f.tanh, "sin": f.sin, "cos": f.cos, "tan": f.tan, "asin": f.asin,
    "acos": f.acos, "atan": f.atan, "sinh": f.sinh, "cosh": f.cosh, "asinh": f.asinh, "acosh": f.acosh,
    "atanh": f.atanh, "atan2": f.atan2, "erf": f.erf, "erfc": f.erfc, "erfinv": special.erfinv, "lgamma": f.lgamma,
    "digamma": special.digamma, "i0": special.i0, "special_i0e": special.i0e, "special_i1": special.i1,
    "special_i1e": special.i1e, "special_erfcx": special.erfcx, "special_log_ndtr": special.log_ndtr,
    "special_ndtri": special.ndtri, "special_entr": special.entr, "sinc": sinc,
}, "float")  # fmt: skip

pointwise({
    "eq.Tensor|Scalar": _of_pair(py.eq), "ne.Tensor|Scalar": _of_pair(py.ne), "lt.Tensor|Scalar": _of_pair(py.lt),
    "le.Tensor|Scalar": _of_pair(py.le), "gt.Tensor|Scalar": _of_pair(py.gt), "ge.Tensor|Scalar": _of_pair(py.ge),
    "logical_and": _of_pair(f.logical_and), "logical_or": _of_pair(f.logical_or), "logical_not": f.logical_not,
    "logical_xor": lambda a, b: (a != 0) != (b != 0), "isnan": lambda x: f.isnan(x) if x.dtype.is_float else x != x,
    "isinf": _is_infinite, "signbit": _signed_bit,
}, "bool")  # fmt: skip


operator("aten.div.Tensor_mode", "aten.div.Scalar_mode", promotion="default")(_divide_whole)
operator("aten.where.self", promotion="default", skipped=1)(_where)
operator("aten.nextafter.default")(nextafter)  # in the type as it is, where others compute in a wider one


@operator("aten.copysign.Tensor", "aten.copysign.Scalar", promotion="float")
def copysign(a: Tensor, b: Any) -> Tensor:
    return f.abs(a) * math.copysign(1.0, b) if isinstance(b, int | float) else signed_as(a, b)


@operator("prims.fma.default", promotion="default")
def fused(a: Any, b: Any, c: Any) -> Tensor:
    return a * b + c


@operator("aten.clone.default", "aten.lift_fresh_copy.default", "aten.contiguous.default")
def copied(x: Tensor, memory_format: Any = None) -> Tensor:
    """A copy in no particular order of memory, which a result's place decides."""
    return x


@operator("aten.alias.default", "aten.detach.default", "aten.lift_fresh.default", view=True)
def same_tensor(x: Tensor) -> Tensor:
    return x


@operator("aten._to_copy.default", "prims.convert_element_type.default", informed=True)
def converted(result: Any, x: Tensor, dtype: Any = None, **place: Any) -> Tensor:
    """Bools of what is not 0; floats to integers as C does, which is not defined beyond the type."""
    if place.get("device") is not None and str(place["device"]).partition(":")[0] == "meta":
        raise Unsupported("torch's meta device")
    if result.dtype == "bool":
        return x if x.dtype == dtypes.bool_ else x != 0
    if x.dtype.is_float and not dtypes.dtype(result.dtype).is_float and dtypes.dtype(result.dtype).bits < 32:
        return x.astype("int64").astype(result.dtype)
    return x.astype(result.dtype)
