"""Tensors made of nothing but indices: ranges, constants, one-hot rows. No memory is read for them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DType, DTypeLike
from loopir.ir.grammar import Index, IndexToValue, Int, Value
from loopir.tensor.core import as_expr, cast, common_type, elementwise
from loopir.tensor.functions import maximum
from loopir.tensor.index import IndexExpr, Symbols, dimension
from loopir.tensor.tensor import Tensor

__all__ = ["arange", "eye", "full", "full_like", "identity", "one_hot", "ones", "ones_like", "zeros", "zeros_like"]


def _constant_tensor(shape: tuple[Index, ...], dtype: DType, value: Value, symbols: Symbols) -> Tensor:
    return Tensor(shape, dtype, lambda _: value, (), symbols)


def _counted(extent: Index, symbols: Symbols) -> Tensor:
    """0, 1, 2, ..., int64."""
    return Tensor((extent,), dtypes.int64, lambda at: IndexToValue(at[0], dtypes.int64), (), symbols)


def full(shape: Sequence[Any] | int | IndexExpr, fill_value: Any, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of `shape` all of whose elements are `fill_value`; its type as NumPy's, or `dtype`."""
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    dims = [dimension(d, "full") for d in sizes]
    t = common_type((fill_value,)) if dtype is None else dtypes.dtype(dtype)
    if isinstance(fill_value, float) and not math.isfinite(fill_value) and not t.is_float:
        raise ExprError(f"full of {fill_value!r} as {t}, which has no such number; a float type has")
    if isinstance(fill_value, Tensor):
        return cast(fill_value, t).broadcast_to(sizes)
    value = cast(as_expr(Tensor, fill_value, None), t)
    symbols = {k: s for _, found in dims for k, s in found.items()} | dict(value.symbols)
    return _constant_tensor(tuple(d for d, _ in dims), t, value.at(()), symbols)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None) -> Tensor:
    """`start`, `start + step`, ... before `stop`, from 0 if one number is given; its type as NumPy's, or `dtype`.

    Integers may be sizes, `lp.arange(n)`. Floats are `start + i * step`, as many as ceil((stop - start) / step).
    """
    start, stop = (0, start) if stop is None else (start, stop)
    given = (start, stop, step)
    if any(isinstance(x, bool) or not isinstance(x, int | float | IndexExpr) for x in given):
        raise ExprError(f"arange({', '.join(map(repr, given))}): its ends and its step are numbers or sizes")
    if isinstance(step, IndexExpr) or step == 0:
        raise ExprError(f"arange with step {step!r}; a step is a number that is known, and not 0")
    t = common_type(given) if dtype is None else dtypes.dtype(dtype)
    if any(isinstance(x, float) for x in given):
        return _floats(start, stop, step, t)
    counted = _counted(*dimension(_count_integers(start, stop, step), "arange"))
    scaled = counted if step == 1 else counted * step
    return cast(scaled if isinstance(start, int) and start == 0 else scaled + start, t)


def _count_integers(start: Any, stop: Any, step: int) -> Any:
    """How many integers there are from `start` to before `stop`."""
    span = stop - start if step > 0 else start - stop
    if isinstance(span, IndexExpr):
        return maximum((span + abs(step) - 1) // abs(step), 0)
    return len(range(start, stop, step))


def _floats(start: Any, stop: Any, step: float, t: DType) -> Tensor:
    given = (start, stop, step)
    if any(isinstance(x, IndexExpr) for x in given) or not all(map(math.isfinite, given)):
        raise ExprError(f"arange({', '.join(map(repr, given))}): ends of floats are finite numbers that are known")
    count = max(0, math.ceil((stop - start) / step))
    work = t if t.is_float and not t.is_narrow else dtypes.float64
    return cast(cast(_counted(Int(count), {}), work) * float((start + step) - start) + float(start), t)


def one_hot(x: Tensor, num_classes: int | IndexExpr, dtype: DTypeLike = "int64") -> Tensor:
    """1 where the last index is what the element of the integer tensor `x` is, 0 elsewhere; of others all are 0."""
    e = as_expr(Tensor, x, None)
    if not e.dtype.is_integer:
        raise ExprError(f"one_hot of {e.described()}; classes are integers")
    extent, symbols = dimension(num_classes, "one_hot")
    if extent == Int(0):
        raise ExprError("one_hot of 0 classes; there is at least one")
    return cast(elementwise(Tensor, "eq", e[..., None], _counted(extent, symbols), to=dtypes.int64), dtype)


def zeros(shape: Sequence[Any] | int | IndexExpr, dtype: DTypeLike = "float64") -> Tensor:
    """A tensor of `shape` that is 0 everywhere; float64 as NumPy's, by default."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[Any] | int | IndexExpr, dtype: DTypeLike = "float64") -> Tensor:
    """A tensor of `shape` that is 1 everywhere; float64 as NumPy's, by default."""
    return full(shape, 1, dtype)


def full_like(x: Any, fill_value: Any, dtype: DTypeLike | None = None) -> Tensor:
    """`fill_value` everywhere, in the shape of `x`, and in its type by default."""
    e = as_expr(Tensor, x, None)
    return full(e.shape, fill_value, e.dtype if dtype is None else dtype)


def zeros_like(x: Any, dtype: DTypeLike | None = None) -> Tensor:
    """0 everywhere, in the shape of `x`, and in its type by default."""
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: DTypeLike | None = None) -> Tensor:
    """1 everywhere, in the shape of `x`, and in its type by default."""
    return full_like(x, 1, dtype)


def eye(N: int | IndexExpr, M: int | IndexExpr | None = None, k: int = 0, dtype: DTypeLike = "float64") -> Tensor:
    """1 on diagonal `k` of N rows and M columns, N by default, and 0 elsewhere. Diagonals count upwards."""
    rows, columns = (_counted(*dimension(n, "eye")) for n in (N, N if M is None else M))
    return cast(elementwise(Tensor, "eq", rows[:, None] + k, columns[None, :]), dtype)


def identity(n: int | IndexExpr, dtype: DTypeLike = "float64") -> Tensor:
    """1 on the diagonal of a square matrix, and 0 elsewhere."""
    return eye(n, dtype=dtype)
