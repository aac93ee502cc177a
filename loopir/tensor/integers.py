"""Functions of integers, and the parts of floats, as NumPy has them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from functools import cache
from typing import Any

from loopir.errors import ExprError
from loopir.ir.dtypes import BY_NAME, DType, float32
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.tensor.called_nests import call
from loopir.tensor.core import as_expr, cast, common_type
from loopir.tensor.elementwise import copysign, ldexp
from loopir.tensor.functions import abs as absolute, exp2, floor, isfinite, isnan, log, logical_or, maximum, where
from loopir.tensor.joining import broadcast_arrays
from loopir.tensor.tensor import Tensor, real_type

__all__ = ["bitwise_count", "frexp", "gcd", "lcm", "nextafter", "spacing"]

EUCLID = """
def gcd(n: "size", a: "{t}[n]", b: "{t}[n]", divisor: "out {t}[n]"):
    for i in range(n):
        with alloc("{t}[2]", scope="local") as pair:
            pair[0]: "first" = a[i]
            pair[1]: "second" = b[i]
            for step in range({steps}):
                if pair[1] > 0:
                    with alloc("{t}[1]", scope="local") as rest:
                        rest[0] = pair[0] % pair[1]
                        pair[0]: "divided" = pair[1]
                        pair[1]: "left" = rest[0]
            divisor[i] = pair[0]
"""


@cache
def _euclid(dtype: str) -> Func:
    """Euclid's algorithm; the more steps the larger the numbers, most for two that follow one another in Fibonacci's
    sequence (Lamé)."""
    golden = (1 + math.sqrt(5)) / 2
    steps = math.ceil(BY_NAME[dtype].bits * math.log(2, golden)) + 2
    return parse(EUCLID.format(t=dtype, steps=steps))


def gcd(a: Any, b: Any) -> Tensor:
    """The greatest common divisor of integers, which is 0 of two zeros. It is a stage of its own, run as written."""
    x, y, t = _magnitudes("gcd", a, b)
    return cast(_divisor(x, y), t)


def lcm(a: Any, b: Any) -> Tensor:
    """The least common multiple of integers, which is 0 if one of them is, wrapped to their type."""
    x, y, t = _magnitudes("lcm", a, b)
    divisor = _divisor(x, y)
    return cast(where(divisor == 0, 0, x // where(divisor == 0, 1, divisor) * y), t)


def _divisor(x: Tensor, y: Tensor) -> Tensor:
    return call(_euclid(x.dtype.name), x.reshape(-1), y.reshape(-1)).reshape(x.shape)


def _magnitudes(what: str, a: Any, b: Any) -> tuple[Tensor, Tensor, DType]:
    """Both without their signs, as unsigned integers of one shape; and the type of the result."""
    t = common_type((a, b))
    if not t.is_integer:
        raise ExprError(f'{what} of numbers of type {t}; it takes integers: .astype("int64") converts')
    x, y = broadcast_arrays(*(_unsigned(cast(as_expr(Tensor, v, t), t)) for v in (a, b)))
    return x, y, t


def _unsigned(x: Tensor) -> Tensor:
    """The magnitudes of integers, that of the least one too, as unsigned ones."""
    return x if x.dtype.kind == "uint" else cast(absolute(x), f"uint{x.dtype.bits}")


def bitwise_count(x: Any) -> Tensor:
    """How many bits of the magnitude of each integer are set, as uint8."""
    e = as_expr(Tensor, x, None)
    if not e.dtype.is_integer:
        raise ExprError(f"bitwise_count of {e.described()}; it takes integers")
    e = _unsigned(e)
    bits = e.dtype.bits
    every = (1 << bits) - 1
    e = e - ((e >> 1) & (every // 3))
    e = (e & (every // 5)) + ((e >> 2) & (every // 5))
    e = (e + (e >> 4)) & (every // 17)
    width = 8
    while width < bits:
        e = e + (e >> width)
        width *= 2
    return cast(e & 127, "uint8")


def frexp(x: Any) -> tuple[Tensor, Tensor]:
    """m in [0.5, 1) of the sign of x, and an int32 e, with x = m * 2**e; x and 0 of zeros, infinities and nan."""
    t = real_type(common_type((x,)))
    wide = float32 if t.is_narrow else t
    e = cast(as_expr(Tensor, x, t), wide)
    size = absolute(e)
    plain = isfinite(e) & (size > 0.0)
    least = 2.0**-1000 if wide.bits == 64 else 2.0**-100
    small = size < least  # those of no full precision, too
    size = where(plain, where(small, size / least, size), 1.0)
    power = cast(floor(log(size) * (1.0 / math.log(2.0))), "int32")  # or one beside it
    half = power // 2
    part = size * exp2(cast(-half, wide)) * exp2(cast(half - power, wide))  # which is exact, from 1/2 to 4
    more = where(part >= 2.0, 2, where(part >= 1.0, 1, 0))
    part = where(part >= 2.0, part * 0.25, where(part >= 1.0, part * 0.5, part))
    power = power + more + where(small, int(math.log2(least)), 0)
    return cast(where(plain, copysign(part, e), e), t), cast(where(plain, power, 0), "int32")


LEAST_EXPONENT = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}
"""The least number of a type above 0 is 2 to that."""


def nextafter(x: Any, y: Any) -> Tensor:
    """The number of the type that comes after x on the way to y; y where they are equal."""
    t = real_type(common_type((x, y)))
    if t.name not in LEAST_EXPONENT:
        raise ExprError(f"nextafter of {t.name}; it takes {', '.join(LEAST_EXPONENT)}")
    wide = float32 if t.is_narrow else t
    e, to = (cast(cast(as_expr(Tensor, v, t), t), wide) for v in (x, y))
    size = absolute(e)
    part, exponent = frexp(size)
    grows = where(e > 0.0, to > e, to < e)
    unit = exponent - t.digits - where(logical_or(grows, part != 0.5), 0, 1)  # below a power of two they lie closer
    step = ldexp(as_expr(Tensor, 1.0, wide), maximum(unit, LEAST_EXPONENT[t.name]))
    largest = math.ldexp(2.0 - 2.0 ** (1 - t.digits), 2 - t.digits - LEAST_EXPONENT[t.name])
    moved = where(size == math.inf, largest, where(grows, size + step, size - step))
    made = copysign(where(size == 0.0, step * 0.0 + 2.0 ** LEAST_EXPONENT[t.name], moved), where(size == 0.0, to, e))
    same = where(e == to, to, made)
    return cast(where(logical_or(isnan(e), isnan(to)), e + to, same), t)


def spacing(x: Any) -> Tensor:
    """The distance from x to the next number of its type away from 0, of the sign of x; NaN of infinities."""
    e = cast(as_expr(Tensor, x, None), real_type(common_type((x,))))
    return nextafter(e, cast(where(e < 0.0, -math.inf, math.inf), e.dtype)) - e
