"""Norms, counts, order statistics, products of signals and factorizations, as NumPy and SciPy have them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from functools import cache
from typing import Any

from loopir.errors import ExprError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.tensor.called_nests import call
from loopir.tensor.convolutions import conv1d
from loopir.tensor.core import as_expr, cast, common_type, stage_reduction
from loopir.tensor.creation import arange, zeros
from loopir.tensor.functions import abs as absolute, axis_of, exp, isnan, log, log1p, maximum, sqrt, sum as total, where
from loopir.tensor.scattering import scatter_add
from loopir.tensor.shapes import flip, moveaxis
from loopir.tensor.sorting import sort
from loopir.tensor.tensor import Tensor, mean_type, real_type

__all__ = [
    "bincount",
    "cholesky",
    "convolve",
    "count_nonzero",
    "kron",
    "linspace",
    "log2",
    "log10",
    "logaddexp",
    "median",
    "norm",
    "quantile",
    "searchsorted",
    "solve_triangular",
]  # fmt: skip


def _inexact(x: Any) -> Tensor:
    e = as_expr(Tensor, x, None)
    return cast(e, mean_type(e.dtype))


def norm(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The root of the sum of squares over `axis`."""
    e = _inexact(x)
    return sqrt(total(e * e, axis=axis, keepdims=keepdims))


def count_nonzero(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements over `axis` are not 0, in int64."""
    return total(as_expr(Tensor, x, None) != 0, axis=axis, keepdims=keepdims)


def log2(x: Any) -> Tensor:
    """The logarithm to base 2."""
    return log(x) * (1 / math.log(2))


def log10(x: Any) -> Tensor:
    """The logarithm to base 10."""
    return log(x) * (1 / math.log(10))


def logaddexp(a: Any, b: Any) -> Tensor:
    """log(exp(a) + exp(b)), with no overflow."""
    t = real_type(common_type((a, b)))
    left, right = (cast(as_expr(Tensor, x, t), t) for x in (a, b))
    return where(left == right, left + math.log(2), maximum(left, right) + log1p(exp(-absolute(left - right))))


def linspace(start: float, stop: float, num: int = 50, dtype: Any = "float64") -> Tensor:
    """`num` numbers from `start` to `stop`, both among them, at equal distances."""
    if num < 1:
        raise ExprError(f"linspace of {num} numbers; it takes one at least")
    step = (stop - start) / max(num - 1, 1)
    at = arange(num)
    return where(at == num - 1, stop if num > 1 else start, at.astype("float64") * step + start).astype(dtype)


def bincount(x: Any, length: int, weights: Any = None) -> Tensor:
    """How often each number from 0 to `length` - 1 is in `x`, in int64, or the sum of `weights` there.

    NumPy finds the length from the numbers; here it is given, and what is beyond it is not counted.
    """
    e = as_expr(Tensor, x, None)
    if not e.dtype.is_integer or e.ndim != 1:
        raise ExprError(f"bincount of {e.described()}; it counts integers along one dimension")
    count = as_expr(Tensor, 1, None).astype("int64") if weights is None else as_expr(Tensor, weights, None)
    each = where(e == e, count, count)
    return scatter_add(zeros((length,), each.dtype), 0, e, each)


def median(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The middle element in order along `axis`, or the mean of the two in the middle; NaN where one is NaN."""
    return quantile(x, 0.5, axis, keepdims)


def quantile(x: Any, q: float, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """What a share `q` of the elements along `axis` is below, between two of them linearly; NaN where one is NaN."""
    e = _inexact(x)
    if not 0 <= q <= 1:
        raise ExprError(f"quantile {q} of {e.described()}; a share is from 0 to 1")
    if axis is None:
        made = quantile(e.reshape(-1), q, 0)
        return made.reshape((1,) * e.ndim) if keepdims else made
    d = axis_of("quantile", axis, e, e.ndim)
    size = e.shape[d]
    if not (isinstance(size, int) and size) and q != 0.5:
        raise ExprError(f"quantile {q} along a dimension of {size!r}; lp.median takes any size, others a known one")
    ordered = moveaxis(sort(e, d), d, -1)
    if isinstance(size, int):
        place = q * (size - 1)
        low, share = int(place), place - int(place)
        high = min(low + 1, size - 1)
    else:
        low, high, share = (size - 1) // 2, size // 2, 0.5
    a, b, last = ordered[..., low], ordered[..., high], ordered[..., size - 1]
    made = where(isnan(last), last, a if share == 0 else where(a == b, a, a * (1 - share) + b * share))
    return moveaxis(made[..., None], -1, d) if keepdims else made


def searchsorted(a: Any, v: Any, side: str = "left") -> Tensor:
    """How many elements of `a`, in order, are below each of `v`, or at most it for side "right"; in int64.

    Every element is compared with every other, which vectors do: for some thousands of elements.
    """
    e, new = as_expr(Tensor, a, None), as_expr(Tensor, v, None)
    if side not in ("left", "right") or e.ndim != 1:
        raise ExprError(f"searchsorted in {e.described()}, side={side!r}; it is of one dimension, 'left' or 'right'")
    new = new[..., None]
    return total(e <= new if side == "right" else e < new, axis=-1)


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """The convolution of two vectors: "full", of the length of `a` ("same"), or where all of `v` overlaps ("valid").

    `v` is of a known length, and no longer than `a`.
    """
    e, kernel = as_expr(Tensor, a, None), as_expr(Tensor, v, None)
    size = kernel.shape[0] if kernel.ndim == 1 else None
    if e.ndim != 1 or not isinstance(size, int) or mode not in ("full", "same", "valid"):
        raise ExprError(
            f"convolve of {e.described()} and {kernel.described()}, mode={mode!r}: two vectors, the second of a known "
            "length, and a mode that is 'full', 'same' or 'valid'"
        )
    made = conv1d(e[None, None], flip(kernel)[None, None], padding=0 if mode == "valid" else size - 1)[0, 0]
    first = (size - 1) // 2
    return made[first : first + e.shape[0]] if mode == "same" else made


def kron(a: Any, b: Any) -> Tensor:
    """The Kronecker product of two matrices: `b`, times each element of `a`."""
    left, right = as_expr(Tensor, a, None), as_expr(Tensor, b, None)
    if left.ndim != 2 or right.ndim != 2:
        raise ExprError(f"kron of {left.described()} and {right.described()}; it takes two matrices")
    (m, n), (p, q) = left.shape, right.shape
    return (left[:, None, :, None] * right[None, :, None, :]).reshape((m * p, n * q))


CHOLESKY = """
def cholesky(n: "size", A: "{t}[n, n]", L: "out {t}[n, n]"):
    for i in range(n):
        for j in range(n):
            L[i, j] = select(j <= i, A[i, j], 0.0)
    for k in range(n):
        L[k, k] = sqrt(L[k, k])
        for i in range(n - k - 1):
            L[i + k + 1, k] = L[i + k + 1, k] / L[k, k]
        for i in range(n - k - 1):
            for j in range(i + 1):
                L[i + k + 1, j + k + 1] += -L[i + k + 1, k] * L[j + k + 1, k]
"""
SOLVE = """
def solve_triangular(n: "size", m: "size", L: "{t}[n, n]", x: "inout {t}[n, m]"):
    for r in range(n):
        for q in range(r):
            for j in range(m):
                x[{row}, j] += -L[{row}, {before}] * x[{before}, j]
        for j in range(m):
            x[{row}, j] = x[{row}, j] / L[{row}, {row}]
"""


@cache
def _formatted_nest(text: str, **given: str) -> Func:
    return parse(text.format(**given))


def cholesky(a: Any) -> Tensor:
    """The lower triangle whose product with its transpose is `a`, a positive definite matrix, of which it reads the
    lower triangle; NaN where `a` is not positive definite."""
    e = _inexact(a)
    return call(_formatted_nest(CHOLESKY, t=e.dtype.name), e)


def solve_triangular(a: Any, b: Any, lower: bool = False) -> Tensor:
    """x for which a @ x is `b`, a vector or the columns of a matrix; of `a` the upper triangle is read, or the lower
    one if `lower`, as SciPy's."""
    e, right = _inexact(a), stage_reduction(as_expr(Tensor, b, None))
    right = cast(right, e.dtype)
    if right.ndim == 1:
        return solve_triangular(e, right[:, None], lower)[:, 0]
    row, before = ("r", "q") if lower else ("n - 1 - r", "n - 1 - q")
    return call(_formatted_nest(SOLVE, t=e.dtype.name, row=row, before=before), e, right)
