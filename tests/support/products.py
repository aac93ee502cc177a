"""What a product may be fused with, before it and after, each beside NumPy in float64: a table for two tests.

Operands are small integers, so that sums are exact; what follows is rounded to bfloat16 a few times at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, sqrt
from typing import Any

import ml_dtypes
import numpy as np

import loopir as lp

BF, F16, F32, I8, U8 = "bfloat16", "float16", "float32", "int8", "uint8"
E4 = "float8_e4m3fn"
KINDS = {BF: ml_dtypes.bfloat16, E4: ml_dtypes.float8_e4m3fn}
ROUNDED = 2.0**-7
"""How far off a result may be, as a share of the largest."""


@dataclass(frozen=True)
class Case:
    """What is computed by us, and by NumPy of arrays in float64; and the arrays' shapes and types, by the sizes."""

    name: str
    given: Callable[[int, int, int], list[tuple[tuple[int, ...], str]]]
    ours: Callable[..., Any]
    wanted: Callable[..., Any]


def mk_kn(*more: Callable[[int, int, int], tuple[int, ...]], dtype: str = BF) -> Callable[..., Any]:
    """A of m x k, B of k x n, and arrays of other shapes."""
    return lambda m, n, k: [((m, k), dtype), ((k, n), dtype), *((f(m, n, k), dtype) for f in more)]


def weight(dtype: str) -> Callable[..., Any]:
    """A of m x k, a weight of n x k and a scale for each of its rows."""
    return lambda m, n, k: [((m, k), BF), ((n, k), dtype), ((n, 1), BF)]


def both(name: str, given: Any, fn: Callable[..., Any]) -> Case:
    """A case that is written alike for both."""
    return Case(name, given, fn, fn)


def columns(m: int, n: int, k: int) -> tuple[int, ...]:
    return (n,)


def results(m: int, n: int, k: int) -> tuple[int, ...]:
    return (m, n)


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    return x * 0.5 * (1 + np.vectorize(erf)(x / sqrt(2)))


def gelu_tanh(x: Any) -> Any:
    return x * 0.5 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def halves(fn: Callable[[Any], Any], y: Any) -> Any:
    """`fn` of the first columns times the last ones: the halves, or but for the middle one, or one column twice."""
    columns = y.shape[1]
    n = max(1, columns // 2)
    return fn(y[:, :n]) * y[:, columns - n :]


def codes(w: lp.Tensor, s: lp.Tensor) -> lp.Tensor:
    """Elements of 4 bits, two in a byte, less 8, each 32 of them times a scale."""
    n, half = w.shape
    return lp.compute(
        (n, half * 2), lambda i, j: (lp.cast((w[i, j // 2] >> lp.cast(j % 2 * 4, U8)) & 15, BF) - 8) * s[i, j // 32]
    )


def wanted_codes(w: Any, s: Any) -> Any:
    b = w.astype(np.int64)
    return (np.stack([b & 15, b >> 4], -1).reshape(len(b), -1) - 8.0) * np.repeat(s, 32, 1)


CASES = (
    both("a @ b", mk_kn(), lambda a, b: a @ b),
    both("in float16", mk_kn(dtype=F16), lambda a, b: a @ b),
    both("a.T @ b", lambda m, n, k: [((k, m), BF), ((k, n), BF)], lambda a, b: a.T @ b),
    both("a @ b.T", lambda m, n, k: [((m, k), BF), ((n, k), BF)], lambda a, b: a @ b.T),
    both("a.T @ b.T", lambda m, n, k: [((k, m), BF), ((n, k), BF)], lambda a, b: a.T @ b.T),
    both("(a @ b).T", mk_kn(), lambda a, b: (a @ b).T),
    both("batches", lambda m, n, k: [((2, m, k), BF), ((2, k, n), BF)], lambda a, b: a @ b),
    both("batches of batches", lambda m, n, k: [((2, 2, m, k), BF), ((2, 2, k, n), BF)], lambda a, b: a @ b),
    Case("heads beside one another", lambda m, n, k: [((2, 2, m, k), BF), ((2, 2, k, n), BF)],
         lambda a, b: lp.transpose(a @ b, (0, 2, 1, 3)), lambda a, b: (a @ b).transpose(0, 2, 1, 3)),
    both("one right operand", lambda m, n, k: [((2, m, k), BF), ((k, n), BF)], lambda a, b: a @ b),
    both("one left operand", lambda m, n, k: [((m, k), BF), ((2, k, n), BF)], lambda a, b: a @ b),
    both("batches that are broadcast", lambda m, n, k: [((2, 1, m, k), BF), ((2, k, n), BF)], lambda a, b: a @ b),
    both("alpha and beta", mk_kn(results), lambda a, b, c: (a @ b) * 0.5 + c * 0.25),
    both("bias", mk_kn(columns), lambda a, b, c: a @ b + c),
    Case("bias and relu", mk_kn(columns), lambda a, b, c: lp.relu(a @ b + c), lambda a, b, c: np.maximum(a @ b + c, 0)),
    Case("bias and silu", mk_kn(columns), lambda a, b, c: lp.silu(a @ b + c), lambda a, b, c: silu(a @ b + c)),
    Case("bias and gelu", mk_kn(columns), lambda a, b, c: lp.gelu(a @ b + c), lambda a, b, c: gelu(a @ b + c)),
    Case("bias and gelu by tanh", mk_kn(columns), lambda a, b, c: lp.gelu(a @ b + c, approximate="tanh"),
         lambda a, b, c: gelu_tanh(a @ b + c)),
    both("residual", mk_kn(results), lambda a, b, c: a @ b + c),
    both("scales of rows and of columns", mk_kn(lambda m, n, k: (m, 1), columns), lambda a, b, r, c: (a @ b) * r * c),
    Case("to float32", mk_kn(), lambda a, b: a.astype(F32) @ b.astype(F32), lambda a, b: a @ b),
    Case("to float16", mk_kn(), lambda a, b: (a @ b).astype(F16), lambda a, b: a @ b),
    Case("to float8", mk_kn(), lambda a, b: (a @ b * 0.125).astype(E4),
         lambda a, b: (a @ b * 0.125).astype(KINDS[E4]).astype(np.float64)),
    Case("gated", mk_kn(lambda m, n, k: (k, n)), lambda a, g, u: lp.silu(a @ g) * (a @ u),
         lambda a, g, u: silu(a @ g) * (a @ u)),
    Case("two products", mk_kn(lambda m, n, k: (n, k)), lambda a, b, c: lp.relu(a @ b) @ c,
         lambda a, b, c: np.maximum(a @ b, 0).astype(KINDS[BF]).astype(np.float64) @ c),
    Case("sums of rows of it", mk_kn(), lambda a, b: normed(a @ b),
         lambda a, b: (a @ b) / np.sqrt(((a @ b) ** 2).mean(1, keepdims=True) + 1)),
    Case("silu and multiply first", lambda m, n, k: [((m, k), BF), ((m, k), BF), ((k, n), BF)],
         lambda g, u, b: (lp.silu(g) * u) @ b,
         lambda g, u, b: (silu(g) * u).astype(KINDS[BF]).astype(np.float64) @ b),
    Case("gated by halves of one", mk_kn(), lambda a, b: halves(lp.silu, a @ b), lambda a, b: halves(silu, a @ b)),
    Case("relu first", mk_kn(), lambda a, b: lp.relu(a) @ b, lambda a, b: np.maximum(a, 0) @ b),
    both("a scale first", mk_kn(), lambda a, b: (a * 2) @ b),
    Case("relu first, of both", mk_kn(), lambda a, b: lp.relu(a) @ lp.relu(b),
         lambda a, b: np.maximum(a, 0) @ np.maximum(b, 0)),
    Case("an int8 weight", weight(I8), lambda a, w, s: a @ (w.astype(BF) * s).T, lambda a, w, s: a @ (w * s).T),
    Case("an int8 weight, scaled after", weight(I8), lambda a, w, s: (a @ w.astype(BF).T) * s[:, 0],
         lambda a, w, s: (a @ w.T) * s[:, 0]),
    Case("an int8 weight that lies the other way", lambda m, n, k: [((m, k), BF), ((k, n), I8), ((n,), BF)],
         lambda a, w, s: a @ (w.astype(BF) * s), lambda a, w, s: a @ (w * s)),
    Case("a float8 weight", weight(E4), lambda a, w, s: a @ (w.astype(BF) * s).T, lambda a, w, s: a @ (w * s).T),
    Case("an int4 weight", lambda m, n, k: [((m, k), BF), ((n, k // 2), U8), ((n, k // 32), BF)],
         lambda a, w, s: a @ codes(w, s).T, lambda a, w, s: a @ wanted_codes(w, s).T),
)  # fmt: skip


def normed(x: lp.Tensor) -> lp.Tensor:
    wide = x.astype(F32)
    return (wide * lp.rsqrt(lp.mean(wide * wide, axis=1, keepdims=True) + 1.0)).astype(BF)


def arrays(case: Case, m: int, n: int, k: int, seed: int = 0) -> list[Any]:
    """Small integers; of the bytes of codes, any."""
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for shape, dtype in case.given(m, n, k):
        x = rng.integers(0, 256, shape) if dtype == U8 else rng.integers(-2, 3, shape)
        out.append(x.astype(KINDS.get(dtype, dtype)))
    return out


def schedule(case: Case, m: int, n: int, k: int) -> lp.Schedule:
    given = [lp.placeholder(*x, name=f"x{i}") for i, x in enumerate(case.given(m, n, k))]
    return lp.Schedule(case.ours(*given))


def off(case: Case, found: Any, given: list[Any]) -> float:
    """How far `found` is from what is wanted, as a share of the largest."""
    want = case.wanted(*(x.astype(np.float64) for x in given))
    return float(np.abs(np.asarray(found).astype(np.float64) - want).max() / max(1.0, np.abs(want).max()))
