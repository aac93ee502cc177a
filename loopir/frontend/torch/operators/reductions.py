"""Operators that fold dimensions, and scans."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any

from loopir.frontend.torch.row import Result, Unsupported, operator
from loopir.ir import dtypes
from loopir.tensor import functions as f, sorting
from loopir.tensor.scans import cumprod as product_scan, cumsum as scan
from loopir.tensor.statistics import var as variance
from loopir.tensor.tensor import Tensor


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions that torch means by `dim`: all, where there are none."""
    listed = [dim] if isinstance(dim, int) else list(dim or ())
    return tuple(d % rank if rank else 0 for d in listed) if listed else tuple(range(rank))


def _folded(fn: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if not x.ndim:
        return fn(x[None], axis=0)
    return fn(x, axis=axes_of(dim, x.ndim), keepdims=keepdim)


@operator("aten.sum.dim_IntList", "aten.sum.default", informed=True)
def total(result: Result, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    t = dtypes.dtype(result.dtype)
    return _folded(f.sum, x if x.dtype.is_narrow and t.is_narrow else x.astype(t), dim, keepdim)


@operator("aten.mean.dim", "aten.mean.default", informed=True)
def mean(result: Result, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    t = dtypes.dtype(result.dtype)
    return _folded(f.mean, x if x.dtype.is_narrow and t.is_narrow else x.astype(t), dim, keepdim)


@operator("aten.prod.default", "aten.prod.dim_int", informed=True)
def prod(result: Result, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return _folded(f.prod, x.astype(result.dtype), dim, keepdim)


@operator("aten.amax.default", "aten.max.default")
def amax(x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return _folded(f.max, x, dim, keepdim)


@operator("aten.amin.default", "aten.min.default")
def amin(x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return _folded(f.min, x, dim, keepdim)


@operator("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_of(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _folded(f.any, x, dim, keepdim)


@operator("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_of(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _folded(f.all, x, dim, keepdim)


def _arg_reduce(fn: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if not x.ndim:
        return fn(x[None], axis=0)
    return fn(x, axis=None if dim is None else dim % x.ndim, keepdims=keepdim)


@operator("aten.argmax.default")
def argmax(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _arg_reduce(f.argmax, x, dim, keepdim)


@operator("aten.argmin.default")
def argmin(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _arg_reduce(f.argmin, x, dim, keepdim)


@operator("aten.max.dim")
def max_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _folded(f.max, x, dim, keepdim), _arg_reduce(f.argmax, x, dim, keepdim)


@operator("aten.min.dim")
def min_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _folded(f.min, x, dim, keepdim), _arg_reduce(f.argmin, x, dim, keepdim)


def _work(x: Tensor) -> Tensor:
    if not x.dtype.is_float or not x.ndim:
        raise Unsupported(f"the variance of {x.dtype} in {x.ndim} dimensions")
    return x.astype("float32") if x.dtype.is_narrow else x


def _correction(x: Tensor, axes: tuple[int, ...], correction: Any) -> float:
    """What is taken off the count: not more than there is, where torch warns and gives NaN or infinity."""
    taken = 1.0 if correction is None else float(correction)
    if any(not isinstance(x.shape[d], int) for d in axes):
        return taken
    if math.prod(int(x.shape[d]) for d in axes) <= taken:  # pyright: ignore[reportArgumentType]
        raise Unsupported("a variance of fewer elements than its correction")
    return taken


@operator("aten.var.correction")
def var(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    e, axes = _work(x), axes_of(dim, x.ndim)
    return variance(e, axes, keepdim, _correction(x, axes, correction))


@operator("aten.var_mean.correction")
def var_mean(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    e, axes = _work(x), axes_of(dim, x.ndim)
    middle = f.mean(e, axes, True)
    spread = variance(e, axes, keepdim, _correction(x, axes, correction), mean=middle)
    kept = tuple(0 if d in axes and not keepdim else slice(None) for d in range(x.ndim))
    return spread, middle[kept]


@operator("aten.cumprod.default", informed=True)
def cumprod(result: Result, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    x = x.astype(result.dtype)
    if x.dtype == dtypes.bool_ or x.dtype.is_narrow:
        raise Unsupported(f"products of {x.dtype} along a dimension")
    return product_scan(x, dim % x.ndim) if x.ndim else x


@operator("aten.topk.default")
def topk(x: Tensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """A few elements, which are selected one after the other: torch is faster at more of them."""
    if not x.ndim or not isinstance(k, int) or not 0 < k <= sorting.MOST_SELECTED:
        raise Unsupported("many elements to select, or none")
    return sorting.topk(x, k, dim % x.ndim, largest)


@operator("aten.cumsum.default", informed=True)
def cumsum(result: Result, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    x = x.astype(result.dtype)
    return scan(x, dim % x.ndim) if x.ndim else x
