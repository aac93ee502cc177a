"""Operators that change shapes, join and cut: most are views."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.frontend.torch.operators.reductions import axes_of
from loopir.frontend.torch.row import Result, Unsupported, operator
from loopir.ir import dtypes
from loopir.tensor import functions as f, shapes
from loopir.tensor.core import as_expr
from loopir.tensor.creation import arange
from loopir.tensor.tensor import Tensor


@operator("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", informed=True, view=True)
def view(result: Result, x: Tensor, shape: Any) -> Tensor:
    return x.reshape(result.shape)


@operator("aten.permute.default", view=True)
def permute(x: Tensor, order: Any) -> Tensor:
    return x.transpose(tuple(d % x.ndim for d in order)) if x.ndim else x


@operator("aten.t.default", view=True)
def t(x: Tensor) -> Tensor:
    return x.T


@operator("aten.transpose.int", view=True)
def swap(x: Tensor, a: int, b: int) -> Tensor:
    if not x.ndim:
        return x
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return x.transpose(tuple(order))


@operator("aten.expand.default", informed=True, view=True)
def expand(result: Result, x: Tensor, size: Any, *, implicit: bool = False) -> Tensor:
    return f.broadcast_to(x, result.shape)


@operator("aten.unsqueeze.default", informed=True, view=True)
def unsqueeze(result: Result, x: Tensor, dim: int) -> Tensor:
    return x[(*(slice(None),) * (dim % (x.ndim + 1)), None)]


@operator("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", informed=True, view=True)
def squeeze(result: Result, x: Tensor, dim: Any = None) -> Tensor:
    return x.reshape(result.shape)


def _full_slices(x: Tensor, dim: int) -> tuple[slice, ...]:
    return (slice(None),) * (dim % x.ndim)


@operator("aten.select.int", view=True)
def select(x: Tensor, dim: int, index: Any) -> Tensor:
    if not isinstance(index, int):
        raise Unsupported("an index that is known only at the call")
    return x[(*_full_slices(x, dim), index)]


def _bound(x: Any) -> Any:
    return None if isinstance(x, int) and x > 1 << 60 else x


@operator("aten.slice.Tensor", view=True)
def slice_of(x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    return x[(*_full_slices(x, dim), slice(_bound(start), _bound(end), step))]


@operator("aten.split_with_sizes.default", view=True)
def split_with_sizes(x: Tensor, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    pieces: list[Tensor] = []
    at: Any = 0
    for n in sizes:
        pieces.append(x[(*_full_slices(x, dim), slice(at, at + n))])
        at = at + n
    return tuple(pieces)


@operator("aten.split.Tensor", informed=True, view=True)
def split_equally(results: Any, x: Tensor, size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    return split_with_sizes(x, [r.shape[dim % x.ndim] for r in results], dim)


@operator("aten.unbind.int", informed=True, view=True)
def unbind(results: Any, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple(x[(*_full_slices(x, dim), n)] for n in range(len(results)))


@operator("aten.cat.default", informed=True)
def cat(result: Result, tensors: Any, dim: int = 0) -> Tensor:
    """Tensors of shape (0,) are left out, as torch does; types are promoted to the result's."""
    kept = [x.astype(result.dtype) for x in tensors if x.ndim == len(result.shape)]
    return f.concatenate(kept, dim % len(result.shape))


@operator("aten.copy.default", informed=True)
def copy(result: Result, x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """`source` in the shape and type of `x`."""
    return f.broadcast_to(source.astype(result.dtype), result.shape)


@operator("aten.flip.default")
def flip(x: Tensor, dims: Any) -> Tensor:
    return shapes.flip(x, axes_of(dims, x.ndim)) if x.ndim and dims else x


@operator("aten.roll.default")
def roll(x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    if not x.ndim:
        return x
    if not all(isinstance(n, int) for n in shifts):
        raise Unsupported("shifts that are known only at the call")
    return shapes.roll(x, tuple(shifts), axes_of(dims, x.ndim)) if dims else shapes.roll(x, shifts[0])


@operator("aten.repeat.default", informed=True)
def repeat(result: Result, x: Tensor, repeats: Any) -> Tensor:
    """Each dimension beside one of how often it is repeated, and the two as one."""
    lead = len(result.shape) - x.ndim
    key = [*(None,) * lead]
    for _ in range(x.ndim):
        key += [None, slice(None)]
    sizes: list[Any] = list(repeats[:lead])
    for n, d in zip(repeats[lead:], x.shape, strict=True):
        sizes += [n, d]
    return f.broadcast_to(x[tuple(key)], sizes).reshape(result.shape)


@operator("aten.constant_pad_nd.default", informed=True)
def pad_constant(result: Result, x: Tensor, widths: Any, value: Any = 0) -> Tensor:
    """A width below 0 cuts."""
    if not all(isinstance(w, int) for w in widths):
        raise Unsupported("widths that are known only at the call")
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2)
    pairs += [(widths[n], widths[n + 1]) for n in range(len(widths) - 2, -1, -2)]
    cuts = [slice(max(0, -a), d - max(0, -b)) for (a, b), d in zip(pairs, x.shape, strict=True)]
    fill = bool(value) if x.dtype == dtypes.bool_ else value if x.dtype.is_float else int(value)
    return f.pad(x[tuple(cuts)], [(max(0, a), max(0, b)) for a, b in pairs], fill)


def _diagonal_below(x: Tensor, k: Any) -> Any:
    if not isinstance(k, int):
        raise Unsupported("a diagonal that is known only at the call")
    return k


@operator("aten.tril.default")
def tril(x: Tensor, diagonal: Any = 0) -> Tensor:
    return shapes.tril(x, _diagonal_below(x, diagonal))


@operator("aten.triu.default")
def triu(x: Tensor, diagonal: Any = 0) -> Tensor:
    return shapes.triu(x, _diagonal_below(x, diagonal))


@operator("aten.diagonal.default", informed=True, view=True)
def diagonal(result: Result, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    a, b = dim1 % x.ndim, dim2 % x.ndim
    order = [*(d for d in range(x.ndim) if d not in (a, b)), a, b]
    at = arange(result.shape[-1])
    rows, columns = at + max(0, -offset), at + max(0, offset)
    return x.transpose(tuple(order))[..., rows, columns]


def _replaced(x: Tensor, dim: int, inside: Any, at: Any, source: Tensor) -> Tensor:
    """`x` with elements of `source` where `inside` holds of the index along `dim`, taken from where `at` says."""
    place = arange(x.shape[dim]).reshape([x.shape[dim] if d == dim else 1 for d in range(x.ndim)])
    taken = f.take(source, f.cast(at(arange(x.shape[dim])), "int64"), dim)
    return f.where(inside(place), taken, x)


@operator("aten.slice_scatter.default")
def slice_scatter(x: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    d = dim % x.ndim
    size, count = x.shape[d], source.shape[d]
    first = 0 if start is None else start
    if not all(isinstance(n, int) for n in (size, count, first)):
        raise Unsupported("a part that is known only at the call")
    first = max(0, first + size if first < 0 else first)
    if not count:
        return x
    last = first + (count - 1) * step

    def inside(i: Tensor) -> Tensor:
        within = f.logical_and(i >= first, i <= last)
        return within if step == 1 else f.logical_and(within, (i - first) % step == 0)

    return _replaced(x, d, inside, lambda i: f.clip(i - first, 0, last - first) // step, source.astype(x.dtype))


@operator("aten.select_scatter.default")
def select_scatter(x: Tensor, source: Tensor, dim: int, index: Any) -> Tensor:
    d = dim % x.ndim
    if not isinstance(index, int):
        raise Unsupported("an index that is known only at the call")
    place = arange(x.shape[d]).reshape([x.shape[d] if k == d else 1 for k in range(x.ndim)])
    wanted = index if index >= 0 else index + x.shape[d]
    return f.where(place == wanted, source.astype(x.dtype)[(*_full_slices(x, d), None)], x)


@operator("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    fill = value.astype(x.dtype) if isinstance(value, Tensor) else as_expr(Tensor, value, x.dtype)
    return f.where(mask, fill, x)
