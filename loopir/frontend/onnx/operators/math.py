"""Operators on elements: arithmetic, comparisons, functions of real numbers, conversions. ONNX promotes no types."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from functools import reduce
from typing import Any

from loopir.frontend.onnx.node import Node, elementwise, operator
from loopir.frontend.onnx.reading import dtype_of
from loopir.ir import dtypes
from loopir.tensor import functions as f
from loopir.tensor.core import as_expr
from loopir.tensor.elementwise import fmod
from loopir.tensor.tensor import Tensor

elementwise({
    "Abs": f.abs, "Acos": f.acos, "Acosh": f.acosh, "Add": lambda a, b: a + b, "And": f.logical_and, "Asin": f.asin,
    "Asinh": f.asinh, "Atan": f.atan, "Atanh": f.atanh, "BitwiseAnd": lambda a, b: a & b, "BitwiseNot": lambda a: ~a,
    "BitwiseOr": lambda a, b: a | b, "BitwiseXor": lambda a, b: a ^ b, "Ceil": f.ceil, "Cos": f.cos, "Cosh": f.cosh,
    "Equal": lambda a, b: a == b, "Erf": f.erf, "Exp": f.exp, "Floor": f.floor, "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b, "Identity": lambda a: a, "IsNaN": f.isnan, "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b, "Log": f.log, "Max": lambda *x: reduce(f.maximum, x),
    "Min": lambda *x: reduce(f.minimum, x), "Mul": lambda a, b: a * b, "Neg": lambda a: -a, "Not": f.logical_not,
    "Or": f.logical_or, "Reciprocal": lambda a: 1.0 / a, "Relu": f.relu, "Round": f.round, "Sigmoid": f.sigmoid,
    "Sign": f.sign, "Sin": f.sin, "Sinh": f.sinh, "Sqrt": f.sqrt, "Sub": lambda a, b: a - b,
    "Sum": lambda *x: reduce(lambda a, b: a + b, x), "Tan": f.tan, "Tanh": f.tanh, "Where": f.where,
    "Xor": lambda a, b: a != b,
})  # fmt: skip


def _wide(x: Tensor) -> Tensor:
    """`x` in a type to compute in: float32 for narrow floats."""
    return x.astype("float32") if x.dtype.is_narrow else x


def _toward_zero(a: Tensor, b: Tensor) -> Tensor:
    """Integer division as C's: what is left after the remainder divides exactly. The least integer has no absolute
    value."""
    return a // b if a.dtype.kind == "uint" else (a - fmod(a, b)) // b


@operator("Div")
def divide(n: Node) -> Tensor:
    a, b = n.tensor(0), n.tensor(1)
    return a / b if a.dtype.is_float else _toward_zero(a, b)


@operator("Mod")
def remainder(n: Node) -> Tensor:
    """The sign is the divisor's, or with `fmod` the dividend's."""
    a, b = n.tensor(0), n.tensor(1)
    return fmod(a, b) if n.attr("fmod", 0) else a % b


@operator("Pow")
def power(n: Node) -> Tensor:
    a, b = n.tensor(0), n.tensor(1)
    if a.dtype.is_float:
        return f.pow(a, b.astype(a.dtype))
    if b.dtype.is_float:
        return f.pow(a.astype("float64"), b.astype("float64")).astype(a.dtype)
    return _whole_power(a, b)


def _whole_power(a: Tensor, b: Tensor) -> Tensor:
    """a ** b of integers by squares, modulo 2 to the bits of the type; of exponents below 0 the quotient's whole part.

    Exponents count up to 255: beyond them powers of -1, 0 and 1 alone are numbers of the type, and right all the same.
    """
    one = f.cast(1, a.dtype)
    made, square = f.broadcast_to(one, a.shape), a
    for bit in range(8):
        made = f.where((b >> bit) % 2 == 1, made * square, made)
        square = square * square
    made = f.where(f.logical_and(a == 0, b > 0), a, made)
    if b.dtype.kind == "uint":
        return made
    unit = a == 1 if a.dtype.kind == "uint" else f.logical_or(a == 1, a == -1)
    return f.where(f.logical_or(b >= 0, unit), made, one - one)


@operator("Cast")
def cast(n: Node) -> Tensor:
    """Floats of 8 bits saturate unless told otherwise, which they do not here."""
    x, t = n.tensor(0), dtype_of(n.attr("to"), n.what)
    return converted(n, x, t)


@operator("CastLike")
def cast_like(n: Node) -> Tensor:
    return converted(n, n.tensor(0), n.tensor(1).dtype)


def converted(n: Node, x: Tensor, t: dtypes.DType) -> Tensor:
    """`x` as `t`; floats of 8 bits saturate unless told otherwise."""
    if t == dtypes.bool_:
        return x if x.dtype == t else x != 0
    if t.is_float and t.bits == 8 and x.dtype != t and n.attr("saturate", 1):
        most = 448.0 if t == dtypes.float8_e4m3fn else 57344.0
        x = f.clip(_wide(x), -most, most)  # NaN stays NaN
    return x.astype(t)


@operator("BitShift")
def shift(n: Node) -> Tensor:
    """By the width and more, all bits go; to the right those of a negative number are filled with its sign."""
    a, b = n.tensor(0), n.tensor(1)
    if n.attr("direction") == "RIGHT" and a.dtype.kind == "int":
        return a >> f.minimum(b, a.dtype.bits - 1)
    moved = a << b if n.attr("direction") == "LEFT" else a >> b
    return f.where(b < a.dtype.bits, moved, as_expr(Tensor, 0, a.dtype))


@operator("Clip")
def clip(n: Node) -> Tensor:
    x = n.tensor(0)
    if n.version < 11:
        return f.clip(x, n.attr("min"), n.attr("max"))
    return f.clip(x, n.optional(1), n.optional(2))


@operator("IsInf")
def is_infinite(n: Node) -> Tensor:
    x = _wide(n.tensor(0))
    above, below = x == float("inf"), x == -float("inf")
    sides = [s for s, on in ((above, "detect_positive"), (below, "detect_negative")) if n.attr(on, 1)]
    return reduce(f.logical_or, sides) if sides else f.logical_and(above, below)


@operator("Mean")
def mean(n: Node) -> Tensor:
    given = n.tensors()
    return reduce(lambda a, b: a + b, given) / float(len(given))


@operator("LeakyRelu")
def leaky_relu(n: Node) -> Tensor:
    x = n.tensor(0)
    return f.where(x < 0, x * float(n.attr("alpha", 0.01)), x)


@operator("PRelu")
def prelu(n: Node) -> Tensor:
    x = n.tensor(0)
    return f.where(x < 0, x * n.tensor(1), x)


@operator("Elu")
def elu(n: Node) -> Tensor:
    x = n.tensor(0)
    return f.where(x < 0, f.expm1(x) * float(n.attr("alpha", 1.0)), x)


@operator("Selu")
def selu(n: Node) -> Tensor:
    x = n.tensor(0)
    alpha, gamma = n.attr("alpha", 1.67326319217681884765625), n.attr("gamma", 1.05070102214813232421875)
    return f.where(x <= 0, f.expm1(x) * (alpha * gamma), x * gamma)


@operator("HardSigmoid")
def hard_sigmoid(n: Node) -> Tensor:
    return f.clip(n.tensor(0) * float(n.attr("alpha", 0.2)) + float(n.attr("beta", 0.5)), 0.0, 1.0)


@operator("Softplus")
def softplus(n: Node) -> Tensor:
    x = n.tensor(0)
    return f.maximum(x, 0.0) + f.log1p(f.exp(-f.abs(x)))


@operator("Softsign")
def softsign(n: Node) -> Tensor:
    x = n.tensor(0)
    return x / (f.abs(x) + 1.0)


@operator("Gelu")
def gelu(n: Node) -> Tensor:
    return f.gelu(n.tensor(0), n.attr("approximate", "none"))


@operator("Dropout")
def dropout(n: Node) -> Any:
    """The input: dropout for training draws random numbers, which are not had yet."""
    if n.version >= 12 and n.has(2) and n.scalar(2) and (not n.has(1) or n.scalar(1) != 0):
        raise n.unsupported("training_mode, which draws random numbers")
    x = n.tensor(0)
    return (x, x == x) if n.outputs < 2 else (x, _true_like(x))


def _true_like(x: Tensor) -> Tensor:
    return x.like(x.dims, dtypes.bool_, lambda _: as_expr(Tensor, True, dtypes.bool_).at(()))
