"""Random numbers by counters: an element's number depends on its index, the seed and nothing else.

So they can be drawn in any order, on any number of threads, and again. The generator is Philox4x32-10 (Salmon, Moraes,
Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). Each element has a counter of its own.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DTypeLike
from loopir.tensor.core import as_expr
from loopir.tensor.creation import arange
from loopir.tensor.functions import cos, log, sqrt
from loopir.tensor.index import IndexExpr
from loopir.tensor.tensor import Tensor

__all__ = ["philox", "rand", "randint", "randn"]

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
PHILOX_ROUNDS = 10
LOW = 0xFFFFFFFF


def philox(counter: Sequence[Any], key: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words of 32 bits, as uint64, for a counter of four such words and a key of two: numbers, or tensors."""
    if len(counter) != 4 or len(key) != 2:
        raise ExprError(f"philox takes a counter of 4 words and a key of 2, not {len(counter)} and {len(key)}")
    c, k = ([as_expr(Tensor, w, dtypes.uint64).astype("uint64") for w in words] for words in (counter, key))
    for n in range(PHILOX_ROUNDS):
        keys = [(w + n * step % (1 << 32)) & LOW for w, step in zip(k, WEYL, strict=True)]
        first, second = (w * m for w, m in zip((c[0], c[2]), MULTIPLIERS, strict=True))
        c = [(second >> 32) ^ c[1] ^ keys[0], second & LOW, (first >> 32) ^ c[3] ^ keys[1], first & LOW]
    return c[0], c[1], c[2], c[3]


def _words(shape: Any, seed: Any, offset: Any) -> tuple[Tensor, ...]:
    """The words of each element of `shape`: its place in row-major order is the low half of its counter."""
    if isinstance(shape, int):  # as in torch.rand(3, 4), whose 4 would be taken for the seed
        raise ExprError(
            f"random numbers of the shape {shape}: it is a tuple, and the seed comes after it: ({shape},), 0"
        )
    sizes = [shape] if isinstance(shape, int | IndexExpr) else list(shape)
    place: Any = as_expr(Tensor, 0, dtypes.uint64)
    for d, size in enumerate(sizes):
        along = arange(size).reshape([size if k == d else 1 for k in range(len(sizes))])
        place = place * as_expr(Tensor, size, dtypes.uint64) + along.astype("uint64")
    given, more = (as_expr(Tensor, v, dtypes.uint64).astype("uint64") for v in (seed, offset))
    return philox((place & LOW, place >> 32, more & LOW, more >> 32), (given & LOW, given >> 32))


def _unit_interval(high: Tensor, low: Tensor, t: dtypes.DType) -> Tensor:
    """Words as a number from 0 to before 1: of 24 bits in float32, of 53 in float64."""
    if t == dtypes.float64:
        return ((high >> 5).astype(t) * 67108864.0 + (low >> 6).astype(t)) * (1.0 / (1 << 53))
    return (high >> 8).astype("float32") * (1.0 / (1 << 24))


def _float_type(what: str, dtype: DTypeLike) -> dtypes.DType:
    t = dtypes.dtype(dtype)
    if t not in (dtypes.float32, dtypes.float64):
        raise ExprError(f"{what} of {t}; numbers are drawn as float32 or float64, and converted by astype")
    return t


def rand(shape: Any, seed: Any, offset: Any = 0, dtype: DTypeLike = "float32") -> Tensor:
    """Numbers from 0 to before 1, each as likely as any other; `seed` and `offset` are numbers, or tensors of one.

    The same seed, offset and shape give the same numbers on every target.
    """
    t = _float_type("rand", dtype)
    first, second, *_ = _words(shape, seed, offset)
    return _unit_interval(first, second, t)


def randn(shape: Any, seed: Any, offset: Any = 0, dtype: DTypeLike = "float32") -> Tensor:
    """Numbers of the normal distribution, of mean 0 and variance 1, by Box and Muller's transform; see `rand`."""
    t = _float_type("randn", dtype)
    a, b, c, d = _words(shape, seed, offset)
    return sqrt(-2.0 * log(1.0 - _unit_interval(a, b, t))) * cos(2.0 * math.pi * _unit_interval(c, d, t))


def randint(low: int, high: int, shape: Any, seed: Any, offset: Any = 0) -> Tensor:
    """Integers, int64, from `low` to before `high`, by the high half of a product of 32 bits; see `rand`."""
    if not low < high <= low + (1 << 32):
        raise ExprError(f"randint from {low} to before {high}; there are 1 to 2^32 integers to draw from")
    first, *_ = _words(shape, seed, offset)
    return ((first * (high - low)) >> 32).astype("int64") + low
