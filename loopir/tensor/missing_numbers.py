"""Reductions that leave NaN out, and what finds and replaces NaN and infinities, as NumPy has them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any

from ml_dtypes import finfo

from loopir.ir.dtypes import float32
from loopir.tensor.core import as_expr, cast
from loopir.tensor.functions import (
    argmax,
    argmin,
    floor,
    isnan,
    logical_not,
    logical_or,
    max as largest,
    maximum,
    min as smallest,
    minimum,
    prod,
    sqrt,
    sum as total,
    where,
)
from loopir.tensor.numeric import hundredths, quantiles
from loopir.tensor.scans import cumprod, cumsum
from loopir.tensor.sorting import take_along_axis
from loopir.tensor.tensor import Tensor, divide, mean_type

__all__ = [
    "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _instead(x: Any, value: float) -> Tensor:
    """`x` with `value` in the place of NaN."""
    e = as_expr(Tensor, x, None)
    return where(isnan(e), value, e) if e.dtype.is_float else e


def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis` of what is not NaN."""
    return total(_instead(x, 0.0), axis, keepdims)


def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The product over `axis` of what is not NaN."""
    return prod(_instead(x, 1.0), axis, keepdims)


def nancumsum(x: Any, axis: int | None = None) -> Tensor:
    """The sums of the elements up to each one along `axis`, or of the flat tensor, NaN counted as 0."""
    return cumsum(_instead(x, 0.0), axis)


def nancumprod(x: Any, axis: int | None = None) -> Tensor:
    """The products of the elements up to each one along `axis`, or of the flat tensor, NaN counted as 1."""
    return cumprod(_instead(x, 1.0), axis)


def nanmedian(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle in order over `axis` of what is not NaN, or the mean of the two in the middle; NaN where all are."""
    return nanquantile(x, 0.5, axis, keepdims)


def nanpercentile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`nanquantile` of shares in hundredths."""
    return nanquantile(x, hundredths(q), axis, keepdims)


def nanquantile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """What a share `q` over `axis` of what is not NaN is below, between two elements linearly; NaN where all are.

    `q` is a number, or a list of them, whose results lie along a first dimension.
    """
    return quantiles("nanquantile", _of_numbers, x, q, axis, keepdims)


def _of_numbers(ordered: Tensor, q: float) -> Tensor:
    """The quantile `q` of rows in order, in which NaN comes last."""
    count = total(logical_not(isnan(ordered)), axis=-1, keepdims=True)
    place = maximum(count - 1, 0).astype("float64") * q
    low = floor(place)
    share = (place - low).astype(ordered.dtype)
    at = low.astype("int64")
    a, b = (take_along_axis(ordered, i, -1) for i in (at, minimum(at + 1, maximum(count - 1, 0))))
    made = where(logical_or(share == 0.0, a == b), a, a * (1.0 - share) + b * share)
    return where(count == 0, math.nan, made)[..., 0]


def nanmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over `axis` that is not NaN; NaN where all are."""
    return _numbers_extreme(x, -math.inf, largest, axis, keepdims)


def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over `axis` that is not NaN; NaN where all are."""
    return _numbers_extreme(x, math.inf, smallest, axis, keepdims)


def _numbers_extreme(x: Any, least: float, fold: Any, axis: Any, keepdims: bool) -> Tensor:
    e = as_expr(Tensor, x, None)
    if not e.dtype.is_float:
        return fold(e, axis, keepdims)
    none = isnan(e).all(axis=axis, keepdims=keepdims)
    return where(none, math.nan, fold(_instead(e, least), axis, keepdims))


def nanargmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element over `axis` that is not NaN; 0 where NumPy raises, as all are NaN."""
    return argmax(_instead(x, -math.inf), axis, keepdims)


def nanargmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element over `axis` that is not NaN; 0 where NumPy raises, as all are NaN."""
    return argmin(_instead(x, math.inf), axis, keepdims)


def _counted(x: Any, axis: Any, keepdims: bool) -> Tensor:
    e = as_expr(Tensor, x, None)
    return total(logical_not(isnan(e)), axis, keepdims)


def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over `axis` of what is not NaN; NaN where all are."""
    e = as_expr(Tensor, x, None)
    if not e.dtype.is_float:
        return e.mean(axis=axis, keepdims=keepdims)
    work = float32 if e.dtype.is_narrow else e.dtype
    return cast(divide(nansum(cast(e, work), axis, keepdims), _counted(e, axis, keepdims).astype(work)), e.dtype)


def nanvar(x: Any, axis: Any = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """The variance over `axis` of what is not NaN: squared deviations from the mean, over the count less `correction`;
    NaN where there are no more than that."""
    e = as_expr(Tensor, x, None)
    t = mean_type(e.dtype)
    e = cast(e, float32 if t.is_narrow else t)
    off = where(isnan(e), 0.0, e - nanmean(e, axis, keepdims=True))
    count = _counted(e, axis, keepdims).astype(e.dtype) - float(correction)
    return cast(divide(total(off * off, axis, keepdims), where(count > 0.0, count, math.nan).astype(e.dtype)), t)


def nanstd(x: Any, axis: Any = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """The square root of the variance over `axis` of what is not NaN; see `nanvar`."""
    return sqrt(nanvar(x, axis, keepdims, correction))


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """`x` with `nan` in the place of NaN, and of infinities the largest finite number, or what is given for each."""
    e = as_expr(Tensor, x, None)
    if not e.dtype.is_float:
        return e
    most = float(finfo(e.dtype.numpy).max)
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    rest = where(e == math.inf, high, where(e == -math.inf, low, e))
    return where(isnan(e), nan, rest)
