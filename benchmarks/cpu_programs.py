"""What `benchmarks/cpu.py` measures: each program as loopir's, NumPy's and Halide's call on the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

import loopir as lp
from loopir import schedules

Array = np.ndarray[Any, Any]
Call = Callable[[], object]
A, B = 2 * 0.7978845608028654, 2 * 0.035677408136300125
"""Of gelu, twice sqrt(2 / pi) and twice 0.044715 sqrt(2 / pi)."""


@dataclass(frozen=True)
class Work:
    """One row of the table: inputs, loopir's program, NumPy's function into `out`, and the name of Halide's peer."""

    name: str
    inputs: tuple[Array, ...]
    program: lp.Schedule
    numpy: Callable[..., object]
    peer: str

    def call(self, who: str, threads: int) -> tuple[Call, Array]:
        """The call of the library `who` to time, and the array that it fills."""
        result: Any = next(self.program.func.outputs())
        out = np.empty([d.value for d in result.shape], result.dtype.name)
        if who == "Halide":
            return getattr(import_module("halide_peers"), self.peer)(*self.inputs, out), out
        if who == "NumPy":
            return partial(self.numpy, *self.inputs, out=out), out
        kernel = schedules.auto(self.program, "llvm").build("llvm", threads=threads)
        return partial(kernel, *self.inputs, out=(out,)), out


def gelu(n: int = 1 << 24) -> Work:
    x = lp.placeholder((n,), "float32", name="x")
    program = lp.Schedule((x / (1.0 + lp.exp(x * (-A - x * x * B)))).named("gelu"))

    def numpy(x: Array, out: Array) -> None:
        np.multiply(x, 0.5 * (1 + np.tanh(x * (A / 2 + x * x * (B / 2)))), out=out)

    return Work("gelu f32 16M", (_normal(n),), program, numpy, "gelu")


def softmax(n: int = 4096, m: int = 1024) -> Work:
    x = lp.placeholder((n, m), "float32", name="x")
    e = lp.exp(x - lp.max(x, axis=1)[:, None])
    program = lp.Schedule(e * (1.0 / e.sum(axis=1))[:, None])

    def numpy(x: Array, out: Array) -> None:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        np.divide(e, e.sum(axis=1, keepdims=True), out=out)

    return Work(f"softmax f32 {n}x{m}", (_normal(n, m),), program, numpy, "softmax")


def layernorm(n: int = 4096, m: int = 1024) -> Work:
    x = lp.placeholder((n, m), "float32", name="x")
    scale, shift = (lp.placeholder((m,), "float32", name=name) for name in ("scale", "shift"))
    d = x - lp.mean(x, axis=1)[:, None]
    program = lp.Schedule(d * lp.rsqrt(lp.mean(d * d, axis=1) + 1e-5)[:, None] * scale + shift)

    def numpy(x: Array, scale: Array, shift: Array, out: Array) -> None:
        d = x - x.mean(axis=1, keepdims=True)
        np.add(d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * scale, shift, out=out)

    return Work(f"layernorm f32 {n}x{m}", (_normal(n, m), _normal(m), _normal(m)), program, numpy, "layernorm")


def blur(dtype: str, n: int = 2048) -> Work:
    """Three neighbours along rows, then along columns."""
    x = lp.placeholder((n + 2, n + 2), dtype, name="x")

    def third(v: Any) -> Any:
        return v // 3 if dtype == "uint16" else v * (1 / 3)

    h = lp.compute((n + 2, n), lambda i, j: third(x[i, j] + x[i, j + 1] + x[i, j + 2]), name="h")
    program = lp.Schedule(lp.compute((n, n), lambda i, j: third(h[i, j] + h[i + 1, j] + h[i + 2, j]), name="out"))

    def numpy(x: Array, out: Array) -> None:
        scaled: Callable[[Array], Array] = (
            (lambda v: v // 3) if dtype == "uint16" else (lambda v: v * np.float32(1 / 3))
        )
        h = scaled(x[:, :-2] + x[:, 1:-1] + x[:, 2:])
        out[...] = scaled(h[:-2] + h[1:-1] + h[2:])

    image = (np.random.default_rng(0).random((n + 2, n + 2)) * 20000).astype(dtype)
    return Work(f"blur {'u16' if dtype == 'uint16' else 'f32'} {n}^2, two stages", (image,), program, numpy, "blur")


def sums(shape: tuple[int, ...]) -> Work:
    """Of all that there is, or of the rows of a matrix: of each column."""
    x = lp.placeholder(shape, "float32", name="x")
    program = lp.Schedule(lp.sum(x, axis=0))
    name = f"sum f32 of {'x'.join(map(str, shape))}{', by columns' * (len(shape) > 1)}"
    return Work(name, (_normal(*shape),), program, lambda x, out: np.sum(x, axis=0, out=out), "")


def transposed(n: int, m: int, dtype: str) -> Work:
    x = lp.placeholder((n, m), dtype, name="x")
    program = lp.Schedule(lp.compute((m, n), lambda i, j: x[j, i], name="y"))
    given = (_normal(n, m) * 50).astype(dtype)
    return Work(f"transpose {dtype} {n}x{m}", (given,), program, lambda x, out: np.copyto(out, x.T), "")


def matmul(m: int, n: int, k: int, turned: str = "") -> Work:
    """C = A B of m x k and k x n, the operand called `turned` transposed in memory."""
    a = lp.placeholder((k, m) if turned == "A" else (m, k), "float32", name="A")
    b = lp.placeholder((n, k) if turned == "B" else (k, n), "float32", name="B")
    r = lp.reduce_axis(k, name="k")

    def element(i: Any, j: Any) -> Any:
        return lp.sum((a[r, i] if turned == "A" else a[i, r]) * (b[j, r] if turned == "B" else b[r, j]), axis=r)

    def numpy(x: Array, y: Array, out: Array) -> None:
        np.matmul(x.T if turned == "A" else x, y.T if turned == "B" else y, out=out)

    rng = np.random.default_rng(0)
    inputs = (rng.random((k, m) if turned == "A" else (m, k), np.float32),
              rng.random((n, k) if turned == "B" else (k, n), np.float32))  # fmt: skip
    size = f"{m}^3" if m == n == k else f"{m}x{n}x{k}"
    name = f"matmul f32 {size}" + (f", {turned} transposed" if turned else "")
    return Work(name, inputs, lp.Schedule(lp.compute((m, n), element, name="C")), numpy, "matmul")


CHAINS = """
def peak(x: "float32[2, {lanes}]", y: "out float32[{parts}, {chains}, {lanes}]"):
    for part in parallel({parts}):
        with alloc("float32[{chains}, {lanes}]", scope="local") as sums:
            for c in unroll({chains}):
                for j in vectorize({lanes}):
                    sums[c, j] = x[0, j]
            for k in range({steps}):
                for c_1 in unroll({chains}):
                    for j_1 in vectorize({lanes}):
                        sums[c_1, j_1] = sums[c_1, j_1] * x[0, j_1] + x[1, j_1]
            for c_2 in unroll({chains}):
                for j_2 in vectorize({lanes}):
                    y[part, c_2, j_2] = sums[c_2, j_2]
"""


def peak(n: int = 1024, parts: int = 8) -> Work:
    """As many fused multiply-adds as a product of n^3 has, all in registers: chains enough that none waits."""
    size, count = lp.vector_unit()
    lanes, chains = size // 4, count - 4
    steps = n**3 // (parts * chains * lanes)
    program = lp.Schedule(lp.parse(CHAINS.format(lanes=lanes, chains=chains, parts=parts, steps=steps)))
    x = np.repeat(np.array([[0.999], [1e-9]], np.float32), lanes, axis=1)
    return Work(f"{n}^3 multiply-adds in registers", (x,), program, lambda x, out: None, "")


def narrow(dtype: str, n: int) -> Work:
    """C = A B of int8, float16 or bfloat16, in int32 or float32; NumPy's own loops for these are no BLAS."""
    sum_ = "int32" if dtype == "int8" else "float32"
    a, b = (lp.placeholder((n, n), dtype, name=name).astype(sum_) for name in ("A", "B"))

    def numpy(x: Array, y: Array, out: Array) -> None:
        out[...] = np.matmul(x, y, dtype=np.int32) if dtype == "int8" else np.matmul(x, y)

    rng = np.random.default_rng(0)
    given = [rng.integers(-100, 100, (n, n)) if dtype == "int8" else rng.random((n, n)) for _ in "AB"]
    inputs = tuple(x.astype(getattr(ml_dtypes, dtype, dtype)) for x in given)
    return Work(f"matmul {dtype} {n}^3", inputs, lp.Schedule(a @ b), numpy, "")


SWEEP = (
    *((n, n, n) for n in (31, 32, 47, 64, 96, 97, 128, 191, 256, 257, 384, 509, 512, 640, 768, 1000, 1021, 1024, 1536)),
    (2048, 2048, 512), (2049, 2049, 257), (1009, 1013, 1019), (2049, 31, 31), (31, 2049, 31), (31, 31, 2049),
    (2049, 64, 64), (64, 2049, 64), (64, 64, 2049), (2049, 31, 1024), (31, 2049, 1024), (1024, 33, 2049),
    (2048, 128, 128), (128, 2048, 128), (128, 128, 2048), (509, 2039, 61), (2039, 61, 509), (61, 509, 2039),
    (1031, 257, 127), (127, 1031, 257), (333, 777, 555),
)  # fmt: skip
"""Rows, columns and depth of 40 products: squares, primes, tall ones, skinny ones, tiny ones."""


def _normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
