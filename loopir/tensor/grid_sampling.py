"""Images sampled at the places that a grid names, as torch's grid_sample and ONNX's GridSample."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import mul
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.tensor.core import as_expr, cast, stage_reduction
from loopir.tensor.creation import arange
from loopir.tensor.functions import abs as absolute, clip, floor, logical_and, round as nearest, where
from loopir.tensor.tensor import Tensor, real_type

__all__ = ["grid_sample"]

WINDOWS = {"bilinear": range(2), "nearest": range(1), "bicubic": range(-1, 3)}
"""The elements along a dimension that a place is made of, counted from the one below it."""
OUTSIDE = ("zeros", "border", "reflection")
FARTHEST_PLACE = float(1 << 24)
"""Places beyond this are as far off as this."""
KEYS_SLOPE = -0.75


def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """x[n, c, ...] at the places grid[n, ..., d], d of 2 or 3 coordinates from -1 to 1, the last dimension's first.

    `mode` is "bilinear", also of volumes, "nearest" or, of images, "bicubic"; what is outside is 0 ("zeros"), the
    nearest element ("border") or mirrored ("reflection"). -1 and 1 are the middles of the outer elements with
    `align_corners`, else their edges.
    """
    e, places = (stage_reduction(as_expr(Tensor, v, None)) for v in (x, grid))
    rank = e.ndim - 2
    if rank not in (1, 2, 3) or places.ndim != e.ndim or str(places.shape[-1]) != str(rank):
        raise ExprError(
            f"grid_sample of {e.described()} at {places.described()}: an image is x[n, c, h, w], and its grid has the "
            "same number of dimensions, the last of them of a coordinate for each of space"
        )
    if mode not in WINDOWS or padding_mode not in OUTSIDE:
        raise ExprError(
            f"grid_sample: mode={mode!r} and padding_mode={padding_mode!r}; they are of {', '.join(WINDOWS)} and of "
            f"{', '.join(OUTSIDE)}"
        )
    t = real_type(e.dtype)
    work = dtypes.float32 if t.is_narrow else t
    taps: list[list[tuple[Tensor, Tensor]]] = []
    for d, size in enumerate(e.shape[2:]):
        at = _unnormalized(cast(places[..., rank - 1 - d], work), size, align_corners)
        if mode != "bicubic":
            at = _confined(at, size, padding_mode, align_corners)
        taps.append(_neighbours(at.named(f"at{d}"), mode, size, padding_mode, align_corners))
    batch = arange(e.shape[0]).reshape([e.shape[0], *(1,) * (rank + 1)])
    channel = arange(e.shape[1]).reshape([1, e.shape[1], *(1,) * rank])
    image = e if e.source is not None else e.named("image")
    total: Any = None
    for corner in product(*taps):
        index = [i[:, None] for i, _ in corner]
        share = reduce(mul, [w[:, None] for _, w in corner])
        part = cast(image.from_start((batch, channel, *index)), work) * share
        total = part if total is None else total + part
    return cast(total, t)


def _unnormalized(at: Tensor, size: Any, corners: bool) -> Tensor:
    """Coordinates from -1 to 1 counted in elements; NaN as what is outside."""
    length = cast(as_expr(Tensor, size, None), at.dtype)
    found = (at + 1.0) * 0.5 * (length - 1.0) if corners else ((at + 1.0) * length - 1.0) * 0.5
    return where(found == found, clip(found, -FARTHEST_PLACE, FARTHEST_PLACE), -FARTHEST_PLACE)


def _confined(at: Tensor, size: Any, padding_mode: str, corners: bool) -> Tensor:
    """Places at the border in place of those outside, after these are mirrored if that is asked for."""
    last = cast(as_expr(Tensor, size, None), at.dtype) - 1.0
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        start, span = (0.0, last) if corners else (-0.5, last + 1.0)
        safe = where(as_expr(Tensor, span, None) > 0.0, span, 1.0)
        far = absolute(at - start)
        turns = floor(far / safe)
        rest = far - turns * safe
        odd = turns - 2.0 * floor(turns * 0.5) == 1.0
        at = where(as_expr(Tensor, span, None) > 0.0, where(odd, span - rest, rest) + start, 0.0)
    return where(at < 0.0, 0.0, where(at > last, last, at))


def _neighbours(at: Tensor, mode: str, size: Any, padding_mode: str, corners: bool) -> list[tuple[Tensor, Tensor]]:
    """The elements along one dimension of which a place is made, and their shares: none of what is outside."""
    last = cast(as_expr(Tensor, size, None), at.dtype) - 1.0
    low = nearest(at) if mode == "nearest" else floor(at)
    share = at - low
    made: list[tuple[Tensor, Tensor]] = []
    for k in WINDOWS[mode]:
        place = low + float(k)
        if mode == "bicubic":
            place = _confined(place, size, padding_mode, corners)
            weight = _keys_share(absolute(share - float(k)), near=k in (0, 1))
        elif mode == "nearest":
            weight = share * 0.0 + 1.0
        else:
            weight = share if k else 1.0 - share
        inside = logical_and(place >= 0.0, place <= last)
        index = cast(where(inside, place, 0.0), "int64")
        made.append((index, where(inside, weight, 0.0)))
    return made


def _keys_share(far: Tensor, *, near: bool) -> Tensor:
    """The share of an element so `far` off, up to 1 or from there to 2 (Keys, "Cubic convolution interpolation for
    digital image processing", 1981, with a = -3/4)."""
    if near:
        return ((KEYS_SLOPE + 2.0) * far - (KEYS_SLOPE + 3.0)) * far * far + 1.0
    return ((KEYS_SLOPE * far - 5.0 * KEYS_SLOPE) * far + 8.0 * KEYS_SLOPE) * far - 4.0 * KEYS_SLOPE
