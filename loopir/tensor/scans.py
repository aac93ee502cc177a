"""Prefix sums, products and extremes as tensor expressions: a stage whose elements are made from those before them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from loopir.ir import dtypes
from loopir.ir.dtypes import DTypeLike
from loopir.ir.grammar import Buffer, Cmp, Const, Int, Load, Op, Select, Var
from loopir.ir.ops import REGISTRY, Intrinsic
from loopir.tensor import reductions as red
from loopir.tensor.core import Source, as_expr, cast, default_names, next_order, stage_reduction, staged, unique
from loopir.tensor.functions import axis_of
from loopir.tensor.in_bounds import require_inside
from loopir.tensor.tensor import Tensor

__all__ = ["cummax", "cummin", "cumprod", "cumsum"]


def cumsum(x: Tensor, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The sums of the elements up to each one along `axis`, or of the flat tensor; small integers in 64 bits.

    One stage, that adds an element to the one before it. Schedules may cut it into blocks, whose sums are rounded in
    another order then.
    """
    e = stage_reduction(as_expr(Tensor, x, None))
    if axis is None and e.ndim != 1:
        return cumsum(e.reshape(-1), 0, dtype)
    d = axis_of("cumsum", axis or 0, e, e.ndim)
    t = red.sum_type(e.dtype) if dtype is None else dtypes.dtype(dtype)
    made = running(cast(e, t), d, REGISTRY["or_" if t == dtypes.bool_ else "add"], "cumsum")
    return cast(made, t if dtype is not None or not e.dtype.is_float else e.dtype)


def cumprod(x: Tensor, axis: int | None = None) -> Tensor:
    """The products of the elements up to each one along `axis`, or of the flat tensor; small integers in 64 bits."""
    e = stage_reduction(as_expr(Tensor, x, None))
    if axis is None and e.ndim != 1:
        return cumprod(e.reshape(-1), 0)
    d, t = axis_of("cumprod", axis or 0, e, e.ndim), red.sum_type(e.dtype)
    made = running(cast(e, t), d, REGISTRY["mul"], "cumprod", 1)
    return cast(made, e.dtype) if e.dtype.is_float else made


def cummax(x: Tensor, axis: int = -1) -> Tensor:
    """The largest of the elements up to each one along `axis`; NaN from the first NaN on."""
    e = stage_reduction(as_expr(Tensor, x, None))
    return running(e, axis_of("cummax", axis, e, e.ndim), REGISTRY["maximum"], "cummax", e.dtype.least)


def cummin(x: Tensor, axis: int = -1) -> Tensor:
    """The smallest of the elements up to each one along `axis`; NaN from the first NaN on."""
    e = stage_reduction(as_expr(Tensor, x, None))
    return running(e, axis_of("cummin", axis, e, e.ndim), REGISTRY["minimum"], "cummin", e.dtype.greatest)


def running(e: Tensor, d: int, op: Intrinsic, name: str, neutral: float = 0) -> Tensor:
    """A stage in which each element of `e` is folded by `op`, to which `neutral` is neutral, with what is stored before
    it along dimension `d`."""
    loops = tuple((unique(v), n) for v, n in zip(default_names(e.ndim), e.dims, strict=True))
    at = tuple(Var(v) for v, _ in loops)
    b = Buffer(unique(name), e.dims, e.dtype)
    before = Load(b, (*at[:d], at[d] - 1, *at[d + 1 :]))
    value = Op(op, (Select(Cmp("<=", Int(1), at[d]), before, Const(neutral, e.dtype)), e.at(at)))
    require_inside(value, loops, e.symbols, name)
    return staged(type(e), Source(name, (b,), next_order(), e.symbols, loops, (value,), None, (), e.deps))[0]
