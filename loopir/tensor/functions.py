"""The functions of the public namespace: mathematics, selection, joining, reductions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes, grammar as ir
from loopir.ir.dtypes import DTypeLike
from loopir.ir.grammar import Cmp, Cond, Index, Int, Select, Value, conj
from loopir.ir.ops import REGISTRY
from loopir.tensor import reductions as red
from loopir.tensor.core import (
    as_expr,
    at_broadcast,
    broadcast,
    cast as cast_expr,
    cast_value,
    common_type,
    elementwise,
    stage_reduction,
    truth,
)
from loopir.tensor.index import CondExpr, IndexExpr, same
from loopir.tensor.tensor import Tensor, absolute, as_bool, numeric, power, real_type, reduce_mean, reduce_sum

__all__ = [
    "abs", "acos", "acosh", "all", "any", "argmax", "argmin", "asin", "asinh", "atan", "atan2", "atanh", "broadcast_to",
    "cast", "ceil", "clip", "concatenate", "cos", "cosh", "diff", "erf", "exp", "exp2", "expm1", "floor", "gelu",
    "isfinite", "isinf", "isnan",
    "log", "log1p", "logical_and", "logical_not", "logical_or", "matmul", "max", "maximum", "mean", "min", "minimum",
    "monoid", "pad", "pow", "prod", "reciprocal", "relu", "reshape", "round", "rsqrt", "select", "sigmoid", "sign",
    "silu", "sin", "sinh", "softplus", "sqrt", "square", "stack", "sum", "take", "tan", "tanh", "tf32",
    "transpose", "where",
]  # fmt: skip

_any = any


def _real(name: str) -> Callable[[Any], Tensor]:
    def function(x: Any) -> Tensor:
        t = real_type(common_type((x,)))
        return elementwise(Tensor, name, x, to=t)

    function.__name__ = name
    function.__doc__ = f"{REGISTRY[name].doc} Integers are converted to a float type as NumPy does."
    return function


exp, exp2, log, sqrt, rsqrt = map(_real, ("exp", "exp2", "log", "sqrt", "rsqrt"))
tanh, erf, sin, cos = map(_real, ("tanh", "erf", "sin", "cos"))
log1p, expm1, tan, asin, acos, atan = map(_real, ("log1p", "expm1", "tan", "asin", "acos", "atan"))
sinh, cosh, asinh, acosh, atanh = map(_real, ("sinh", "cosh", "asinh", "acosh", "atanh"))
_logistic = _real("sigmoid")
exp_16 = _real("exp_16")
isnan = _real("isnan")
pow = power


def tf32(x: Any, *, nearest: bool = True) -> Tensor:
    """Each float32 as a number of TF32, which has 11 bits of significand: the nearest, of two the one away from zero,
    or unless `nearest` cut off towards zero.

    Tensor cores multiply float32 in TF32 alone: `lp.tf32(a) @ lp.tf32(b)` asks for that, as it is another result.
    """
    return elementwise(Tensor, "tf32" if nearest else "tf32_below", x, to=real_type(common_type((x,))))


def _float_function(name: str) -> Callable[[Any], Tensor]:
    def function(x: Any) -> Tensor:
        e = as_expr(Tensor, x, None)
        return elementwise(Tensor, name, e) if e.dtype.is_float else e

    function.__name__ = name
    function.__doc__ = f"{REGISTRY[name].doc} Integers stay as they are."
    return function


floor, ceil, round = map(_float_function, ("floor", "ceil", "round"))


def abs(x: Any) -> Tensor:
    """The absolute value of each element."""
    return absolute(as_expr(Tensor, x, None))


def maximum(a: Any, b: Any) -> Tensor:
    """The larger of each pair of elements, NaN if either is; of bools, whether either is true.

    Of indices it is an index again: `A[lp.maximum(i - 1, 0)]` repeats the first row above it.
    """
    return numeric("maximum", a, b) if (of := _of_indices(ir.maximum, a, b)) is None else of


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller of each pair of elements, NaN if either is; of bools, whether both are true. Of indices, an index."""
    return numeric("minimum", a, b) if (of := _of_indices(ir.minimum, a, b)) is None else of


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """`x`, raised to `min` where it is below and lowered to `max` where it is above; None is no bound."""
    raised = as_expr(Tensor, x, None) if min is None else maximum(x, min)
    return raised if max is None else minimum(raised, max)


def square(x: Any) -> Tensor:
    """x * x, in the type of x."""
    e = as_expr(Tensor, x, None)
    return e * e


def reciprocal(x: Any) -> Tensor:
    """1 / x, of floats in their own type; integers become float64, where NumPy's reciprocal keeps them."""
    return 1 / as_expr(Tensor, x, None)


def isinf(x: Any) -> Tensor:
    """Whether each element is an infinity of either sign."""
    e = as_expr(Tensor, x, None)
    return abs(e) == math.inf if e.dtype.is_float else e != e


def isfinite(x: Any) -> Tensor:
    """Whether each element is a number, and no infinity."""
    e = as_expr(Tensor, x, None)
    return abs(e) < math.inf if e.dtype.is_float else e == e


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), with no overflow: max(x, 0) + log1p(exp(-|x|))."""
    e = as_expr(Tensor, x, None)
    return maximum(e, 0.0) + log1p(exp(-abs(e)))


def diff(x: Any, n: int = 1, axis: int = -1) -> Tensor:
    """The differences of neighbours along `axis`, taken `n` times; each time there is one less. Bools are compared."""
    e = as_expr(Tensor, x, None)
    if n < 0:
        raise ExprError(f"diff of {e.described()}, {n!r} times; a number from 0 on")
    before = (slice(None),) * axis_of("diff", axis, e, e.ndim)
    for _ in range(n):
        later, earlier = e[(*before, slice(1, None))], e[(*before, slice(None, -1))]
        e = later != earlier if e.dtype == dtypes.bool_ else later - earlier
    return e


def sign(x: Any) -> Tensor:
    """-1, 0 or 1 as each element is negative, zero or positive; NaN of NaN."""
    e = as_expr(Tensor, x, None)
    if e.dtype == dtypes.bool_:
        raise ExprError(f"sign of {e.described()}; a bool has none, convert it first")
    rest = e if e.dtype.kind == "uint" else where(elementwise(Tensor, "lt", e, 0), -1, e)
    return where(elementwise(Tensor, "lt", 0, e), 1, rest)


def atan2(y: Any, x: Any) -> Tensor:
    """The angle of the points (x, y) in radians, from -pi to pi."""
    return elementwise(Tensor, "atan2", y, x, to=real_type(common_type((y, x))))


def _of_indices(fn: Callable[[Index, Index], Index], a: Any, b: Any) -> Any:
    """What `fn` makes of two indices, or an index and an int; None if they are no such things."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, IndexExpr) and isinstance(other, IndexExpr | int) and not isinstance(other, bool):
            return one.joined(other, fn)
    return None


def logical_and(a: Any, b: Any) -> Tensor:
    """Whether both elements are true, or not 0."""
    return elementwise(Tensor, "and_", as_bool(as_expr(Tensor, a, None)), as_bool(as_expr(Tensor, b, None)))


def logical_or(a: Any, b: Any) -> Tensor:
    """Whether either element is true, or not 0."""
    return elementwise(Tensor, "or_", as_bool(as_expr(Tensor, a, None)), as_bool(as_expr(Tensor, b, None)))


def logical_not(a: Any) -> Tensor:
    """Whether an element is false, or 0."""
    return elementwise(Tensor, "invert", as_bool(as_expr(Tensor, a, None)))


def cast(x: Any, dtype: DTypeLike) -> Tensor:
    """The elements converted to `dtype`: floats to integers truncate and saturate, NaN becomes 0."""
    return cast_expr(as_expr(Tensor, x, None), dtype)


def where(cond: Any, a: Any, b: Any) -> Tensor:
    """`a` where `cond` holds, else `b`. Only the chosen side is evaluated, so the other may be out of bounds."""
    t = common_type((a, b))
    sides: list[Any] = [stage_reduction(as_expr(Tensor, x, None if isinstance(x, Tensor) else t)) for x in (a, b)]
    if isinstance(cond, CondExpr):
        shape = broadcast("where", sides)
        test: Callable[[tuple[Index, ...]], Cond] = lambda _: cond.cond  # noqa: E731
        others: list[Any] = []
    else:
        c = as_bool(stage_reduction(as_expr(Tensor, cond, None)))
        shape = broadcast("where", [c, *sides])
        test = lambda at: truth(at_broadcast(c, shape, at))  # noqa: E731
        others = [c]

    def at(ix: tuple[Index, ...]) -> Value:
        return Select(test(ix), *(cast_value(at_broadcast(x, shape, ix), t) for x in sides))

    return sides[0].like(shape, t, at, sides[1], *others)


select = where


# ---------------------------------------------------------------- composites: narrow floats work in float32


_sigmoid_16, _silu_16, _gelu_16 = _real("sigmoid_16"), _real("silu_16"), _real("gelu_16")


def _widened(fn: Callable[[Tensor, bool], Tensor]) -> Callable[..., Tensor]:
    """`fn` of the elements, in float32 where they are narrow, which it is told."""

    def function(x: Any) -> Tensor:
        e = as_expr(Tensor, x, None)
        t = real_type(e.dtype)
        work = dtypes.float32 if t.is_narrow else t
        return cast_expr(fn(cast_expr(e, work), t.is_narrow), t)

    function.__name__, function.__doc__ = fn.__name__, fn.__doc__
    return function


def relu(x: Any) -> Tensor:
    """max(x, 0)."""
    return maximum(x, 0)


@_widened
def sigmoid(x: Tensor, narrow: bool) -> Tensor:
    """1 / (1 + exp(-x))."""
    return _sigmoid_16(x) if narrow else _logistic(x)


@_widened
def silu(x: Tensor, narrow: bool) -> Tensor:
    """x * sigmoid(x)."""
    return _silu_16(x) if narrow else x * _logistic(x)


@_widened
def _gelu_exact(x: Tensor, narrow: bool) -> Tensor:
    return x * 0.5 * (1.0 + erf(x * 0.7071067811865476))


@_widened
def _gelu_tanh(x: Tensor, narrow: bool) -> Tensor:
    """x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), which is x * sigmoid(2 u)."""
    if narrow:
        return _gelu_16(x)
    return x * 0.5 * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x * Phi(x), or with approximate="tanh" its usual approximation (Hendrycks and Gimpel 2016)."""
    if approximate not in ("none", "tanh"):
        raise ExprError(f'gelu: approximate={approximate!r}; it is "none" or "tanh"')
    return (_gelu_exact if approximate == "none" else _gelu_tanh)(x)


# ---------------------------------------------------------------- reductions


def sum(x: Any, axis: Any = None, keepdims: bool = False, accum_dtype: DTypeLike | None = None) -> Tensor:
    """The sum over `axis`: a reduce_axis inside compute, or integer axes of a whole tensor (None: all).

    Small integers are summed in 64 bits, as NumPy does; narrow floats in float32, or in `accum_dtype`.
    """
    return reduce_sum(x, axis=axis, keepdims=keepdims, accum_dtype=accum_dtype)


def _reducer(name: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        return getattr(as_expr(Tensor, x, None), name)(axis=axis, keepdims=keepdims)

    function.__name__, function.__doc__ = name, doc
    return function


prod = _reducer("prod", "The product over `axis`.")
max = _reducer("max", "The largest element over `axis`; NaN if there is one.")
min = _reducer("min", "The smallest element over `axis`; NaN if there is one.")
any = _reducer("any", "Whether any element over `axis` is true, or not 0.")
all = _reducer("all", "Whether all elements over `axis` are true, or not 0.")
argmax = _reducer("argmax", "The index of the first largest element over `axis`, int64; NaN counts as largest.")
argmin = _reducer("argmin", "The index of the first smallest element over `axis`, int64; NaN counts as smallest.")


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over integer axes (None: all); of integers in float64. Raises ExprError for a reduce_axis."""
    return reduce_mean(x, axis=axis, keepdims=keepdims)


def monoid(name: str, *, identity: Sequence[float], combine: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    """A reduction of one's own over one or several values, such as Welford's (count, mean, sum of squares).

    `combine(left, right)` gets two tuples of elements and gives the combined tuple; it has to be associative and
    commutative, and `identity` its neutral element. The result is called as `reduce(values, axis=...)` and gives a
    tuple of tensors, or inside compute a tuple of reductions.

        >>> x = lp.placeholder((8, 64), "float32", name="x")
        >>> both = lp.monoid("both", identity=(0.0, -1e30), combine=lambda a, b: (a[0] + b[0], lp.maximum(a[1], b[1])))
        >>> both((x, x), axis=1)
        (<Tensor both float32[8]>, <Tensor both float32[8]>)
    """
    made = red.make_monoid(name, tuple(identity), combine)

    def reduce(values: Sequence[Any], axis: Any = None, keepdims: bool = False) -> tuple[Tensor, ...]:
        return made(Tensor, values, axis, keepdims)

    reduce.__name__ = name
    return reduce


def matmul(a: Tensor, b: Tensor, accum_dtype: DTypeLike | None = None) -> Tensor:
    """The matrix product as NumPy's; narrow floats accumulate in float32, or in `accum_dtype`."""
    return red.product(a, b, accum_dtype)


# ---------------------------------------------------------------- shapes


def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The dimensions in the order `axes`; reversed without."""
    return x.transpose(*(axes or ()))


def reshape(x: Tensor, shape: Sequence[Any]) -> Tensor:
    """The elements in row-major order under another shape; one size may be -1."""
    return x.reshape(shape)


def broadcast_to(x: Tensor, shape: Sequence[Any]) -> Tensor:
    """`x` repeated along new dimensions and those of size 1."""
    return x.broadcast_to(shape)


def axis_of(what: str, axis: int, x: Tensor, rank: int) -> int:
    """`axis` of a tensor made from `x` that has `rank` dimensions, counted from 0."""
    if not -rank <= axis < rank:
        raise ExprError(f"{what} along axis {axis} of {x.described()}; an axis is from {-rank} to {rank - 1}")
    return axis % rank


def _same_sizes_except(a: Tensor, b: Tensor, but: int) -> bool:
    """Whether two tensors have the same sizes except in one dimension."""
    symbols = {**a.symbols, **b.symbols}
    return not _any(n != but and not same(x, y, symbols) for n, (x, y) in enumerate(zip(a.dims, b.dims, strict=True)))


def take(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """The elements of `x` at integer `indices` along `axis`, each clamped to the dimension."""
    return x[(*(slice(None),) * axis_of("take", axis, x, x.ndim), indices)]


def pad(x: Tensor, widths: Sequence[tuple[int, int]], value: float = 0) -> Tensor:
    """`x` with `widths[d] = (before, after)` elements of `value` around each dimension."""
    if len(widths) != x.ndim:
        raise ExprError(f"pad of {x.described()}: {len(widths)} widths for {x.ndim} dimensions")
    for before, after in widths:
        if before < 0 or after < 0:
            raise ExprError(f"pad of {x.described()} by {(before, after)}; widths are at least 0, slice to cut")
    e = stage_reduction(x)
    outside = as_expr(Tensor, value, e.dtype).at(())
    shape = tuple(d + (before + after) for d, (before, after) in zip(e.dims, widths, strict=True))

    def at(ix: tuple[Index, ...]) -> Value:
        inner = tuple(i - before for i, (before, _) in zip(ix, widths, strict=True))
        tests = [t for i, d in zip(inner, e.dims, strict=True) for t in (Cmp("<=", Int(0), i), Cmp("<", i, d))]
        return Select(conj(*tests), e.at(inner), cast_value(outside, e.dtype))

    return e.like(shape, e.dtype, at)


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after the other along `axis`; their other sizes are equal."""
    if not tensors:
        raise ExprError("concatenate takes at least one tensor")
    t = common_type(tensors)
    parts: list[Any] = [cast_expr(stage_reduction(x), t) for x in tensors]
    d = axis_of("concatenate", axis, parts[0], parts[0].ndim)
    for p in parts[1:]:
        if p.ndim != parts[0].ndim or not _same_sizes_except(p, parts[0], d):
            raise ExprError(
                f"concatenate of {parts[0].described()} and {p.described()} along {axis}: the shapes differ"
            )
    starts: list[Index] = [Int(0)]
    for p in parts:
        starts.append(starts[-1] + p.dims[d])
    shape = (*parts[0].dims[:d], starts[-1], *parts[0].dims[d + 1 :])

    def at(ix: tuple[Index, ...]) -> Value:
        value = parts[-1].at((*ix[:d], ix[d] - starts[-2], *ix[d + 1 :]))
        for n in reversed(range(len(parts) - 1)):
            inner = parts[n].at((*ix[:d], ix[d] - starts[n], *ix[d + 1 :]))
            value = Select(Cmp("<", ix[d], starts[n + 1]), inner, value)
        return value

    return parts[0].like(shape, t, at, *parts[1:])


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors, of one shape, along a new dimension at `axis`."""
    key = [slice(None)] * (tensors[0].ndim if tensors else 0)
    where = axis_of("stack", axis, tensors[0], len(key) + 1) if tensors else 0
    return concatenate([x[(*key[:where], None, *key[where:])] for x in tensors], axis=where)
