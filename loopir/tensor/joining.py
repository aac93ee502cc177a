"""Tensors put together and cut apart along named axes, as NumPy's stacks, blocks and splits."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.tensor.core import as_expr, broadcast
from loopir.tensor.functions import axis_of, broadcast_to, concatenate, listed
from loopir.tensor.index import IndexExpr
from loopir.tensor.shapes import moveaxis, split
from loopir.tensor.tensor import Tensor

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays", "column_stack",
    "dsplit", "dstack", "hsplit", "hstack", "unstack", "vsplit", "vstack",
]  # fmt: skip


def _each(xs: tuple[Any, ...], change: Any) -> Any:
    """What `change` makes of one tensor, or a tuple of what it makes of each of several."""
    made = tuple(change(as_expr(Tensor, x, None)) for x in xs)
    return made[0] if len(made) == 1 else made


def atleast_1d(*xs: Any) -> Any:
    """Each tensor with one dimension at least; a tuple of several."""
    return _each(xs, lambda e: e if e.ndim else e[None])


def atleast_2d(*xs: Any) -> Any:
    """Each tensor with two dimensions at least: a vector is a row."""
    return _each(xs, lambda e: e[(None,) * max(0, 2 - e.ndim) + (Ellipsis,)])


def atleast_3d(*xs: Any) -> Any:
    """Each tensor with three dimensions at least: a vector is in the middle one, a matrix in the first two."""
    key: list[Any] = [(None, None, None), (None, Ellipsis, None), (Ellipsis, None)]
    return _each(xs, lambda e: e[key[e.ndim]] if e.ndim < 3 else e)


def hstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors side by side: along the second axis, or the only one of vectors."""
    each = [atleast_1d(e) for e in listed("hstack", tensors)]
    return concatenate(each, axis=min(1, each[0].ndim - 1))


def vstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors one below the other, along the first axis; vectors are rows."""
    return concatenate([atleast_2d(e) for e in listed("vstack", tensors)], axis=0)


def dstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors one behind the other, along the third axis; see `atleast_3d`."""
    return concatenate([atleast_3d(e) for e in listed("dstack", tensors)], axis=2)


def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Vectors as the columns of a matrix, and matrices side by side."""
    each = listed("column_stack", tensors)
    return concatenate([e if e.ndim > 1 else atleast_1d(e)[:, None] for e in each], axis=1)


def block(arrays: Any) -> Tensor:
    """The tensor that nested lists of blocks are: the innermost lists along the last axis, those around them along the
    one before it."""
    depth = _list_depth(arrays)
    rank = max([depth, *(e.ndim for e in _leaves(arrays))])
    return _joined_blocks(arrays, rank - depth, rank)


def _list_depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_list_depth(a) for a in arrays}
    if len(depths) != 1:
        raise ExprError(f"block of lists of {len(depths)} depths; all blocks are in as many lists, none of them empty")
    return 1 + depths.pop()


def _leaves(arrays: Any) -> list[Tensor]:
    return [e for a in arrays for e in _leaves(a)] if isinstance(arrays, list) else [as_expr(Tensor, arrays, None)]


def _joined_blocks(arrays: Any, axis: int, rank: int) -> Tensor:
    if isinstance(arrays, list):
        return concatenate([_joined_blocks(a, axis + 1, rank) for a in arrays], axis=axis)
    e = as_expr(Tensor, arrays, None)
    return e[(None,) * (rank - e.ndim) + (Ellipsis,)]


def append(x: Any, values: Any, axis: int | None = None) -> Tensor:
    """`x` and `values` one after the other along `axis`, or both flat."""
    both: list[Tensor] = [as_expr(Tensor, v, None) for v in (x, values)]
    return concatenate([e.reshape(-1) for e in both] if axis is None else both, axis=axis or 0)


def array_split(x: Any, indices_or_sections: int | Sequence[Any], axis: int = 0) -> list[Tensor]:
    """`x` cut along `axis` into that many parts, the first of them longer by one where it does not come out even, or
    before each of the indices that are given."""
    e = as_expr(Tensor, x, None)
    size, parts = e.shape[axis_of("array_split", axis, e, e.ndim)], indices_or_sections
    if not isinstance(parts, int) or not isinstance(size, int):
        return split(e, parts, axis)
    if parts < 1:
        raise ExprError(f"array_split of {e.described()} into {parts} parts; one at least")
    return split(e, [n * (size // parts) + min(n, size % parts) for n in range(1, parts)], axis)


def _split_along(name: str, axis: int, least: int, doc: str) -> Any:
    def function(x: Any, indices_or_sections: int | Sequence[Any]) -> list[Tensor]:
        e = as_expr(Tensor, x, None)
        if e.ndim < least:
            raise ExprError(f"{name} of {e.described()}; it takes {least} dimensions or more")
        return split(e, indices_or_sections, min(axis, e.ndim - 1))

    function.__name__, function.__doc__ = name, doc
    return function


hsplit = _split_along("hsplit", 1, 1, "`x` cut along its second axis, or the only one of a vector; see `split`.")
vsplit = _split_along("vsplit", 0, 2, "`x` cut along its first axis; see `split`.")
dsplit = _split_along("dsplit", 2, 3, "`x` cut along its third axis; see `split`.")


def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of `x` at each place along `axis`, without it; its size is known."""
    e = as_expr(Tensor, x, None)
    d = axis_of("unstack", axis, e, e.ndim)
    size = e.shape[d]
    if not isinstance(size, int):
        raise ExprError(f"unstack of {e.described()} along axis {axis}: how many parts there are is known at the call")
    front = moveaxis(e, d, 0)
    return tuple(front[n] for n in range(size))


def broadcast_arrays(*tensors: Any) -> tuple[Tensor, ...]:
    """Each tensor, repeated to the shape that they have together."""
    each: list[Tensor] = [as_expr(Tensor, x, None) for x in tensors]
    symbols = {k: s for e in each for k, s in e.symbols.items()}
    shape = [IndexExpr(d, symbols) for d in broadcast("broadcast_arrays", each)]
    return tuple(broadcast_to(e, shape) for e in each)
