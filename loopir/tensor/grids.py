"""Grids of coordinates, flat indices, and functions that are known at points, as NumPy has them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.tensor.core import as_expr, cast, stage_reduction
from loopir.tensor.creation import arange, ones
from loopir.tensor.functions import axis_of, broadcast_to, concatenate, isnan, logical_and, minimum, sum as total, where
from loopir.tensor.numeric import bincount, linspace, searchsorted
from loopir.tensor.shapes import tril
from loopir.tensor.tensor import Tensor, mean_type

__all__ = [
    "digitize", "geomspace", "gradient", "histogram", "interp", "logspace", "meshgrid", "ravel_multi_index",
    "trapezoid", "tri", "unravel_index", "vander",
]  # fmt: skip


def meshgrid(*xi: Any, indexing: str = "xy") -> list[Tensor]:
    """Each vector along a dimension of its own, repeated along those of the others; with "xy" the first two are in each
    other's place."""
    vectors = [as_expr(Tensor, x, None).reshape(-1) for x in xi]
    if indexing not in ("xy", "ij"):
        raise ExprError(f"meshgrid, indexing={indexing!r}; it is 'xy' or 'ij'")
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    shape = [vectors[n].shape[0] for n in order]
    key: list[Any] = [None] * len(vectors)
    return [
        broadcast_to(x[tuple(slice(None) if order[d] == n else k for d, k in enumerate(key))], shape)
        for n, x in enumerate(vectors)
    ]


def unravel_index(indices: Any, shape: Sequence[Any]) -> tuple[Tensor, ...]:
    """The indices in each dimension of `shape` of elements that are counted in row-major order."""
    flat = as_expr(Tensor, indices, None)
    if not flat.dtype.is_integer:
        raise ExprError(f"unravel_index of {flat.described()}; an index is an integer")
    found: list[Tensor] = []
    for n, size in enumerate(reversed(tuple(shape))):
        found.append(flat if n == len(shape) - 1 else flat % size)
        flat = flat // size
    return tuple(reversed(found))


def ravel_multi_index(multi_index: Sequence[Any], dims: Sequence[Any]) -> Tensor:
    """The row-major place of the elements of a tensor of sizes `dims` with these indices in each dimension."""
    each = [as_expr(Tensor, x, None) for x in multi_index]
    if len(each) != len(dims) or not each:
        raise ExprError(f"ravel_multi_index of {len(each)} indices in {len(dims)} dimensions; one for each")
    flat = each[0]
    for x, size in zip(each[1:], dims[1:], strict=True):
        flat = flat * size + x
    return flat


def gradient(f: Any, spacing: float = 1.0, axis: int | Sequence[int] | None = None) -> Any:
    """The slopes of `f` along `axis`: between both neighbours in the middle, to the one neighbour at the ends.

    Neighbours are `spacing` away. A list for several axes, or for all of more dimensions than one."""
    e = as_expr(Tensor, f, None)
    e = cast(e, mean_type(e.dtype))
    if isinstance(axis, float) or not isinstance(spacing, int | float):  # pyright: ignore
        raise ExprError(f"gradient of {e.described()}, spacing={spacing!r}, axis={axis!r}; one number for all axes")
    if axis is None or not isinstance(axis, int):
        axes = range(e.ndim) if axis is None else axis
        made = [gradient(e, spacing, d) for d in axes]
        return made[0] if axis is None and e.ndim == 1 else made
    before = (slice(None),) * axis_of("gradient", axis, e, e.ndim)

    def part(a: Any, b: Any) -> Tensor:
        return e[(*before, slice(a, b))]

    inner = (part(2, None) - part(None, -2)) / (2.0 * spacing)
    ends = [(part(a, b) - part(c, d)) / float(spacing) for a, b, c, d in ((1, 2, 0, 1), (-1, None, -2, -1))]
    return concatenate([ends[0], inner, ends[1]], axis=len(before))


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Tensor:
    """The values at `x` of the function that is `fp` at the points `xp`, which ascend, and straight between them.

    Beyond them it is `left` and `right`, or the values at the ends.
    """
    e, points, values = as_expr(Tensor, x, None), as_expr(Tensor, xp, None), as_expr(Tensor, fp, None)
    if points.ndim != 1 or values.ndim != 1:
        raise ExprError(f"interp between {points.described()} and {values.described()}; points lie along one dimension")
    e, points, values = (cast(v, mean_type(v.dtype)) for v in (e, stage_reduction(points), stage_reduction(values)))
    size = points.shape[0]
    after = searchsorted(points, e, side="right")
    low = where(after < 1, 0, where(after < size, after - 1, size - 2)).astype("int64")
    low = where(low < 0, 0, low).astype("int64")
    high = where(low + 1 < size, low + 1, low).astype("int64")
    a, b, u, v = (x.from_start(at) for x in (points, values) for at in (low, high))
    made = where(e == b, v, where(e == a, u, u + (v - u) / (b - a) * (e - a)))
    first, last = points[0], points[-1]
    made = where(e < first, values[0] if left is None else left, made)
    made = where(e > last, values[-1] if right is None else right, made)
    return where(isnan(e), e, made)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral of `y` along `axis` by trapezoids, at the points `x` or `dx` from one another."""
    e = as_expr(Tensor, y, None)
    e = cast(e, mean_type(e.dtype))
    before = (slice(None),) * axis_of("trapezoid", axis, e, e.ndim)
    both = e[(*before, slice(1, None))] + e[(*before, slice(None, -1))]
    if x is None:
        return total(both * (dx / 2.0), axis=axis)
    points = as_expr(Tensor, x, None)
    if points.ndim == 1:
        steps = points[1:] - points[:-1]
        return total(both * steps[(slice(None), *(None,) * (e.ndim - len(before) - 1))] / 2.0, axis=axis)
    return total(both * (points[(*before, slice(1, None))] - points[(*before, slice(None, -1))]) / 2.0, axis=axis)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = "float64") -> Tensor:
    """1 on and below diagonal `k` of N rows and M columns, by default N, and 0 above it."""
    return tril(ones((N, N if M is None else M), dtype), k)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element of `x` from N - 1 down to 0, or up to it, in a row each; N is its size by
    default."""
    e = as_expr(Tensor, x, None)
    count = e.shape[0] if N is None and e.ndim == 1 else N
    if e.ndim != 1 or not isinstance(count, int):
        raise ExprError(f"vander of {e.described()}, N={count!r}; it is of a vector, and N is a number")
    powers = [e**n for n in range(count)] if count <= 17 else _powers(e, count)
    return concatenate([p[:, None] for p in (powers if increasing else powers[::-1])], axis=1)


def _powers(e: Tensor, count: int) -> list[Tensor]:
    found = [e**0, e]
    while len(found) < count:
        found.append((found[-1] * e).named("power"))
    return found


def logspace(
    start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = "float64"
) -> Tensor:
    """`base` to the power of `num` numbers from `start` to `stop` at equal distances; see `linspace`."""
    return (as_expr(Tensor, base, None).astype("float64") ** linspace(start, stop, num, endpoint)).astype(dtype)


def geomspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = "float64") -> Tensor:
    """`num` numbers from `start` to `stop` at equal ratios, both among them, or without `endpoint` all but the last;
    neither is 0, and they have one sign."""
    if not start * stop > 0:
        raise ExprError(f"geomspace from {start} to {stop}; both are positive, or both negative")
    at = arange(num)
    inside = start * (as_expr(Tensor, stop / start, None).astype("float64") ** linspace(0.0, 1.0, num, endpoint))
    last = where(at == num - 1, stop, inside) if endpoint else inside
    return where(at == 0, start, last).astype(dtype)


def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """The bin of each element of `x`, of those that `bins`, ascending, part: `bins[i - 1] <= x < bins[i]`, or with
    `right` `bins[i - 1] < x <= bins[i]`."""
    return searchsorted(bins, x, side="left" if right else "right")


def histogram(x: Any, bins: int, range: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """How many elements of `x` lie in each of `bins` parts of `range`, the last of which has its end, and the edges.

    NumPy finds the range from the elements; here it is given, and what is beyond it is not counted.
    """
    e = as_expr(Tensor, x, None).reshape(-1)
    low, high = map(float, range)
    if bins < 1 or not low < high:
        raise ExprError(
            f"histogram of {e.described()} in {bins} bins from {low} to {high}; one bin at least, and a range"
        )
    wide, step = e.astype("float64"), (high - low) / bins
    place = minimum(((wide - low) * (bins / (high - low))).astype("int64"), bins - 1)
    edge = place.astype("float64") * step + low  # what rounding has put beyond an edge goes back, as in NumPy
    place = where(wide < edge, place - 1, where(logical_and(wide >= edge + step, place < bins - 1), place + 1, place))
    inside = logical_and(wide >= low, wide <= high)
    return bincount(where(inside, place, -1).astype("int64"), bins), linspace(low, high, bins + 1)
