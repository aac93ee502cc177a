"""Operators of neural networks: convolutions and pools."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.frontend.torch.row import Result, Unsupported, operator
from loopir.tensor import convolutions as c, functions as f
from loopir.tensor.grid_sampling import OUTSIDE, WINDOWS, grid_sample
from loopir.tensor.tensor import Tensor

CONV = {1: c.conv1d, 2: c.conv2d, 3: c.conv3d}
TRANSPOSED = {1: c.conv_transpose1d, 2: c.conv_transpose2d, 3: c.conv_transpose3d}
MAX = {1: c.max_pool1d, 2: c.max_pool2d, 3: c.max_pool3d}
AVERAGE = {1: c.avg_pool1d, 2: c.avg_pool2d, 3: c.avg_pool3d}


def stored(x: Tensor) -> Tensor:
    """`x` in memory: a convolution reads each element many times."""
    return x if x.source is not None else x.named("stored")


def each(given: Any, rank: int) -> tuple[int, ...]:
    """A number for each dimension of space."""
    listed = (given,) if isinstance(given, int) else tuple(given)
    return listed * rank if len(listed) == 1 else listed


@operator("aten.convolution.default", informed=True)
def convolution(
    given: Result, x: Tensor, w: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    rank = w.ndim - 2
    if rank not in CONV or x.ndim != w.ndim or not x.dtype.is_float:
        raise Unsupported(f"a convolution over {rank} dimensions of {x.dtype}")
    steps, border, holes = (each(v, rank) for v in (stride, padding, dilation))
    if transposed:
        return TRANSPOSED[rank](stored(x), w, bias, steps, border, each(output_padding, rank), groups, holes)
    e = x if any(border) else stored(x)
    if "conv" in given.rounded:
        e, w = f.tf32(e), f.tf32(w)
    return CONV[rank](e, w, bias, steps, border, holes, groups)


def _windows(x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, rank: int) -> Any:
    if x.ndim != rank + 2 or not x.dtype.is_float:
        raise Unsupported(f"a pool over {x.ndim} dimensions of {x.dtype}")
    sizes = each(kernel, rank)
    if ceil_mode:
        raise Unsupported("ceil_mode")
    return sizes, each(stride, rank) if stride else sizes, each(padding, rank)


def _max_pool(rank: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    sizes, steps, border = _windows(x, kernel, stride, padding, ceil_mode, rank)
    return (MAX[rank](stored(x), sizes, steps, border, each(dilation, rank)),)


@operator("aten.max_pool2d_with_indices.default")
def max_pool2d(
    x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return _max_pool(2, x, kernel, stride, padding, dilation, ceil_mode)


@operator("aten.max_pool3d_with_indices.default")
def max_pool3d(
    x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return _max_pool(3, x, kernel, stride, padding, dilation, ceil_mode)


def _average(
    rank: int, x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, counted: bool, divisor: Any
) -> Tensor:
    if divisor is not None:
        raise Unsupported("divisor_override")
    sizes, steps, border = _windows(x, kernel, stride, padding, ceil_mode, rank)
    return AVERAGE[rank](stored(x), sizes, steps, border, counted)


@operator("aten.avg_pool2d.default")
def avg_pool2d(
    x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, counted: bool = True,
    divisor: Any = None,
) -> Tensor:  # fmt: skip
    return _average(2, x, kernel, stride, padding, ceil_mode, counted, divisor)


@operator("aten.avg_pool3d.default")
def avg_pool3d(
    x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, counted: bool = True,
    divisor: Any = None,
) -> Tensor:  # fmt: skip
    return _average(3, x, kernel, stride, padding, ceil_mode, counted, divisor)


@operator("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(x: Tensor, grid: Tensor, mode: int, padding: int, corners: bool) -> Tensor:
    return grid_sample(stored(x), grid, list(WINDOWS)[mode], OUTSIDE[padding], corners)
