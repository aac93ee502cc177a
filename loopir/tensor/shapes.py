"""What changes the shape of a tensor, or keeps a part of it, as NumPy names it. All are views: no element moves."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from loopir.errors import ExprError
from loopir.ir.grammar import Cmp, Const, Int, Select
from loopir.tensor.core import as_expr, stage_reduction
from loopir.tensor.functions import axis_of
from loopir.tensor.index import IndexExpr, same
from loopir.tensor.tensor import Tensor

__all__ = ["expand_dims", "flip", "split", "squeeze", "tril", "triu"]


def _axes(what: str, axis: Any, x: Tensor, rank: int) -> tuple[int, ...]:
    """Axes from 0, each once."""
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if not all(isinstance(a, int) and not isinstance(a, bool) for a in given):
        raise ExprError(f"{what} along axis {axis!r} of {x.described()}; an axis is an integer, or several in a tuple")
    found = tuple(axis_of(what, a, x, rank) for a in given)
    if len(set(found)) != len(found):
        raise ExprError(f"{what} along axes {given} of {x.described()}: an axis is named twice")
    return found


def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """`x` without the dimensions of size 1: all of them, or those in `axis`."""
    e = as_expr(Tensor, x, None)
    ones = tuple(d for d, size in enumerate(e.dims) if size == Int(1))
    dropped = ones if axis is None else _axes("squeeze", axis, e, e.ndim)
    if not set(dropped) <= set(ones):
        wrong = next(d for d in dropped if d not in ones)
        raise ExprError(f"squeeze along axis {wrong} of {e.described()}, whose size is not 1; only such an axis goes")
    return e[tuple(0 if d in dropped else slice(None) for d in range(e.ndim))] if dropped else e


def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """`x` with new dimensions of size 1, which `axis` of the result are."""
    e = as_expr(Tensor, x, None)
    rank = e.ndim + (len(axis) if isinstance(axis, tuple | list) else 1)
    added = _axes("expand_dims", axis, e, rank)
    return e[tuple(None if d in added else slice(None) for d in range(rank))]


def flip(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """`x` in the reverse order along `axis`, or along all."""
    e = as_expr(Tensor, x, None)
    turned = range(e.ndim) if axis is None else _axes("flip", axis, e, e.ndim)
    back = tuple(slice(None, None, -1) if d in turned else slice(None) for d in range(e.ndim))
    return e[back] if back else e


def _triangle(what: str, x: Tensor, k: Any, *, lower: bool) -> Tensor:
    e = stage_reduction(as_expr(Tensor, x, None))
    if e.ndim < 2:
        raise ExprError(f"{what} of {e.described()}; a matrix has two dimensions, its last ones")
    if not isinstance(k, int) or isinstance(k, bool):
        raise ExprError(f"{what} of {e.described()} with k={k!r}; the diagonal k is an integer")

    def at(ix: Any) -> Any:
        row, column = ix[-2] + k, ix[-1]
        return Select(Cmp("<=", *((column, row) if lower else (row, column))), e.at(ix), Const(0, e.dtype))

    return e.like(e.dims, e.dtype, at)


def tril(x: Tensor, k: int = 0) -> Tensor:
    """The lower triangles of matrices, 0 above the diagonal `k`, which is counted upwards."""
    return _triangle("tril", x, k, lower=True)


def triu(x: Tensor, k: int = 0) -> Tensor:
    """The upper triangles of matrices, 0 below the diagonal `k`, which is counted upwards."""
    return _triangle("triu", x, k, lower=False)


def split(x: Tensor, indices_or_sections: int | Sequence[Any], axis: int = 0) -> list[Tensor]:
    """`x` cut along `axis` into that many equal parts, or before each of the indices that are given.

    Not to be taken for `Schedule.split`, which cuts a loop.
    """
    e = as_expr(Tensor, x, None)
    d = axis_of("split", axis, e, e.ndim)
    before = (slice(None),) * d
    if not isinstance(indices_or_sections, int):
        ends = [None, *indices_or_sections, None]
        return [e[(*before, slice(a, b))] for a, b in pairwise(ends)]
    parts = indices_or_sections
    if parts < 1 or not same(e.dims[d] // parts * parts, e.dims[d], e.symbols):
        raise ExprError(
            f"split of {e.described()} into {parts} parts along axis {d}: the parts are not of one size; give the "
            "indices where to cut, or a size that is a multiple of it"
        )
    width = IndexExpr(e.dims[d] // parts, e.symbols) if not isinstance(e.shape[d], int) else e.shape[d] // parts
    return [e[(*before, slice(width * n, width * (n + 1)))] for n in range(parts)]
