"""Means, variances and exponential sums: by two passes over the data, or by one with a monoid that merges parts.

A variance as the mean of squares less the square of the mean loses every digit where the mean is large, so none is
taken like that. In one pass, parts are merged by Chan, Golub and LeVeque's formula ("Updating formulae and a pairwise
algorithm for computing sample variances", 1979), of which Welford's is the case of one element; sums of exponentials
by the running maximum of Milakov and Gimelshein ("Online normalizer calculation for softmax", 2018). Both are
reductions like any other: they can be factored, split among threads and folded in any order.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import math
from typing import Any

from loopir.errors import ExprError
from loopir.ir.dtypes import DType, float32
from loopir.tensor.core import as_expr, cast, common_type
from loopir.tensor.creation import ones_like
from loopir.tensor.functions import (
    abs as absolute,
    axis_of,
    broadcast_to,
    exp,
    exp_16,
    log,
    maximum,
    mean as arithmetic_mean,
    monoid,
    sqrt,
    sum as total,
    where,
)
from loopir.tensor.index import ReduceAxis
from loopir.tensor.reductions import resolve_axes
from loopir.tensor.tensor import Tensor, mean_type

__all__ = ["average", "expsum", "log_softmax", "logsumexp", "softmax", "std", "var", "welford"]


def _merge_moments(left: Any, right: Any) -> Any:
    """Chan's merge of (count, mean, sum of squared deviations); an empty part changes nothing."""
    (n, mean_a, m2_a), (k, mean_b, m2_b) = left, right
    share = k.astype(mean_a.dtype) / maximum(n + k, 1).astype(mean_a.dtype)
    off = mean_b - mean_a
    return n + k, mean_a + off * share, m2_a + m2_b + off * off * (n.astype(mean_a.dtype) * share)


def _largest_and_sum(left: Any, right: Any) -> Any:
    """(m, s) for s times e to the m. Equal maxima need no scale, so that -inf and -inf is no NaN."""
    (a, s), (b, t) = left, right
    scale = where(a == b, 1.0, exp(-absolute(a - b)))
    return maximum(a, b), where(a < b, s * scale + t, s + t * scale)


_welford = monoid("welford", identity=(0, 0.0, 0.0), combine=_merge_moments)
_expsum = monoid("expsum", identity=(-math.inf, 0.0), combine=_largest_and_sum)


def _work(x: Any, what: str = "", axis: Any = None) -> tuple[Tensor, DType]:
    """`x` in the type that it is computed in, and the type of results: narrow floats are computed in float32. With
    `what` is computed from it, its `axis` is looked at first."""
    e = as_expr(Tensor, x, None)
    if what and not isinstance(axis, ReduceAxis):
        resolve_axes(axis, e.ndim, what, e)
    t = mean_type(e.dtype)
    return cast(e, float32 if t.is_narrow else t), t


def welford(x: Any, axis: Any = None, keepdims: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """How many, their mean, and the sum of their squared deviations from it, over `axis`, in one pass.

    The count is int64; the others are float32 for narrow floats, else of the type of `x`. `axis` may be a reduce_axis.
    """
    e, _ = _work(x)
    one = as_expr(Tensor, 1, None).astype("int64")
    count, middle, squares = _welford((one, e, as_expr(Tensor, 0.0, e.dtype)), axis=axis, keepdims=keepdims)
    return count, middle, squares


def var(
    x: Any, axis: Any = None, keepdims: bool = False, correction: float = 0, passes: int = 2, mean: Any = None
) -> Tensor:
    """The variance over `axis`: squared deviations from the mean, over the count less `correction`.

    `mean`, with its dimensions kept, is the mean if it is at hand. `passes=2` takes the mean first; `passes=1` takes
    both at once, by `welford`, for what is too long to be read twice.
    """
    e, t = _work(x, "var", axis)
    if passes == 1:
        count, _, squares = welford(e, axis, keepdims)
        return cast(squares / _less(count.astype(e.dtype), correction), t)
    if passes != 2:
        raise ExprError(f"var takes one pass or two, not {passes}")
    off = e - (arithmetic_mean(e, axis, keepdims=True) if mean is None else mean)
    squares = total(off * off, axis, keepdims)
    count = 1
    over = range(e.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    for d in over:
        count = e.shape[d] * count
    return cast(squares / _less(as_expr(Tensor, count, e.dtype), correction), t)


def _less(count: Tensor, correction: float) -> Tensor:
    return count - correction if correction else count


def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """The mean over `axis` by `weights`, of the shape of `x` or a vector along `axis`: their products with it, over
    their sum; also that sum if `returned`."""
    e = as_expr(Tensor, x, None)
    w = ones_like(e, mean_type(e.dtype)) if weights is None else as_expr(Tensor, weights, None)
    if w.ndim != e.ndim:
        if w.ndim != 1 or not isinstance(axis, int):
            raise ExprError(f"average of {e.described()} by {w.described()}: weights of its shape, or along one axis")
        d = axis_of("average", axis, e, e.ndim)
        w = broadcast_to(w[(slice(None), *(None,) * (e.ndim - 1 - d))], e.shape)
    t = mean_type(common_type((e, w)))
    work = float32 if t.is_narrow else t
    e, w = cast(e, work), cast(w, work)
    if weights is None:
        made = arithmetic_mean(e, axis, keepdims)
    else:
        made = total(e * w, axis, keepdims) / total(w, axis, keepdims)
    made = cast(made, t)
    return (made, cast(total(w, axis, keepdims), t)) if returned else made


def std(x: Any, axis: Any = None, keepdims: bool = False, correction: float = 0, passes: int = 2) -> Tensor:
    """The square root of the variance; see `var`."""
    e, t = _work(x, "std", axis)
    return cast(sqrt(var(e, axis, keepdims, correction, passes)), t)


def expsum(x: Any, axis: Any = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The largest element m over `axis` and the sum of exp(x - m), in one pass.

    Elements of -inf count for nothing once there is a larger one. `axis` may be a reduce_axis.
    """
    e, _ = _work(x)
    largest, scaled = _expsum((e, as_expr(Tensor, 1.0, e.dtype)), axis=axis, keepdims=keepdims)
    return largest, scaled


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over `axis`, in one pass, with no overflow."""
    _, t = _work(x, "logsumexp", axis)
    largest, scaled = expsum(x, axis, keepdims)
    return cast(largest + log(scaled), t)


def softmax(x: Any, axis: int = -1, online: bool = False) -> Tensor:
    """exp(x) over its sum along `axis`: by the maximum, then the sum; `online` finds both in one pass.

    It multiplies by 1 over the sum, which a row has one of: a division for every element would be half of the work.
    Powers whose shares are rounded to 16 bits are found to 2^-17 of them.
    """
    e, t = _work(x, "softmax", axis)
    power = exp_16 if t.is_narrow else exp
    if online:
        largest, scaled = expsum(e, axis, keepdims=True)
        return cast(power(e - largest) * (1.0 / scaled), t)
    powers = power(e - e.max(axis=axis, keepdims=True))
    return cast(powers * (1.0 / powers.sum(axis=axis, keepdims=True)), t)


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """x less log(sum(exp(x))) along `axis`, with no overflow."""
    e, t = _work(x, "log_softmax", axis)
    shifted = e - e.max(axis=axis, keepdims=True)
    return cast(shifted - log(exp(shifted).sum(axis=axis, keepdims=True)), t)
