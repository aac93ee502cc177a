"""What changes the shape of a tensor, or keeps a part of it, as NumPy names it. All are views: no element moves."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from loopir.arith.simplify import simplify
from loopir.errors import ExprError
from loopir.ir.grammar import Cmp, Const, Index, Int, Select, maximum, minimum
from loopir.tensor.core import as_expr, stage_reduction
from loopir.tensor.functions import axis_of, concatenate
from loopir.tensor.index import IndexExpr, at_least, context, same
from loopir.tensor.tensor import Tensor

__all__ = [
    "diag", "diagflat", "diagonal", "expand_dims", "flip", "fliplr", "flipud", "moveaxis", "ravel", "repeat", "roll",
    "rot90", "split", "squeeze",
    "swapaxes", "tile", "tril", "triu",
]  # fmt: skip


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


def fliplr(x: Tensor) -> Tensor:
    """`x` in the reverse order along its second axis."""
    return flip(x, 1)


def flipud(x: Tensor) -> Tensor:
    """`x` in the reverse order along its first axis."""
    return flip(x, 0)


def rot90(x: Tensor, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """`x` turned by `k` right angles in the plane of `axes`, from the first of them towards the second."""
    e = as_expr(Tensor, x, None)
    plane = _axes("rot90", tuple(axes), e, e.ndim)
    if len(plane) != 2 or not isinstance(k, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"rot90 of {e.described()}, {k!r} times in the plane of {axes}; a plane has two axes")
    if k % 2 == 0:
        return flip(e, plane) if k % 4 else e
    turned = flip(e, plane[1]) if k % 4 == 1 else e
    turned = swapaxes(turned, *plane)
    return turned if k % 4 == 1 else flip(turned, plane[1])


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


def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """`x` with two dimensions in each other's place."""
    e = as_expr(Tensor, x, None)
    a, b = (axis_of("swapaxes", n, e, e.ndim) for n in (axis1, axis2))
    order = list(range(e.ndim))
    order[a], order[b] = b, a
    return e.transpose(order)


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """`x` with the dimensions `source` at the places `destination`; the others keep their order."""
    e = as_expr(Tensor, x, None)
    old, new = (_axes("moveaxis", n, e, e.ndim) for n in (source, destination))
    if len(old) != len(new):
        raise ExprError(f"moveaxis of {e.described()} from {source} to {destination}; as many places as dimensions")
    rest = (d for d in range(e.ndim) if d not in old)
    places = dict(zip(new, old, strict=True))
    return e.transpose([places[d] if d in places else next(rest) for d in range(e.ndim)])


def ravel(x: Tensor) -> Tensor:
    """The elements of `x` in row-major order, in one dimension."""
    return as_expr(Tensor, x, None).reshape(-1)


def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements of `x` whose index in `axis2` is that in `axis1` plus `offset`, as the last dimension."""
    e = as_expr(Tensor, x, None)
    a, b = (axis_of("diagonal", n, e, e.ndim) for n in (axis1, axis2))
    if a == b:
        raise ExprError(f"diagonal of {e.described()} along axes {axis1} and {axis2}; two different ones have one")
    first = max(0, -offset)
    length = maximum(minimum(e.dims[a] - first, e.dims[b] - (first + offset)), Int(0))
    kept = [d for d in range(e.ndim) if d not in (a, b)]

    def at(ix: tuple[Index, ...]) -> Any:
        place = {a: ix[-1] + first, b: ix[-1] + first + offset, **dict(zip(kept, ix[:-1], strict=True))}
        return e.at(tuple(place[d] for d in range(e.ndim)))

    return e.like((*(e.dims[d] for d in kept), simplify(length, context(e.symbols))), e.dtype, at)


def diag(v: Tensor, k: int = 0) -> Tensor:
    """The matrix with the vector `v` on its diagonal `k`, counted upwards, and 0 elsewhere; or of a matrix that
    diagonal."""
    e = stage_reduction(as_expr(Tensor, v, None))
    if e.ndim == 2:
        return diagonal(e, k)
    if e.ndim != 1:
        raise ExprError(f"diag of {e.described()}; it takes a vector or a matrix")
    size = e.dims[0] + abs(k)

    def at(ix: tuple[Index, ...]) -> Any:
        row, column = ix
        return Select(Cmp("==", row + k, column), e.at((row if k >= 0 else column,)), Const(0, e.dtype))

    return e.like((size, size), e.dtype, at)


def diagflat(v: Tensor, k: int = 0) -> Tensor:
    """The matrix with the elements of `v` in row-major order on its diagonal `k`, and 0 elsewhere."""
    return diag(ravel(v), k)


def _require_whole(what: str, given: Any, e: Tensor, noun: str) -> None:
    """ExprError unless `given` is a whole number, or several."""
    if not all(isinstance(n, int) for n in (given if isinstance(given, list | tuple) else (given,))):
        raise ExprError(f"{what} of {e.described()} by {given!r}; a {noun} is a whole number, or one for each axis")


def roll(x: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """`x` with its elements moved `shift` places along `axis`, those past the end to the beginning.

    Without an axis, the flat tensor is rolled. A size that is known at the call alone is at least the shift:
    `lp.symbol("n", min=2)` says so.
    """
    e = as_expr(Tensor, x, None)
    if axis is None:
        return roll(ravel(e), shift, 0).reshape(e.shape)
    axes = _axes("roll", axis, e, e.ndim)
    _require_whole("roll", shift, e, "shift")
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ExprError(f"roll of {e.described()} by {shift} along {axis}; one shift, or one for each axis")
    for d, by in zip(axes, shifts, strict=True):
        size, cut = e.dims[d], -by
        if isinstance(size, Int):
            cut = -by % size.value if size.value else 0
        elif not at_least(size, abs(by), e.symbols):
            raise ExprError(
                f"roll of {e.described()} by {by} along axis {d}, whose size is known at the call alone; a size that "
                f"is at least {abs(by)} is, as lp.symbol(..., min={abs(by)}) makes it"
            )
        before = (slice(None),) * d
        e = concatenate([e[(*before, slice(cut, None))], e[(*before, slice(None, cut))]], axis=d) if cut else e
    return e


def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """`x` with each element `repeats` times in a row along `axis`, or in the flat tensor."""
    e = as_expr(Tensor, x, None)
    if not isinstance(repeats, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"repeat of {e.described()} by {repeats!r}; every element is repeated as often, by one number")
    if repeats < 0:
        raise ExprError(f"repeat of {e.described()}, {repeats!r} times; a number from 0 on")
    if axis is None:
        return repeat(ravel(e), repeats, 0)
    d = axis_of("repeat", axis, e, e.ndim)
    if repeats == 0:
        return e[(*(slice(None),) * d, slice(0, 0))]
    shape = (*e.dims[:d], e.dims[d] * repeats, *e.dims[d + 1 :])

    def at(ix: tuple[Index, ...]) -> Any:
        return e.at((*ix[:d], ix[d] // repeats, *ix[d + 1 :]))

    return e.like(shape, e.dtype, at)


def tile(x: Tensor, reps: int | Sequence[int]) -> Tensor:
    """`x` side by side with itself, `reps[d]` times along each dimension; missing ones come first, as in NumPy."""
    e = as_expr(Tensor, x, None)
    _require_whole("tile", reps, e, "repetition")
    times = (reps,) if isinstance(reps, int) else tuple(reps)
    if any(n < 0 for n in times):
        raise ExprError(f"tile of {e.described()}, {reps!r} times; numbers from 0 on")
    e = e[(None,) * max(0, len(times) - e.ndim) + (Ellipsis,)]
    times = (1,) * (e.ndim - len(times)) + times
    e = e[tuple(slice(0, 0) if n == 0 else slice(None) for n in times)]
    shape = tuple(size * n if n > 1 else size for size, n in zip(e.dims, times, strict=True))

    def at(ix: tuple[Index, ...]) -> Any:
        return e.at(tuple(i % d if n > 1 else i for i, d, n in zip(ix, e.dims, times, strict=True)))

    return e.like(shape, e.dtype, at)
