"""How far apart two floating-point results are, in units in the last place."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import numpy as np

from loopir.ir.dtypes import Array


def distance(a: Array, b: Array) -> Array:
    """How many numbers of their type it is from `a` to `b`, element by element.

    NaN equals NaN, and 0.0 equals -0.0. For integers and bools, 0 where they are equal and else infinity.
    """
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if a.dtype.kind in "biu":
        return np.where(a == b, 0.0, np.inf)
    steps = np.abs(_ordered(a).astype(object) - _ordered(b).astype(object)).astype(np.float64)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    return np.where(nan_a | nan_b, np.where(nan_a == nan_b, 0.0, np.inf), steps)


def _ordered(x: Array) -> Array:
    """The bits of floats as integers in the order of the numbers."""
    size = x.dtype.itemsize
    bits = np.ascontiguousarray(x).view(f"i{size}").astype(np.int64)
    low = -(1 << (8 * size - 1))
    return np.where(bits < 0, np.int64(low) - bits, bits)
