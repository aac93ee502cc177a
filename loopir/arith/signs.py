"""Signs: whether a value is proved to be nonnegative, positive, or defined, from the operations it is made of.

Rounding is left aside, as it is where sums are reordered: a positive value may underflow to 0.
"""

from __future__ import annotations

from collections.abc import Callable

from loopir.ir.grammar import Cast, Const, Load, Op, Select, Value

Known = Callable[[Load], bool]
"""Whether what is loaded is known to be nonnegative."""
EXPONENTIALS = frozenset({"exp", "exp_16", "exp2", "exp2_16"})
_NONNEGATIVE = EXPONENTIALS | {"abs", "sqrt", "rsqrt", "sigmoid", "sigmoid_16"}
_MONOTONE = frozenset({"add", "mul", "div", "sqrt", "minimum", "fma"})
"""Operations of which nonnegative arguments give a nonnegative result."""
_TOTAL = EXPONENTIALS | {
    "add", "sub", "mul", "neg", "fma", "abs", "maximum", "minimum",
    "tanh", "sigmoid", "sigmoid_16", "erf", "sin", "cos",
}  # fmt: skip
"""Operations defined for all finite arguments."""


def is_nonnegative(v: Value, known: Known) -> bool:
    """Whether `v` is at least 0, where it is defined."""
    match v:
        case Const(x):
            return x >= 0
        case Load():
            return known(v)
        case Cast(of, t):
            return t.is_float and of.dtype.is_float and is_nonnegative(of, known)
        case Select(_, a, b):
            return is_nonnegative(a, known) and is_nonnegative(b, known)
        case Op(fn, args):
            if fn.name in _NONNEGATIVE or (fn.name == "mul" and args[0] == args[1]):
                return True
            if fn.name == "maximum":
                return any(is_nonnegative(a, known) for a in args)
            return fn.name in _MONOTONE and all(is_nonnegative(a, known) for a in args)
        case _:
            return False


def is_positive(v: Value, known: Known) -> bool:
    """Whether `v` is above 0, where it is defined."""
    match v:
        case Const(x):
            return x > 0
        case Cast(of, t):
            return t.is_float and of.dtype.is_float and is_positive(of, known)
        case Select(_, a, b):
            return is_positive(a, known) and is_positive(b, known)
        case Op(fn, args):
            if fn.name in EXPONENTIALS:
                return True
            if fn.name == "add":
                return any(is_positive(a, known) for a in args) and all(is_nonnegative(a, known) for a in args)
            if fn.name == "maximum":
                return any(is_positive(a, known) for a in args)
            return fn.name in ("mul", "div", "sqrt", "rsqrt", "minimum") and all(is_positive(a, known) for a in args)
        case _:
            return False


def is_defined(v: Value, known: Known) -> bool:
    """Whether `v` is a finite number for all finite numbers that it loads."""
    match v:
        case Const(x):
            return abs(x) < float("inf")
        case Cast(of, _):
            return is_defined(of, known)
        case Select(_, a, b):
            return is_defined(a, known) and is_defined(b, known)
        case Op(fn, args):
            if not all(is_defined(a, known) for a in args):
                return False
            if fn.name == "sqrt":
                return is_nonnegative(args[0], known)
            return fn.name in _TOTAL or (fn.name in ("div", "rsqrt", "log", "log2") and is_positive(args[-1], known))
        case _:
            return isinstance(v, Load)
