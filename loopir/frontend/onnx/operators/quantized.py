"""Operators on quantized numbers: an integer q stands for (q - zero point) * scale."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.frontend.onnx.node import Node, operator
from loopir.frontend.onnx.operators.math import converted
from loopir.frontend.onnx.operators.neural import integer_convolution
from loopir.frontend.onnx.reading import dtype_of
from loopir.ir import dtypes
from loopir.tensor import functions as f
from loopir.tensor.shapes import repeat
from loopir.tensor.tensor import Tensor


def _broadcast_scale(n: Node, given: Tensor, x: Tensor) -> Tensor:
    """Scales or zero points of the whole of `x`, of each place along the axis, or of blocks along it."""
    if not given.ndim or (given.ndim == 1 and given.shape[0] == 1):
        return given.reshape(())
    axis = n.axis(x.ndim, 1)
    if given.ndim == 1:
        return given.reshape([given.shape[0] if d == axis else 1 for d in range(x.ndim)])
    block = n.attr("block_size", 0)
    if not block:
        raise n.unsupported(f"scales of {given.ndim} dimensions without block_size")
    return repeat(given, block, axis)[tuple(slice(0, size) for size in x.shape)]


def _as_wide_float(x: Tensor) -> Tensor:
    return x if x.dtype in (dtypes.float32, dtypes.float64) else x.astype("float32")


@operator("QuantizeLinear")
def quantize(n: Node) -> Tensor:
    """round(x / scale) + zero point, the nearest that there is in the type of the zero point."""
    x, scale = n.tensor(0), n.tensor(1)
    told = n.attr("output_dtype", 0)
    t = n.tensor(2).dtype if n.has(2) else dtype_of(told, n.what) if told else dtypes.uint8
    share = _as_wide_float(x) / _as_wide_float(_broadcast_scale(n, scale, x))
    if t.is_float:
        return converted(n, share, t)
    whole = f.round(share)
    return (whole + _broadcast_scale(n, n.tensor(2), x).astype(whole.dtype) if n.has(2) else whole).astype(t)


@operator("DequantizeLinear")
def dequantize(n: Node) -> Tensor:
    """(q - zero point) * scale."""
    x, scale = n.tensor(0), n.tensor(1)
    told = n.attr("output_dtype", 0)
    t = dtype_of(told, n.what) if told else scale.dtype
    value = _as_wide_float(x)
    if n.has(2):
        value = value - _broadcast_scale(n, n.tensor(2), x).astype(value.dtype)
    return (value * _as_wide_float(_broadcast_scale(n, scale, x))).astype(t)


def _from_zero(n: Node, x: Tensor, point: int, axis: int = -1) -> Tensor:
    """Input `x` less its zero point, in int32; of several, each is of a place along `axis`."""
    whole = x.astype("int32")
    if not n.has(point):
        return whole
    zero = n.tensor(point).astype("int32")
    if zero.ndim != 1:
        return whole - zero
    return whole - zero.reshape([zero.shape[0] if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _requantized(n: Node, sums: Tensor) -> Tensor:
    """Sums of products of two quantized numbers, in the scale of the result, input 6, with its zero, input 7."""
    a, b, y = (_as_wide_float(n.tensor(k)) for k in (1, 4, 6))
    whole = f.round(sums.astype("float32") * (a * b / y))
    zero = n.tensor(7)
    return (whole + zero.astype("float32")).astype(zero.dtype)


@operator("MatMulInteger")
def integer_product(n: Node) -> Tensor:
    return f.matmul(_from_zero(n, n.tensor(0), 2, axis=-2), _from_zero(n, n.tensor(1), 3))


@operator("QLinearMatMul")
def quantized_product(n: Node) -> Tensor:
    if any(n.tensor(k).ndim and n.tensor(k).shape != (1,) for k in (1, 2, 4, 5)):
        raise n.unsupported("a scale for each row or column")
    sums = f.matmul(_from_zero(n, n.tensor(0), 2), _from_zero(n, n.tensor(3), 5))
    return _requantized(n, sums)


@operator("ConvInteger")
def whole_convolution(n: Node) -> Any:
    return integer_convolution(n, _from_zero(n, n.tensor(0), 2), _from_zero(n, n.tensor(1), 3, axis=0))


@operator("QLinearConv")
def quantized_convolution(n: Node) -> Tensor:
    if n.tensor(4).ndim and n.tensor(4).shape != (1,):
        raise n.unsupported("a scale for each channel")
    sums = integer_convolution(n, _from_zero(n, n.tensor(0), 2), _from_zero(n, n.tensor(3), 5, axis=0))
    if n.has(8):
        sums = sums + n.tensor(8)[(None, slice(None), *(None,) * (sums.ndim - 2))]
    return _requantized(n, sums)
