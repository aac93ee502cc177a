"""Operators of neural networks: convolutions, pools, normalization."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from math import prod
from typing import Any

from loopir.frontend.onnx.node import Node, operator
from loopir.tensor import convolutions as c, functions as f
from loopir.tensor.statistics import var
from loopir.tensor.tensor import Tensor

CONV = {1: c.conv1d, 2: c.conv2d, 3: c.conv3d}
TRANSPOSED = {1: c.conv_transpose1d, 2: c.conv_transpose2d, 3: c.conv_transpose3d}
MAX = {1: c.max_pool1d, 2: c.max_pool2d, 3: c.max_pool3d}
AVERAGE = {1: c.avg_pool1d, 2: c.avg_pool2d, 3: c.avg_pool3d}


def _rank(n: Node, x: Tensor) -> int:
    rank = x.ndim - 2
    if rank not in CONV:
        raise n.unsupported(f"{rank} dimensions of space, where 1 to 3 are supported")
    return rank


def _borders(n: Node, x: Tensor, kernel: Any, rank: int) -> list[tuple[int, int]]:
    """The padding before and after each dimension, as `pads` or `auto_pad` has it."""
    auto = n.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = n.attr("pads", [0] * (2 * rank))
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if auto == "VALID":
        return [(0, 0)] * rank
    steps, holes = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    made: list[tuple[int, int]] = []
    for size, r, s, d in zip(x.shape[2:], kernel, steps, holes, strict=True):
        if not isinstance(size, int):
            raise n.unsupported(f"auto_pad={auto!r} of a size that is known only at the call")
        total = max(0, (-(-size // s) - 1) * s + d * (r - 1) + 1 - size)
        small = total // 2
        made.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return made


def _bordered(x: Tensor, borders: list[tuple[int, int]], value: float) -> Tensor:
    return f.pad(x, [(0, 0), (0, 0), *borders], value).named("padded") if any(map(any, borders)) else x


@operator("Conv")
def convolution(n: Node) -> Tensor:
    x, w = n.tensor(0), n.tensor(1)
    rank = _rank(n, x)
    padded = _bordered(x, _borders(n, x, w.shape[2:], rank), 0)
    return CONV[rank](padded, w, n.optional(2), stride=tuple(n.attr("strides", [1] * rank)),
                      dilation=tuple(n.attr("dilations", [1] * rank)), groups=n.attr("group", 1))  # fmt: skip


def integer_convolution(n: Node, x: Tensor, w: Tensor) -> Tensor:
    """The convolution of integers, whose border is 0."""
    rank = _rank(n, x)
    padded = _bordered(x, _borders(n, x, w.shape[2:], rank), 0)
    return CONV[rank](padded, w, stride=tuple(n.attr("strides", [1] * rank)),
                      dilation=tuple(n.attr("dilations", [1] * rank)), groups=n.attr("group", 1))  # fmt: skip


@operator("ConvTranspose")
def transposed(n: Node) -> Tensor:
    """Computed without padding, then cut or filled to its size, as `pads`, `auto_pad` or `output_shape` have it."""
    x, w = n.tensor(0), n.tensor(1)
    rank = _rank(n, x)
    steps, holes = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    made = TRANSPOSED[rank](x, w, stride=tuple(steps), groups=n.attr("group", 1), dilation=tuple(holes))
    cuts = _cuts(n, x, made, steps, rank)
    made = f.pad(made, [(0, 0), (0, 0), *((max(0, -a), max(0, -b)) for a, b in cuts)])
    cut = tuple(slice(max(0, a), d - max(0, b)) for (a, b), d in zip(cuts, made.shape[2:], strict=True))
    made = made[(slice(None), slice(None), *cut)]
    return made + _by_channel(n.tensor(2), rank + 2) if n.has(2) else made


def _cuts(n: Node, x: Tensor, made: Tensor, steps: list[int], rank: int) -> list[tuple[int, int]]:
    """How much of each dimension of space goes, before and after; what is below 0 is added."""
    more, auto = n.attr("output_padding", [0] * rank), n.attr("auto_pad", "NOTSET")
    wanted, pads = n.attr("output_shape"), n.attr("pads", [0] * (2 * rank))
    if wanted is None and auto.startswith("SAME"):
        wanted = [s * d for s, d in zip(x.shape[2:], steps, strict=True)]
    if wanted is None:
        return [(a, b - m) for a, b, m in zip(pads[:rank], pads[rank:], more, strict=True)]
    cuts: list[tuple[int, int]] = []
    for size, want, extra in zip(made.shape[2:], wanted, more, strict=True):
        if not isinstance(size, int) or not isinstance(want, int):
            raise n.unsupported("output_shape or auto_pad of sizes that are known only at the call")
        total = max(0, size + extra - want)
        small = total // 2
        before = small if auto == "SAME_UPPER" else total - small
        cuts.append((before, size - want - before))
    return cuts


def _pool(n: Node, x: Tensor, value: float) -> tuple[int, Any, Any, Tensor]:
    """The rank, sizes and steps of a pool, and its input with a border."""
    rank = _rank(n, x)
    kernel, steps = tuple(n.attr("kernel_shape")), tuple(n.attr("strides", [1] * rank))
    borders = _borders(n, x, kernel, rank)
    if n.attr("ceil_mode", 0):
        holes = n.attr("dilations", [1] * rank)
        borders = [_ceiled(n, size, b, d * (r - 1) + 1, s)
                   for size, b, r, s, d in zip(x.shape[2:], borders, kernel, steps, holes, strict=True)]  # fmt: skip
    return rank, kernel, steps, _bordered(x, borders, value)


def _ceiled(n: Node, size: Any, border: tuple[int, int], reach: int, step: int) -> tuple[int, int]:
    """A border such that a last window which is not whole has room; one that would begin behind it is none."""
    if not isinstance(size, int):
        raise n.unsupported("ceil_mode of a size that is known only at the call")
    before, after = border
    whole = size + before + after
    count = -(-(whole - reach) // step) + 1
    count -= (count - 1) * step >= size + before
    return before, after + max(0, (count - 1) * step + reach - whole)


@operator("MaxPool")
def max_pool(n: Node) -> Tensor:
    if 1 in n.used:
        raise n.unsupported("the indices of the largest elements")
    x = n.tensor(0)
    rank, kernel, steps, padded = _pool(n, x, x.dtype.least)
    return MAX[rank](padded, kernel, steps, dilation=tuple(n.attr("dilations", [1] * rank)))


@operator("AveragePool")
def average_pool(n: Node) -> Tensor:
    x = n.tensor(0)
    if any(d != 1 for d in n.attr("dilations", [])):
        raise n.unsupported("dilations")
    rank, kernel, steps, padded = _pool(n, x, 0)
    mean = AVERAGE[rank](padded, kernel, steps)
    if padded is x:
        return mean
    if n.attr("count_include_pad", 0):
        return mean / _share_inside(n, x, padded, AVERAGE[rank], kernel, steps) if n.attr("ceil_mode", 0) else mean
    ones = x.like(x.dims, x.dtype, lambda at: f.cast(1, x.dtype).at(()))
    return mean / AVERAGE[rank](_pool(n, ones, 0)[3], kernel, steps)


def _share_inside(n: Node, x: Tensor, padded: Tensor, mean: Any, kernel: Any, steps: Any) -> Tensor:
    """How much of each window is inside of the border that is asked for, not in that which makes the last one whole."""
    rank = len(kernel)
    asked = _borders(n, x, kernel, rank)
    ones = f.pad(x.like(x.dims, x.dtype, lambda at: f.cast(1, x.dtype).at(())), [(0, 0), (0, 0), *asked], 1)
    more = [(0, b - a) for a, b in zip(ones.shape[2:], padded.shape[2:], strict=True)]
    return mean(f.pad(ones, [(0, 0), (0, 0), *more]), kernel, steps)


@operator("LpPool")
def norm_pool(n: Node) -> Tensor:
    """The root of order p of the sum of powers of the magnitudes in each window."""
    x, p = n.tensor(0), n.attr("p", 2)
    if any(d != 1 for d in n.attr("dilations", [])):
        raise n.unsupported("dilations")
    rank, kernel, steps, padded = _pool(n, f.abs(x) ** p, 0)
    return f.pow(AVERAGE[rank](padded, kernel, steps) * float(prod(kernel)), 1.0 / p).astype(x.dtype)


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Node) -> Tensor:
    x = n.tensor(0)
    fold = f.mean if n.op == "GlobalAveragePool" else f.max
    return fold(x, tuple(range(2, x.ndim)), True)


def _by_channel(x: Tensor, rank: int) -> Tensor:
    return x[(None, slice(None), *(None,) * (rank - 2))]


@operator("BatchNormalization")
def batch_norm(n: Node) -> Tensor:
    x, scale, bias, mean, variance = n.tensors()
    if n.attr("training_mode", 0) or len(n.used) > 1:
        raise n.unsupported("training mode")
    rank = x.ndim
    inverse = 1.0 / f.sqrt(variance + float(n.attr("epsilon", 1e-5)))
    return ((x - _by_channel(mean, rank)) * _by_channel(scale * inverse, rank) + _by_channel(bias, rank)).astype(
        x.dtype
    )


@operator("InstanceNormalization")
def instance_norm(n: Node) -> Tensor:
    x, scale, bias = n.tensors()
    over = tuple(range(2, x.ndim))
    mean = f.mean(x, over, True)
    spread = f.sqrt(var(x, over, True, mean=mean) + float(n.attr("epsilon", 1e-5)))
    return (x - mean) / spread * _by_channel(scale, x.ndim) + _by_channel(bias, x.ndim)


@operator("LRN")
def local_response(n: Node) -> Tensor:
    """Divided by a power of the sum of squares of channels nearby."""
    x, size = n.tensor(0), n.attr("size")
    before = (size - 1) // 2
    squares = f.pad(x * x, [(before, size - 1 - before) if d == 1 else (0, 0) for d in range(x.ndim)]).named("squares")
    count = x.shape[1]
    total: Any = squares[:, 0:count]
    for k in range(1, size):
        total = total + squares[:, k : count + k]
    alpha, beta, bias = (float(n.attr(k, v)) for k, v in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    return x / f.pow(total * (alpha / size) + bias, beta)
