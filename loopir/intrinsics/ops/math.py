"""Elementary functions. The meaning is the float64 result rounded once to the type; `ulp` bounds the backends.

CUDA's bounds are those of the CUDA C++ Programming Guide's appendix on mathematical functions; the CPU's are those
that `benchmarks/ulp.py` measures for our expansions.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from loopir.intrinsics.ops import expand
from loopir.intrinsics.ops.arith import FLOAT, mul
from loopir.ir.dtypes import float32
from loopir.ir.grammar import Cast, Op, Value
from loopir.ir.ops import Intrinsic, Variant

_erf64, _erfc64 = (np.vectorize(fn, otypes=[np.float64]) for fn in (math.erf, math.erfc))


@np.vectorize(otypes=[np.float64])
def _lgamma64(x: float) -> float:
    """math.lgamma, infinite at the poles and where it overflows: there Python raises."""
    if x == -math.inf or (x <= 0.0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


@np.vectorize(otypes=[np.float64])
def _gamma64(x: float) -> float:
    """math.gamma, infinite where it overflows, and as C has it at the poles: of the sign of a zero, else NaN."""
    if x == 0.0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0.0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


def _rounded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` evaluated in float64 and rounded once to the type of its arguments."""

    def meaning(*args: Any) -> Any:
        kind = args[0].dtype
        return np.asarray(fn(*(a.astype(np.float64) for a in args))).astype(kind)[()]

    return meaning


def _function(
    name: str, fn: Callable[..., Any], *, arity: int = 1, ulp: float, work: int = 1,
    cuda: tuple[str, str] | None = None, prelude: str = "", llvm: str | None = None,
    expand: Callable[..., Value | None] | None = None, variants: tuple[Variant, ...] = (), doc: str = "",
) -> Intrinsic:  # fmt: skip
    arguments = ", ".join(f"{{{n}}}" for n in range(arity))
    single, double = cuda or (f"{name}f", name)
    return Intrinsic(
        name, arity, FLOAT, _rounded(fn), ulp=ulp, work=work, doc=doc, expand=expand, variants=variants,
        cuda={"float32": f"{single}({arguments})", "float64": f"{double}({arguments})"}, cuda_prelude=prelude,
        llvm={"float": llvm or f"llvm.{name}"},
    )  # fmt: skip


_SIN_COS_PRELUDE = """\
// For |x| < 105615: x less a multiple of pi/2 in three parts (Cody and Waite 1980), the first of 22 bits, so that the
// first step is exact; minimax polynomials on a quarter turn. Sine and cosine of one argument share all but the
// selection. Over all floats the error is below 1.51 ulp, the library beyond the range included. That is a function of
// its own, called: inline, its 120 instructions a use would not fit the instruction cache.
struct lp_turn { float s, c; int q; };
__device__ __noinline__ float lp_far(float x, int q) { return q ? cosf(x) : sinf(x); }
template <int parts> __device__ __forceinline__ lp_turn lp_turned(float x) {
  float k = fmaf(x, 0.63661975f, 12582912.0f);
  float n = k - 12582912.0f;
  float r = fmaf(n, -1.570796251296997f, x);
  r = fmaf(n, -7.549790126404332e-08f, r);
  if (parts == 3) r = fmaf(n, 1.7151245100058819e-15f, r);  // a number of 8 bits is never that near to a multiple
  float z = r * r;
  float s = fmaf(fmaf(fmaf(fmaf(2.7243812e-06f, z, -0.00019840039f), z, 0.0083333318f), z, -0.16666667f) * z, r, r);
  float c = fmaf(fmaf(fmaf(fmaf(2.4542896e-05f, z, -0.0013888279f), z, 0.041666664f), z, -0.5f), z, 1.0f);
  lp_turn t = {s, c, __float_as_int(k)};
  return t;
}
template <int parts> __device__ __forceinline__ float lp_sin_near(float x) {
  lp_turn t = lp_turned<parts>(x);
  return __int_as_float(__float_as_int(t.q & 1 ? t.c : t.s) ^ ((t.q & 2) << 30));
}
template <int parts> __device__ __forceinline__ float lp_cos_near(float x) {
  lp_turn t = lp_turned<parts>(x);
  return __int_as_float(__float_as_int(t.q & 1 ? t.s : t.c) ^ (((t.q + 1) & 2) << 30));
}
// Of a square, the sign is no matter; and which of the two it is of, is a predicate at once, and no number first.
__device__ __forceinline__ float lp_odd(int q, float odd, float even) {
  float f;
  asm("{.reg .pred p; .reg .b32 b; and.b32 b, %1, 1; setp.ne.u32 p, b, 0; selp.f32 %0, %2, %3, p;}"
      : "=f"(f) : "r"(q), "f"(odd), "f"(even));
  return f;
}
template <int parts> __device__ __forceinline__ float lp_sin_near_squared(float x) {
  lp_turn t = lp_turned<parts>(x);
  float f = lp_odd(t.q, t.c, t.s);
  return f * f;
}
template <int parts> __device__ __forceinline__ float lp_cos_near_squared(float x) {
  lp_turn t = lp_turned<parts>(x);
  float f = lp_odd(t.q, t.s, t.c);
  return f * f;
}
__device__ __forceinline__ float lp_sin(float x) { return fabsf(x) < 105615.0f ? lp_sin_near<3>(x) : lp_far(x, 0); }
__device__ __forceinline__ float lp_cos(float x) { return fabsf(x) < 105615.0f ? lp_cos_near<3>(x) : lp_far(x, 1); }
"""
MAX_REDUCED = 105615.0
"""Below this magnitude the reduction of `lp_turned` is exact enough."""
TWO_PART_DIGITS = 8
"""Significant bits of arguments, those of bfloat16, for which two parts of a multiple of pi/2 are enough: over all of
them, the error is no larger. For 11 bits it is 4 ulp."""


def _variants(name: str) -> tuple[Variant, ...]:
    """Sine or cosine by the reduction of `lp_turned` alone, those for fewest arguments first."""
    return tuple(
        Variant(f"{name}_near{few}{'_squared' if squared else ''}", MAX_REDUCED, digits, squared)
        for few, digits in (("_few", TWO_PART_DIGITS), ("", float32.digits))
        for squared in (False, True)
    )


_SIGMOID = """\
// e^-|x| never overflows; below 0 the quotient is that times what it is above. No branch, as a quotient would have.
__device__ __forceinline__ float lp_sigmoid(float x) {
  float p = expf(-fabsf(x)), r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + p));
  return x < 0.0f ? p * r : r;
}
__device__ __forceinline__ double lp_sigmoid_double(double x) {
  double p = exp(-fabs(x)), r = 1.0 / (1.0 + p);
  return x < 0.0 ? p * r : r;
}
"""


def _logistic(x: Any) -> Any:
    p = np.exp(-np.abs(x))
    return np.where(x < 0, p, 1.0) / (1.0 + p)


exp = _function("exp", np.exp, ulp=2, work=8, expand=expand.exp, doc="e to the x.")
exp2 = _function("exp2", np.exp2, ulp=2, work=6, expand=expand.exp2, doc="2 to the x.")
log = _function("log", np.log, ulp=2, work=18, expand=expand.log, doc="The natural logarithm; NaN below 0, -inf at 0.")
sqrt = _function("sqrt", np.sqrt, ulp=0, work=8, doc="The square root; NaN below 0.")
rsqrt = _function("rsqrt", lambda x: 1 / np.sqrt(x), ulp=2, work=4, expand=expand.rsqrt, doc="1 / sqrt(x).")
tanh = _function("tanh", np.tanh, ulp=2, work=14, expand=expand.tanh, doc="The hyperbolic tangent.")
erf = _function("erf", _erf64, ulp=2, work=22, llvm="call erf", expand=expand.erf, doc="The error function.")
exp_16 = Intrinsic(
    "exp_16", 1, FLOAT, _rounded(np.exp), ulp=64, work=4, expand=expand.exp, llvm={"float": "llvm.exp"},
    cuda={"float32": "lp_exp_16({0})", "float64": "exp({0})"}, cuda_prelude="""\
__device__ __forceinline__ float lp_exp_16(float x) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * 1.44269504f));  // off by x * 2^-24 of itself, at most
  return e;
}
""",
    doc="e to the x, to 2^-17 of it: for results that are rounded to 16 bits. Below 2^-126 it may be 0.",
)  # fmt: skip
exp2_16 = Intrinsic(
    "exp2_16", 1, FLOAT, _rounded(np.exp2), ulp=64, work=2, expand=expand.exp2, llvm={"float": "llvm.exp2"},
    cuda={"float32": "lp_exp2_16({0})", "float64": "exp2({0})"}, cuda_prelude="""\
__device__ __forceinline__ float lp_exp2_16(float x) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x));
  return e;
}
""",
    doc="2 to the x, to 2^-17 of it: for results that are rounded to 16 bits. Below 2^-126 it may be 0.",
)  # fmt: skip
_SIGMOID_16 = """\
__device__ __forceinline__ float lp_sigmoid_16(float x) {
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));  // off by x * 2^-24 of itself, at most
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
  return r;
}
"""
sigmoid_16 = Intrinsic(
    "sigmoid_16", 1, FLOAT, _rounded(lambda x: 1 / (1 + np.exp(-x))), ulp=64, work=6, expand=expand.sigmoid,
    cuda={"float32": "lp_sigmoid_16({0})", "float64": "(1.0 / (1.0 + exp(-({0}))))"}, cuda_prelude=_SIGMOID_16,
    doc="1 / (1 + exp(-x)), to 2^-17 of it: for results that are rounded to 16 bits. Below 2^-126 it may be 0.",
)  # fmt: skip
sigmoid = _function(
    "sigmoid", _logistic, ulp=4, work=14, cuda=("lp_sigmoid", "lp_sigmoid_double"), prelude=_SIGMOID,
    expand=expand.sigmoid, doc="1 / (1 + exp(-x)).",
)  # fmt: skip
sin = _function(
    "sin",
    np.sin,
    ulp=2,
    work=20,
    cuda=("lp_sin", "sin"),
    prelude=_SIN_COS_PRELUDE,
    expand=expand.sin,
    variants=_variants("sin"),
    doc="The sine of radians.",
)
cos = _function(
    "cos",
    np.cos,
    ulp=2,
    work=20,
    cuda=("lp_cos", "cos"),
    prelude=_SIN_COS_PRELUDE,
    expand=expand.cos,
    variants=_variants("cos"),
    doc="The cosine of radians.",
)


def _reduced(name: str, *, parts: int) -> Intrinsic:
    """`name` of arguments for which the reduction in so many parts is exact enough."""
    fn, few = (np.sin, np.cos)[name == "cos"], "" if parts == 3 else "_few"
    return _function(
        f"{name}_near{few}", fn, ulp=2, work=13 + parts, cuda=(f"lp_{name}_near<{parts}>", name),
        prelude=_SIN_COS_PRELUDE,
        llvm=f"llvm.{name}", expand=getattr(expand, name),
        doc=f"The {'sine' if name == 'sin' else 'cosine'} of radians that are no more than some thousand turns"
        f"{', of few significant bits' if few else ''}: what lowering puts where that is known.",
    )  # fmt: skip


def _squared(fn: Intrinsic) -> Intrinsic:
    """The product of `fn` with itself, rounded as that is, of narrow types in float32. Twice its error, of a unit that
    may be half as large."""

    double = fn.cuda["float64"]

    def meaning(x: Any) -> Any:
        value = fn.meaning(x.astype(np.float32) if x.dtype.itemsize < 4 else x)
        return np.asarray(value * value).astype(x.dtype)[()]

    def expanded(x: Value) -> Value:
        value = Op(fn, (Cast(x, float32) if x.dtype.is_narrow else x,))
        square = Op(mul, (value, value))
        return Cast(square, x.dtype) if x.dtype.is_narrow else square

    return Intrinsic(
        f"{fn.name}_squared", 1, FLOAT, meaning, ulp=4 * fn.ulp, work=fn.work,
        cuda={"float32": fn.cuda["float32"].replace("_near", "_near_squared"), "float64": f"({double} * {double})"},
        cuda_prelude=_SIN_COS_PRELUDE, expand=expanded,
        doc=f"{fn.name} times itself, whose sign takes no time.",
    )  # fmt: skip


SHORT_FORMS = [_reduced(name, parts=parts) for name in ("sin", "cos") for parts in (3, 2)]
SQUARES = [_squared(fn) for fn in SHORT_FORMS]
pow_ = _function("pow", np.float_power, arity=2, ulp=8, work=45, expand=expand.pow, doc="x to the y.")


def _library(name: str, fn: Callable[..., Any], *, ulp: float, work: int, doc: str, arity: int = 1) -> Intrinsic:
    """A function that the library of each target has; on a CPU it is called on vectors where the C library has such
    functions, of which it says that they are within 4 ulp, else lane by lane."""
    return _function(name, fn, arity=arity, ulp=ulp, work=work, llvm=f"vector-call {name}", doc=doc)


log1p = _library("log1p", np.log1p, ulp=4, work=24, doc="log(1 + x), exact where x is small; NaN below -1.")
expm1 = _library("expm1", np.expm1, ulp=4, work=20, doc="exp(x) - 1, exact where x is small.")
tan = _library("tan", np.tan, ulp=4, work=40, doc="The tangent of radians.")
asin = _library("asin", np.arcsin, ulp=4, work=30, doc="The angle in radians of a sine; NaN beyond -1 and 1.")
acos = _library("acos", np.arccos, ulp=4, work=30, doc="The angle in radians of a cosine; NaN beyond -1 and 1.")
atan = _library("atan", np.arctan, ulp=4, work=30, doc="The angle in radians of a tangent.")
atan2 = _library("atan2", np.arctan2, ulp=4, work=40, arity=2, doc="The angle in radians of the point (y, x), y first.")
sinh = _library("sinh", np.sinh, ulp=4, work=30, doc="The hyperbolic sine.")
cosh = _library("cosh", np.cosh, ulp=4, work=24, doc="The hyperbolic cosine.")
asinh = _library("asinh", np.arcsinh, ulp=4, work=40, doc="The inverse of the hyperbolic sine.")
acosh = _library("acosh", np.arccosh, ulp=4, work=40, doc="The inverse of the hyperbolic cosine; NaN below 1.")
atanh = _library("atanh", np.arctanh, ulp=4, work=40, doc="The inverse of the hyperbolic tangent; NaN beyond -1 and 1.")
erfc = _library("erfc", _erfc64, ulp=5, work=40, doc="1 - erf(x), exact where that is small.")
lgamma = _function(
    "lgamma", _lgamma64, ulp=8, work=60, llvm="call lgamma",
    doc="log(abs(gamma(x))); infinity at 0, -1, -2, ... Near its zeros, as at 1 and 2, digits are lost.",
)  # fmt: skip
tgamma = _function(
    "tgamma", _gamma64, ulp=11, work=80, llvm="call tgamma", doc="The gamma function; NaN at -1, -2, ..."
)  # fmt: skip
floor = _function("floor", np.floor, ulp=0, doc="The largest integer not above x.")
ceil = _function("ceil", np.ceil, ulp=0, doc="The smallest integer not below x.")
round_ = _function(
    "round", np.rint, ulp=0, cuda=("rintf", "rint"), llvm="llvm.roundeven", doc="The nearest integer, halves to even."
)


def _fma(a: Any, b: Any, c: Any) -> Any:
    kind = a.dtype
    if kind == np.float64:
        return np.longdouble(a) * np.longdouble(b) + np.longdouble(c)
    return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)


fma = Intrinsic(
    "fma", 3, FLOAT, lambda a, b, c: np.asarray(_fma(a, b, c)).astype(a.dtype)[()], ulp=1,
    cuda={"float32": "fmaf({0}, {1}, {2})", "float64": "fma({0}, {1}, {2})"}, llvm={"float": "llvm.fma"},
    doc="a * b + c, rounded once.",
)  # fmt: skip
isnan = Intrinsic(
    "isnan", 1, FLOAT, np.isnan, result="bool", cuda={"float": "({0} != {0})"}, llvm={"float": "fcmp uno"},
    doc="Whether x is not a number.",
)  # fmt: skip
