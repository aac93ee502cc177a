"""Emit operations on scalars or vectors in LLVM IR: types, conversions, and the spellings in intrinsics' records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.ir_text import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    Callee,
    Constant,
    Function,
    Operand,
    Type,
    constant,
    integer,
    like,
    listed,
    poison,
    vector,
    zero,
)
from loopir.codegen.llvm.vector_functions import vector_symbol
from loopir.errors import LowerError
from loopir.ir.dtypes import DType, bfloat16, bool_, float8_e4m3fn, float8_e5m2, float16, float32


def unspelt(name: str, t: DType) -> LowerError:
    return LowerError(f"{name} of {t} has no spelling on the CPU; cast to float32 or float64 first")


# ---------------------------------------------------------------- types


@lru_cache(maxsize=64)
def memory_type(t: DType) -> Type:
    """The LLVM type of an element in memory."""
    if t == float16:
        return HALF
    if t.is_narrow:
        return integer(t.bits)
    if t.is_float:
        return FLOAT if t == float32 else DOUBLE
    return I8 if t == bool_ else integer(t.bits)


def register_type(t: DType) -> Type:
    """The LLVM type of a value in a register: narrow floats as float32, a bool as one bit."""
    if t.is_float:
        return DOUBLE if t.bits == 64 else FLOAT
    return I1 if t == bool_ else integer(t.bits)


def literal(value: int | float | bool, t: DType) -> Constant:
    """A literal, rounded to its type."""
    return constant(register_type(t), round_to(float(value), t) if t.is_float else int(value))


def round_to(x: float, t: DType) -> float:
    """`x` rounded to `t`, with overflow to infinity and no warning."""
    with np.errstate(over="ignore"):
        return float(t.numpy.type(x))


def from_memory(b: Builder, raw: Operand, t: DType) -> Operand:
    if t == float16:
        return b.cast("fpext", raw, like(raw, FLOAT))
    if t == bfloat16:
        wide = b.cast("zext", raw, like(raw, I32))
        return b.bitcast(b.op("shl", wide, 16), like(raw, FLOAT))
    if t == float8_e5m2:  # the upper half of a float16
        wide = b.cast("zext", raw, like(raw, I16))
        return b.cast("fpext", b.bitcast(b.op("shl", wide, 8), like(raw, HALF)), like(raw, FLOAT))
    if t == float8_e4m3fn:
        return _from_e4m3(b, raw)
    return b.icmp("ne", raw, 0) if t == bool_ else raw


def to_memory(b: Builder, v: Operand, t: DType) -> Operand:
    if t == float16:
        return b.cast("fptrunc", v, like(v, HALF))
    if t == bool_:
        return b.cast("zext", v, like(v, I8))
    if t in _EIGHT:
        return _to_eight(b, v, *_EIGHT[t])
    if t != bfloat16:
        return v
    bits = b.bitcast(v, like(v, I32))
    odd = b.op("and", b.op("lshr", bits, 16), 1)
    rounded = b.op("add", bits, b.op("add", odd, 0x7FFF))  # to nearest, ties to even
    quiet = b.op("or", bits, 0x400000)
    kept = b.select(b.fcmp("uno", v, v), quiet, rounded)
    return b.cast("trunc", b.op("lshr", kept, 16), like(v, I16))


_EIGHT = {float8_e4m3fn: (3, 7, 0x7F, 0x7F), float8_e5m2: (2, 15, 0x7C, 0x7E)}
"""Of floats of 8 bits: stored bits of the significand, the exponent's bias, what is too large, and NaN."""


def _from_e4m3(b: Builder, raw: Operand) -> Operand:
    """Exponents count from 120 more in float32, so its bits there, and times 2^120; of its last number, NaN."""
    wide = b.cast("zext", raw, like(raw, I32))
    bits = b.op("and", wide, 0x7F)
    sign = b.op("shl", b.op("and", wide, 0x80), 24)
    near = b.bitcast(b.op("or", b.op("shl", bits, 20), sign), like(raw, FLOAT))
    nan = b.bitcast(b.op("or", sign, 0x7FC00000), near.type)
    last = b.icmp("eq", bits, 0x7F)
    return b.select(last, nan, b.op("fmul", near, 2.0**120))


def _to_eight(b: Builder, v: Operand, digits: int, bias: int, most: int, nan: int) -> Operand:
    """To nearest, ties to even. What is below the normal numbers is counted by a sum with a float in such units."""
    word = b.bitcast(v, like(v, I32))
    bits = b.op("and", word, 0x7FFFFFFF)
    below = 23 - digits
    unit = 2.0 ** (24 - bias - digits)
    counted = b.bitcast(b.op("fadd", b.bitcast(bits, v.type), unit), word.type)
    small = b.op("sub", counted, (151 - bias - digits) << 23)
    odd = b.op("and", b.op("lshr", bits, below), 1)
    up = b.op("add", b.op("add", bits, odd), (1 << (below - 1)) - 1)
    normal = b.op("sub", b.op("lshr", up, below), (127 - bias) << digits)
    near = b.select(b.icmp("ult", bits, (128 - bias) << 23), small, normal)
    near = b.select(b.icmp("ult", near, most), near, most)
    near = b.select(b.icmp("ugt", bits, 0x7F800000), nan, near)
    sign = b.op("and", b.op("lshr", word, 24), 0x80)
    return b.cast("trunc", b.op("or", near, sign), like(v, I8))


def convert(b: Builder, v: Operand, source: DType, to: DType) -> Operand:
    """The value of `source` as a `to`: floats to integers truncate and saturate, integers wrap."""
    kind = like(v, register_type(to))
    if source.is_float and to.is_float:
        if source.bits == 64:
            out = v if to.bits == 64 else _to_odd(b, v) if to == float16 else b.cast("fptrunc", v, like(v, FLOAT))
        else:
            out = b.cast("fpext", v, kind) if to.bits == 64 else v
        return from_memory(b, to_memory(b, out, to), to) if to.is_narrow else out
    if source.is_float:
        return _to_integer(b, v, to)
    if to.is_float:
        wide = like(v, DOUBLE if to.bits == 64 else FLOAT)
        if source == bool_:  # by a mask: LLVM's conversion makes integers of the lanes first
            out = b.select(v, constant(wide, 1.0), 0.0)
        else:
            out = b.cast("sitofp" if source.kind == "int" else "uitofp", v, wide)
        return from_memory(b, to_memory(b, out, to), to) if to.is_narrow else out
    if to == bool_:
        return v if source == bool_ else b.icmp("ne", v, 0)
    return resized(b, v, kind, source)


def _to_integer(b: Builder, v: Operand, to: DType) -> Operand:
    """A float as a `to`: cut, between its ends, and 0 for NaN.

    LLVM's saturating conversion of a vector converts each lane by itself, and its vectoriser makes such vectors; so
    floats are cut to what both types hold, converted, and what was above that is the last integer.
    """
    if to == bool_:
        return b.fcmp("une", v, 0.0)
    least, most = (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1) if to.kind == "int" else (0, (1 << to.bits) - 1)
    if not v.type.count and to.bits > 32:
        kind = like(v, register_type(to))
        name = "llvm.fptosi.sat" if to.kind == "int" else "llvm.fptoui.sat"
        return b.call(_intrinsic(b, name, kind, [v.type]), [v])
    digits = 24 if v.type.scalar is FLOAT else 53
    above = max(0, most.bit_length() - digits)
    last = most >> above << above  # the last integer that a float of this type holds
    low = b.select(b.fcmp("olt", v, float(least)), float(least), v)
    inside = b.select(b.fcmp("ogt", low, float(last)), float(last), low)
    number = b.select(b.fcmp("uno", v, v), 0.0, inside)
    held = 32 if to.bits < 32 or (to.bits == 32 and to.kind == "int") else to.bits
    found = b.cast("fptosi" if held > to.bits or to.kind == "int" else "fptoui", number, like(v, integer(held)))
    if above:
        found = b.select(b.fcmp("ogt", v, float(last)), constant(found.type, most), found)
    return found if held == to.bits else b.cast("trunc", found, like(v, integer(to.bits)))


def resized(b: Builder, v: Operand, to: Type, source: DType) -> Operand:
    """An integer of type `source`, or a vector of them, truncated or extended to the width of `to`."""
    kind = like(v, to.scalar)
    if v.type is kind:
        return v
    narrower = v.type.scalar.bits > kind.scalar.bits
    return b.cast("trunc" if narrower else "sext" if source.kind == "int" else "zext", v, kind)


def clipped(b: Builder, v: Operand) -> Operand:
    """A uint64 as an int64, saturated."""
    return b.select(b.icmp("slt", v, 0), (1 << 63) - 1, v)


def _to_odd(b: Builder, v: Operand) -> Operand:
    """A float64 as float32, rounded to odd, so that rounding it once more rounds as if once.

    Boldo and Melquiond, "When double rounding is odd" (2005).
    """
    near = b.cast("fptrunc", v, like(v, FLOAT))
    back = b.cast("fpext", near, v.type)
    bits = b.bitcast(near, like(v, I32))
    magnitude = [b.op("and", b.bitcast(x, like(v, I64)), (1 << 63) - 1) for x in (back, v)]
    away = b.icmp("ugt", *magnitude)
    below = b.op("sub", bits, b.cast("zext", away, bits.type))
    inexact = b.fcmp("one", back, v)
    return b.bitcast(b.select(inexact, b.op("or", below, 1), bits), near.type)


# ---------------------------------------------------------------- calls


def _intrinsic(b: Builder, label: str, result: Type, args: Sequence[Type]) -> Callee:
    kinds = dict.fromkeys([result, *args])
    return b.module.declared(".".join([label, *(t.short for t in kinds)]), result, args)


def any_true(b: Builder, test: Operand) -> Operand:
    """Whether any lane is true."""
    return b.call(b.module.declared(f"llvm.vector.reduce.or.{test.type.short}", I1, [test.type]), [test])


def masked_load(b: Builder, address: Operand, kind: Type, align: int, mask: Operand) -> Operand:
    fn = b.module.declared(f"llvm.masked.load.{kind.short}.p0", kind, [POINTER, I32, mask.type, kind])
    return b.call(fn, [address, constant(I32, align), mask, zero(kind)])


def masked_gather(b: Builder, base: Operand, at: Operand, kind: Type, align: int, mask: Operand | None) -> Operand:
    """The elements of `kind` at the offsets `at` from `base`, in the lanes of `mask`, or in all; 0 in others."""
    addresses = vector(POINTER, kind.count)
    found = b.made(addresses, f"getelementptr {kind.scalar.text}, {base.typed}, {at.typed}")
    mask = listed(vector(I1, kind.count), [1] * kind.count) if mask is None else mask
    fn = b.module.declared(
        f"llvm.masked.gather.{kind.short}.{addresses.short}", kind, [addresses, I32, mask.type, kind]
    )
    return b.call(fn, [found, constant(I32, align), mask, zero(kind)])


def masked_store(b: Builder, value: Operand, address: Operand, align: int, mask: Operand) -> None:
    kind = value.type
    fn = b.module.declared(f"llvm.masked.store.{kind.short}.p0", VOID, [kind, POINTER, I32, mask.type])
    b.call(fn, [value, address, constant(I32, align), mask])


# ---------------------------------------------------------------- operations


def spell(b: Builder, spelling: str, args: Sequence[Operand], t: DType, flags: str = "") -> Operand:
    """Emit the operation spelled in an intrinsic's record, on operands of type `t`; `flags` are fast-math flags."""
    how, _, rest = spelling.partition(" ")
    first, last = args[0], args[-1]
    if how in ("fadd", "fsub", "fmul", "fdiv"):
        return b.op(how + flags, first, last)
    if how == "fneg":
        return b.made(first.type, f"fneg {first.typed}")
    if how == "fcmp":
        return b.fcmp(rest, first, last)
    if how == "icmp":
        return b.icmp(rest, first, last)
    if how == "floor":
        return _integer_division(b, first, last, rest)
    if how == "shift":
        return _shift(b, first, last, rest, t)
    if how in _BIT_OPERATIONS:
        return _BIT_OPERATIONS[how](b, first, last, spelling)
    if how == "apart":
        return _called_apart(b, rest, first)
    if how in ("call", "vector-call"):
        call = _scalar_calls if how == "call" else _vector_calls
        return call(b, rest + ("f" if t == float32 else ""), args)
    if how == "same":
        return first
    if how == "not":
        return b.not_(first)
    if how == "neg":
        return b.neg(first)
    if how == "abs":
        return b.select(b.icmp("slt", first, 0), b.neg(first), first)
    if how == "extreme":  # x86 asks of the first one whether it is NaN: not of what a fold has made, which others await
        fn = _intrinsic(b, rest, first.type, [first.type, last.type])
        return b.call(fn, (last, first), flags=" nsz")
    if how.startswith("llvm."):
        return b.call(_intrinsic(b, how, first.type, [a.type for a in args]), args)
    return b.op(how, first, last)


def is_splat(v: Operand) -> bool:
    """Whether `v` is one number, in all lanes if it is a vector."""
    return isinstance(v, Constant) and not v.text.startswith("<")


def floor_division(b: Builder, x: Operand, y: Operand, *, remainder: bool) -> Operand:
    """x // y or x % y of indices, rounded to minus infinity; y is positive, or the result is not used.

    A division by 0 in one lane is undefined in all of them for LLVM, so such a lane divides by 1.
    """
    if not is_splat(y):
        y = b.select(b.icmp("sgt", y, 0), y, 1)
    q, r = b.division("sdiv", x, y), b.division("srem", x, y)
    negative = b.icmp("slt", r, 0)
    if remainder:
        return b.select(negative, b.op("add", r, y), r)
    return b.select(negative, b.op("sub", q, 1), q)


def _integer_division(b: Builder, x: Operand, y: Operand, how: str) -> Operand:
    """Division or remainder that never traps: by 0 it is 0, and the least integer by -1 wraps."""
    by_zero = b.icmp("eq", y, 0)
    if how in ("udiv", "urem"):
        out = b.division(how, x, b.select(by_zero, 1, y))
        return b.select(by_zero, 0, out)
    by_minus = b.icmp("eq", y, -1)
    safe = b.select(b.op("or", by_zero, by_minus), 1, y)
    r = b.division("srem", x, safe)
    wrong = b.op("and", b.icmp("ne", r, 0), b.icmp("slt", b.op("xor", r, safe), 0))
    if how == "srem":
        out, at_minus = b.select(wrong, b.op("add", r, safe), r), 0
    else:
        q = b.division("sdiv", x, safe)
        out, at_minus = b.select(wrong, b.op("sub", q, 1), q), b.neg(x)
    return b.select(by_zero, 0, b.select(by_minus, at_minus, out))


def _shift(b: Builder, x: Operand, y: Operand, how: str, t: DType) -> Operand:
    """A shift that is defined for every count: beyond the width it gives 0, or the sign."""
    far = b.icmp("uge", y, t.bits)
    if how == "ashr":
        return b.op("ashr", x, b.select(far, t.bits - 1, y))
    return b.select(far, 0, b.op(how, x, b.select(far, 0, y)))


def _scaled(b: Builder, x: Operand, n: Operand, how: str) -> Operand:
    """x times 2^m, of which the low bits of n are the exponent's field, or the sum of two such fields; NaN stays.

    Of one, 2^m is a factor. Where that is no normal number, it is made of two, and all but one product are exact.
    """
    bits, digits = _layout(x)
    low = b.bitcast(n, like(n, bits))
    field = b.op("shl", low, digits)
    if how == "1":
        return b.op("fmul", x, b.bitcast(field, x.type))
    half = b.op("and", b.op("shl", low, digits - 1), -(1 << digits))
    for part in (half, b.op("sub", field, half)):
        x = b.op("fmul", x, b.bitcast(part, x.type))
    return x


def _split_float(b: Builder, x: Operand, part: str) -> Operand:
    """m or e of a positive normal float x = m * 2^e, m in [sqrt(1/2), sqrt(2)).

    Counted from the bits of sqrt(1/2), the exponent's field changes where m does. An integer in the last bits of a
    number of 2^52 to 2^53 becomes a float64 by a difference, as not every CPU converts those of 64 bits.
    """
    kind, digits = _layout(x)
    bits = b.bitcast(x, like(x, kind))
    e = b.op("ashr", b.op("sub", bits, 0x3F3504F3 if kind is I32 else 0x3FE6A09E667F3BCD), digits)
    if part == "significand":
        return b.bitcast(b.op("sub", bits, b.op("shl", e, digits)), x.type)
    if kind is I32:
        return b.cast("sitofp", e, x.type)
    return b.op("fsub", b.bitcast(b.op("add", e, 0x4338000000000000), x.type), 1.5 * 2.0**52)


def _layout(x: Operand) -> tuple[Type, int]:
    """The integer type as wide as a float's, and the stored bits of its significand."""
    return (I32, 23) if x.type.scalar is FLOAT else (I64, 52)


def _negated(b: Builder, x: Operand, by: Operand, how: str) -> Operand:
    """`x`, negated where the last bit of `by` is set ("parity"), or its first one."""
    kind, _ = _layout(x)
    bits = b.bitcast(by, like(by, kind))
    sign = b.op("shl", bits, kind.bits - 1) if how == "parity" else b.op("and", bits, 1 << (kind.bits - 1))
    return b.bitcast(b.op("xor", b.bitcast(x, like(x, kind)), sign), x.type)


def _called_apart(b: Builder, label: str, x: Operand) -> Operand:
    """A library function of each lane, in a function of its own: what comes before it is not moved behind a guard,
    registers are not kept for it, and LLVM does not evaluate it for nothing."""
    name = f"lp.{label}.{x.type.short}"
    if all(fn.label != name for fn in b.module.functions):
        fn = Function(name, x.type, [(x.type, "x", "")], how=" noinline cold", linkage="internal")
        inside = Builder(b.module, fn)
        inside.ret(_scalar_calls(inside, label + ("f" if x.type.scalar is FLOAT else ""), fn.args))
        b.module.functions.append(fn)
    return b.call(Callee(x.type, f"@{name}"), [x])


def _round_digits(b: Builder, x: Operand, kept: str, how: str) -> Operand:
    """A float with only so many stored bits of its significand: the nearest, or what is below cut off; NaN stays."""
    bits, digits = _layout(x)
    below = digits - int(kept)
    word = b.bitcast(x, like(x, bits))
    near = b.op("add", word, 1 << (below - 1)) if how == "nearest" else word
    cut = b.op("and", near, ((1 << bits.bits) - 1) ^ ((1 << below) - 1))
    return b.select(b.fcmp("uno", x, x), x, b.bitcast(cut, x.type))


_BIT_OPERATIONS: dict[str, Callable[[Builder, Operand, Operand, str], Operand]] = {
    "scale": lambda b, x, n, how: _scaled(b, x, n, how.split()[1]),
    "significand": lambda b, x, _, how: _split_float(b, x, how), "binade": lambda b, x, _, how: _split_float(b, x, how),
    "parity": _negated, "negated": _negated, "keep": lambda b, x, _, how: _round_digits(b, x, *how.split()[1:]),
}  # fmt: skip
"""Of the first and the last operand, by the first word of the spelling."""


def _vector_calls(b: Builder, label: str, args: Sequence[Operand]) -> Operand:
    """A library function of whole vectors, or of their halves, where the module may call one; else lane by lane."""
    kind = args[0].type
    symbol = vector_symbol(label, kind.count, 8 if kind.scalar is DOUBLE else 4, len(args))
    if symbol in b.module.vector_functions:
        return b.call(b.module.declared(symbol, kind, [kind] * len(args)), args)
    half, odd = divmod(kind.count, 2)
    if odd or half < 2 or not b.module.vector_functions:
        return _scalar_calls(b, label, args)
    low, high = (_vector_calls(b, label, [b.shuffled(a, range(n, n + half)) for a in args]) for n in (0, half))
    return b.joined(low, high)


def _scalar_calls(b: Builder, label: str, args: Sequence[Operand]) -> Operand:
    """A library function, lane by lane."""
    kind = args[0].type
    fn = b.module.declared(label, kind.scalar, [kind.scalar] * len(args))
    if not kind.count:
        return b.call(fn, args)
    out: Operand = poison(kind)
    for n in range(kind.count):
        out = b.insert_element(out, b.call(fn, [b.extract_element(a, n) for a in args]), n)
    return out
