"""The functions of the public namespace: mathematics, selection, joining, reductions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from loopir.arith.simplify import simplify
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
    shortened,
    stage_reduction,
    truth,
)
from loopir.tensor.index import CondExpr, IndexExpr, at_least, context, same
from loopir.tensor.tensor import Tensor, absolute, as_bool, numeric, power, real_type, reduce_mean, reduce_sum

__all__ = [
    "abs", "acos", "acosh", "all", "any", "argmax", "argmin", "asin", "asinh", "atan", "atan2", "atanh", "broadcast_to",
    "cast", "ceil", "clip", "concatenate", "cos", "cosh", "diff", "erf", "erfc", "exp", "exp2", "expm1", "floor",
    "gelu", "isfinite", "isinf", "isnan", "log", "log1p", "logical_and", "logical_not", "logical_or", "matmul", "max",
    "maximum", "mean", "min", "minimum", "monoid", "pad", "pow", "prod", "reciprocal", "relu", "reshape", "round",
    "rsqrt", "select", "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "sqrt", "square", "stack", "sum", "take",
    "tan", "tanh", "tf32", "transpose", "where",
]  # fmt: skip

_any, _all, _abs = any, all, abs


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
erfc, lgamma, tgamma = map(_real, ("erfc", "lgamma", "tgamma"))
sinh, cosh, asinh, acosh, atanh = map(_real, ("sinh", "cosh", "asinh", "acosh", "atanh"))
_logistic = _real("sigmoid")
exp_16 = _real("exp_16")
isnan = _real("isnan")
pow = power


def widened_input(x: Any) -> tuple[Tensor, dtypes.DType]:
    """`x` in the type that it is computed in, and that of the result."""
    e = as_expr(Tensor, x, None)
    t = real_type(e.dtype)
    return cast(e, dtypes.float32 if t.is_narrow else t), t


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


floor, ceil, _nearest = map(_float_function, ("floor", "ceil", "round"))


def round(x: Any, decimals: int = 0) -> Tensor:
    """The nearest number with `decimals` digits after the point, of two the even one. Integers stay as they are."""
    if not decimals:
        return _nearest(x)
    if not as_expr(Tensor, x, None).dtype.is_float:
        if decimals > 0:
            return as_expr(Tensor, x, None)
        raise ExprError(f"round of integers to decimals={decimals}; write (x + h) // t * t with t = 10 ** {-decimals}")
    scale = 10.0 ** _abs(decimals)
    return _nearest(x * scale) / scale if decimals > 0 else _nearest(x / scale) * scale


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


def select(cond: Any, a: Any, b: Any = 0) -> Tensor:
    """`where`; of lists, as NumPy's, the first of the tensors `a` whose condition holds, and `b` where none does."""
    if not isinstance(cond, list | tuple):
        return where(cond, a, b)
    if not isinstance(a, list | tuple) or len(a) != len(cond) or not cond:
        raise ExprError(f"select by {len(cond)} conditions; it takes a list of as many tensors, one at least")
    t = common_type([*a, b])
    made = cast(as_expr(Tensor, b, t), t)
    for test, x in zip(reversed(cond), reversed(a), strict=True):
        made = where(test, x, made)
    return made


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
    if not isinstance(name, str) or not callable(combine):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"monoid({shortened(name)}): a name, identity=(0.0, ...), and combine= as a function of two")
    units: Any = identity
    if not isinstance(units, list | tuple) or not units or not _all(isinstance(x, bool | int | float) for x in units):
        raise TypeError(f"monoid {name}: identity is {shortened(identity)}; it is one number for each value, as (0.0,)")
    made = red.make_monoid(name, tuple(identity), combine)

    def reduce(values: Sequence[Any], axis: Any = None, keepdims: bool = False) -> tuple[Tensor, ...]:
        return made(Tensor, values, axis, keepdims)

    reduce.__name__ = name
    return reduce


def matmul(a: Tensor, b: Tensor, accum_dtype: DTypeLike | None = None) -> Tensor:
    """The matrix product as NumPy's; narrow floats accumulate in float32, or in `accum_dtype`."""
    return red.product(as_expr(Tensor, a, None), as_expr(Tensor, b, None), accum_dtype)


# ---------------------------------------------------------------- shapes


def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The dimensions in the order `axes`; reversed without."""
    return x.transpose() if axes is None else x.transpose(axes)


def reshape(x: Tensor, shape: Sequence[Any]) -> Tensor:
    """The elements in row-major order under another shape; one size may be -1."""
    return x.reshape(shape)


def broadcast_to(x: Tensor, shape: Sequence[Any]) -> Tensor:
    """`x` repeated along new dimensions and those of size 1."""
    return x.broadcast_to(shape)


def axis_of(what: str, axis: int, x: Tensor, rank: int) -> int:
    """`axis` of a tensor made from `x` that has `rank` dimensions, counted from 0."""
    if not isinstance(axis, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"{what} along axis {axis!r} of {x.described()}; an axis is an integer")
    if not -rank <= axis < rank:
        raise ExprError(f"{what} along axis {axis} of {x.described()}; an axis is from {-rank} to {rank - 1}")
    return axis % rank


def _same_sizes_except(a: Tensor, b: Tensor, but: int) -> bool:
    """Whether two tensors have the same sizes except in one dimension."""
    symbols = {**a.symbols, **b.symbols}
    return not _any(n != but and not same(x, y, symbols) for n, (x, y) in enumerate(zip(a.dims, b.dims, strict=True)))


def take(x: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """The elements of `x` at integer `indices` along `axis`, or of the flat tensor, those below 0 from the end; clamped
    to the dimension."""
    if axis is None:
        return (x if x.ndim == 1 else x.reshape(-1))[indices]
    return x[(*(slice(None),) * axis_of("take", axis, x, x.ndim), indices)]


def take_from_start(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """The elements of `x` at integer `indices` along `axis`, none of which is below 0."""
    return x.from_start((*(slice(None),) * axis_of("take", axis, x, x.ndim), indices))


_PADDED: dict[str, Callable[[Index, Index], Index]] = {
    "edge": lambda i, size: ir.minimum(ir.maximum(i, Int(0)), size - 1),
    "wrap": lambda i, size: i % size,
    "reflect": lambda i, size: ir.minimum(ir.maximum(i, Int(0) - i), (size - 1) * 2 - i),
    "symmetric": lambda i, size: ir.minimum(ir.maximum(i, Int(-1) - i), size * 2 - 1 - i),
}
"""The element that stands at index `i`, from before the first one to beyond the last, of a dimension of `size`."""


def pad(x: Any, widths: Any, value: float = 0, mode: str = "constant") -> Tensor:
    """`x` with `widths[d] = (before, after)` elements around each dimension, or as many, or the pair, around all.

    They are `value`, or by `mode` the nearest element ("edge"), those mirrored at the outermost element ("reflect") or
    beyond it ("symmetric"), or those of the other end ("wrap"). No width of the last three is larger than `x` has
    elements to give, which `lp.symbol("n", min=3)` says of a size that is known at the call alone.
    """
    e = stage_reduction(as_expr(Tensor, x, None))
    around = _widths(widths, e)
    shape = tuple(d + (before + after) for d, (before, after) in zip(e.dims, around, strict=True))
    if mode != "constant":
        _require_given(e, around, mode)
        if mode == "wrap" and not _all(isinstance(d, Int) for d in e.dims):
            return _periodic(e, around)

        def elsewhere(ix: tuple[Index, ...]) -> Value:
            each = zip(ix, around, e.dims, strict=True)
            return e.at(tuple(i if pair == (0, 0) else _PADDED[mode](i - pair[0], d) for i, pair, d in each))

        return e.like(shape, e.dtype, elsewhere)
    outside = as_expr(Tensor, value, e.dtype).at(())

    def at(ix: tuple[Index, ...]) -> Value:
        inner = tuple(i - before for i, (before, _) in zip(ix, around, strict=True))
        tests = [t for i, d in zip(inner, e.dims, strict=True) for t in (Cmp("<=", Int(0), i), Cmp("<", i, d))]
        return Select(conj(*tests), e.at(inner), cast_value(outside, e.dtype))

    return e.like(shape, e.dtype, at)


def _periodic(e: Tensor, around: Sequence[tuple[int, int]]) -> Tensor:
    """`e` between its last and its first elements, as parts: a remainder by a size that is not known is no subscript
    that schedules know."""
    for d, (before, after) in enumerate(around):
        every = (slice(None),) * d
        last = [e[(*every, slice(-before, None))]] if before else []
        first = [e[(*every, slice(None, after))]] if after else []
        e = concatenate([*last, e, *first], axis=d)
    return e


def _widths(widths: Any, e: Tensor) -> tuple[tuple[int, int], ...]:
    """What `pad` is given, as a pair for each dimension."""

    def plain(w: Any) -> Any:
        return [plain(x) for x in w] if isinstance(w, list | tuple) else index(w) if hasattr(w, "__index__") else w

    given = plain(widths)
    pairs = given if isinstance(given, list) and _any(isinstance(w, list) for w in given) else [given]
    each = [[w] if isinstance(w, int) else w for w in pairs]
    if not _all(isinstance(w, list) and len(w) in (1, 2) and _all(isinstance(n, int) for n in w) for w in each):
        form = f"[{', '.join(['(before, after)'] * e.ndim)}]"
        raise TypeError(f"pad of {e.described()} by {shortened(widths)}; widths are {form}, or one number for all")
    found = [(int(w[0]), int(w[-1])) for w in (each * e.ndim if len(each) == 1 else each)]
    if len(found) != e.ndim:
        raise ExprError(f"pad of {e.described()}: {len(found)} widths for {e.ndim} dimensions")
    for before, after in found:
        if before < 0 or after < 0:
            raise ExprError(f"pad of {e.described()} by {(before, after)}; widths are at least 0, slice to cut")
    return tuple(found)


def _require_given(e: Tensor, around: Sequence[tuple[int, int]], mode: str) -> None:
    """ExprError where no elements are there for the borders of `mode`."""
    if mode not in _PADDED:
        modes = ", ".join(map(repr, ("constant", *_PADDED)))
        raise ExprError(f"pad of {e.described()}: mode={mode!r}; it is one of {modes}")
    for size, pair in zip(e.dims, around, strict=True):
        if pair == (0, 0) or (mode == "edge" and not isinstance(size, Int)):
            continue
        if not isinstance(size, Int):
            least = builtins.max(pair) + (mode == "reflect")
            if not at_least(size, least, e.symbols):
                raise ExprError(
                    f"pad of {e.described()} by {pair}, mode={mode!r}: it takes {least} elements or more, as "
                    f"lp.symbol(..., min={least}) says that there are"
                )
            continue
        most = size.value - (mode == "reflect")
        if size == Int(0) or (mode != "edge" and builtins.max(pair) > most):
            raise ExprError(f"pad of {e.described()} by {pair}, mode={mode!r}: {size.value} elements give {most}")


def listed(what: str, tensors: Any) -> list[Tensor]:
    """The tensors of a list, for `what` takes one; TypeError for one tensor, or what is no list."""
    if isinstance(tensors, Tensor) or not hasattr(tensors, "__iter__"):
        raise TypeError(f"{what} takes the tensors as one list: lp.{what}([a, b], axis=0)")
    found = [stage_reduction(as_expr(Tensor, x, None)) for x in tensors]
    if not found:
        raise ExprError(f"{what} takes at least one tensor")
    return found


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after the other along `axis`; their other sizes are equal."""
    tensors = listed("concatenate", tensors)
    t = common_type(tensors)
    parts: list[Any] = [cast_expr(stage_reduction(x), t) for x in tensors]
    d = axis_of("concatenate", axis, parts[0], parts[0].ndim)
    for p in parts[1:]:
        if p.ndim != parts[0].ndim or not _same_sizes_except(p, parts[0], d):
            raise ExprError(
                f"concatenate of {parts[0].described()} and {p.described()} along {axis}: the shapes differ"
            )
    starts: list[Index] = [Int(0)]
    known = context({k: s for p in parts for k, s in p.symbols.items()})
    for p in parts:
        starts.append(simplify(starts[-1] + p.dims[d], known))
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
    first, *others = tensors = listed("stack", tensors)
    key = [slice(None)] * first.ndim
    where = axis_of("stack", axis, first, len(key) + 1)
    for x in others:
        if x.ndim != first.ndim or not _same_sizes_except(x, first, -1):
            raise ExprError(f"stack of {first.described()} and {x.described()}: the shapes differ")
    return concatenate([x[(*key[:where], None, *key[where:])] for x in tensors], axis=where)
