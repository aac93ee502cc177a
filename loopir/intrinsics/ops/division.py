"""Floor division and modulo, rounded to minus infinity; for integers, 0 where the divisor is zero.

Of floats as NumPy has them: what is left is exact, so that it never passes the divisor, and the quotient is made of it.
A remainder of 0 has the divisor's sign.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopir.intrinsics.ops.arith import FLOAT, INTEGER, NUMBER, add, and_, div, mul, sub, xor
from loopir.intrinsics.ops.compare import eq, lt, ne
from loopir.intrinsics.ops.math import floor
from loopir.ir.grammar import Const, Op, Select, Value, ValueToCond
from loopir.ir.ops import Intrinsic


def _meaning(fn: np.ufunc) -> Callable[[Any, Any], Any]:
    def meaning(a: Any, b: Any) -> Any:
        if a.dtype.kind not in "iu":
            return fn(a, b)
        return np.where(b == 0, np.zeros_like(a), fn(a, np.where(b == 0, np.ones_like(b), b))).astype(a.dtype)

    return meaning


_left = Intrinsic(
    "left_by_division", 2, FLOAT, np.fmod, cuda={"float32": "fmodf({0}, {1})", "float64": "fmod({0}, {1})"},
    llvm={"float": "frem"}, doc="Part of an expansion.",
)  # fmt: skip


def _divided(a: Value, b: Value) -> tuple[Value, ValueToCond]:
    """What is left by the quotient rounded towards 0, and whether that is not the one rounded to minus infinity."""
    left, zero = Op(_left, (a, b)), Const(0, a.dtype)
    apart = Op(xor, (Op(lt, (left, zero)), Op(lt, (b, zero))))
    return left, ValueToCond(Op(and_, (Op(ne, (left, zero)), apart)))


def _mod(a: Value, b: Value) -> Value | None:
    if not a.dtype.is_float:
        return None
    left, below = _divided(a, b)
    zero = Const(0, a.dtype)
    none = Select(ValueToCond(Op(lt, (b, zero))), Const(-0.0, a.dtype), zero)
    return Select(ValueToCond(Op(eq, (left, zero))), none, Select(below, Op(add, (left, b)), left))


def _floordiv(a: Value, b: Value) -> Value | None:
    if not a.dtype.is_float:
        return None
    left, below = _divided(a, b)
    near: Value = Op(div, (Op(sub, (a, left)), b))
    near = Select(below, Op(sub, (near, Const(1, a.dtype))), near)
    whole: Value = Op(floor, (near,))
    short = ValueToCond(Op(lt, (Const(0.5, a.dtype), Op(sub, (near, whole)))))
    quotient, zero = Op(div, (a, b)), Const(0, a.dtype)
    whole = Select(short, Op(add, (whole, Const(1, a.dtype))), whole)
    whole = Select(ValueToCond(Op(eq, (near, zero))), Op(mul, (quotient, zero)), whole)  # a zero of the quotient's sign
    return Select(ValueToCond(Op(eq, (b, zero))), quotient, whole)


_DIVISION = """\
template <class T> __device__ __forceinline__ T lp_floordiv(T a, T b) {
  if (b == 0) return 0;
  if ((T)-1 < (T)0 && b == (T)-1) return (T)(0ull - (unsigned long long)a);
  T q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? (T)(q - 1) : q;
}
template <class T> __device__ __forceinline__ T lp_mod(T a, T b) {
  if (b == 0 || ((T)-1 < (T)0 && b == (T)-1)) return 0;
  T r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? (T)(r + b) : r;
}
"""
_REAL = """\
__device__ __forceinline__ float lp_left(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double lp_left(double a, double b) { return fmod(a, b); }
__device__ __forceinline__ float lp_down(float a) { return floorf(a); }
__device__ __forceinline__ double lp_down(double a) { return floor(a); }
template <class T> __device__ __forceinline__ T lp_real_mod(T a, T b) {
  T r = lp_left(a, b);
  return r == 0 ? (b < 0 ? (T)-0.0 : (T)0.0) : (r < 0) != (b < 0) ? r + b : r;
}
template <class T> __device__ __forceinline__ T lp_real_floordiv(T a, T b) {
  T r = lp_left(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  T whole = lp_down(q);
  return b == 0 ? a / b : q == 0 ? a / b * 0 : q - whole > (T)0.5 ? whole + 1 : whole;
}
"""
floordiv = Intrinsic(
    "floordiv", 2, NUMBER, _meaning(np.floor_divide), infix="//", cuda_prelude=_DIVISION + _REAL, expand=_floordiv,
    cuda={**dict.fromkeys(INTEGER, "lp_floordiv<{T}>({0}, {1})"), "float": "lp_real_floordiv<{T}>({0}, {1})"},
    llvm={"int": "floor sdiv", "uint": "floor udiv"},
)  # fmt: skip
mod = Intrinsic(
    "mod", 2, NUMBER, _meaning(np.remainder), infix="%", cuda_prelude=_DIVISION + _REAL, expand=_mod,
    cuda={**dict.fromkeys(INTEGER, "lp_mod<{T}>({0}, {1})"), "float": "lp_real_mod<{T}>({0}, {1})"},
    llvm={"int": "floor srem", "uint": "floor urem"},
)  # fmt: skip
