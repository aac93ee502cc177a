"""Images of another size: the nearest element, or linear between neighbours. Places are found in integers, exactly."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.grammar import Const, Index, IndexToValue, Int, Op, maximum, minimum
from loopir.ir.ops import REGISTRY
from loopir.tensor.core import as_expr, cast, stage_reduction
from loopir.tensor.tensor import Tensor, real_type

__all__ = ["interpolate"]

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def interpolate(
    x: Tensor, size: int | Sequence[int] | None = None, scale_factor: int | None = None, mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:  # fmt: skip
    """x[n, c, ...] with another size in its dimensions of space, as torch's: `size`, or `scale_factor` times its own.

    "nearest" takes element floor(i * old / new); "linear", "bilinear" and "trilinear", for 1, 2 and 3 dimensions, are
    linear between neighbours, whose middles are what counts unless `align_corners`.
    """
    e = stage_reduction(as_expr(Tensor, x, None))
    rank = e.ndim - 2
    if rank not in LINEAR:
        raise ExprError(f"interpolate of {e.described()}: its dimensions are batch, channels and 1 to 3 of space")
    if mode not in ("nearest", LINEAR[rank]):
        raise ExprError(f'interpolate of {e.described()}: mode={mode!r}; it is "nearest" or "{LINEAR[rank]}" there')
    if align_corners and mode == "nearest":
        raise ExprError("interpolate: align_corners is for linear modes, nearest has no corners to align")
    places = _resample_dims(e, size, scale_factor, rank)
    if mode == "nearest":
        shape = (*e.dims[:2], *(new for _, new, *_ in places))

        def at(ix: tuple[Index, ...]) -> Any:
            inner = (i * up // down for i, (_, _, up, down) in zip(ix[2:], places, strict=True))
            return e.at((*ix[:2], *inner))

        return e.like(shape, e.dtype, at)
    t = real_type(e.dtype)
    made = cast(e, dtypes.float32 if t.is_narrow else t)
    for n, place in enumerate(places):
        made = _linear(made, n + 2, place, align_corners)
    return cast(made, t)


Place = tuple[Index, Index, int, int]
"""The old size and the new one, and their ratio as two numbers."""


def _resample_dims(e: Tensor, size: Any, scale_factor: Any, rank: int) -> list[Place]:
    if (size is None) == (scale_factor is None):
        raise ExprError(f"interpolate of {e.described()}: give the size or the scale_factor, one of them")
    given = size if scale_factor is None else scale_factor
    each = tuple(given) if isinstance(given, tuple | list) else (given,) * rank
    if len(each) != rank or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in each):
        name = "size" if scale_factor is None else "scale_factor"
        raise ExprError(f"interpolate of {e.described()}: {name}={given!r}; it is a whole number from 1, or {rank}")
    old = e.dims[2:]
    if scale_factor is not None:
        return [(d, d * n, 1, n) for d, n in zip(old, each, strict=True)]
    if not all(isinstance(d, Int) and d.value > 0 for d in old):
        raise ExprError(
            f"interpolate of {e.described()} to a size: its own sizes are numbers from 1; for sizes that are known "
            "only at the call, give a scale_factor"
        )
    return [(d, Int(n), d.value, n) for d, n in zip(old, each, strict=True) if isinstance(d, Int)]


def _linear(e: Tensor, d: int, place: Place, corners: bool) -> Tensor:
    """`e` resampled along dimension `d`: element `lower` and the next one, in the shares that `over / unit` gives."""
    old, new, up, down = place
    if corners and not (isinstance(old, Int) and isinstance(new, Int)):
        raise ExprError(f"interpolate of {e.described()}: align_corners takes sizes that are numbers")
    add, mul = REGISTRY["add"], REGISTRY["mul"]

    def at(ix: tuple[Index, ...]) -> Any:
        if corners and isinstance(old, Int) and isinstance(new, Int):
            unit = max(1, new.value - 1)
            place = ix[d] * (old.value - 1 if new.value > 1 else 0)
        else:
            unit = 2 * down
            place = maximum((ix[d] * 2 + 1) * up - down, Int(0))
        lower = minimum(place // unit, old - 1)
        upper = minimum(lower + 1, old - 1)
        share = Op(mul, (IndexToValue(place % unit, e.dtype), Const(1.0 / unit, e.dtype)))
        rest = Op(mul, (IndexToValue(unit - place % unit, e.dtype), Const(1.0 / unit, e.dtype)))
        one, two = (e.at((*ix[:d], k, *ix[d + 1 :])) for k in (lower, upper))
        return Op(add, (Op(mul, (one, rest)), Op(mul, (two, share))))

    return e.like((*e.dims[:d], new, *e.dims[d + 1 :]), e.dtype, at)
