"""Operators that read or write at indices which are data. Negative indices count from the end."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from loopir.frontend.onnx.node import Node, operator
from loopir.tensor import functions as f
from loopir.tensor.creation import arange
from loopir.tensor.index import reduce_axis
from loopir.tensor.scattering import put_along_axis, scatter_reduce
from loopir.tensor.sorting import topk
from loopir.tensor.tensor import Tensor, compute


def _from_start(at: Tensor, size: Any) -> Tensor:
    """Indices counted from 0."""
    at = at.astype("int64")
    return f.where(at < 0, at + size, at)


@operator("Gather")
def gather(n: Node) -> Tensor:
    x = n.tensor(0)
    axis = n.axis(x.ndim)
    return f.take_from_start(x, _from_start(n.tensor(1), x.shape[axis]), axis)


def _gather_indices(x: Tensor, at: Tensor, axis: int) -> tuple[Tensor, ...]:
    """The indices into each dimension of `x` for each element of `at`, which has those of `axis`."""
    every: list[Tensor] = []
    for d, size in enumerate(at.shape):
        one = arange(size).reshape([size if k == d else 1 for k in range(at.ndim)])
        every.append(_from_start(at, x.shape[axis]) if d == axis else one)
    return tuple(every)


@operator("GatherElements")
def gather_elements(n: Node) -> Tensor:
    x, at = n.tensor(0), n.tensor(1)
    return x.from_start(_gather_indices(x, at, n.axis(x.ndim)))


@operator("GatherND")
def gather_nd(n: Node) -> Tensor:
    x, at, batch = n.tensor(0), n.tensor(1), n.attr("batch_dims", 0)
    depth = at.shape[-1]
    if not isinstance(depth, int):
        raise n.unsupported("tuples of indices of a length that is known only at the call")
    keys: list[Any] = []
    for d in range(batch):
        keys.append(arange(x.shape[d]).reshape([x.shape[d] if k == d else 1 for k in range(at.ndim - 1)]))
    keys += [_from_start(at[..., k], x.shape[batch + k]) for k in range(depth)]
    return x.from_start(tuple(keys))


@operator("ScatterElements", "Scatter")
def scatter_elements(n: Node) -> Tensor:
    """Each element of the result folds the updates that are for it, of which plain ones are the last."""
    x, at, new = n.tensor(0), n.tensor(1), n.tensor(2)
    axis, how = n.axis(x.ndim), n.attr("reduction", "none")
    index = _from_start(at, x.shape[axis]).named("index")
    k = reduce_axis(at.shape[axis], name="k")

    def there(ix: tuple[Any, ...]) -> tuple[Any, Any]:
        """Where update k for the row of this element is, and whether it is for it."""
        place = tuple(k if d == axis else i for d, i in enumerate(ix))
        inside = None
        for d, i in enumerate(ix):
            if d != axis and not (isinstance(x.shape[d], int) and x.shape[d] == at.shape[d]):
                inside = i < at.shape[d] if inside is None else inside & (i < at.shape[d])
        hit = index[place] == f.cast(ix[axis], "int64")
        return place, hit if inside is None else f.where(inside, hit, False)

    if how == "none":
        return put_along_axis(x, at, new, axis)
    folds = {"add": (f.sum, 0, lambda a, b: a + b), "mul": (f.prod, 1, lambda a, b: a * b),
             "max": (f.max, x.dtype.least, f.maximum), "min": (f.min, x.dtype.greatest, f.minimum)}  # fmt: skip
    if how not in folds:
        raise n.unsupported(f"reduction={how!r}")
    fold, unit, join = folds[how]

    def folded(*ix: Any) -> Any:
        place, hit = there(ix)
        return fold(f.where(hit, new[place], f.cast(unit, x.dtype)), axis=k)

    return join(x, compute(x.shape, folded, name="scattered").astype(x.dtype)).astype(x.dtype)


@operator("ScatterND")
def scatter_nd(n: Node) -> Tensor:
    """Rows of updates go to the places that tuples of indices name: the last of several, or all of them folded."""
    x, at, new = n.tensor(0), n.tensor(1), n.tensor(2)
    depth, how = at.shape[-1], n.attr("reduction", "none")
    if not isinstance(depth, int) or not all(isinstance(size, int) for size in x.shape):
        raise n.unsupported("sizes that are known only at the call")
    place: Any = 0
    for k in range(depth):
        place = place * x.shape[k] + _from_start(at[..., k].astype("int64"), x.shape[k])
    flat = x.reshape((prod(x.shape[:depth]), -1))
    rows = new.reshape((-1, flat.shape[1]))
    index = f.broadcast_to(place.reshape(-1)[:, None], rows.shape)
    if how == "none":
        return put_along_axis(flat, index, rows, 0).reshape(x.shape)
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    if how not in names:
        raise n.unsupported(f"reduction={how!r}")
    return scatter_reduce(flat, 0, index, rows, names[how]).reshape(x.shape)


@operator("ReverseSequence")
def reverse_sequence(n: Node) -> Tensor:
    """The first elements of each sequence of a batch in reverse, as many as it is told to have."""
    x, counts = n.tensor(0), n.tensor(1)
    batch, time = n.axis(x.ndim, 1, "batch_axis"), n.axis(x.ndim, 0, "time_axis")
    if {batch, time} != {0, 1}:
        raise n.unsupported("a batch and a time that are not the first two axes")
    here = arange(x.shape[time])
    here, counts, each = (here[:, None], counts[None, :], arange(x.shape[batch])[None, :])
    place = f.where(here < counts, counts - 1 - here, here)
    return x.from_start((place, each) if time == 0 else (each.T, place.T))


@operator("OneHot")
def one_hot(n: Node) -> Tensor:
    """`values` are what stands elsewhere and at the index; what is outside of the depth is elsewhere all along."""
    at, depth, values = n.tensor(0), int(n.scalar(1)), n.tensor(2)
    at = f.where(at < 0, at + depth, at) if at.dtype.kind != "uint" else at
    axis = n.axis(at.ndim + 1, -1)
    key = (*(slice(None),) * axis, None)
    place = arange(depth).reshape([depth if d == axis else 1 for d in range(at.ndim + 1)])
    return f.where(at.astype("int64")[key] == place, values[1], values[0])


@operator("TopK")
def top_k(n: Node) -> tuple[Tensor, Tensor]:
    x = n.tensor(0)
    count = n.attr("k") if n.version < 10 else int(n.scalar(1))
    return topk(x, count, n.axis(x.ndim, -1), bool(n.attr("largest", 1)))


@operator("Compress")
def compress(n: Node) -> Tensor:
    """The elements where a condition holds, which has to be known, as it decides the shape."""
    x, kept = n.tensor(0), np.flatnonzero(n.known(1))
    if n.attr("axis") is None:
        x, axis = x.reshape(-1), 0
    else:
        axis = n.axis(x.ndim)
    return f.take_from_start(x, n.reader.tensor(kept.astype(np.int64), n.what), axis)
