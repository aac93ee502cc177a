"""Prefix sums as tensor expressions: by doubling, a stage for each bit of the length (Hillis and Steele 1986)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DTypeLike
from loopir.ir.grammar import Cmp, Index, Int, Op, Select
from loopir.ir.ops import REGISTRY
from loopir.tensor import reductions as red
from loopir.tensor.core import as_expr, as_stage, cast, stage_reduction
from loopir.tensor.functions import axis_of
from loopir.tensor.tensor import Tensor

__all__ = ["cumsum"]


def cumsum(x: Tensor, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The sums of the elements up to each one along `axis`, or of the flat tensor; small integers in 64 bits.

    Stages of n log2(n) additions in all, which may be rounded in another order than NumPy's. The size of the axis is
    a number: over one that is known only at the call, a prefix sum is a loop, `@lp.func` of `a[i + 1] = a[i] + x[i]`.
    """
    e = stage_reduction(as_expr(Tensor, x, None))
    if axis is None and e.ndim != 1:
        return cumsum(e.reshape(-1), 0, dtype)
    d = axis_of("cumsum", axis or 0, e, e.ndim)
    size = e.dims[d]
    if not isinstance(size, Int):
        raise ExprError(
            f"cumsum along axis {d} of {e.described()}, whose size is known only at the call; write the loop with "
            "@lp.func, or give the size as a number"
        )
    t = red.sum_type(e.dtype) if dtype is None else dtypes.dtype(dtype)
    made, step = cast(e, t), 1
    while step < size.value:
        made = as_stage(_doubled(made, d, step), "cumsum")
        step *= 2
    return cast(made, t if dtype is not None or not e.dtype.is_float else e.dtype)


def _doubled(e: Tensor, d: int, step: int) -> Tensor:
    """Each element and the one `step` before it along dimension `d`, added, if it is there."""
    add = REGISTRY["or_" if e.dtype == dtypes.bool_ else "add"]

    def at(ix: tuple[Index, ...]) -> Any:
        before = (*ix[:d], ix[d] - step, *ix[d + 1 :])
        return Select(Cmp("<=", Int(step), ix[d]), Op(add, (e.at(ix), e.at(before))), e.at(ix))

    return e.like(e.dims, e.dtype, at)
