"""What expansions of elementary functions are made of: values with Python's operators, operations on a float's bits.

The operations are private: only the expansions use them, and only the CPU spells them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopir.intrinsics.ops import arith, compare
from loopir.intrinsics.ops.arith import FLOAT
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Cast, Cond, Const, Op, Select, Value, ValueToCond
from loopir.ir.ops import Intrinsic

ROOT_HALF = 0.5**0.5

LONG = 12
"""Coefficients from which on a polynomial is evaluated by parts."""


def private(name: str, arity: int, fn: Callable[..., Any], llvm: str, *, rare: bool = False) -> Intrinsic:
    """A record that only the expansions use."""
    return Intrinsic(name, arity, FLOAT, fn, llvm={"float": llvm}, rare=rare, doc="Part of an expansion.")


def _fma(a: Any, b: Any, c: Any) -> Any:
    wide = np.longdouble if a.dtype == np.float64 else np.float64
    return (wide(a) * wide(b) + wide(c)).astype(a.dtype)[()]


def _parity(x: Any, shifted: Any) -> Any:
    """`x`, negated where the integer in the last bits of `shifted` is odd."""
    odd = np.asarray(shifted).view(f"u{x.dtype.itemsize}") & 1
    return np.where(odd == 1, -x, x)[()]


nearest = private("nearest", 1, np.rint, "llvm.roundeven")
down = private("round_down", 1, np.floor, "llvm.floor")
root = private("square_root", 1, np.sqrt, "llvm.sqrt")
fused = private("fused", 3, _fma, "llvm.fma")
signed = private("signed", 2, np.copysign, "llvm.copysign")
parity = private("negated_by_parity", 2, _parity, "parity")
as_signed = private("negated_by_sign", 2, lambda x, y: np.where(np.signbit(y), -x, x)[()], "negated")
seldom = private("seldom", 1, lambda x: x, "same", rare=True)
"""Its argument, which is skipped where no lane takes it."""
library = {
    name: private(f"library_{name}", 1, getattr(np, name), f"apart {name}", rare=True) for name in ("sin", "cos")
}


def scaling(name: str, fields: int) -> Intrinsic:
    """x times 2^m, rounded once, from x and the sum of m and `shift(dtype, fields)`."""

    def meaning(x: Any, n: Any) -> Any:
        m = (n - x.dtype.type(_added_integer(x.dtype.itemsize, fields))).astype(np.int32)
        return np.ldexp(x, m).astype(x.dtype)[()]

    return Intrinsic(
        name, 2, FLOAT, meaning, llvm={"float": f"scale {fields}"}, doc="Part of an expansion.",
    )  # fmt: skip


def shift(t: DType, fields: int = 0) -> float:
    """What puts an integer into the last bits of a sum, as a float of 2^23 to 2^24 (float64: 2^52 to 2^53) is a whole
    number: the integer itself, the exponent's field of 2^m, or the sum of the fields of two factors of 2^m, each of
    which is a normal number."""
    return _added_integer(t.bytes, fields)


def _added_integer(size: int, fields: int) -> float:
    return 1.5 * 2.0**23 + fields * 127 if size == 4 else 1.5 * 2.0**52 + fields * 1023


scaled = scaling("scaled", 2)
scaled_normal = scaling("scaled_normal", 1)


def _binade(x: Any) -> tuple[Any, Any]:
    """x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for positive normal x."""
    m, e = np.frexp(x)
    low = m < x.dtype.type(ROOT_HALF)
    return np.where(low, m * 2, m).astype(x.dtype)[()], np.where(low, e - 1, e).astype(x.dtype)[()]


significand = Intrinsic(
    "significand", 1, FLOAT, lambda x: _binade(x)[0], llvm={"float": "significand"},
    doc="m of x = m * 2^e, from sqrt(1/2) to sqrt(2), of a positive normal number; private to the expansions.",
)  # fmt: skip
exponent = Intrinsic(
    "exponent", 1, FLOAT, lambda x: _binade(x)[1], llvm={"float": "binade"},
    doc="e of x = m * 2^e, m from sqrt(1/2) to sqrt(2), of a positive normal number; private to the expansions.",
)  # fmt: skip


class X:
    """A value with Python operators; constants take its type."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def lift(self, x: X | float) -> Value:
        return x.value if isinstance(x, X) else Const(x, self.value.dtype)

    def op(self, fn: Intrinsic, *others: X | float) -> X:
        return X(Op(fn, (self.value, *map(self.lift, others))))

    def __add__(self, other: X | float) -> X:
        return self.op(arith.add, other)

    def __sub__(self, other: X | float) -> X:
        return self.op(arith.sub, other)

    def __mul__(self, other: X | float) -> X:
        return self.op(arith.mul, other)

    def __truediv__(self, other: X | float) -> X:
        return self.op(arith.div, other)

    def __rtruediv__(self, other: float) -> X:
        return X(self.lift(other)) / self

    def __rsub__(self, other: float) -> X:
        return X(self.lift(other)) - self

    def __neg__(self) -> X:
        return self.op(arith.neg)

    def __abs__(self) -> X:
        return self.op(arith.abs_)

    def fma(self, factor: X | float, term: X | float) -> X:
        """Times one, plus another, rounded once."""
        return self.op(fused, factor, term)

    def clamp(self, low: float, high: float) -> X:
        """Into [low, high]; NaN stays. One instruction each on a CPU, as a comparison with NaN is false."""
        raised = X(Select(self.below(low), self.lift(low), self.value))
        above = ValueToCond(Op(compare.lt, (self.lift(high), raised.value)))
        return X(Select(above, self.lift(high), raised.value))

    def below(self, bound: X | float) -> ValueToCond:
        return ValueToCond(Op(compare.lt, (self.value, self.lift(bound))))

    def above(self, bound: X | float) -> ValueToCond:
        return ValueToCond(Op(compare.lt, (self.lift(bound), self.value)))

    def from_(self, bound: float) -> ValueToCond:
        """Whether it is `bound` or more, and no NaN."""
        return ValueToCond(Op(compare.le, (self.lift(bound), self.value)))

    def equals(self, other: X | float) -> ValueToCond:
        return ValueToCond(Op(compare.eq, (self.value, self.lift(other))))

    def where(self, cond: Cond, other: X | float) -> X:
        """Itself where `cond` holds, and `other` elsewhere."""
        return X(Select(cond, self.value, self.lift(other)))

    def cast(self, to: DType) -> X:
        return X(Cast(self.value, to))


def polynomial(x: X, coefficients: tuple[float, ...]) -> X:
    """Horner's rule, highest coefficient first; backends contract each step to an fma. Of a long one, the coefficients
    of even and of odd powers apart, by Horner's rule in x^2, as each step waits for the one before it."""
    if len(coefficients) < LONG:
        return _horner(x, coefficients)
    even, odd = (coefficients[::-1][k::2][::-1] for k in (0, 1))
    square = x * x
    return polynomial(square, odd) * x + polynomial(square, even)


def _horner(x: X, coefficients: tuple[float, ...]) -> X:
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total
