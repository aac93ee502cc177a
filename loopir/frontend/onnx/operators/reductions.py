"""Operators that fold dimensions, and those that scan along one."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopir.frontend.onnx.node import Node, operator
from loopir.tensor import functions as f
from loopir.tensor.creation import arange
from loopir.tensor.linear_algebra import det
from loopir.tensor.products import einsum
from loopir.tensor.scans import cumprod, cumsum
from loopir.tensor.shapes import flip
from loopir.tensor.statistics import logsumexp, softmax
from loopir.tensor.tensor import Tensor


def _over(n: Node, since: int) -> tuple[Tensor, Any, bool]:
    """The input, the axes that are folded (None: all), and whether they stay, of size 1."""
    x, axes = n.tensor(0), n.ints_of(1, "axes", since)
    over = tuple(range(x.ndim)) if not axes else tuple(a % x.ndim for a in axes)
    return x, over, bool(n.attr("keepdims", 1))


def _reduction(name: str, since: int, fold: Callable[[Tensor, Any, bool], Tensor]) -> None:
    def row(n: Node) -> Tensor:
        x, over, kept = _over(n, since)
        if not over or (n.attr("noop_with_empty_axes", 0) and not n.ints_of(1, "axes", since)):
            return fold(x[None], 0, False)
        return fold(x, over, kept).astype(x.dtype)

    operator(name)(row)


def _squares(x: Tensor, axis: Any, kept: bool) -> Tensor:
    return f.sum(x * x, axis, kept)


def _root(x: Tensor, axis: Any, kept: bool) -> Tensor:
    wide = x.astype("float32") if x.dtype.is_narrow else x if x.dtype.is_float else x.astype("float64")
    return f.sqrt(_squares(wide, axis, kept))


def _log_sum_exp(x: Tensor, axis: Any, kept: bool) -> Tensor:
    return logsumexp(x if x.dtype.is_float else x.astype("float64"), axis, kept)


_reduction("ReduceSum", 13, f.sum)
_reduction("ReduceMean", 18, f.mean)
_reduction("ReduceMax", 18, f.max)
_reduction("ReduceMin", 18, f.min)
_reduction("ReduceProd", 18, f.prod)
_reduction("ReduceSumSquare", 18, _squares)
_reduction("ReduceL1", 18, lambda x, axis, kept: f.sum(f.abs(x), axis, kept))
_reduction("ReduceL2", 18, _root)
_reduction("ReduceLogSum", 18, lambda x, axis, kept: f.log(f.sum(x, axis, kept)))
_reduction("ReduceLogSumExp", 18, _log_sum_exp)


@operator("ArgMax", "ArgMin")
def arg_extreme(n: Node) -> Tensor:
    """With select_last_index the last of equals: the first one from behind."""
    x = n.tensor(0)
    axis, find = n.axis(x.ndim), f.argmax if n.op == "ArgMax" else f.argmin
    kept = bool(n.attr("keepdims", 1))
    if not n.attr("select_last_index", 0):
        return find(x, axis, kept)
    size = x.shape[axis]
    return (size - 1) - find(flip(x, axis), axis, kept)


@operator("Softmax", "LogSoftmax")
def soft_max(n: Node) -> Tensor:
    """Along an axis; before version 13 over all dimensions from it on."""
    x = n.tensor(0)
    axis = n.axis(x.ndim, -1 if n.version >= 13 else 1)
    over: Any = axis if n.version >= 13 else tuple(range(axis, x.ndim))
    if n.op == "Softmax" and n.version >= 13:
        return softmax(x, axis)
    shifted = x - f.max(x, over, True)
    if n.op == "Softmax":
        powers = f.exp(shifted)
        return powers / f.sum(powers, over, True)
    return shifted - f.log(f.sum(f.exp(shifted), over, True))


@operator("Hardmax")
def hard_max(n: Node) -> Tensor:
    x = n.tensor(0)
    if n.version < 13 and n.axis(x.ndim, 1) != x.ndim - 1:
        raise n.unsupported("several axes at once, as before version 13")
    axis = n.axis(x.ndim, -1 if n.version >= 13 else 1)
    place = arange(x.shape[axis]).reshape([x.shape[axis] if d == axis else 1 for d in range(x.ndim)])
    return (place == f.argmax(x, axis, True)).astype(x.dtype)


@operator("CumSum", "CumProd")
def cumulative(n: Node) -> Tensor:
    """Of the elements up to each one, or with `exclusive` of those before it."""
    x, axis = n.tensor(0), int(n.scalar(1)) % n.tensor(0).ndim
    fold, neutral = (cumsum, 0) if n.op == "CumSum" else (cumprod, 1)
    turned = flip(x, axis) if n.attr("reverse", 0) else x
    if n.attr("exclusive", 0):
        widths = [(1, 0) if d == axis else (0, 0) for d in range(x.ndim)]
        turned = f.pad(turned, widths, neutral)[tuple(slice(0, size) for size in x.shape)]
    made = fold(turned, axis).astype(x.dtype)
    return flip(made, axis) if n.attr("reverse", 0) else made


@operator("Det")
def determinant(n: Node) -> Tensor:
    return det(n.tensor(0))


@operator("Einsum")
def sum_of_products(n: Node) -> Tensor:
    return einsum(n.attr("equation"), *n.tensors())


@operator("MatMul")
def matrix_product(n: Node) -> Tensor:
    return f.matmul(n.tensor(0), n.tensor(1))


@operator("Gemm")
def general_product(n: Node) -> Tensor:
    """alpha A B + beta C, with A and B transposed on request."""
    a, b = n.tensor(0), n.tensor(1)
    made = f.matmul(a.T if n.attr("transA", 0) else a, b.T if n.attr("transB", 0) else b)
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    t = made.dtype
    made = made if alpha == 1 else _scaled(made, alpha)
    if not n.has(2) or beta == 0:
        return made
    c = n.tensor(2)
    return (made + (c if beta == 1 else _scaled(c, beta))).astype(t)


def _scaled(x: Tensor, by: float) -> Tensor:
    return x * (by if x.dtype.is_float else int(by))


@operator("LpNormalization")
def norm(n: Node) -> Tensor:
    x = n.tensor(0)
    axis, p = n.axis(x.ndim, -1), n.attr("p", 2)
    size = f.sum(f.abs(x), axis, True) if p == 1 else f.sqrt(f.sum(x * x, axis, True))
    return f.where(size == 0, 0.0, x / size)
