"""How LLVM says one operation on scalars or vectors: types, conversions, and the spellings that intrinsics name."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llvmlite import ir

from loopir.errors import LowerError
from loopir.ir.dtypes import DType, bfloat16, bool_, float8_e4m3fn, float8_e5m2, float16, float32

HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))


def unspelt(name: str, t: DType) -> LowerError:
    return LowerError(f"{name} of {t} has no spelling on the CPU; cast to float32 or float64 first")


# ---------------------------------------------------------------- types


def memory_type(t: DType) -> Any:
    """How an element lies in memory."""
    if t == float16:
        return HALF
    if t.is_narrow:
        return ir.IntType(t.bits)
    if t.is_float:
        return FLOAT if t == float32 else DOUBLE
    return I8 if t == bool_ else ir.IntType(t.bits)


def register_type(t: DType) -> Any:
    """How a value is held: narrow floats as float32, a bool as one bit."""
    if t.is_float:
        return DOUBLE if t.bits == 64 else FLOAT
    return I1 if t == bool_ else ir.IntType(t.bits)


def _like(v: Any, scalar: Any) -> Any:
    """`scalar`, in as many lanes as `v` has."""
    return ir.VectorType(scalar, v.type.count) if isinstance(v.type, ir.VectorType) else scalar


def _const(v: Any, scalar: Any, x: float) -> Any:
    if isinstance(v.type, ir.VectorType):
        return ir.Constant(ir.VectorType(scalar, v.type.count), [x] * v.type.count)
    return ir.Constant(scalar, x)


@lru_cache(maxsize=64)
def first_lane(width: int) -> Any:
    """The first lane for each of a vector's."""
    return ir.Constant(ir.VectorType(I32, width), [0] * width)


def constant(value: int | float | bool, t: DType) -> Any:
    """A literal, rounded to its type."""
    if t.is_float:
        return ir.Constant(register_type(t), round_to(float(value), t))
    if t == bool_:
        return ir.Constant(I1, int(value))
    return ir.Constant(ir.IntType(t.bits), int(value) & ((1 << t.bits) - 1))


def round_to(x: float, t: DType) -> float:
    """`x` rounded to `t`."""
    return float(t.numpy.type(x))


def from_memory(b: Any, raw: Any, t: DType) -> Any:
    if t == float16:
        return b.fpext(raw, _like(raw, FLOAT))
    if t == bfloat16:
        wide = b.zext(raw, _like(raw, I32))
        return b.bitcast(b.shl(wide, _const(wide, I32, 16)), _like(raw, FLOAT))
    if t == float8_e5m2:  # the upper half of a float16
        wide = b.zext(raw, _like(raw, I16))
        return b.fpext(b.bitcast(b.shl(wide, _const(wide, I16, 8)), _like(raw, HALF)), _like(raw, FLOAT))
    if t == float8_e4m3fn:
        return _from_e4m3(b, raw)
    return b.icmp_unsigned("!=", raw, _const(raw, I8, 0)) if t == bool_ else raw


def to_memory(b: Any, v: Any, t: DType) -> Any:
    if t == float16:
        return b.fptrunc(v, _like(v, HALF))
    if t == bool_:
        return b.zext(v, _like(v, I8))
    if t in _EIGHT:
        return _to_eight(b, v, *_EIGHT[t])
    if t != bfloat16:
        return v
    bits = b.bitcast(v, _like(v, I32))
    odd = b.and_(b.lshr(bits, _const(bits, I32, 16)), _const(bits, I32, 1))
    rounded = b.add(bits, b.add(odd, _const(bits, I32, 0x7FFF)))  # to nearest, ties to even
    quiet = b.or_(bits, _const(bits, I32, 0x400000))
    kept = b.select(b.fcmp_unordered("uno", v, v), quiet, rounded)
    return b.trunc(b.lshr(kept, _const(kept, I32, 16)), _like(v, I16))


_EIGHT = {float8_e4m3fn: (3, 7, 0x7F, 0x7F), float8_e5m2: (2, 15, 0x7C, 0x7E)}
"""Of floats of 8 bits: stored bits of the significand, the exponent's bias, what is too large, and NaN."""


def _from_e4m3(b: Any, raw: Any) -> Any:
    """Exponents count from 120 more in float32, so its bits there, and times 2^120; of its last number, NaN."""
    wide = b.zext(raw, _like(raw, I32))
    bits = b.and_(wide, _const(wide, I32, 0x7F))
    sign = b.shl(b.and_(wide, _const(wide, I32, 0x80)), _const(wide, I32, 24))
    near = b.bitcast(b.or_(b.shl(bits, _const(wide, I32, 20)), sign), _like(raw, FLOAT))
    nan = b.bitcast(b.or_(sign, _const(wide, I32, 0x7FC00000)), near.type)
    last = b.icmp_unsigned("==", bits, _const(wide, I32, 0x7F))
    return b.select(last, nan, b.fmul(near, _const(near, FLOAT, 2.0**120)))


def _to_eight(b: Any, v: Any, digits: int, bias: int, most: int, nan: int) -> Any:
    """To nearest, ties to even. What is below the normal numbers is counted by a sum with a float in such units."""
    word = b.bitcast(v, _like(v, I32))
    bits = b.and_(word, _const(word, I32, 0x7FFFFFFF))
    below = 23 - digits
    unit = 2.0 ** (24 - bias - digits)
    counted = b.bitcast(b.fadd(b.bitcast(bits, v.type), _const(v, FLOAT, unit)), word.type)
    small = b.sub(counted, _const(word, I32, (151 - bias - digits) << 23))
    odd = b.and_(b.lshr(bits, _const(word, I32, below)), _const(word, I32, 1))
    up = b.add(b.add(bits, odd), _const(word, I32, (1 << (below - 1)) - 1))
    normal = b.sub(b.lshr(up, _const(word, I32, below)), _const(word, I32, (127 - bias) << digits))
    near = b.select(b.icmp_unsigned("<", bits, _const(word, I32, (128 - bias) << 23)), small, normal)
    near = b.select(b.icmp_unsigned("<", near, _const(word, I32, most)), near, _const(word, I32, most))
    near = b.select(b.icmp_unsigned(">", bits, _const(word, I32, 0x7F800000)), _const(word, I32, nan), near)
    sign = b.and_(b.lshr(word, _const(word, I32, 24)), _const(word, I32, 0x80))
    return b.trunc(b.or_(near, sign), _like(v, I8))


def convert(module: Any, b: Any, v: Any, source: DType, to: DType) -> Any:
    """The value of `source` as a `to`: floats to integers truncate and saturate, integers wrap."""
    kind = _like(v, register_type(to))
    if source.is_float and to.is_float:
        if source.bits == 64:
            out = v if to.bits == 64 else _to_odd(b, v) if to == float16 else b.fptrunc(v, _like(v, FLOAT))
        else:
            out = b.fpext(v, kind) if to.bits == 64 else v
        return from_memory(b, to_memory(b, out, to), to) if to.is_narrow else out
    if source.is_float:
        if to == bool_:
            return b.fcmp_unordered("!=", v, _const(v, register_type(source), 0.0))
        name = "llvm.fptosi.sat" if to.kind == "int" else "llvm.fptoui.sat"
        return b.call(_intrinsic(module, name, kind, [v.type]), [v])
    if to.is_float:
        wide = _like(v, DOUBLE if to.bits == 64 else FLOAT)
        out = b.sitofp(v, wide) if source.kind == "int" else b.uitofp(v, wide)
        return from_memory(b, to_memory(b, out, to), to) if to.is_narrow else out
    if to == bool_:
        return v if source == bool_ else b.icmp_unsigned("!=", v, _const(v, ir.IntType(source.bits), 0))
    have = 1 if source == bool_ else source.bits
    if have == to.bits:
        return v
    if have > to.bits:
        return b.trunc(v, kind)
    return b.sext(v, kind) if source.kind == "int" else b.zext(v, kind)


def clipped(b: Any, v: Any) -> Any:
    """A uint64 as an int64; one that is too large is the largest there is."""
    return b.select(b.icmp_signed("<", v, _const(v, I64, 0)), _const(v, I64, (1 << 63) - 1), v)


def _to_odd(b: Any, v: Any) -> Any:
    """A float64 as float32, rounded to odd, so that rounding it once more rounds as if once.

    Boldo and Melquiond, "When double rounding is odd" (2005).
    """
    near = b.fptrunc(v, _like(v, FLOAT))
    back = b.fpext(near, v.type)
    bits = b.bitcast(near, _like(v, I32))
    magnitude = [b.and_(b.bitcast(x, _like(v, I64)), _const(v, I64, (1 << 63) - 1)) for x in (back, v)]
    away = b.icmp_unsigned(">", *magnitude)
    below = b.sub(bits, b.zext(away, bits.type))
    inexact = b.fcmp_ordered("!=", back, v)
    return b.bitcast(b.select(inexact, b.or_(below, _const(bits, I32, 1)), bits), near.type)


# ---------------------------------------------------------------- calls


def _suffix(t: Any) -> str:
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{_suffix(t.element)}"
    return {str(HALF): "f16", str(FLOAT): "f32", str(DOUBLE): "f64"}.get(str(t), str(t))


def declared(module: Any, name: str, result: Any, args: list[Any]) -> Any:
    found = module.globals.get(name)
    return found if found is not None else ir.Function(module, ir.FunctionType(result, args), name)


def _intrinsic(module: Any, name: str, result: Any, args: list[Any]) -> Any:
    suffixes = [_suffix(result), *(_suffix(a) for a in args if a != result)]
    return declared(module, ".".join([name, *dict.fromkeys(suffixes)]), result, args)


def any_true(module: Any, width: int) -> Any:
    kind = ir.VectorType(I1, width)
    return declared(module, f"llvm.vector.reduce.or.v{width}i1", I1, [kind])


def masked_load(module: Any, b: Any, address: Any, vector: Any, align: int, mask: Any) -> Any:
    name = f"llvm.masked.load.{_suffix(vector)}.p0"
    fn = declared(module, name, vector, [ir.PointerType(), I32, mask.type, vector])
    return b.call(fn, [address, ir.Constant(I32, align), mask, ir.Constant(vector, None)])


def masked_store(module: Any, b: Any, value: Any, address: Any, align: int, mask: Any) -> None:
    name = f"llvm.masked.store.{_suffix(value.type)}.p0"
    fn = declared(module, name, ir.VoidType(), [value.type, ir.PointerType(), I32, mask.type])
    b.call(fn, [value, address, ir.Constant(I32, align), mask])


# ---------------------------------------------------------------- operations


def spell(module: Any, b: Any, spelling: str, args: tuple[Any, ...], t: DType, flags: tuple[str, ...]) -> Any:
    """The operation that an intrinsic's record spells, on operands of type `t`."""
    word, _, rest = spelling.partition(" ")
    first = args[0]
    if word in ("fadd", "fsub", "fmul", "fdiv"):
        return getattr(b, word)(*args, flags=flags)
    if word == "fcmp":
        pair = args if len(args) == 2 else (first, first)
        return getattr(b, "fcmp_unordered" if rest[0] == "u" else "fcmp_ordered")(_COMPARE[rest[1:]], *pair)
    if word == "icmp":
        return getattr(b, "icmp_unsigned" if rest[0] == "u" else "icmp_signed")(_COMPARE[rest.lstrip("su")], *args)
    if word == "floor":
        return _integer_division(b, args[0], args[1], rest)
    if word == "shift":
        return _shift(b, args[0], args[1], rest, t)
    if word == "scale":
        return _scaled(b, first, args[1], rest)
    if word in ("significand", "binade"):
        return _split_float(b, first, word)
    if word == "keep":
        return _digits(b, first, *rest.split())
    if word == "call":
        return _scalar_calls(module, b, rest + ("f" if t == float32 else ""), args)
    if word == "same":
        return first
    if word == "not":
        return b.not_(first)
    if word == "abs":
        return b.select(b.icmp_signed("<", first, _const(first, ir.IntType(t.bits), 0)), b.neg(first), first)
    if word.startswith("llvm."):
        return b.call(_intrinsic(module, word, first.type, [a.type for a in args]), list(args))
    return getattr(b, {"and": "and_", "or": "or_"}.get(word, word))(*args)


_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "no": "uno"}


def floor_division(b: Any, x: Any, y: Any, *, remainder: bool) -> Any:
    """x // y or x % y of indices, rounded to minus infinity; y is positive, or the result is not used."""
    if not isinstance(y, ir.Constant):
        y = b.select(b.icmp_signed(">", y, _const(y, I64, 0)), y, _const(y, I64, 1))
    q, r = b.sdiv(x, y), b.srem(x, y)
    negative = b.icmp_signed("<", r, _const(r, I64, 0))
    if remainder:
        return b.select(negative, b.add(r, y), r)
    return b.select(negative, b.sub(q, _const(q, I64, 1)), q)


def _integer_division(b: Any, x: Any, y: Any, how: str) -> Any:
    """Division or remainder that never traps: by 0 it is 0, and the least integer by -1 wraps."""
    kind = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    zero, one = _const(x, kind, 0), _const(x, kind, 1)
    by_zero = b.icmp_signed("==", y, zero)
    if how in ("udiv", "urem"):
        out = getattr(b, how)(x, b.select(by_zero, one, y))
        return b.select(by_zero, zero, out)
    by_minus = b.icmp_signed("==", y, _const(x, kind, -1))
    safe = b.select(b.or_(by_zero, by_minus), one, y)
    r = b.srem(x, safe)
    wrong = b.and_(b.icmp_signed("!=", r, zero), b.icmp_signed("<", b.xor(r, safe), zero))
    if how == "srem":
        out, at_minus = b.select(wrong, b.add(r, safe), r), zero
    else:
        q = b.sdiv(x, safe)
        out, at_minus = b.select(wrong, b.sub(q, one), q), b.neg(x)
    return b.select(by_zero, zero, b.select(by_minus, at_minus, out))


def _shift(b: Any, x: Any, y: Any, how: str, t: DType) -> Any:
    """A shift that is defined for every count: beyond the width it gives 0, or the sign."""
    kind = ir.IntType(t.bits)
    far = b.icmp_unsigned(">=", y, _const(y, kind, t.bits))
    if how == "ashr":
        return b.ashr(x, b.select(far, _const(y, kind, t.bits - 1), y))
    return b.select(far, _const(x, kind, 0), getattr(b, how)(x, b.select(far, _const(y, kind, 0), y)))


def _scaled(b: Any, x: Any, n: Any, how: str) -> Any:
    """x times 2^m, of which the low bits of n are the exponent's field, or the sum of two such fields; NaN stays.

    Of one, 2^m is a factor. Where that is no normal number, it is made of two, and all but one product are exact.
    """
    low = b.bitcast(n, _like(n, I32))
    field = b.shl(low, _const(low, I32, 23))
    if how == "1":
        return b.fmul(x, b.bitcast(field, x.type))
    half = b.and_(b.shl(low, _const(low, I32, 22)), _const(low, I32, -(1 << 23)))
    for part in (half, b.sub(field, half)):
        x = b.fmul(x, b.bitcast(part, x.type))
    return x


def _split_float(b: Any, x: Any, part: str) -> Any:
    """m or e of a positive normal float32 x = m * 2^e, m in [sqrt(1/2), sqrt(2)).

    Counted from the bits of sqrt(1/2), the exponent's field changes where m does.
    """
    bits = b.bitcast(x, _like(x, I32))
    e = b.ashr(b.sub(bits, _const(bits, I32, 0x3F3504F3)), _const(bits, I32, 23))
    return b.sitofp(e, x.type) if part == "binade" else b.bitcast(b.sub(bits, b.shl(e, _const(e, I32, 23))), x.type)


def _digits(b: Any, x: Any, kept: str, how: str) -> Any:
    """A float with only so many stored bits of its significand: the nearest, or what is below cut off; NaN stays."""
    kind = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    bits, digits = (I32, 23) if kind == FLOAT else (I64, 52)
    below = digits - int(kept)
    word = b.bitcast(x, _like(x, bits))
    near = b.add(word, _const(word, bits, 1 << (below - 1))) if how == "nearest" else word
    cut = b.and_(near, _const(word, bits, ((1 << bits.width) - 1) ^ ((1 << below) - 1)))
    return b.select(b.fcmp_unordered("uno", x, x), x, b.bitcast(cut, x.type))


def _scalar_calls(module: Any, b: Any, name: str, args: tuple[Any, ...]) -> Any:
    """A library function, lane by lane."""
    kind = args[0].type
    if not isinstance(kind, ir.VectorType):
        return b.call(declared(module, name, kind, [a.type for a in args]), list(args))
    fn = declared(module, name, kind.element, [kind.element] * len(args))
    out: Any = ir.Constant(kind, ir.Undefined)
    for n in range(kind.count):
        lane = ir.Constant(I32, n)
        out = b.insert_element(out, b.call(fn, [b.extract_element(a, lane) for a in args]), lane)
    return out
