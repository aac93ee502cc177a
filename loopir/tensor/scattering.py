"""Scattering as folds: each element of the result folds the updates whose index is its own, in any order.

Every update is looked at for every element along the axis, which needs neither atomics nor an order.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.tensor import functions as f
from loopir.tensor.core import as_expr, stage_reduction
from loopir.tensor.index import reduce_axis
from loopir.tensor.tensor import Tensor, compute

__all__ = ["scatter_add", "scatter_reduce"]


def _folds(t: dtypes.DType) -> dict[str, tuple[Callable[..., Tensor], Any, Callable[..., Tensor]]]:
    """By torch's names: the reduction, its neutral element, and what joins it with what was there."""
    return {
        "sum": (f.sum, 0, operator.add), "prod": (f.prod, 1, operator.mul),
        "amax": (f.max, t.least, f.maximum), "amin": (f.min, t.greatest, f.minimum),
    }  # fmt: skip


def scatter_reduce(x: Any, axis: int, index: Tensor, source: Any, reduce: str) -> Tensor:
    """`x` with elements of `source` folded in by "sum", "prod", "amax" or "amin", where `index` says along `axis`.

    As torch's: source[i, j] goes to x[index[i, j], j] for axis 0. `index` has the dimensions of `source`; in the others
    it may be shorter than `x`. Indices outside of `x` go nowhere.
    """
    e, new = (stage_reduction(as_expr(Tensor, v, None)) for v in (x, source))
    folds = _folds(e.dtype)
    if reduce not in folds:
        raise ExprError(f"scatter_reduce by {reduce!r}; it is one of {', '.join(folds)}")
    if not index.dtype.is_integer or not (e.ndim == index.ndim == new.ndim) or not e.ndim:
        raise ExprError(
            f"scatter of {new.described()} at {index.described()} to {e.described()}: an index is an integer for each "
            "element, and all have the same number of dimensions"
        )
    d = f.axis_of("scatter", axis, e, e.ndim)
    fold, unit, join = folds[reduce]
    at, k = index.named("index"), reduce_axis(index.shape[d], name="k")

    def folded(*ix: Any) -> Any:
        place = tuple(k if n == d else i for n, i in enumerate(ix))
        hit: Any = at[place] == f.cast(ix[d], at.dtype)
        inside = None
        for n, i in enumerate(ix):
            if n != d and not (isinstance(e.shape[n], int) and e.shape[n] == index.shape[n]):
                inside = i < index.shape[n] if inside is None else inside & (i < index.shape[n])
        hit = hit if inside is None else f.where(inside, hit, False)
        return fold(f.where(hit, new[place].astype(e.dtype), f.cast(unit, e.dtype)), axis=k)

    return join(e, compute(e.shape, folded, name="scattered").astype(e.dtype)).astype(e.dtype)


def scatter_add(x: Any, axis: int, index: Tensor, source: Any) -> Tensor:
    """`x` with elements of `source` added where `index` says along `axis`, as torch's; see `scatter_reduce`."""
    return scatter_reduce(x, axis, index, source, "sum")
