"""Operators that read at indices which are data: negative ones count from the end, others outside raise IndexError."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.frontend.torch.row import Requirement, Unsupported, operator
from loopir.ir import dtypes
from loopir.tensor import functions as f
from loopir.tensor.creation import arange
from loopir.tensor.tensor import Tensor


def _checked(at: Tensor, size: Any, least: Any, what: str) -> tuple[Tensor, Requirement]:
    """Indices counted from 0, and that they are in `least` to before `size`."""
    at = at.astype("int64")
    outside = f.logical_or(at < least, at >= size)
    from_start = at if isinstance(least, int) and least == 0 else f.where(at < 0, at + size, at)
    return from_start, Requirement(outside, f"{what}: an index is outside of a dimension of size {size}")


@operator("aten.embedding.default")
def embedding(weight: Tensor, at: Tensor, padding_idx: int = -1, *_: Any) -> tuple[Tensor, Requirement]:
    index, inside = _checked(at, weight.shape[0], 0, "embedding")
    return f.take(weight, index), inside


@operator("aten.index_select.default")
def index_select(x: Tensor, dim: int, at: Tensor) -> tuple[Tensor, Requirement]:
    if not x.ndim or at.ndim != 1:
        raise Unsupported("index_select without dimensions")
    d = dim % x.ndim
    index, inside = _checked(at, x.shape[d], 0, "index_select")
    return f.take(x, index, d), inside


@operator("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_tensor(x: Tensor, indices: Any) -> tuple[Any, ...]:
    key: list[Any] = []
    inside: list[Requirement] = []
    for d, at in enumerate(indices):
        if at is None:
            key.append(slice(None))
            continue
        if at.dtype in (dtypes.bool_, dtypes.uint8):
            raise Unsupported("a mask, which decides the shape of the result")
        size = x.shape[d]
        counted, ok = _checked(at, size, -size, "index")
        key.append(counted)
        inside.append(ok)
    return (x[tuple(key)], *inside)


@operator("aten.gather.default")
def gather(x: Tensor, dim: int, at: Tensor, *, sparse_grad: bool = False) -> tuple[Tensor, Requirement]:
    if not x.ndim or at.ndim != x.ndim:
        raise Unsupported("gather without dimensions")
    d = dim % x.ndim
    index, inside = _checked(at, x.shape[d], 0, "gather")
    every = [index if k == d else arange(n).reshape([n if j == k else 1 for j in range(at.ndim)])
             for k, n in enumerate(at.shape)]  # fmt: skip
    return x[tuple(every)], inside
