"""Value domains of the interpreter: numbers of the real dtype, or elements of an exact ring or field.

In the ring, floats are integers modulo 2^32: sums and products are exact in every order, maxima and minima are those
of unsigned integers, and every other function is a hash of its name and arguments, but where these are 0 and it is a
whole number there: padding with zeros relies on that. Two programs that differ only by reassociating declared monoids
agree bit for bit; a program that drops, repeats or swaps a term almost surely does not. Integers and bools, from which
indices and conditions are made, are real in all domains.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from loopir.ir.dtypes import DType
from loopir.ir.ops import Intrinsic

MODULUS = 1 << 32


class Domain(Protocol):
    """A domain: how constants, operations and casts are computed. Each method gives a function to call."""

    name: str

    def const(self, value: float, t: DType) -> Any: ...

    def op(self, fn: Intrinsic, t: DType) -> Callable[..., Any]: ...

    def spelling(self, fn: Intrinsic, t: DType) -> str | None:
        """What `op` gives, as a Python expression with {} for the arguments, where it is a short one."""
        ...

    def cast(self, source: DType, to: DType) -> Callable[[Any], Any]: ...

    def load(self, array: np.ndarray[Any, Any], t: DType) -> list[Any]:
        """The elements of an argument, flat, in row-major order."""
        ...

    def dump(self, cells: list[Any], t: DType) -> np.ndarray[Any, Any]:
        """Flat cells as an array: of `t`, or of uint32 for floats in the ring."""
        ...


class Real:
    """Numbers of the real dtype; operations are the meanings of the intrinsics."""

    name = "real"

    def const(self, value: float, t: DType) -> Any:
        with np.errstate(all="ignore"):
            if t.is_integer:
                return np.array(int(value) & ((1 << t.bits) - 1), np.uint64).astype(t.numpy)[()]
            return np.array(value).astype(t.numpy)[()]

    def op(self, fn: Intrinsic, t: DType) -> Callable[..., Any]:
        meaning = fn.meaning

        def op(*args: Any) -> Any:
            found = meaning(*args)
            return found if isinstance(found, np.generic) else np.asarray(found)[()]

        return op

    def spelling(self, fn: Intrinsic, t: DType) -> str | None:
        """Python's operators mean for NumPy's numbers what its functions do, and are called in a fifth of the time."""
        plain = isinstance(fn.meaning, np.ufunc) and fn.arity == 2 and fn.result == "same"
        return f"({{0}} {fn.infix} {{1}})" if plain and fn.infix else None

    def cast(self, source: DType, to: DType) -> Callable[[Any], Any]:
        if source.is_float and to.is_integer:
            info = np.iinfo(to.numpy)
            low, high = int(info.min), int(info.max)

            def saturated(x: Any) -> Any:
                number = float(x)
                return to.numpy.type(
                    0 if number != number else low if number <= low else high if number >= high else int(number)
                )

            return saturated
        if to.kind == "bool":
            return lambda x: np.bool_(x != 0)
        if to.kind == source.kind and source.bits < to.bits and to.bits in (32, 64):
            return to.numpy.type  # which holds every value of the source
        kind = to.numpy
        return lambda x: x.astype(kind) if isinstance(x, np.generic) else np.asarray(x).astype(kind)[()]

    def load(self, array: np.ndarray[Any, Any], t: DType) -> list[Any]:
        return list(array.ravel())

    def dump(self, cells: list[Any], t: DType) -> np.ndarray[Any, Any]:
        return np.array(cells, t.numpy)


class Ring:
    """Floats as integers modulo 2^32; everything else as in Real."""

    name = "ring"

    def __init__(self) -> None:
        self.real = Real()

    def const(self, value: float, t: DType) -> Any:
        if not t.is_float:
            return self.real.const(value, t)
        if value in (t.least, t.greatest):  # what maxima and minima start from
            return 0 if value < 0 else MODULUS - 1
        if value == int(value) if value == value else False:
            return int(value) % MODULUS
        return digest("const", repr(float(value)))

    def op(self, fn: Intrinsic, t: DType) -> Callable[..., Any]:
        if not t.is_float:
            return self.real.op(fn, t)
        known = _RING.get(fn.name)
        if known is not None:
            return known
        start = self._at_zero(fn, t)
        if start is None:
            return lambda *args: digest(fn.name, *args)
        return lambda *args: digest(fn.name, *args) if any(args) else start

    def _at_zero(self, fn: Intrinsic, t: DType) -> int | None:
        """What `fn` is where all its arguments are 0, if that is a whole number."""
        if fn.result != "same":
            return None
        with np.errstate(all="ignore"):
            value = self.real.op(fn, t)(*[self.real.const(0.0, t)] * fn.arity)
        return int(value) % MODULUS if np.ndim(value) == 0 and float(value).is_integer() else None

    def spelling(self, fn: Intrinsic, t: DType) -> str | None:
        return _SPELT.get(fn.name) if t.is_float else None

    def cast(self, source: DType, to: DType) -> Callable[[Any], Any]:
        if source.is_float and to.is_float:
            return lambda x: x
        if source.is_float:
            make = self.real.cast(_UINT32, to)
            return lambda x: make(np.uint32(digest("cast", x)))
        if to.is_float:
            return lambda x: int(x) % MODULUS
        return self.real.cast(source, to)

    def load(self, array: np.ndarray[Any, Any], t: DType) -> list[Any]:
        if not t.is_float:
            return self.real.load(array, t)
        flat = array.ravel()
        if flat.dtype == np.uint32:
            return [int(x) for x in flat]
        return [self.const(float(x), t) for x in flat]

    def dump(self, cells: list[Any], t: DType) -> np.ndarray[Any, Any]:
        return np.array(cells, np.uint32) if t.is_float else self.real.dump(cells, t)


P, Q = 77309374357, 2147482621
"""Two primes; Q divides P - 1, so that powers modulo P have exponents modulo Q."""
_BASE = {"exp": 68719476736, "exp_16": 68719476736, "exp2": 31170370761, "exp2_16": 31170370761}
"""Elements of order Q modulo P, by the function whose powers they are."""


class Field(Ring):
    """Floats as pairs of integers modulo two primes P and Q, added, multiplied and divided in both; e to the x is a
    power modulo P, whose exponent is x modulo Q.

    So exp(x + y) equals exp(x) * exp(y), as among real numbers, and rewrites by the laws of fields or of exponentials
    keep results bit for bit. The power is 1 modulo Q, so powers of powers are not distinguished. Infinities and NaN are
    extra elements that behave as among floats, any other number counting as positive.
    """

    name = "field"

    def const(self, value: float, t: DType) -> Any:
        if not t.is_float:
            return self.real.const(value, t)
        if value in (t.least, t.greatest):
            return LOW if value < 0 else HIGH
        if value != value:
            return NAN
        top, below = float(value).as_integer_ratio()
        return top * pow(below, -1, P) % P, top * pow(below, -1, Q) % Q

    def op(self, fn: Intrinsic, t: DType) -> Callable[..., Any]:
        if not t.is_float:
            return self.real.op(fn, t)
        known = _FIELD.get(fn.name)
        return known if known is not None else lambda *args: _both(fn.name, *args)

    def spelling(self, fn: Intrinsic, t: DType) -> str | None:
        return None

    def cast(self, source: DType, to: DType) -> Callable[[Any], Any]:
        if source.is_float and to.is_float:
            return lambda x: x
        if source.is_float:
            make = self.real.cast(_UINT32, to)
            return lambda x: make(np.uint32(digest("cast", x)))
        if to.is_float:
            return lambda x: (int(x) % P, int(x) % Q)
        return self.real.cast(source, to)

    def load(self, array: np.ndarray[Any, Any], t: DType) -> list[Any]:
        if not t.is_float:
            return self.real.load(array, t)
        return (
            [_both("given", int(x)) for x in array.ravel().view(np.uint32)]
            if array.dtype.itemsize == 4
            else [self.const(float(x), t) for x in array.ravel()]
        )

    def dump(self, cells: list[Any], t: DType) -> np.ndarray[Any, Any]:
        if not t.is_float:
            return self.real.dump(cells, t)
        return np.array([a * Q + b for a, b in cells], object)


def _both(name: str, *args: object) -> tuple[int, int]:
    return digest(name, 0, *args) % P, digest(name, 1, *args) % Q


LOW, HIGH, NAN = (-1, -1), (P, Q), (-2, -2)
"""Below and above all elements of the field, and not a number."""
_SPECIALS = {LOW, HIGH, NAN}


def _sum(x: Any, y: Any) -> Any:
    if x in _SPECIALS or y in _SPECIALS:
        found = {x, y} & _SPECIALS
        return found.pop() if len(found) == 1 else NAN
    return (x[0] + y[0]) % P, (x[1] + y[1]) % Q


def _negative(x: Any) -> Any:
    return {LOW: HIGH, HIGH: LOW, NAN: NAN}[x] if x in _SPECIALS else (-x[0] % P, -x[1] % Q)


def _field_product(x: Any, y: Any) -> Any:
    if x in _SPECIALS or y in _SPECIALS:
        other = y if x in _SPECIALS else x
        if NAN in (x, y) or other == (0, 0):
            return NAN
        return LOW if (LOW in (x, y)) != (x == y == LOW) else HIGH
    return x[0] * y[0] % P, x[1] * y[1] % Q


def _quotient(x: Any, y: Any) -> Any:
    if y in _SPECIALS:
        return NAN if y == NAN or x in _SPECIALS else (0, 0)
    if x in _SPECIALS:
        return x
    if y == (0, 0):
        return NAN if x == (0, 0) else HIGH
    return tuple(
        [a * pow(b, -1, m) % m if b else digest("over 0", a) % m for a, b, m in zip(x, y, (P, Q), strict=True)]
    )


def _power(base: int) -> Callable[[Any], Any]:
    return lambda x: {LOW: (0, 0), HIGH: HIGH, NAN: NAN}[x] if x in _SPECIALS else (pow(base, x[1], P), 1)


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: NAN if NAN in (x, y) else pick(x, y)


_FIELD: dict[str, Callable[..., Any]] = {
    "add": _sum,
    "sub": lambda x, y: _sum(x, _negative(y)),
    "mul": _field_product,
    "neg": _negative,
    "fma": lambda x, y, z: _sum(_field_product(x, y), z),
    "div": _quotient,
    "maximum": _extreme(max),
    "minimum": _extreme(min),
    **{name: _power(base) for name, base in _BASE.items()},
    "lt": lambda a, b: np.bool_(a < b and NAN not in (a, b)),
    "le": lambda a, b: np.bool_(a <= b and NAN not in (a, b)),
    "eq": lambda a, b: np.bool_(a == b and a != NAN),
    "ne": lambda a, b: np.bool_(a != b or a == NAN),
    "isnan": lambda a: np.bool_(a == NAN),
}
_UINT32 = DType("uint32", "uint", 32)
_SPELT = {
    "add": f"(({{0}} + {{1}}) % {MODULUS})",
    "sub": f"(({{0}} - {{1}}) % {MODULUS})",
    "mul": f"({{0}} * {{1}} % {MODULUS})",
    "neg": f"(-{{0}} % {MODULUS})",
    "fma": f"(({{0}} * {{1}} + {{2}}) % {MODULUS})",
    "maximum": "max({0}, {1})",
    "minimum": "min({0}, {1})",
}
"""Sums and products in the ring, as Python: the one meaning, for those who call it and for compiled programs."""
_RING: dict[str, Callable[..., Any]] = {
    **{name: eval(f"lambda *x: {spelt.format('x[0]', 'x[1]', 'x[2]')}") for name, spelt in _SPELT.items()},
    "lt": lambda a, b: np.bool_(a < b),
    "le": lambda a, b: np.bool_(a <= b),
    "eq": lambda a, b: np.bool_(a == b),
    "ne": lambda a, b: np.bool_(a != b),
    "isnan": lambda a: np.bool_(False),
}


def digest(name: str, *args: object) -> int:
    """A deterministic 32-bit hash of a function's name and its arguments."""
    return zlib.crc32(f"{name}{args}".encode()) * 2654435761 % MODULUS


DOMAINS: dict[str, Callable[[], Domain]] = {"real": Real, "ring": Ring, "field": Field}
