"""Sorting by rank: where an element goes is how many come before it. Every comparison is made, in any order.

That is n * n comparisons for n elements, without branches or dependences: for rows of some hundreds.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.tensor.core import as_expr, stage_reduction
from loopir.tensor.creation import arange
from loopir.tensor.functions import axis_of, isnan, logical_and, logical_not, logical_or, sum as total, where
from loopir.tensor.tensor import Tensor

__all__ = ["argsort", "sort", "topk"]


def _before(a: Tensor, b: Tensor, descending: bool) -> tuple[Tensor, Tensor]:
    """Whether `a` comes before `b`, and whether they are equal; NaN is larger than all numbers, and equal to NaN."""
    low, high = (b, a) if descending else (a, b)
    less, alike = low < high, low == high
    if not a.dtype.is_float:
        return less, alike
    return logical_or(less, logical_and(isnan(high), logical_not(isnan(low)))), logical_or(
        alike, logical_and(isnan(low), isnan(high))
    )


def _sorting_places(what: str, x: Any, axis: int, count: Any, descending: bool) -> tuple[Tensor, int, Tensor]:
    """The keys in memory, the axis, and the indices along it of the first `count` in order, stable."""
    e = stage_reduction(as_expr(Tensor, x, None))
    if not e.ndim:
        raise ExprError(f"{what} of {e.described()}, which has no dimension to sort along")
    d = axis_of(what, axis, e, e.ndim)
    keys = (e.astype("uint8") if e.dtype == dtypes.bool_ else e).named("keys")
    order = [k for k in range(e.ndim) if k != d] + [d]
    rows, size = keys.transpose(order), e.shape[d]
    mine, theirs = arange(size)[:, None], arange(size)[None, :]
    earlier, alike = _before(rows[..., None, :], rows[..., :, None], descending)
    before = logical_or(earlier, logical_and(alike, theirs < mine))
    rank = total(before.astype("int64"), axis=-1).named("rank")
    at = total(where(rank[..., None, :] == arange(count)[:, None], arange(size), 0), axis=-1).named("at")
    return e, d, at.transpose([order.index(k) for k in range(e.ndim)])


def _gathered_rows(e: Tensor, d: int, at: Tensor) -> Tensor:
    """The elements of `e` at indices along dimension `d`, each row its own."""
    every = [at if k == d else arange(n).reshape([n if j == k else 1 for j in range(at.ndim)])
             for k, n in enumerate(at.shape)]  # fmt: skip
    return e[tuple(every)]


def argsort(x: Any, axis: int = -1, descending: bool = False) -> Tensor:
    """The indices, int64, that sort `x` along `axis`; equal elements stay in their order, NaN counts as the largest."""
    e = as_expr(Tensor, x, None)
    count = e.shape[axis_of("argsort", axis, e, e.ndim)] if e.ndim else 0
    return _sorting_places("argsort", e, axis, count, descending)[2]


def sort(x: Any, axis: int = -1, descending: bool = False) -> Tensor:
    """The elements of `x` in order along `axis`; NaN counts as the largest."""
    e = as_expr(Tensor, x, None)
    count = e.shape[axis_of("sort", axis, e, e.ndim)] if e.ndim else 0
    return _gathered_rows(*_sorting_places("sort", e, axis, count, descending))


def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis`, or smallest, in order, and their indices; NaN counts as largest."""
    e = as_expr(Tensor, x, None)
    size = e.shape[axis_of("topk", axis, e, e.ndim)] if e.ndim else 1
    whole = isinstance(k, int) and not isinstance(k, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not whole or k < 0 or (isinstance(size, int) and k > size):
        raise ExprError(f"topk of {e.described()}: k={k!r}; it is from 0 to the size along the axis, {size}")
    keys, d, at = _sorting_places("topk", e, axis, k, largest)
    return _gathered_rows(keys, d, at), at
