"""Further functions of elements, made of those that the language has, as NumPy, SciPy and torch have them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any

from loopir.errors import ExprError
from loopir.ir.dtypes import float32
from loopir.ir.grammar import Int
from loopir.tensor.core import as_expr, cast, common_type
from loopir.tensor.functions import (
    abs as absolute,
    all as every,
    any as any_of,
    ceil,
    clip,
    exp2,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    round as nearest,
    sin,
    sqrt,
    where,
)
from loopir.tensor.index import same
from loopir.tensor.tensor import Tensor, as_bool, constant_like, mean_type, power, real_type

__all__ = [
    "allclose", "array_equal", "cbrt", "copysign", "deg2rad", "degrees", "fix", "float_power", "floor_divide", "fmax",
    "fmin", "fmod", "heaviside", "hypot", "isclose", "isin", "isneginf", "isposinf", "ldexp", "lerp", "logical_xor",
    "logit", "mod", "modf", "negative", "ptp", "rad2deg", "radians", "remainder", "rint", "signbit", "sinc", "trunc",
    "xlogy",
]  # fmt: skip


def _real(*xs: Any) -> list[Tensor]:
    """Tensors of the float type that NumPy computes these in."""
    t = real_type(common_type(xs))
    return [cast(as_expr(Tensor, x, t), t) for x in xs]


def hypot(a: Any, b: Any) -> Tensor:
    """sqrt(a * a + b * b), with no overflow."""
    x, y = (absolute(e) for e in _real(a, b))
    most, least = maximum(x, y), minimum(x, y)
    ratio = least / where(most == 0.0, 1.0, most)
    made = most * sqrt(ratio * ratio + 1.0)
    return where(logical_or(x == math.inf, y == math.inf), math.inf, made)


def deg2rad(x: Any) -> Tensor:
    """Degrees in radians."""
    return _real(x)[0] * (math.pi / 180.0)


def rad2deg(x: Any) -> Tensor:
    """Radians in degrees."""
    return _real(x)[0] * (180.0 / math.pi)


radians, degrees = deg2rad, rad2deg


def trunc(x: Any) -> Tensor:
    """The nearest integer towards zero. Integers stay as they are."""
    e = as_expr(Tensor, x, None)
    return where(e < 0.0, ceil(e), floor(e)) if e.dtype.is_float else e


fix = trunc


def rint(x: Any) -> Tensor:
    """The nearest integer, of two the even one; of integers as floats, where `round` keeps them."""
    return nearest(_real(x)[0])


def modf(x: Any) -> tuple[Tensor, Tensor]:
    """The part of each element behind the point, and that before it, both of its sign."""
    (e,) = _real(x)
    whole = trunc(e)
    return copysign(where(isinf(e), 0.0, e - whole), e), whole


def ldexp(x: Any, i: Any) -> Tensor:
    """x * 2**i, `i` being integers. Where that is below the least normal number, it may be rounded three times."""
    (e,), power = _real(x), as_expr(Tensor, i, None)
    if not power.dtype.is_integer:
        raise ExprError(f"ldexp by {power.described()}; the exponent is an integer, x * lp.exp2(y) takes others")
    t = float32 if e.dtype.is_narrow else e.dtype
    most = 2400 if t.bits == 64 else 300  # from which on all numbers are 0 or infinity
    power = cast(
        clip(power, -most if power.dtype.kind == "int" else 0, most) if power.dtype.bits > 8 else power, "int32"
    )
    third = power // 3
    part, rest = exp2(cast(third, t)), exp2(cast(power - third * 2, t))
    return cast(cast(e, t) * part * part * rest, e.dtype)


def cbrt(x: Any) -> Tensor:
    """The cube root, of the sign of x."""
    (e,) = _real(x)
    root = power(absolute(e), 1.0 / 3.0)
    return where(e < 0.0, -root, root)


def sinc(x: Any) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""
    e = as_expr(Tensor, x, None)
    y = cast(e, mean_type(e.dtype)) * math.pi
    return where(y == 0.0, 1.0, sin(y) / where(y == 0.0, 1.0, y))


def heaviside(x: Any, zero: Any) -> Tensor:
    """0 where x is negative, 1 where it is positive, `zero` where it is 0; NaN of NaN."""
    e, middle = _real(x, zero)
    return where(isnan(e), e, where(e < 0.0, 0.0, where(e == 0.0, middle, 1.0)))


def signbit(x: Any) -> Tensor:
    """Whether each element is negative, -0.0 among them."""
    e = as_expr(Tensor, x, None)
    return logical_or(e < 0.0, logical_and(e == 0.0, 1.0 / e < 0.0)) if e.dtype.is_float else e < 0


def copysign(x: Any, y: Any) -> Tensor:
    """The magnitude of x, with the sign of y."""
    e, other = _real(x, y)
    return where(signbit(other), -absolute(e), absolute(e))


def logical_xor(a: Any, b: Any) -> Tensor:
    """Whether one of the elements is true, or not 0, and the other is not."""
    return as_bool(as_expr(Tensor, a, None)) != as_bool(as_expr(Tensor, b, None))


def isposinf(x: Any) -> Tensor:
    """Whether each element is infinity."""
    return logical_and(isinf(x), as_expr(Tensor, x, None) > 0)


def isneginf(x: Any) -> Tensor:
    """Whether each element is minus infinity."""
    return logical_and(isinf(x), as_expr(Tensor, x, None) < 0)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether |a - b| <= atol + rtol * |b|, and equal infinities; of NaN only with `equal_nan`."""
    x, y = _real(a, b)
    near = logical_and(absolute(x - y) <= absolute(y) * rtol + atol, isfinite(y))
    made = logical_or(near, x == y)
    return logical_or(made, logical_and(isnan(x), isnan(y))) if equal_nan else made


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close; see `isclose`."""
    return every(isclose(a, b, rtol, atol, equal_nan))


def fmax(a: Any, b: Any) -> Tensor:
    """The larger of each pair of elements, the other one where one is NaN."""
    return _but_nan(maximum, a, b)


def fmin(a: Any, b: Any) -> Tensor:
    """The smaller of each pair of elements, the other one where one is NaN."""
    return _but_nan(minimum, a, b)


def _but_nan(choose: Any, a: Any, b: Any) -> Tensor:
    t = common_type((a, b))
    x, y = (cast(as_expr(Tensor, v, t), t) for v in (a, b))
    return where(isnan(x), y, where(isnan(y), x, choose(x, y))) if t.is_float else choose(x, y)


def remainder(a: Any, b: Any) -> Tensor:
    """a % b, of the sign of b."""
    x = as_expr(Tensor, a, common_type((a, b)))
    return x % b


mod = remainder


def floor_divide(a: Any, b: Any) -> Tensor:
    """a // b, rounded down."""
    return as_expr(Tensor, a, common_type((a, b))) // b


def fmod(a: Any, b: Any) -> Tensor:
    """The remainder of a / b rounded towards zero: of the sign of a, as C's."""
    t = common_type((a, b))
    x, y = (cast(as_expr(Tensor, v, t), t) for v in (a, b))
    if t.is_float:
        return copysign(absolute(x) % absolute(y), x)
    rest = x % y
    return rest if t.kind == "uint" else where(logical_and(rest != 0, (x < 0) != (y < 0)), rest - y, rest)


def float_power(a: Any, b: Any) -> Tensor:
    """a ** b, in float64."""
    return power(*(as_expr(Tensor, x, None).astype("float64") for x in (a, b)))


def isin(element: Any, test_elements: Any, invert: bool = False) -> Tensor:
    """Whether each element is one of `test_elements`, or with `invert` none of them: all are compared with each."""
    e, those = as_expr(Tensor, element, None), as_expr(Tensor, test_elements, None)
    found = any_of(e[..., None] == those.reshape(-1), axis=-1)
    return logical_not(found) if invert else found


def array_equal(a: Any, b: Any, equal_nan: bool = False) -> Tensor:
    """Whether two tensors have one shape and equal elements; of NaN only with `equal_nan`."""
    x, y = as_expr(Tensor, a, None), as_expr(Tensor, b, None)
    symbols = {**x.symbols, **y.symbols}
    if x.ndim != y.ndim or any(isinstance(m, Int) and isinstance(n, Int) and m != n for m, n in zip(x.dims, y.dims)):
        return cast(constant_like(as_expr(Tensor, 0, None), 0), "bool")
    if not all(same(m, n, symbols) for m, n in zip(x.dims, y.dims, strict=True)):
        raise ExprError(f"array_equal of {x.described()} and {y.described()}: whether their sizes are is not known")
    equal = x == y
    return every(logical_or(equal, logical_and(isnan(x), isnan(y))) if equal_nan else equal)


def negative(x: Any) -> Tensor:
    """-x."""
    return -as_expr(Tensor, x, None)


def lerp(start: Any, end: Any, weight: Any) -> Tensor:
    """start + weight * (end - start), as torch's."""
    x, y, w = _real(start, end, weight)
    return x + w * (y - x)


def logit(x: Any, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), of x from `eps` to 1 - `eps` if that is given."""
    (e,) = _real(x)
    e = e if eps is None else minimum(maximum(e, eps), 1.0 - eps)
    return log(e / (1.0 - e))


def xlogy(x: Any, y: Any) -> Tensor:
    """x * log(y), 0 where x is 0 and y is not NaN."""
    e, other = _real(x, y)
    none = logical_and(e == 0.0, logical_not(isnan(other)))
    return where(none, 0.0, e * log(where(none, 1.0, other)))


def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over `axis` less the smallest."""
    e = as_expr(Tensor, x, None)
    return e.max(axis=axis, keepdims=keepdims) - e.min(axis=axis, keepdims=keepdims)
