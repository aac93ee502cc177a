"""Emit expressions in CUDA C. Floats of 16 bits and fewer are held as float and rounded after every operation."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

import numpy as np

from loopir.codegen.cuda.narrow_floats import NARROW_FLOATS
from loopir.codegen.fast_division import is_nonnegative
from loopir.errors import LowerError
from loopir.ir.dtypes import DType, bool_, float16, float32, uint64
from loopir.ir.grammar import (
    Add,
    And,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    FloorDiv,
    Index,
    IndexToValue,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    Param,
    Select,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    Xor,
)
from loopir.ir.magnitude import is_unsigned
from loopir.ir.traverse.walk import substitute

VALUE_PRELUDE = """\
__device__ __forceinline__ bool lp_after_previous() {  // false, which no compiler knows: no load moves past the branch
  int blocks = 1;
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\\n\\tgriddepcontrol.wait;" ::: "memory");
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(blocks) :: "memory");
#endif
  return blocks == 0;
}
struct __align__(8) lp_u2 { unsigned int x, y; };
struct __align__(16) lp_u4 { unsigned int x, y, z, w; };
__device__ __forceinline__ float lp_from_f16(unsigned short h) {
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
}
__device__ __forceinline__ unsigned short lp_to_f16(float f) {
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ unsigned short lp_to_f16(double f) {
  unsigned short h; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(f)); return h;
}
__device__ __forceinline__ float lp_from_bf16(unsigned short h) { return __uint_as_float((unsigned int)h << 16); }
__device__ __forceinline__ float lp_bf16_of(const unsigned short* pairs, int n) {  // the upper of a pair, by a mask
  const unsigned int word = reinterpret_cast<const unsigned int*>(pairs)[n >> 1];
  return __uint_as_float(n & 1 ? word & 0xffff0000u : word << 16);
}
__device__ __forceinline__ unsigned short lp_to_bf16(float f) {
  unsigned short h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ float lp_round_f16(double f) { return lp_from_f16(lp_to_f16(f)); }
__device__ __forceinline__ float lp_round_f16(float f) {  // a pair is made four times as fast as one
#if __CUDA_ARCH__ >= 800
  unsigned int two; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(0.0f), "f"(f));
  return lp_from_f16((unsigned short)two);
#else
  return lp_from_f16(lp_to_f16(f));
#endif
}
__device__ __forceinline__ float lp_round_bf16(float f) {  // of a pair the upper half, where it is the float
  unsigned int two; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(f), "f"(0.0f));
  return __uint_as_float(two);
}
__device__ __forceinline__ long long lp_clipped(unsigned long long x) {
  return (long long)(x < 0x7fffffffffffffffull ? x : 0x7fffffffffffffffull);
}
template <class T> __device__ __forceinline__ T lp_floor_div(T a, T b) { T q = a / b; return a % b < 0 ? q - 1 : q; }
template <class T> __device__ __forceinline__ T lp_floor_mod(T a, T b) { T r = a % b; return r < 0 ? r + b : r; }
template <class T, class F> __device__ __forceinline__ T lp_saturate(F x, F low, F high, T least, T most) {
  return x != x ? (T)0 : x <= low ? least : x >= high ? most : (T)x;
}
"""
_C = {
    "float32": "float", "float64": "double", "int8": "signed char", "int16": "short", "int32": "int",
    "int64": "long long", "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long",
}  # fmt: skip
_WORDS = """
    alignas alignof and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not_eq nullptr operator or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq

    _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Pragma _Static_assert _Thread_local defined

    EOF NULL abs acos asin assert atan atomicAdd atomicCAS atomicExch atomicMax atomicMin blockDim blockIdx cbrt
    ceil clock cos cosh dim3 div double2 erf erfc exp exp2 expm1 fabs float2 float4 floor fma fmaf fmax fmin
    fmod free gridDim hypot isinf isnan j0 j1 jn ldexp lgamma linux log log2 logb main malloc max memcpy memset
    min modf nan norm pow printf remainder rint round rsqrt signbit sin sinh size_t sqrt tan tanh tgamma
    threadIdx trunc uint2 uint4 unix warpSize y0 y1 yn
"""
RESERVED = frozenset(_WORDS.split())
"""Keywords of C++, and names of CUDA's and of its library; of a function, the one of floats ends with an f."""


def memory_type(t: DType) -> str:
    """The C type of an element in memory."""
    if t in NARROW_FLOATS:
        return NARROW_FLOATS[t][0]
    return "unsigned char" if t == bool_ else _C[t.name]


def value_type(t: DType) -> str:
    """The C type of a value in a register."""
    if t in NARROW_FLOATS:
        return "float"
    return "bool" if t == bool_ else _C[t.name]


def literal(value: float, t: DType) -> str:
    """A literal with exactly the bits of the constant."""
    if t == bool_:
        return "true" if value else "false"
    if t.is_float:
        return _float_literal(float(t.numpy.type(value)), t)
    number = int(value)
    if t.kind == "uint":
        return f"({_C[t.name]}){number}{'ull' if t.bits == 64 else 'u'}"
    if number == -(1 << 63):
        return "(-9223372036854775807ll - 1)"
    if t.bits == 64:
        return f"{number}ll" if number >= 0 else f"({number}ll)"
    return f"({_C[t.name]})({number}{'ll' if number == -(1 << 31) else ''})"


def _float_literal(x: float, t: DType) -> str:
    if t.bits == 64:
        if math.isfinite(x):
            return f"({x.hex()})" if x < 0 or math.copysign(1, x) < 0 else x.hex()
        (bits,) = struct.unpack("<Q", struct.pack("<d", x))
        return f"__longlong_as_double({bits}ull)"
    if math.isfinite(x):
        plain = repr(float(np.float32(x)))
        return f"({plain}f)" if plain.startswith("-") else f"{plain}f"
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return f"__uint_as_float({bits}u)"


class CudaValues:
    """Emits indices, conditions and values; `index_type` is the C type of index arithmetic."""

    def __init__(self, index_type: str) -> None:
        self.index_type = index_type
        self.params: Mapping[str, str] = {}
        self.words: set[str] = set()
        """Arrays of bfloat16 in registers that were moved there as words, a pair each."""
        self.scalars: frozenset[str] = frozenset()
        """Registers of one element, which are variables, not arrays."""
        self.short: Mapping[str, str] = {}
        """Of names that are long, what the kernel has instead."""
        self.reciprocals: Mapping[Index, str] = {}
        """The parameters by which an int is divided without a division, by what it is divided by."""

    def name(self, name: str) -> str:
        """A name that C has no other use for; no other is spelt so, as one that looks like it is made longer, too."""
        name = self.short.get(name, name)
        bare = name.rstrip("_")
        taken = bare in RESERVED or bare.removesuffix("f") in RESERVED or name.startswith(("lp_", "__"))
        return f"{name}_" if taken else name

    # ------------------------------------------------------------ indices and conditions

    def index(self, ix: Index) -> str:
        match ix:
            case Int(value):
                wide = "ll" if abs(value) >= 1 << 31 else ""
                return f"{value}{wide}" if value >= 0 else f"({value}{wide})"
            case Var(name):
                return self.name(name)
            case Add(a, Int(value)) if value < 0:
                return f"({_bare(self.index(a), '+')} - {-value})"
            case Add(a, b):
                return f"({_bare(self.index(a), '+')} + {_bare(self.index(b), '*')})"
            case Mul(a, b):
                return f"({_bare(self.index(a), '*')} * {self.index(b)})"
            case Xor(a, b):
                return f"({self.index(a)} ^ {self.index(b)})"
            case FloorDiv(a, b) | Mod(a, b):
                return self.division(a, b, isinstance(ix, Mod))
            case Min(a, b) | Max(a, b):
                x, y = (f"({self.index_type})({self.index(s)})" for s in (a, b))
                return f"({x} {'<' if isinstance(ix, Min) else '>'} {y} ? {x} : {y})"
            case ValueToIndex(value) if value.dtype == uint64:
                return f"lp_clipped({self.value(value)})"
            case ValueToIndex(value):
                return f"({self.index_type})({self.value(value)})"
            case _:
                raise TypeError(f"{type(ix).__name__} is no index")

    def division(self, a: Index, b: Index, remainder: bool) -> str:
        if isinstance(a, ValueToIndex) and is_unsigned(a):
            unsigned = f"({self.value(a.value)} {'%' if remainder else '/'} (unsigned long long){self.index(b)})"
            return f"(long long){unsigned}" if remainder else f"lp_clipped{unsigned}"
        x, y = self.index(a), self.index(b)
        if is_nonnegative(a) and b in self.reciprocals and self.index_type == "int":
            quotient = f"lp_quotient({x}, {self.reciprocals[b]})"
            return f"({_bare(x, '+')} - {quotient} * {y})" if remainder else quotient
        if is_nonnegative(a):
            return f"({_bare(x, '*')} {'%' if remainder else '/'} {y})"
        fn = "lp_floor_mod" if remainder else "lp_floor_div"
        return f"{fn}<{self.index_type}>({x}, {y})"

    def at_zero(self, ix: Index, var: str) -> str:
        """`ix` where `var` is 0."""
        return self.index(substitute(ix, {var: Int(0)}))

    def cond(self, c: Cond) -> str:
        match c:
            case And(terms):
                return "(" + (" && ".join(_bare(self.cond(x), "<") for x in terms) or "true") + ")"
            case Or(terms):
                return "(" + (" || ".join(map(self.cond, terms)) or "false") + ")"
            case Not(term):
                return f"(!{self.cond(term)})"
            case Cmp(op, ValueToIndex(x) as a, ValueToIndex(y) as b) if is_unsigned(a) and is_unsigned(b):
                return f"({self.value(x)} {op} {self.value(y)})"
            case Cmp(op, a, b):
                return f"({_bare(self.index(a), '+')} {op} {_bare(self.index(b), '+')})"
            case ValueToCond(value):
                return f"({self.value(value)})"
            case _:
                raise TypeError(f"{type(c).__name__} is no condition")

    # ------------------------------------------------------------ memory

    def element(self, b: Buffer, at: Index) -> str:
        if b.name in self.scalars:
            return self.name(b.name)
        source = self.index(at)
        inner = source[1:-1] if source.startswith("(") and _balanced(source[1:-1]) else source
        return f"{self.name(b.name)}[{inner}]"

    def address(self, b: Buffer, at: str) -> str:
        return f"{self.name(b.name)} + {at}"

    def from_memory(self, source: str, t: DType) -> str:
        if t in NARROW_FLOATS:
            return f"lp_from_{NARROW_FLOATS[t][1]}({source})"
        return f"({source} != 0)" if t == bool_ else source

    def to_memory(self, source: str, t: DType) -> str:
        return f"lp_to_{NARROW_FLOATS[t][1]}({source})" if t in NARROW_FLOATS else source

    # ------------------------------------------------------------ values

    def combined(self, v: Value, env: Mapping[str, str]) -> str:
        """A monoid's component with its parameters named."""
        saved, self.params = self.params, env
        out = self.value(v)
        self.params = saved
        return out

    def value(self, v: Value) -> str:
        match v:
            case Const(value, t):
                return literal(value, t)
            case Load(buffer, at) if buffer.name in self.words:
                return f"lp_bf16_of({self.name(buffer.name)}, {self.index(at[0])})"
            case Load(buffer, at):
                return self.from_memory(self.element(buffer, at[0]), buffer.dtype)
            case IndexToValue(Index() as ix, t):
                return self.convert(f"(long long){self.index(ix)}", DType("int64", "int", 64), t)
            case IndexToValue(Cond() as c, t):
                return self.convert(self.cond(c), bool_, t)
            case Cast(value, t):
                return self.convert(self.value(value), value.dtype, t)
            case Select(c, a, b):
                return f"({self.cond(c)} ? {self.value(a)} : {self.value(b)})"
            case Op():
                return self.op(v)
            case Param(name, _):
                return self.params[name]
            case _:
                raise TypeError(f"{type(v).__name__} is no value")

    def held(self, v: Value) -> str:
        """`v` as memory holds it. A narrow float is rounded once, and a copy of one is not touched."""
        t = v.dtype
        if t not in NARROW_FLOATS:
            return self.value(v)
        match v:
            case Load(buffer, at):
                return self.element(buffer, at[0])
            case Select(c, a, b):
                return f"({self.cond(c)} ? {self.held(a)} : {self.held(b)})"
            case Op():
                return self.to_memory(self.unrounded(v), t)
            case Cast(value, _) if value.dtype != t:
                return self.to_memory(_as_float(self.value(value), value.dtype, t), t)
            case _:
                return self.to_memory(self.value(v), t)

    def op(self, v: Op) -> str:
        source = self.unrounded(v)
        return source if v.fn.result == "bool" else self.rounded(source, v.args[0].dtype)

    def unrounded(self, v: Op) -> str:
        """The operation, of narrow floats in float32."""
        t = v.args[0].dtype
        work = float32 if t in NARROW_FLOATS else t
        template = v.fn.cuda.get(work.name) or v.fn.cuda.get(work.kind)
        if template is None:
            raise LowerError(f"{v.fn.name} of {t} has no spelling in CUDA C; cast to float32 or float64 first")
        unsigned = "unsigned long long" if t.bits == 64 else "unsigned int"
        args = [self.value(a) for a in v.args]
        return template.format(*args, T=value_type(t), U=unsigned)

    def rounded(self, source: str, t: DType) -> str:
        """A float rounded to a narrow type, held as float."""
        return f"lp_round_{NARROW_FLOATS[t][1]}({source})" if t in NARROW_FLOATS else source

    def convert(self, source: str, have: DType, to: DType) -> str:
        """Floats to integers truncate and saturate, NaN becomes 0; integers wrap."""
        if have == to:
            return source
        if to == bool_:
            return f"({source} != 0)"
        if to in NARROW_FLOATS:
            return self.rounded(_as_float(source, have, to), to)
        if have.is_float and to.is_integer:
            info = np.iinfo(to.numpy)
            held = "double" if have.bits == 64 else "float"
            least, most = literal(int(info.min), to), literal(int(info.max), to)
            low, high = (_float_literal(float(x), DType(held, "float", 64 if held == "double" else 32))
                         for x in (info.min, info.max))  # fmt: skip
            return f"lp_saturate<{value_type(to)}, {held}>({source}, {low}, {high}, {least}, {most})"
        return f"({value_type(to)})({source})"


def _as_float(source: str, have: DType, to: DType) -> str:
    """What is rounded to a narrow float: float64 to float16 at once, all else as float32, as NumPy and ml_dtypes do."""
    return source if have == float32 or (have.bits == 64 and have.is_float and to == float16) else f"(float)({source})"


_BINDS = {"*": 3, "/": 3, "%": 3, "+": 2, "-": 2, "<": 1, ">": 1, "<=": 1, ">=": 1, "==": 1, "!=": 1}
"""How tightly operators bind, the tightest most."""


def _bare(source: str, operator: str) -> str:
    """`source` without the parentheses around it, if its operators bind as tightly as `operator`, or more."""
    inner = source[1:-1]
    if not source.startswith("(") or inner.startswith("-") or not _balanced(inner):
        return source
    depth, words = 0, [""]
    for c in inner:
        depth += (c in "([") - (c in ")]")
        if c == " " and depth == 0:
            words.append("")
        else:
            words[-1] += c
    binds = all(_BINDS.get(x, 0) >= _BINDS[operator] for x in words[1::2])  # operands and operators in turn
    return inner if binds else source


def _balanced(source: str) -> bool:
    depth = 0
    for c in source:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return True
