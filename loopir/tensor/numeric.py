"""Norms, counts, order statistics, products of signals and factorizations, as NumPy and SciPy have them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from textwrap import indent
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.grammar import Func, Int
from loopir.ir.parser.parse import parse
from loopir.tensor.called_nests import call
from loopir.tensor.convolutions import conv1d
from loopir.tensor.core import as_expr, cast, common_type, stage_reduction
from loopir.tensor.creation import arange, zeros
from loopir.tensor.functions import (
    abs as absolute,
    axis_of,
    broadcast_to,
    exp,
    exp2,
    floor,
    isnan,
    log,
    log1p,
    max as largest,
    maximum,
    min as smallest,
    sqrt,
    stack,
    sum as total,
    where,
)
from loopir.tensor.index import same
from loopir.tensor.linear_algebra import one_after_the_other
from loopir.tensor.reductions import resolve_axes
from loopir.tensor.scattering import scatter_add
from loopir.tensor.shapes import flip
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
    "logaddexp2",
    "median",
    "norm",
    "percentile",
    "quantile",
    "searchsorted",
    "solve_triangular",
]  # fmt: skip


def _inexact(x: Any) -> Tensor:
    e = as_expr(Tensor, x, None)
    return cast(e, mean_type(e.dtype))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The root of the sum of squares over `axis`, or the norm `ord` of vectors along an axis, of matrices over two.

    Of vectors any number: inf for the largest magnitude, 0 for how many are not 0. Of matrices "fro", 1 and inf, for
    the largest sum of a column and of a row, and these negated, for the least; others take singular values.
    """
    e = _inexact(x)
    if ord is None:
        return sqrt(total(e * e, axis=axis, keepdims=keepdims))
    over = resolve_axes(axis, e.ndim, "norm", e) if not isinstance(axis, tuple | list) else tuple(axis)
    if len(over) == 1 and isinstance(ord, int | float):
        return _vector_norm(e, ord, over[0], keepdims)
    if len(over) == 2 and ord in ("fro", 1, -1, math.inf, -math.inf):
        if ord == "fro":
            return norm(e, None, over, keepdims)
        rows, columns = (axis_of("norm", d, e, e.ndim) for d in over)
        summed, rest = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = total(absolute(e), axis=summed, keepdims=True)
        made = (largest if ord > 0 else smallest)(sums, axis=rest, keepdims=True)
        return made if keepdims else made[tuple(0 if d in (rows, columns) else slice(None) for d in range(e.ndim))]
    raise ExprError(
        f"norm {ord!r} of {e.described()} over axis {axis}; a vector has one for each number, a matrix 'fro', 1, inf, "
        "-1 and -inf"
    )


def _vector_norm(e: Tensor, ord: float, axis: int, keepdims: bool) -> Tensor:
    size = absolute(e)
    if math.isinf(ord):
        return (largest if ord > 0 else smallest)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return total((e != 0.0).astype(e.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return total(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return norm(e, None, axis, keepdims)
    return total(size ** float(ord), axis=axis, keepdims=keepdims) ** (1.0 / ord)


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


def logaddexp2(a: Any, b: Any) -> Tensor:
    """log2(2**a + 2**b), with no overflow."""
    t = real_type(common_type((a, b)))
    left, right = (cast(as_expr(Tensor, x, t), t) for x in (a, b))
    rest = log1p(exp2(-absolute(left - right))) * (1 / math.log(2))
    return where(left == right, left + 1.0, maximum(left, right) + rest)


def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = "float64") -> Tensor:
    """`num` numbers from `start` to `stop` at equal distances, both among them, or without `endpoint` all but the last;
    rounded down for integers."""
    if not isinstance(num, int) or num < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"linspace of {num!r} numbers; it takes one at least, and their number is a whole one")
    if not all(isinstance(x, int | float) for x in (start, stop)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(
            f"linspace from {start!r} to {stop!r}; its ends are numbers: a + lp.linspace(0, 1, num) * (b - a)"
        )
    step = (stop - start) / max(num - 1 if endpoint else num, 1)
    at = arange(num)
    last = where(at == num - 1, stop if num > 1 else start, at.astype("float64") * step + start)
    made = last if endpoint else at.astype("float64") * step + start
    return (floor(made) if dtypes.dtype(dtype).is_integer else made).astype(dtype)


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


def median(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle element in order over `axis`, or the mean of the two in the middle; NaN where one is NaN."""
    return quantile(x, 0.5, axis, keepdims)


def percentile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`quantile` of shares in hundredths."""
    return quantile(x, hundredths(q), axis, keepdims)


def hundredths(q: Any) -> Any:
    """Percentages as shares."""
    return [n / 100 for n in q] if isinstance(q, list | tuple) else q / 100


def quantile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """What a share `q` of the elements over `axis` is below, between two of them linearly; NaN where one is NaN.

    `q` is a number, or a list of them, whose results lie along a first dimension.
    """
    return quantiles("quantile", _of_rows, x, q, axis, keepdims)


def quantiles(
    what: str, of_rows: Callable[[Tensor, float], Tensor], x: Any, q: Any, axis: Any, keepdims: bool
) -> Tensor:
    """`of_rows` of the rows of `x` over `axis`, in order, and each share in `q`."""
    e = _inexact(x)
    if isinstance(q, list | tuple):
        return stack([quantiles(what, of_rows, e, share, axis, keepdims) for share in q])
    if not isinstance(q, int | float) or not 0 <= q <= 1:
        raise ExprError(f"{what} {q!r} of {e.described()}; a share is a number from 0 to 1, or a list of them")
    over = resolve_axes(axis, e.ndim, what, e)
    kept = [d for d in range(e.ndim) if d not in over]
    rows = e.transpose(*kept, *over) if e.ndim else e
    rows = rows if len(over) == 1 else rows.reshape((*(e.shape[d] for d in kept), -1))
    if rows.dims[-1] == Int(0):
        raise ExprError(f"{what} {q} of {e.described()}, which has no elements along axis {axis}")
    made = of_rows(sort(rows, -1), q)
    return made[tuple(None if d in over else slice(None) for d in range(e.ndim))] if keepdims else made


def _of_rows(ordered: Tensor, q: float) -> Tensor:
    """The quantile `q` of rows in order: NaN, which comes last, where there is one."""
    size = ordered.shape[-1]
    if isinstance(size, int):
        place = q * (size - 1)
        low, share = int(place), place - int(place)
        high = min(low + 1, size - 1)
    elif q == 0.5:
        low, high, share = (size - 1) // 2, size // 2, 0.5
    else:
        raise ExprError(f"quantile {q} over {size!r} elements; lp.median takes any size, others a known one")
    a, b, last = ordered[..., low], ordered[..., high], ordered[..., size - 1]
    return where(isnan(last), last, a if share == 0 else where(a == b, a, a * (1 - share) + b * share))


def searchsorted(a: Any, v: Any, side: str = "left") -> Tensor:
    """How many elements of `a`, in order, are below each of `v`, or at most it for side "right"; in int64.

    It is found by halves where `a` is of a known length that is more than MOST_COUNTED. Else every element is compared
    with every other, which vectors do: for some thousands of elements.
    """
    e, new = as_expr(Tensor, a, None), as_expr(Tensor, v, None)
    if side not in ("left", "right") or e.ndim != 1:
        raise ExprError(f"searchsorted in {e.described()}, side={side!r}; it is of one dimension, 'left' or 'right'")
    known = e.shape[0]
    if isinstance(known, int) and MOST_COUNTED < known < 1 << 31:
        dtype, below = common_type([e, new]), "<=" if side == "right" else "<"
        flat = cast(new, dtype).reshape(-1)
        found = call(_formatted_nest(_halving(known, below), stacked=False, t=dtype.name), cast(e, dtype), flat)
        return cast(found, "int64").reshape(new.shape)
    new = new[..., None]
    return total(e <= new if side == "right" else e < new, axis=-1)


MOST_COUNTED = 64
"""Elements that vectors compare with another one in about the time of the steps of a search by halves, each of which
waits for the one before."""


def _halving(count: int, below: str) -> str:
    """A nest that finds for each of V how many of the `count` elements of A, in order, are `below` it.

    After each step the count is P or up to as many more as are left. The bounds of subscripts hold in any case, so that
    they need no tests when the nest runs.
    """
    head = 'def search(m: "size", A: "{t}[count]", V: "{t}[m]", P: "out int32[m]"):'.replace("count", str(count))
    lines, last = [head, "    for i in range(m):", "        P[i] = 0"], count - 1
    while count:
        half = max(1, count // 2)
        at = f"min(max(P[i] + {half - 1}, 0), {last})"
        lines.append(f"        P[i] = P[i] + select(A[{at}] {below} V[i], {half}, 0)")
        count = count - half if count > 1 else 0
    return "\n".join(lines)


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """The convolution of two vectors: "full", of the length of `a` ("same"), or where all of `v` overlaps ("valid").

    `v` is of a known length. The longer one is `a`, whichever is given first, where both lengths are known; else `v`
    is no longer than `a`.
    """
    e, kernel = as_expr(Tensor, a, None), as_expr(Tensor, v, None)
    if e.ndim == kernel.ndim == 1 and all(isinstance(n, int) for n in (e.shape[0], kernel.shape[0])):
        e, kernel = (kernel, e) if e.shape[0] < kernel.shape[0] else (e, kernel)  # pyright: ignore
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
    """The Kronecker product: `b`, times each element of `a`. Missing dimensions come first, of size 1."""
    left, right = as_expr(Tensor, a, None), as_expr(Tensor, b, None)
    rank = max(left.ndim, right.ndim)
    left, right = (e[(None,) * (rank - e.ndim) + (Ellipsis,)] for e in (left, right))
    inner, outer = (slice(None), None) * rank, (None, slice(None)) * rank
    return (left[inner] * right[outer]).reshape([m * n for m, n in zip(left.shape, right.shape, strict=True)])


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
def _formatted_nest(text: str, *, stacked: bool, **given: str) -> Func:
    """The nest for one matrix, or the same for each of a stack."""
    text = text.format(**given)
    if stacked:
        head, _, body = text.strip().partition("\n")
        head = head.replace("(n:", '(batch: "size", n:').replace("[n,", "[batch, n,")
        body = indent(re.sub(r"\b([ALx])\[", r"\1[b, ", body), "    ")
        text = f"{head}\n    for b in range(batch):\n{body}"
    return parse(text)


def cholesky(a: Any) -> Tensor:
    """The lower triangle whose product with its transpose is `a`, a positive definite matrix or a stack of these, of
    which it reads the lower triangle; NaN where `a` is not positive definite."""
    e = _inexact(a)
    if e.ndim < 2 or not same(e.dims[-1], e.dims[-2], e.symbols):
        raise ExprError(f"cholesky of {e.described()}; it is of a square matrix")
    if e.ndim == 2:
        return call(_formatted_nest(CHOLESKY, stacked=False, t=e.dtype.name), e)
    return call(_formatted_nest(CHOLESKY, stacked=True, t=e.dtype.name), one_after_the_other(e)).reshape(e.shape)


def solve_triangular(a: Any, b: Any, lower: bool = False) -> Tensor:
    """x for which a @ x is `b`, a vector or the columns of a matrix; of `a` the upper triangle is read, or the lower
    one if `lower`, as SciPy's. Of a stack of matrices, each has its own `b`, or all have the same."""
    e, right = _inexact(a), stage_reduction(as_expr(Tensor, b, None))
    right = cast(right, e.dtype)
    if right.ndim == 1:
        return solve_triangular(e, right[:, None], lower)[..., 0]
    if e.ndim < right.ndim > 2:
        e = broadcast_to(e, (*right.shape[: right.ndim - e.ndim], *e.shape))
    if 2 <= right.ndim < e.ndim:
        right = broadcast_to(right, (*e.shape[: e.ndim - right.ndim], *right.shape))
    row, before = ("r", "q") if lower else ("n - 1 - r", "n - 1 - q")
    if e.ndim <= 2:
        return call(_formatted_nest(SOLVE, stacked=False, t=e.dtype.name, row=row, before=before), e, right)
    if not all(same(x, y, {**e.symbols, **right.symbols}) for x, y in zip(e.dims[:-1], right.dims[:-1], strict=True)):
        raise ExprError(
            f"solve_triangular of {e.described()} and {right.described()}; a @ x is b: the stacks are alike"
        )
    nest = _formatted_nest(SOLVE, stacked=True, t=e.dtype.name, row=row, before=before)
    return call(nest, one_after_the_other(e), one_after_the_other(right)).reshape(right.shape)
