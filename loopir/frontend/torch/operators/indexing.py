"""Operators that read at indices which are data: negative ones count from the end, others outside raise IndexError."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from functools import reduce as reduce_
from operator import mul
from typing import Any

from loopir.frontend.torch.row import Requirement, Unsupported, operator
from loopir.ir import dtypes
from loopir.tensor import functions as f, scattering
from loopir.tensor.core import as_expr
from loopir.tensor.creation import arange
from loopir.tensor.tensor import Tensor

NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}
"""What changes no result of each reduction, by torch's names."""


def _checked(at: Tensor, size: Any, least: Any, what: str) -> tuple[Tensor, Requirement]:
    """Indices counted from 0, and that they are in `least` to before `size`."""
    at = at.astype("int64")
    outside = f.logical_or(at < least, at >= size)
    from_start = at if isinstance(least, int) and least == 0 else f.where(at < 0, at + size, at)
    return from_start, Requirement(outside, f"{what}: an index is outside of a dimension of size {size}")


@operator("aten.embedding.default")
def embedding(weight: Tensor, at: Tensor, padding_idx: int = -1, *_: Any) -> tuple[Tensor, Requirement]:
    index, inside = _checked(at, weight.shape[0], 0, "embedding")
    return f.take_from_start(weight, index), inside


@operator("aten.index_select.default")
def index_select(x: Tensor, dim: int, at: Tensor) -> tuple[Tensor, Requirement]:
    if not x.ndim or at.ndim != 1:
        raise Unsupported("index_select without dimensions")
    d = dim % x.ndim
    index, inside = _checked(at, x.shape[d], 0, "index_select")
    return f.take_from_start(x, index, d), inside


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
    return (x.from_start(tuple(key)), *inside)


@operator("aten.gather.default")
def gather(x: Tensor, dim: int, at: Tensor, *, sparse_grad: bool = False) -> tuple[Tensor, Requirement]:
    if not x.ndim or at.ndim != x.ndim:
        raise Unsupported("gather without dimensions")
    d = dim % x.ndim
    index, inside = _checked(at, x.shape[d], 0, "gather")
    every = [index if k == d else arange(n).reshape([n if j == k else 1 for j in range(at.ndim)])
             for k, n in enumerate(at.shape)]  # fmt: skip
    return x.from_start(tuple(every)), inside


@operator("aten.scatter_add.default")
def scatter_add(x: Tensor, dim: int, at: Tensor, source: Tensor) -> tuple[Tensor, Requirement]:
    return scatter_reduce(x, dim, at, source, "sum")


@operator("aten.scatter_reduce.two")
def scatter_reduce(
    x: Tensor, dim: int, at: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> tuple[Tensor, Requirement]:  # fmt: skip
    """The index may be shorter than the source, whose first elements are taken then. Unless `include_self`, elements
    that some index is of start with what changes nothing."""
    plain = reduce in scattering.MONOID_NAMES and include_self
    if not x.ndim or at.ndim != x.ndim or not (plain or (reduce in NEUTRAL and x.dtype.is_float)):
        raise Unsupported(f"scatter_reduce by {reduce!r}, without itself, or of a number")
    if x.dtype == dtypes.bool_ or source.ndim != at.ndim:
        raise Unsupported(f"scattering of {x.dtype}")
    d = dim % x.ndim
    index, inside = _checked(at, x.shape[d], 0, "scatter")
    taken = source[tuple(slice(0, n) for n in at.shape)]
    if plain:
        return scattering.scatter_reduce(x, d, index, taken, reduce), inside
    none, one = (f.broadcast_to(as_expr(Tensor, n, dtypes.int32), e.shape) for n, e in ((0, x), (1, at)))
    count = scattering.scatter_add(none, d, index, one)
    start = x if include_self else f.where(count > 0, as_expr(Tensor, NEUTRAL[reduce], x.dtype), x)
    made = scattering.scatter_reduce(start, d, index, taken, "sum" if reduce == "mean" else reduce)
    if reduce == "mean":
        made = made / f.maximum(count + 1 if include_self else count, 1).astype(x.dtype)
    return made, inside


@operator("aten.scatter.value")
def scatter_value(x: Tensor, dim: int, at: Tensor, value: Any) -> tuple[Tensor, Requirement]:
    return _scattered(x, dim, at, as_expr(Tensor, value, x.dtype))


@operator("aten.scatter.src")
def scatter_source(x: Tensor, dim: int, at: Tensor, source: Tensor) -> tuple[Tensor, Requirement]:
    return _scattered(x, dim, at, source[tuple(slice(0, n) for n in at.shape)] if source.ndim == at.ndim else source)


def _scattered(x: Tensor, dim: int, at: Tensor, new: Tensor) -> tuple[Tensor, Requirement]:
    """Where each line along `dim` has one index, as in the gradient of a cross entropy, elements ask whether it is
    theirs; one number goes to all elements that some index is of."""
    if not x.ndim or at.ndim != x.ndim:
        raise Unsupported("scatter without dimensions")
    d = dim % x.ndim
    others = [k for k in range(x.ndim) if k != d]
    index, inside = _checked(at, x.shape[d], 0, "scatter")
    if at.shape[d] == 1 and all(str(at.shape[k]) == str(x.shape[k]) for k in others):
        place = arange(x.shape[d]).reshape([x.shape[d] if k == d else 1 for k in range(x.ndim)])
        return f.where(place == index, new.astype(x.dtype), x), inside
    if new.ndim:
        raise Unsupported("values that replace others, in an order that is not fixed")
    none = f.broadcast_to(as_expr(Tensor, 0, dtypes.int32), x.shape)
    one = f.broadcast_to(as_expr(Tensor, 1, dtypes.int32), at.shape)
    return f.where(scattering.scatter_reduce(none, d, index, one, "amax") > 0, new, x), inside


@operator("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> tuple[Any, ...]:
    """Values added where neighbouring dimensions are indexed: they count as one, as do those of the indices."""
    found = [d for d, at in enumerate(indices) if at is not None]
    if not accumulate or x.dtype == dtypes.bool_ or not found or found != list(range(found[0], found[-1] + 1)):
        raise Unsupported("values that replace others, in an order that is not fixed, or dimensions that lie apart")
    if any(indices[d].dtype in (dtypes.bool_, dtypes.uint8) for d in found):
        raise Unsupported("a mask, whose elements decide how many values are taken")
    first, last = found[0], found[-1] + 1
    place: Any = None
    required: list[Requirement] = []
    for d in found:
        counted, ok = _checked(indices[d], x.shape[d], -x.shape[d], "index_put")
        required.append(ok)
        place = counted if place is None else place * x.shape[d] + counted
    before, after = x.shape[:first], x.shape[last:]
    spread = f.broadcast_to(values.astype(x.dtype), (*before, *place.shape, *after))
    count, size = _product(place.shape), _product(x.shape[first:last])
    index = place.reshape(count)[(*(None,) * len(before), slice(None), *(None,) * len(after))]
    shape = (*before, count, *after)
    made = scattering.scatter_add(
        x.reshape(*before, size, *after), first, f.broadcast_to(index, shape), spread.reshape(shape)
    )
    return (made.reshape(x.shape), *required)


def _product(sizes: Any) -> Any:
    return reduce_(mul, sizes, 1)
