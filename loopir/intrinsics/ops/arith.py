"""Arithmetic and bits. Integers wrap."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from typing import Any

import numpy as np

from loopir.ir.ops import Intrinsic

NUMBER = frozenset({"float", "int", "uint"})
INTEGER = frozenset({"int", "uint"})
BITS = frozenset({"int", "uint", "bool"})
FLOAT = frozenset({"float"})


def _wrapping(symbol: str) -> dict[str, str]:
    wrapped = f"({{T}})(({{U}})({{0}}) {symbol} ({{U}})({{1}}))"
    return {"float": f"({{0}} {symbol} {{1}})", "int": wrapped, "uint": wrapped}


def _update(name: str, *types: str) -> dict[str, str]:
    """The hardware's atomic `name` for integer `types`; int64 is added as uint64, and so are its bits."""
    unsigned = "unsigned long long"
    cast = f"{name}(reinterpret_cast<{unsigned}*>({{0}}), ({unsigned})({{1}}))"
    plain = f"{name}({{0}}, {{1}})"
    return {t: cast if t == "int64" and name != "atomicMax" and name != "atomicMin" else plain for t in types}


_WIDE = ("int32", "uint32", "int64", "uint64")
add = Intrinsic(
    "add", 2, NUMBER, np.add, infix="+", commutes=True,
    cuda=_wrapping("+"), cuda_atomic=_update("atomicAdd", "float32", "float64", *_WIDE),
    llvm={"float": "fadd", "int": "add", "uint": "add"}, pairs={"bfloat16": "add_bf16x2"},
)  # fmt: skip
sub = Intrinsic(
    "sub", 2, NUMBER, np.subtract, infix="-", cuda=_wrapping("-"), llvm={"float": "fsub", "int": "sub", "uint": "sub"}
)
mul = Intrinsic(
    "mul", 2, NUMBER, np.multiply, infix="*", commutes=True,
    cuda=_wrapping("*"), llvm={"float": "fmul", "int": "mul", "uint": "mul"},
    pairs={"bfloat16": "mul_bf16x2", "float16": "mul_f16x2"},
)  # fmt: skip
div = Intrinsic("div", 2, FLOAT, np.divide, infix="/", cuda={"float": "({0} / {1})"}, llvm={"float": "fdiv"}, work=9)
neg = Intrinsic(
    "neg", 1, NUMBER, np.negative,
    cuda={"float": "(-{0})", "int": "({T})(0 - ({U})({0}))", "uint": "({T})(0 - ({U})({0}))"},
    llvm={"float": "fneg", "int": "neg", "uint": "neg"},
)  # fmt: skip
abs_ = Intrinsic(
    "abs", 1, NUMBER, np.abs,
    cuda={
        "float32": "fabsf({0})", "float64": "fabs({0})", "uint": "({0})",
        "int": "({T})(({0}) < 0 ? 0 - ({U})({0}) : ({U})({0}))",
    },
    llvm={"float": "llvm.fabs", "int": "abs", "uint": "same"},
)  # fmt: skip

_EXTREMES = """\
template <class T> __device__ __forceinline__ T lp_max(T a, T b) { return a != a || a > b ? a : b; }
template <class T> __device__ __forceinline__ T lp_min(T a, T b) { return a != a || a < b ? a : b; }
template <> __device__ __forceinline__ float lp_max<float>(float a, float b) {
  float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c;
}
template <> __device__ __forceinline__ float lp_min<float>(float a, float b) {
  float c; asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c;
}
"""
maximum = Intrinsic(
    "maximum", 2, NUMBER, np.maximum, commutes=True, idempotent=True, cuda_atomic=_update("atomicMax", *_WIDE),
    cuda=dict.fromkeys(NUMBER, "lp_max<{T}>({0}, {1})"), cuda_prelude=_EXTREMES,
    llvm={"float": "extreme llvm.maximum", "int": "llvm.smax", "uint": "llvm.umax"},
    doc="The larger; NaN if either is. Of zeros, either.",
)  # fmt: skip
minimum = Intrinsic(
    "minimum", 2, NUMBER, np.minimum, commutes=True, idempotent=True, cuda_atomic=_update("atomicMin", *_WIDE),
    cuda=dict.fromkeys(NUMBER, "lp_min<{T}>({0}, {1})"), cuda_prelude=_EXTREMES,
    llvm={"float": "extreme llvm.minimum", "int": "llvm.smin", "uint": "llvm.umin"},
    doc="The smaller; NaN if either is. Of zeros, either.",
)  # fmt: skip


def _bits(name: str, symbol: str, meaning: Any, llvm: str, *, idempotent: bool = True) -> Intrinsic:
    return Intrinsic(
        name, 2, BITS, meaning, infix=symbol, commutes=True, idempotent=idempotent,
        cuda=dict.fromkeys(BITS, f"({{T}})({{0}} {symbol} {{1}})"), llvm=dict.fromkeys(BITS, llvm),
    )  # fmt: skip


and_ = _bits("and_", "&", np.bitwise_and, "and")
or_ = _bits("or_", "|", np.bitwise_or, "or")
xor = _bits("xor", "^", np.bitwise_xor, "xor", idempotent=False)
invert = Intrinsic(
    "invert", 1, BITS, np.invert, infix="~",
    cuda={"int": "({T})(~{0})", "uint": "({T})(~{0})", "bool": "(!{0})"}, llvm=dict.fromkeys(BITS, "not"),
)  # fmt: skip


def _shift(left: bool) -> Any:
    def meaning(a: Any, b: Any) -> Any:
        bits = a.dtype.itemsize * 8
        far = (b < 0) | (b >= bits)
        near = np.where(far, np.zeros_like(b), b)
        gone = np.zeros_like(a) if left else np.where(a < 0, np.full_like(a, -1 if a.dtype.kind == "i" else 0), 0)
        return np.where(far, gone, np.left_shift(a, near) if left else np.right_shift(a, near)).astype(a.dtype)

    return meaning


_SHIFTS = """\
template <class T> __device__ __forceinline__ T lp_shl(T a, T b) {
  return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((unsigned long long)a << b);
}
template <class T> __device__ __forceinline__ T lp_shr(T a, T b) {
  return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);
}
"""
shl = Intrinsic(
    "shl", 2, INTEGER, _shift(True), infix="<<", cuda=dict.fromkeys(INTEGER, "lp_shl<{T}>({0}, {1})"),
    cuda_prelude=_SHIFTS, llvm=dict.fromkeys(INTEGER, "shift shl"), doc="By a count out of range: 0.",
)  # fmt: skip
shr = Intrinsic(
    "shr", 2, INTEGER, _shift(False), infix=">>", cuda=dict.fromkeys(INTEGER, "lp_shr<{T}>({0}, {1})"),
    cuda_prelude=_SHIFTS, llvm={"int": "shift ashr", "uint": "shift lshr"}, doc="By a count out of range: the sign.",
)  # fmt: skip
