"""Signals, polynomials and windows of them, as NumPy has them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.tensor.core import as_expr, cast, common_type
from loopir.tensor.creation import arange, full, zeros_like
from loopir.tensor.functions import abs as absolute, axis_of, concatenate, cos, diff, logical_and, sqrt, stack, where
from loopir.tensor.numeric import convolve
from loopir.tensor.scans import cumsum
from loopir.tensor.shapes import flip
from loopir.tensor.special import i0
from loopir.tensor.tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "correlate",
    "ediff1d",
    "hamming",
    "hanning",
    "kaiser",
    "polyder",
    "polyint",
    "polyval",
    "unwrap",
]


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """The sums of products of `a` with `v` shifted along it: where all of `v` overlaps ("valid"), or "same", "full".

    Two vectors; `v` is of a known length, and no longer than `a` if that of `a` is not known.
    """
    e, kernel = as_expr(Tensor, a, None), as_expr(Tensor, v, None)
    short, long = (x.shape[0] if x.ndim == 1 else None for x in (e, kernel))
    if isinstance(short, int) and isinstance(long, int) and short < long:
        return flip(correlate(kernel, e, mode))
    return convolve(e, flip(kernel), mode)


def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """The differences of neighbours in the flat tensor, with `to_begin` before them and `to_end` behind."""
    made = diff(as_expr(Tensor, x, None).reshape(-1))
    around = [None if part is None else as_expr(Tensor, part, made.dtype).astype(made.dtype).reshape(-1)
              for part in (to_begin, to_end)]  # fmt: skip
    parts = [part for part in (around[0], made, around[1]) if part is not None]
    return concatenate(parts) if len(parts) > 1 else made


def polyval(p: Any, x: Any) -> Tensor:
    """p[0] * x**(n - 1) + ... + p[n - 1] by Horner's rule; `p` is a list of numbers, or a vector of a known length."""
    e = as_expr(Tensor, x, None)
    factors = _coefficients("polyval", p)
    t = common_type([e, *factors])
    value, point = zeros_like(e, t), cast(e, t)
    for factor in factors:
        value = value * point + factor
    return value


def unwrap(p: Any, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi) -> Tensor:
    """`p` without the jumps by more than half a `period`, or `discont` if that is more, along `axis`, each of which
    shifts by whole periods what comes after it."""
    t = common_type((p, period))
    e = cast(as_expr(Tensor, p, None), t)
    before = (slice(None),) * axis_of("unwrap", axis, e, e.ndim)
    half, odd = (period / 2, False) if t.is_float else (int(period) // 2, bool(int(period) % 2))
    step = e[(*before, slice(1, None))] - e[(*before, slice(None, -1))]
    near = (step + half) % period - half
    if not odd:
        near = where(logical_and(near == -half, step > 0), half, near)
    least = period / 2 if discont is None else discont
    correction = where(absolute(step) < least, 0, near - step).astype(t)
    first = e[(*before, slice(None, 1))]
    return concatenate([first, e[(*before, slice(1, None))] + cumsum(correction, len(before), dtype=t)], len(before))


def _window(M: int, *cosines: float) -> Tensor:
    """The sum of cosines of 0, 1, ... turns over `M` points, in float64."""
    if M <= 1:
        return full((max(M, 0),), 1.0)
    turn = arange(M).astype("float64") * (2 * math.pi / (M - 1))
    parts = [cos(turn * float(n)) * c if n else turn * 0.0 + c for n, c in enumerate(cosines)]
    return sum(parts[1:], parts[0])


def hanning(M: int) -> Tensor:
    """The window of `M` points that is a raised cosine, 0 at both ends."""
    return _window(M, 0.5, -0.5)


def hamming(M: int) -> Tensor:
    """The window of `M` points that is 0.54 less 0.46 times a cosine."""
    return _window(M, 0.54, -0.46)


def blackman(M: int) -> Tensor:
    """The window of `M` points of two cosines, with 0.16 for its parameter."""
    return _window(M, 0.42, -0.5, 0.08)


def bartlett(M: int) -> Tensor:
    """The window of `M` points that is a triangle, 0 at both ends."""
    if M <= 1:
        return full((max(M, 0),), 1.0)
    at = arange(M).astype("float64") * (2.0 / (M - 1))
    return where(at <= 1.0, at, 2.0 - at)


def kaiser(M: int, beta: float) -> Tensor:
    """The window of `M` points i0(beta * sqrt(1 - t * t)) / i0(beta), for t from -1 to 1."""
    if M <= 1:
        return full((max(M, 0),), 1.0)
    at = arange(M).astype("float64") * (2.0 / (M - 1)) - 1.0
    return i0(sqrt(where(at * at < 1.0, 1.0 - at * at, 0.0)) * beta) / i0(as_expr(Tensor, float(beta), None))


def _coefficients(what: str, p: Any) -> list[Any]:
    """The coefficients of a polynomial, that of the highest power first."""
    if isinstance(p, Sequence):
        return list(p)
    vector = as_expr(Tensor, p, None)
    size = vector.shape[0] if vector.ndim == 1 else None
    if not isinstance(size, int):
        raise ExprError(f"{what} of {vector.described()}; coefficients are a vector of a known length, or a list")
    return [vector[n] for n in range(size)]


def polyder(p: Any, m: int = 1) -> Tensor:
    """The coefficients of the `m`-th derivative of a polynomial, given by its own as in `polyval`."""
    factors = _coefficients("polyder", p)
    for _ in range(m):
        factors = [c * (len(factors) - 1 - n) for n, c in enumerate(factors[:-1])]
    return stack(factors) if factors else full((0,), 0.0)


def polyint(p: Any, m: int = 1) -> Tensor:
    """The coefficients of the `m`-th integral of a polynomial, 0 at 0, in floats."""
    factors = [as_expr(Tensor, c, None) / 1.0 for c in _coefficients("polyint", p)]
    for _ in range(m):
        factors = [c / float(len(factors) - n) for n, c in enumerate(factors)] + [as_expr(Tensor, 0.0, None)]
    return stack(factors)
