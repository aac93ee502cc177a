"""Operators that make tensors of numbers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.frontend.torch.row import Result, Unsupported, operator
from loopir.ir import dtypes
from loopir.tensor import creation, functions as f
from loopir.tensor.core import as_expr
from loopir.tensor.tensor import Tensor


def _filled(result: Result, value: Any) -> Tensor:
    t = dtypes.dtype(result.dtype)
    if not t.is_float and isinstance(value, float):
        value = bool(value) if t == dtypes.bool_ else int(value)
    if t == dtypes.bool_:
        value = bool(value)
    scalar = as_expr(Tensor, value, t)
    return f.broadcast_to(scalar, result.shape) if result.shape else scalar


@operator("aten.full.default", "aten.new_full.default", informed=True, creates=True)
def full(result: Result, *args: Any, **_: Any) -> Tensor:
    return _filled(result, args[-1])


@operator("aten.full_like.default", informed=True, creates=True)
def full_like(result: Result, x: Tensor, value: Any, **_: Any) -> Tensor:
    return _filled(result, value)


@operator("aten.scalar_tensor.default", informed=True, creates=True)
def scalar_tensor(result: Result, value: Any, **_: Any) -> Tensor:
    return _filled(result, value)


@operator("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", informed=True, creates=True)
def zeros(result: Result, *args: Any, **_: Any) -> Tensor:
    return _filled(result, 0)


@operator("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default", informed=True, creates=True)
def ones(result: Result, *args: Any, **_: Any) -> Tensor:
    return _filled(result, 1)


def _steps(result: Result, start: Any, step: Any) -> Tensor:
    """Whole steps alone: torch finds those of floats in float64."""
    if not isinstance(start, int) or not isinstance(step, int):
        raise Unsupported("a range of floats or of symbolic steps")
    (count,) = result.shape
    counted = creation.arange(count)
    return (counted * step + start).astype(result.dtype)


@operator("aten.arange.start_step", informed=True, creates=True)
def arange(result: Result, start: Any, end: Any, step: Any = 1, **_: Any) -> Tensor:
    return _steps(result, start, step)


@operator("prims.iota.default", informed=True, creates=True)
def iota(result: Result, length: Any, *, start: Any, step: Any, **_: Any) -> Tensor:
    return _steps(result, start, step)
