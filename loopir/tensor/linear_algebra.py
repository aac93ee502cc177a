"""Systems of linear equations, determinants, covariances and further products, as NumPy has them.

A matrix is factored as written in Golub and Van Loan, "Matrix Computations" (algorithm 3.4.1): the largest element of a
column is its pivot, whose row is exchanged with the first of those that are left. A column of zeros is left as it is.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from string import ascii_letters
from typing import Any

from loopir.errors import ExprError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.tensor.called_nests import call
from loopir.tensor.core import as_expr, cast, stage_reduction
from loopir.tensor.creation import eye
from loopir.tensor.functions import (
    abs as absolute,
    axis_of,
    broadcast_to,
    clip,
    concatenate,
    listed,
    log,
    matmul,
    mean,
    prod as product,
    sqrt,
    stack,
    sum as total,
)
from loopir.tensor.index import same
from loopir.tensor.products import einsum
from loopir.tensor.shapes import diagonal, moveaxis
from loopir.tensor.tensor import Tensor, mean_type

__all__ = [
    "corrcoef", "cov", "cross", "det", "dot", "inner", "inv", "matrix_power", "multi_dot", "slogdet", "solve",
    "tensordot", "vdot", "vecdot",
]  # fmt: skip

FACTOR = """
def factor(batch: "size", n: "size", A: "{t}[batch, n, n]",
           LU: "out {t}[batch, n, n]", pivot: "out int64[batch, n]", sign: "out {t}[batch, n]"):
    for b in range(batch):
        for i in range(n):
            for j in range(n):
                LU[b, i, j] = A[b, i, j]
        for k in range(n):
            with alloc("{t}[1]") as most, alloc("int64[1]") as at:
                for i in range(n - k):
                    most[0], at[0] = argmax(abs(LU[b, i + k, k]), int64(i), over=i, init=(-inf, {last}))
                pivot[b, k] = at[0] + int64(k)
            sign[b, k] = select(pivot[b, k] == int64(k), 1.0, -1.0)
            for j in range(n):
                t = LU[b, k, j]
                LU[b, k, j] = LU[b, pivot[b, k], j]
                LU[b, pivot[b, k], j] = t
            for i in range(n - k - 1):
                LU[b, i + k + 1, k] = select(LU[b, k, k] == 0.0, 0.0, LU[b, i + k + 1, k] / LU[b, k, k])
            for i in range(n - k - 1):
                for j in range(n - k - 1):
                    LU[b, i + k + 1, j + k + 1] += -LU[b, i + k + 1, k] * LU[b, k, j + k + 1]
"""
SOLVE = """
def solve(batch: "size", n: "size", m: "size", LU: "{t}[batch, n, n]", pivot: "int64[batch, n]",
          x: "inout {t}[batch, n, m]"):
    for b in range(batch):
        for k in range(n):
            for j in range(m):
                t = x[b, k, j]
                x[b, k, j] = x[b, pivot[b, k], j]
                x[b, pivot[b, k], j] = t
        for r in range(n):
            for q in range(r):
                for j in range(m):
                    x[b, r, j] += -LU[b, r, q] * x[b, q, j]
        for r in range(n):
            for q in range(r):
                for j in range(m):
                    x[b, n - 1 - r, j] += -LU[b, n - 1 - r, n - 1 - q] * x[b, n - 1 - q, j]
            for j in range(m):
                x[b, n - 1 - r, j] = x[b, n - 1 - r, j] / LU[b, n - 1 - r, n - 1 - r]
"""


@cache
def _solver_nest(text: str, t: str) -> Func:
    return parse(text.format(t=t, last=2**63 - 1))


def _matrices(what: str, a: Any) -> Tensor:
    """Square matrices, of a real type, the last two dimensions of `a`."""
    e = as_expr(Tensor, a, None)
    if e.ndim < 2 or not same(e.dims[-1], e.dims[-2], e.symbols):
        raise ExprError(f"{what} of {e.described()}; it is of square matrices, the last two dimensions")
    work = mean_type(e.dtype)
    return cast(e, work)


def one_after_the_other(e: Tensor) -> Tensor:
    """Matrices one after the other, of whatever dimensions they are."""
    return e[None] if e.ndim == 2 else e.reshape((-1, *e.shape[-2:])) if e.ndim > 3 else e


def _factored(e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The factors L and U of matrices in one matrix each, the row that each step exchanges, and the sign of that."""
    return call(_solver_nest(FACTOR, e.dtype.name), one_after_the_other(e))


def solve(a: Any, b: Any) -> Tensor:
    """x for which a @ x is `b`, a vector or the columns of a matrix; of a stack of matrices, for each its own matrix.

    What NumPy raises LinAlgError for, a matrix that has no inverse, gives infinities and NaN.
    """
    e, right = _matrices("solve", a), stage_reduction(as_expr(Tensor, b, None))
    if right.ndim == 1 and same(right.dims[0], e.dims[-1], {**e.symbols, **right.symbols}):
        return solve(e, broadcast_to(right[:, None], (*e.shape[:-1], 1)))[..., 0]
    if right.ndim != e.ndim or not all(
        same(x, y, {**e.symbols, **right.symbols}) for x, y in zip(right.dims[:-1], e.dims[:-1], strict=True)
    ):
        raise ExprError(f"solve of {e.described()} and {right.described()}; a @ x is b: the rows and stacks are alike")
    factors, pivot, _ = _factored(e)
    x = call(_solver_nest(SOLVE, e.dtype.name), factors, pivot, one_after_the_other(cast(right, e.dtype)))
    return x.reshape(right.shape)


def inv(a: Any) -> Tensor:
    """The inverse of each square matrix; infinities and NaN where there is none."""
    e = _matrices("inv", a)
    return solve(e, broadcast_to(eye(e.shape[-1], dtype=e.dtype), e.shape))


def det(a: Any) -> Tensor:
    """The determinant of each square matrix."""
    e = _matrices("det", a)
    factors, _, sign = _factored(e)
    return product(diagonal(factors, 0, 1, 2) * sign, axis=1).reshape(e.shape[:-2])


def slogdet(a: Any) -> tuple[Tensor, Tensor]:
    """The sign of the determinant of each square matrix, and the logarithm of its magnitude."""
    e = _matrices("slogdet", a)
    factors, _, sign = _factored(e)
    d = diagonal(factors, 0, 1, 2)
    signs = product(((d > 0.0) * 1.0).astype(e.dtype) * sign - ((d < 0.0) * 1.0).astype(e.dtype) * sign, axis=1)
    return signs.reshape(e.shape[:-2]), total(log(absolute(d)), axis=1).reshape(e.shape[:-2])


# ---------------------------------------------------------------- products


def dot(a: Any, b: Any) -> Tensor:
    """NumPy's dot: the product of matrices, or the sum of products over the last axis of `a`, the last but one of `b`;
    with a number, the product with each element."""
    left, right = as_expr(Tensor, a, None), as_expr(Tensor, b, None)
    if not left.ndim or not right.ndim:
        return left * right
    if right.ndim <= 2:
        return matmul(left, right)
    return tensordot(left, right, ((left.ndim - 1,), (right.ndim - 2,)))


def inner(a: Any, b: Any) -> Tensor:
    """The sums of products over the last axes of `a` and `b`."""
    left, right = as_expr(Tensor, a, None), as_expr(Tensor, b, None)
    return left * right if not left.ndim or not right.ndim else tensordot(left, right, ((-1,), (-1,)))


def vdot(a: Any, b: Any) -> Tensor:
    """The sum of the products of all elements of `a` and `b`, in row-major order."""
    return matmul(as_expr(Tensor, a, None).reshape(-1), as_expr(Tensor, b, None).reshape(-1))


def vecdot(a: Any, b: Any, axis: int = -1) -> Tensor:
    """The sums of products of `a` and `b` along `axis`, one for each pair of vectors."""
    left, right = (moveaxis(e, axis_of("vecdot", axis, e, e.ndim), -1) for e in map(_as_tensor, (a, b)))
    return matmul(left[..., None, :], right[..., :, None])[..., 0, 0]


def _as_tensor(x: Any) -> Tensor:
    return as_expr(Tensor, x, None)


def matrix_power(a: Any, n: int) -> Tensor:
    """The product of `n` times each square matrix, of its inverse if `n` is negative; the identity for 0."""
    e = as_expr(Tensor, a, None)
    if e.ndim < 2 or not same(e.dims[-1], e.dims[-2], e.symbols) or not isinstance(n, int):  # pyright: ignore
        raise ExprError(f"matrix_power of {e.described()} to the power of {n!r}; square matrices, a whole number")
    if n < 0:
        return matrix_power(inv(e), -n)
    if n == 0:
        return broadcast_to(eye(e.shape[-1], dtype=e.dtype), e.shape)
    half = matrix_power(e, n // 2) if n > 1 else None
    squared = e if half is None else matmul(half, half)
    return matmul(squared, e) if half is not None and n % 2 else squared


def multi_dot(arrays: Sequence[Any]) -> Tensor:
    """The product of matrices, the first and the last of which may be vectors, in the order of the fewest
    multiplications where the sizes are known."""
    each = listed("multi_dot", arrays)
    first, last = each[0].ndim == 1, each[-1].ndim == 1 and len(each) > 1
    if len(each) < 2 or any(e.ndim != 2 for e in each[first : len(each) - last]) or len(each) > len(ascii_letters) - 1:
        raise ExprError(f"multi_dot of {', '.join(e.described() for e in each)}; two matrices or more")
    terms = [ascii_letters[n : n + 2] for n in range(len(each))]
    terms[0], terms[-1] = terms[0][first:], terms[-1][: 2 - last]
    return einsum(f"{','.join(terms)}->{terms[0][: not first]}{terms[-1][1:]}", *each)


def tensordot(a: Any, b: Any, axes: int | tuple[Sequence[int] | int, Sequence[int] | int] = 2) -> Tensor:
    """The sums of products over `axes` of `a` and `b`: as many last of `a` and first of `b`, or a list for each."""
    left, right = as_expr(Tensor, a, None), as_expr(Tensor, b, None)
    given: Any = axes
    if isinstance(given, int):
        given = range(left.ndim - given, left.ndim), range(given)
    over, under = (
        [axis_of("tensordot", d, e, e.ndim) for d in ((x,) if isinstance(x, int) else tuple(x))]
        for x, e in zip(given, (left, right), strict=True)
    )
    if len(over) != len(under):
        raise ExprError(f"tensordot over {axes}; as many axes of one as of the other")
    rest, other = ([d for d in range(e.ndim) if d not in used] for e, used in ((left, over), (right, under)))
    shape = (*(left.shape[d] for d in rest), *(right.shape[d] for d in other))
    inner_sizes = [left.shape[d] for d in over]
    deep: Any = prod(inner_sizes) if all(isinstance(n, int) for n in inner_sizes) else -1
    if not over:
        ones = (1,) * len(other)
        return left.reshape((*left.shape, *ones)) * right
    rows = left.transpose(*rest, *over).reshape((-1, deep) if deep != -1 else (*(left.shape[d] for d in rest), -1))
    if deep == -1 and len(rest) != 1:
        raise ExprError(f"tensordot of {left.described()} over sizes of the call; lp.einsum takes any")
    columns = right.transpose(*under, *other)
    columns = columns.reshape((deep, -1)) if deep != -1 else columns.reshape((rows.shape[-1], -1))
    return matmul(rows, columns).reshape(shape)


def cross(a: Any, b: Any, axis: int = -1) -> Tensor:
    """The vector product of vectors of three elements along `axis`."""
    left, right = as_expr(Tensor, a, None), as_expr(Tensor, b, None)
    left, right = (moveaxis(e, axis_of("cross", axis, e, e.ndim), -1) for e in (left, right))
    if left.shape[-1] != 3 or right.shape[-1] != 3:
        raise ExprError(f"cross of {left.described()} and {right.described()}; vectors have three elements")
    (x, y, z), (u, v, w) = (tuple(e[..., n] for n in range(3)) for e in (left, right))
    return stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-1 if axis in (-1, left.ndim - 1) else axis)


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Tensor:
    """The covariances of the rows of `m`, and of `y` below them, or of columns unless `rowvar`: sums of products of
    what they deviate from their means, over the count less `ddof`, which is 1, or 0 with `bias`, by default."""
    parts = [as_expr(Tensor, x, None) for x in (m, y) if x is not None]
    for e in parts:
        if e.ndim > 2 or not e.ndim:
            raise ExprError(f"cov of {e.described()}; it is of the rows of a matrix")
    each = [e[None, :] if e.ndim == 1 else e if rowvar else e.transpose() for e in parts]
    rows = each[0] if len(each) == 1 else concatenate(each)
    rows = cast(rows, mean_type(rows.dtype))
    ddof = (0 if bias else 1) if ddof is None else ddof
    off = rows - mean(rows, axis=1, keepdims=True)
    made = matmul(off, off.transpose()) / (as_expr(Tensor, rows.shape[1], rows.dtype) - ddof)
    return made[0, 0] if len(parts) == 1 and parts[0].ndim == 1 else made


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    """The correlation of each row of `x`, and of `y` below them, with each, or of columns unless `rowvar`, from -1 to
    1."""
    c = cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    d = sqrt(diagonal(c))
    return clip(c / d[:, None] / d[None, :], -1.0, 1.0)
