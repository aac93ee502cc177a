"""The programs of `benchmarks/cpu_wide.py`, by group: what people write, each with NumPy's way to say it.

A program is a tensor expression or a nest as text. NumPy's function is also the reference, in float64. Plain C is
printed from the nest (`plain_c`); SciPy has some programs, and torch, if it is installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import plain_c
from scipy import special

import loopir as lp
from loopir import schedules

Array = np.ndarray[Any, Any]
Numpy = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A program, its inputs in the order of its parameters, and what others call for it."""

    name: str
    group: str
    schedule: lp.Schedule
    inputs: tuple[Array, ...]
    numpy: Numpy
    others: Mapping[str, Numpy]
    tolerance: float

    def call(self, who: str, threads: int) -> tuple[Callable[[], object], Array]:
        """The call of `who` to time, and the array that has its result; LookupError if it has no such program.

        What is changed in place is copied first, by each alike.
        """
        func = self.schedule.func
        written = [n for n, a in enumerate(func.args) if a.access != "in"]
        given = iter(self.inputs)
        arrays = [
            np.empty([d.value for d in a.buffer.shape], a.buffer.dtype.numpy) if a.access == "out"  # type: ignore[union-attr]
            else next(given) for a in func.args
        ]  # fmt: skip
        fresh = [(n, arrays[n], arrays[n].copy()) for n in written if func.args[n].access == "inout"]
        for n, _, copy in fresh:
            arrays[n] = copy
        out = arrays[written[-1]]
        run = self._run(who, threads, arrays, written, out)
        if not fresh:
            return run, out

        def call() -> None:
            for _, first, copy in fresh:
                np.copyto(copy, first)
            run()

        return call, out

    def _run(self, who: str, threads: int, arrays: Sequence[Array], written: Sequence[int], out: Array) -> Any:
        func = self.schedule.func
        if who == "loopir":
            kernel = schedules.auto(self.schedule, "llvm").build("llvm", threads=threads)
            outs = tuple(arrays[n] for n in written if func.args[n].access == "out")
            given = [x for x, a in zip(arrays, func.args, strict=True) if a.access != "out"]
            return partial(kernel, *given, out=outs) if outs else partial(kernel, *given)
        if who == "C":
            return partial(plain_c.compiled(self.schedule, threads), *arrays)
        fn = self.numpy if who == "NumPy" else self.others.get(who)
        if fn is None:
            raise LookupError(f"{self.name} has no function of {who}")
        given = [x for x, a in zip(arrays, func.args, strict=True) if a.access != "out"]

        return _Kept(fn, given, out)

    def exact(self) -> Array:
        """The result in float64."""
        wide = [x.astype(np.float64) if x.dtype.kind in "fV" else x.copy() for x in self.inputs]
        return np.asarray(self.numpy(*wide))


class _Kept:
    """A call of a function that gives its result, or has it in an argument; copied out once, the first time."""

    def __init__(self, fn: Numpy, given: Sequence[Array], out: Array) -> None:
        self.fn, self.given, self.out, self.first = fn, given, out, True

    def __call__(self) -> None:
        result = self.fn(*self.given)
        if self.first:
            self.out[...] = result
            self.first = False


GROUPS: dict[str, dict[str, Callable[[], Program]]] = {}
"""By group, by name, what makes a program."""


def make(group: str, name: str) -> Program:
    return GROUPS[group][name]()


def _array(shape: Sequence[int], dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    t = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if t.kind in "iu":
        most = min(np.iinfo(t).max, 20000)
        return rng.integers(0 if t.kind == "u" else -min(most, 100), most, shape).astype(t)
    return rng.standard_normal(shape).astype(t)


def enter_expression(
    group: str, name: str, inputs: Sequence[tuple[str, Sequence[int]]], of: Callable[..., Any], numpy: Numpy,
    *, tolerance: float = 1e-4, positive: bool = False, **others: Numpy,
) -> None:  # fmt: skip
    """Enter the program of a tensor expression, of inputs of these types and shapes."""

    def made() -> Program:
        tensors = [lp.placeholder(tuple(shape), dtype, name=f"x{n}") for n, (dtype, shape) in enumerate(inputs)]
        arrays = tuple(_array(shape, dtype, n) for n, (dtype, shape) in enumerate(inputs))
        if positive:
            arrays = tuple(np.abs(x) + x.dtype.type(0.01) for x in arrays)
        found = of(*tensors)
        s = lp.Schedule(found.named("y") if isinstance(found, lp.Tensor) else found)
        return Program(name, group, s, arrays, numpy, others, tolerance)

    GROUPS.setdefault(group, {})[name] = made


def enter_nest(group: str, name: str, text: str, numpy: Numpy, *, scale: float = 1.0, dominant: bool = False,
          positive: bool = False, tolerance: float = 1e-4, **others: Numpy) -> None:  # fmt: skip
    """Enter the program of a nest; `dominant` adds to the diagonal of square inputs, so that they can be factored."""

    def made() -> Program:
        s = lp.Schedule(lp.parse(text))
        arrays: list[Array] = []
        for n, a in enumerate(s.func.args):
            if a.access != "out":
                shape = [d.value for d in a.buffer.shape]  # type: ignore[union-attr]
                x = _array(shape, a.buffer.dtype.name, n)
                x = x * x.dtype.type(scale) if x.dtype.kind == "f" else x
                x = np.abs(x) if positive else x
                if dominant and len(shape) == 2 and shape[0] == shape[1]:
                    x = ((x + x.T) * x.dtype.type(0.1) + shape[0] * np.eye(shape[0])).astype(x.dtype)
                arrays.append(x)
        return Program(name, group, s, tuple(arrays), numpy, others, tolerance)

    GROUPS.setdefault(group, {})[name] = made


# ---------------------------------------------------------------- functions


def _functions() -> None:
    n = 1 << 18
    each: dict[str, tuple[Any, Numpy, bool]] = {
        "exp": (lp.exp, np.exp, False), "log": (lp.log, np.log, True), "sin": (lp.sin, np.sin, False),
        "cos": (lp.cos, np.cos, False), "tanh": (lp.tanh, np.tanh, False), "erf": (lp.erf, special.erf, False),
        "sigmoid": (lp.sigmoid, lambda x: 1 / (1 + np.exp(-x)), False), "exp2": (lp.exp2, np.exp2, False),
    }  # fmt: skip
    for name, (ours, numpy, positive) in each.items():
        for t in ("float32", "float64"):
            enter_expression("functions", f"{name} {t}", [(t, (n,))], ours, numpy, positive=positive)
    for t in ("float32", "float64"):
        enter_expression("functions", f"pow {t}", [(t, (n,)), (t, (n,))], lp.pow, np.power, positive=True)
        enter_expression("functions", f"sin^2 + cos^2 {t}", [(t, (n,))], lambda x: lp.sin(x) * lp.sin(x) + lp.cos(x)
                    * lp.cos(x), lambda x: np.sin(x) ** 2 + np.cos(x) ** 2)  # fmt: skip
        enter_expression("functions", f"gelu {t}", [(t, (n,))], lp.gelu,
                    lambda x: 0.5 * x * (1 + special.erf(x * 0.7071067811865476)))  # fmt: skip
        enter_expression("functions", f"softplus {t}", [(t, (n,))], lambda x: lp.log(1.0 + lp.exp(x)),
                    lambda x: np.log(1 + np.exp(x)))  # fmt: skip
    enter_expression("functions", "gelu bfloat16", [("bfloat16", (n,))], lp.gelu,
                lambda x: 0.5 * x * (1 + special.erf(x.astype(np.float32) * 0.7071067811865476)),
                tolerance=2e-2)  # fmt: skip
    enter_expression("functions", "tanh float16", [("float16", (n,))], lp.tanh, np.tanh, tolerance=2e-3)


# ---------------------------------------------------------------- folds and statistics


def _folds() -> None:
    f, d = "float32", "float64"
    enter_expression("folds", "mean NCHW (2, 3)", [(f, (8, 64, 56, 56))], lambda x: lp.mean(x, axis=(2, 3)),
                lambda x: x.mean(axis=(2, 3)))  # fmt: skip
    enter_expression("folds", "var rows", [(f, (1024, 1024))], lambda x: lp.var(x, axis=1), lambda x: x.var(axis=1))
    enter_expression(
        "folds", "argmax rows", [(f, (1024, 1024))], lambda x: lp.argmax(x, axis=1), lambda x: x.argmax(axis=1)
    )
    enter_expression("folds", "argmax columns", [(f, (1024, 1024))], lambda x: lp.argmax(x, axis=0),
                lambda x: x.argmax(axis=0))  # fmt: skip
    enter_expression(
        "folds", "max rows float64", [(d, (1024, 1024))], lambda x: lp.max(x, axis=1), lambda x: x.max(axis=1)
    )
    enter_expression("folds", "sum all float64", [(d, (1 << 20,))], lambda x: lp.sum(x, axis=0), lambda x: x.sum())

    def normed(x: Any) -> Any:
        m, v = lp.mean(x, axis=(0, 2, 3)), lp.var(x, axis=(0, 2, 3))
        return (x - m[None, :, None, None]) * lp.rsqrt(v + 1e-5)[None, :, None, None]

    def normed_numpy(x: Array) -> Array:
        m, v = x.mean(axis=(0, 2, 3), keepdims=True), x.var(axis=(0, 2, 3), keepdims=True)
        return (x - m) / np.sqrt(v + 1e-5)

    enter_expression("folds", "batch norm NCHW", [(f, (8, 64, 28, 28))], normed, normed_numpy)

    def standard(x: Any) -> Any:
        return (x - lp.mean(x, axis=0)[None, :]) * lp.rsqrt(lp.var(x, axis=0) + 1e-5)[None, :]

    enter_expression("folds", "standardise columns", [(f, (2048, 512))], standard,
                lambda x: (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5))  # fmt: skip
    enter_expression("folds", "softmax rows", [(f, (512, 1000))], lambda x: lp.softmax(x),
                lambda x: (e := np.exp(x - x.max(axis=1, keepdims=True))) / e.sum(axis=1, keepdims=True))  # fmt: skip
    enter_expression("folds", "matvec", [(f, (2048, 2048)), (f, (2048,))], lambda a, x: lp.sum(a * x[None, :], axis=1),
                lambda a, x: a @ x)  # fmt: skip
    enter_expression("folds", "matvec transposed", [(f, (2048, 2048)), (f, (2048,))],
                lambda a, x: lp.sum(a * x[:, None], axis=0), lambda a, x: a.T @ x)  # fmt: skip
    k = 33

    def fir(x: Any, w: Any) -> Any:
        r = lp.reduce_axis(k, name="r")
        return lp.compute((65536,), lambda i: lp.sum(x[i + r] * w[r], axis=r), name="y")

    enter_expression("folds", "FIR", [(f, (65536 + k - 1,)), (f, (k,))], fir, lambda x, w: np.correlate(x, w, "valid"))
    enter_expression("folds", "norm rows float64", [(d, (1024, 1024))], lambda x: lp.sqrt(lp.sum(x * x, axis=1)),
                lambda x: np.sqrt((x * x).sum(axis=1)))  # fmt: skip
    enter_expression("folds", "cumsum rows", [(f, (512, 2048))], lambda x: lp.cumsum(x, axis=1),
                lambda x: x.cumsum(axis=1))  # fmt: skip

    for name, ours, numpy in (
        ("x - min(x)", lambda x: x - lp.min(x), lambda x: x - x.min()),
        ("x / max(abs(x))", lambda x: x / lp.max(lp.abs(x)), lambda x: x / np.abs(x).max()),
        ("standardise all", lambda x: (x - lp.mean(x)) * lp.rsqrt(lp.var(x) + 1e-5),
         lambda x: (x - x.mean()) / np.sqrt(x.var() + 1e-5)),
        ("min rows", lambda x: lp.min(x, axis=1), lambda x: x.min(axis=1)),
        ("sum columns", lambda x: lp.sum(x, axis=0), lambda x: x.sum(axis=0)),
        ("var columns", lambda x: lp.var(x, axis=0), lambda x: x.var(axis=0)),
        ("logsumexp rows", lambda x: lp.logsumexp(x, axis=1), lambda x: special.logsumexp(x, axis=1)),
        ("layernorm rows", lambda x: (x - lp.mean(x, axis=1, keepdims=True))
         * lp.rsqrt(lp.var(x, axis=1, keepdims=True) + 1e-5),
         lambda x: (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)),
        ("rmsnorm rows", lambda x: x * lp.rsqrt(lp.mean(x * x, axis=1, keepdims=True) + 1e-5),
         lambda x: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)),
    ):  # fmt: skip
        enter_expression("folds", name, [(f, (1024, 768))], ours, numpy)
    enter_expression("folds", "mean NHWC (1, 2)", [(f, (8, 56, 56, 64))], lambda x: lp.mean(x, axis=(1, 2)),
                lambda x: x.mean(axis=(1, 2)))  # fmt: skip


# ---------------------------------------------------------------- nests


def _lu(a: Array) -> Array:
    for k in range(len(a) - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def _cholesky(a: Array) -> Array:
    low = np.linalg.cholesky(a)
    n = len(a)
    return np.where(np.arange(n)[:, None] >= np.arange(n), low, a)


def _floyd(d: Array) -> Array:
    for k in range(len(d)):
        np.minimum(d, d[:, k, None] + d[None, k], out=d)
    return d


def _jacobi(a: Array, b: Array) -> Array:
    for _ in range(20):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return b


def _seidel(a: Array) -> Array | None:
    n = len(a)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            a[i, j] = a[i - 1 : i + 2, j - 1 : j + 2].sum() / 9.0
    return a


def _nests() -> None:
    enter = partial(enter_nest, "nests")
    enter("gemm", """
def f(A: "float64[384, 384]", B: "float64[384, 384]", C: "inout float64[384, 384]"):
    for i in range(384):
        for j in range(384):
            C[i, j] *= 0.5
            for k in range(384):
                C[i, j] += 1.5 * A[i, k] * B[k, j]
""", lambda a, b, c: 0.5 * c + 1.5 * (a @ b))  # fmt: skip
    enter("2mm", """
def f(A: "float64[256, 256]", B: "float64[256, 256]", C: "float64[256, 256]",
      T: "out float64[256, 256]", D: "inout float64[256, 256]"):
    for i in range(256):
        for j in range(256):
            T[i, j] = 0.0
            for k in range(256):
                T[i, j] += 1.5 * A[i, k] * B[k, j]
    for i1 in range(256):
        for j1 in range(256):
            D[i1, j1] *= 1.2
            for k1 in range(256):
                D[i1, j1] += T[i1, k1] * C[k1, j1]
""", lambda a, b, c, d: 1.2 * d + (1.5 * a @ b) @ c)  # fmt: skip
    enter("syrk", """
def f(A: "float64[256, 256]", C: "inout float64[256, 256]"):
    for i in range(256):
        for j in range(i + 1):
            C[i, j] *= 1.2
        for k in range(256):
            for j1 in range(i + 1):
                C[i, j1] += 1.5 * A[i, k] * A[j1, k]
""", lambda a, c: np.where(np.tri(256, dtype=bool), 1.2 * c + 1.5 * (a @ a.T), c))  # fmt: skip
    enter("syr2k", """
def f(A: "float64[256, 256]", B: "float64[256, 256]", C: "inout float64[256, 256]"):
    for i in range(256):
        for j in range(i + 1):
            C[i, j] *= 1.2
        for k in range(256):
            for j1 in range(i + 1):
                C[i, j1] += A[j1, k] * 1.5 * B[i, k] + B[j1, k] * 1.5 * A[i, k]
""", lambda a, b, c: np.where(np.tri(256, dtype=bool), 1.2 * c + 1.5 * (b @ a.T + a @ b.T), c))  # fmt: skip
    enter("trmm", """
def f(A: "float64[256, 256]", B: "inout float64[256, 256]"):
    for i in range(256):
        for j in range(256):
            for k in range(255 - i):
                B[i, j] += A[i + 1 + k, i] * B[i + 1 + k, j]
            B[i, j] = 1.5 * B[i, j]
""", lambda a, b: 1.5 * (b + np.tril(a, -1).T @ b))  # fmt: skip
    enter("mvt", """
def f(A: "float64[1024, 1024]", y1: "float64[1024]", y2: "float64[1024]",
      x1: "inout float64[1024]", x2: "inout float64[1024]"):
    for i in range(1024):
        for j in range(1024):
            x1[i] += A[i, j] * y1[j]
    for i1 in range(1024):
        for j1 in range(1024):
            x2[i1] += A[j1, i1] * y2[j1]
""", lambda a, y1, y2, x1, x2: x2 + a.T @ y2 + 0 * (a @ y1))  # fmt: skip
    enter("gesummv", """
def f(A: "float64[1024, 1024]", B: "float64[1024, 1024]", x: "float64[1024]", y: "out float64[1024]"):
    with alloc("float64[1024]") as t:
        for i in range(1024):
            t[i] = 0.0
            y[i] = 0.0
            for j in range(1024):
                t[i] += A[i, j] * x[j]
                y[i] += B[i, j] * x[j]
            y[i] = 1.5 * t[i] + 1.2 * y[i]
""", lambda a, b, x: 1.5 * (a @ x) + 1.2 * (b @ x))  # fmt: skip
    enter("atax", """
def f(A: "float64[1024, 1024]", x: "float64[1024]", y: "inout float64[1024]"):
    with alloc("float64[1024]") as t:
        for i in range(1024):
            t[i] = 0.0
            for j in range(1024):
                t[i] += A[i, j] * x[j]
            for j1 in range(1024):
                y[j1] += A[i, j1] * t[i]
""", lambda a, x, y: y + a.T @ (a @ x))  # fmt: skip
    enter("covariance", """
def f(data: "float64[256, 256]", cov: "out float64[256, 256]"):
    with alloc("float64[256]") as mean, alloc("float64[256, 256]") as d:
        for j in range(256):
            mean[j] = 0.0
            for i in range(256):
                mean[j] += data[i, j]
            mean[j] = mean[j] / 256.0
        for i1 in range(256):
            for j1 in range(256):
                d[i1, j1] = data[i1, j1] - mean[j1]
        for i2 in range(256):
            for j2 in range(256 - i2):
                cov[i2, i2 + j2] = 0.0
                for k in range(256):
                    cov[i2, i2 + j2] += d[k, i2] * d[k, i2 + j2]
                cov[i2, i2 + j2] = cov[i2, i2 + j2] / 255.0
                cov[i2 + j2, i2] = cov[i2, i2 + j2]
""", lambda x: np.cov(x, rowvar=False))  # fmt: skip
    enter("doitgen", """
def f(A: "inout float64[48, 48, 64]", C: "float64[64, 64]"):
    with alloc("float64[64]") as t:
        for r in range(48):
            for q in range(48):
                for p in range(64):
                    t[p] = 0.0
                    for k in range(64):
                        t[p] += A[r, q, k] * C[k, p]
                for p1 in range(64):
                    A[r, q, p1] = t[p1]
""", lambda a, c: a @ c)  # fmt: skip
    enter("floyd-warshall", """
def f(D: "inout float64[256, 256]"):
    for k in range(256):
        for i in range(256):
            for j in range(256):
                D[i, j] = minimum(D[i, j], D[i, k] + D[k, j])
""", _floyd, positive=True)  # fmt: skip
    enter("jacobi 2d", """
def f(A: "inout float64[258, 258]", B: "inout float64[258, 258]"):
    for t in range(20):
        for i in range(256):
            for j in range(256):
                B[i + 1, j + 1] = 0.2 * (
                    A[i + 1, j + 1] + A[i + 1, j] + A[i + 1, j + 2] + A[i + 2, j + 1] + A[i, j + 1])
        for i1 in range(256):
            for j1 in range(256):
                A[i1 + 1, j1 + 1] = 0.2 * (
                    B[i1 + 1, j1 + 1] + B[i1 + 1, j1] + B[i1 + 1, j1 + 2] + B[i1 + 2, j1 + 1] + B[i1, j1 + 1])
""", _jacobi)  # fmt: skip
    enter("seidel 2d", """
def f(A: "inout float64[258, 258]"):
    for i in range(256):
        for j in range(256):
            A[i + 1, j + 1] = (
                A[i, j] + A[i, j + 1] + A[i, j + 2] + A[i + 1, j] + A[i + 1, j + 1] + A[i + 1, j + 2]
                + A[i + 2, j] + A[i + 2, j + 1] + A[i + 2, j + 2]) / 9.0
""", _seidel)  # fmt: skip
    enter("LU", """
def f(A: "inout float64[256, 256]"):
    for k in range(256):
        for i in range(255 - k):
            A[k + 1 + i, k] = A[k + 1 + i, k] / A[k, k]
        for i1 in range(255 - k):
            for j in range(255 - k):
                A[k + 1 + i1, k + 1 + j] = A[k + 1 + i1, k + 1 + j] - A[k + 1 + i1, k] * A[k, k + 1 + j]
""", _lu, dominant=True)  # fmt: skip
    enter("Cholesky", """
def f(A: "inout float64[256, 256]"):
    for i in range(256):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] = A[i, j] / A[j, j]
        for k1 in range(i):
            A[i, i] -= A[i, k1] * A[i, k1]
        A[i, i] = sqrt(A[i, i])
""", _cholesky, dominant=True)  # fmt: skip
    enter("symm", """
def f(A: "float64[192, 192]", B: "float64[192, 192]", C: "inout float64[192, 192]"):
    for i in range(192):
        for j in range(192):
            for k in range(192):
                C[i, j] += A[k, i] * B[k, j]
""", lambda a, b, c: c + a.T @ b)  # fmt: skip
    enter("bicg", """
def f(A: "float64[768, 768]", p: "float64[768]", r: "float64[768]", q: "out float64[768]", s: "inout float64[768]"):
    for i in range(768):
        q[i] = 0.0
        for j in range(768):
            s[j] += r[i] * A[i, j]
            q[i] += A[i, j] * p[j]
""", lambda a, p, r, s: s + a.T @ r + 0 * (a @ p))  # fmt: skip
    enter("trisolv", """
def f(L: "float64[768, 768]", x: "inout float64[768]"):
    for i in range(768):
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] = x[i] / L[i, i]
""", _solved, dominant=True)  # fmt: skip
    enter("heat 1d", """
def f(A: "inout float64[16386]", B: "inout float64[16386]"):
    for t in range(20):
        for i in range(16384):
            B[i + 1] = 0.25 * A[i] + 0.5 * A[i + 1] + 0.25 * A[i + 2]
        for j in range(16384):
            A[j + 1] = 0.25 * B[j] + 0.5 * B[j + 1] + 0.25 * B[j + 2]
""", _heat)  # fmt: skip
    enter("gram", """
def f(A: "float32[512, 128]", G: "out float32[128, 128]"):
    for i in range(128):
        for j in range(128):
            G[i, j] = 0.0
    for n in range(512):
        for i1 in range(128):
            for j1 in range(128):
                G[i1, j1] += A[n, i1] * A[n, j1]
""", lambda a: a.T @ a)  # fmt: skip
    enter("N-body", """
def f(x: "float32[1024]", y: "float32[1024]", z: "float32[1024]", m: "float32[1024]", ax: "out float32[1024]"):
    for i in range(1024):
        ax[i] = 0.0
        for j in range(1024):
            ax[i] += m[j] * (x[j] - x[i]) * rsqrt(
                (x[j] - x[i]) * (x[j] - x[i]) + (y[j] - y[i]) * (y[j] - y[i]) + (z[j] - z[i]) * (z[j] - z[i]) + 0.01)
""", _bodies)  # fmt: skip


def _solved(low: Array, x: Array) -> Array:
    return np.linalg.solve(np.tril(low), x)


def _heat(a: Array, b: Array) -> Array:
    for _ in range(20):
        b[1:-1] = 0.25 * a[:-2] + 0.5 * a[1:-1] + 0.25 * a[2:]
        a[1:-1] = 0.25 * b[:-2] + 0.5 * b[1:-1] + 0.25 * b[2:]
    return b


def _bodies(x: Array, y: Array, z: Array, m: Array) -> Array:
    dx, dy, dz = (v[None, :] - v[:, None] for v in (x, y, z))
    return (m * dx / np.sqrt(dx * dx + dy * dy + dz * dz + x.dtype.type(0.01))).sum(axis=1)


# ---------------------------------------------------------------- convolutions


def _convolve(x: Array, w: Array, stride: int = 1, padding: int = 0, groups: int = 1) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    if groups == 1:
        return np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    return np.einsum("nchwij,cij->nchw", windows, w[:, 0])


def _convolutions() -> None:
    for name, x, w, how in (
        ("3x3 NCHW", (1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        ("3x3 stride 2", (1, 64, 56, 56), (128, 64, 3, 3), {"padding": 1, "stride": 2}),
        ("7x7 stem", (1, 3, 112, 112), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
        ("1x1 NCHW", (1, 256, 28, 28), (128, 256, 1, 1), {}),
        ("depthwise 3x3", (1, 128, 56, 56), (128, 1, 3, 3), {"padding": 1, "groups": 128}),
        ("depthwise 5x5", (1, 128, 28, 28), (128, 1, 5, 5), {"padding": 2, "groups": 128}),
        ("3x3 14x14", (1, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
        ("1x1 stride 2", (1, 128, 28, 28), (256, 128, 1, 1), {"stride": 2}),
        ("3x3 batch 4", (4, 32, 28, 28), (64, 32, 3, 3), {"padding": 1}),
        ("5x5", (1, 32, 28, 28), (32, 32, 5, 5), {"padding": 2}),
        ("3x3 7x7", (1, 256, 7, 7), (128, 256, 3, 3), {"padding": 1}),
    ):
        enter_expression("convolutions", name, [("float32", x), ("float32", w)], partial(_conv2d, how=how),
                    partial(_convolve, **how), tolerance=1e-3, torch=partial(_torch_conv2d, how=how))  # fmt: skip
    enter_expression("convolutions", "max pool 3x3", [("float32", (1, 64, 56, 56))],
                lambda x: lp.max_pool2d(x, 3, stride=2, padding=1), _pooled)  # fmt: skip


def _torch_conv2d(x: Array, w: Array, how: Mapping[str, int]) -> Any:
    torch = importlib.import_module("torch")
    with torch.no_grad():
        return torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w), **how).numpy()


def _conv2d(x: Any, w: Any, how: Mapping[str, int]) -> Any:
    return lp.conv2d(x, w, **how)


def _pooled(x: Array) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max(axis=(4, 5))


# ---------------------------------------------------------------- narrow types


def _narrow() -> None:
    for t in ("int8", "bfloat16", "float16"):
        total = "int32" if t == "int8" else "float32"
        enter_expression("narrow", f"matmul {t}", [(t, (512, 512)), (t, (512, 512))],
                    lambda a, b, total=total: a.astype(total) @ b.astype(total),
                    lambda a, b, total=total: a.astype(total if a.dtype != np.float64 else np.float64)
                    @ b.astype(total if a.dtype != np.float64 else np.float64), tolerance=1e-2)  # fmt: skip
    enter_expression("narrow", "quantise", [("float32", (1 << 20,))],
                lambda x: lp.clip(lp.round(x * 31.5), -128.0, 127.0).astype("int8"),
                lambda x: np.clip(np.rint(x * x.dtype.type(31.5)), -128, 127).astype(np.int8),
                tolerance=1.01)  # fmt: skip
    enter_expression("narrow", "dequantise", [("int8", (1 << 20,))], lambda x: x.astype("float32") * 0.03125,
                lambda x: x.astype(np.float32) * np.float32(0.03125))  # fmt: skip
    enter_expression("narrow", "alpha blend", [("uint8", (1 << 20,)), ("uint8", (1 << 20,)), ("uint8", (1 << 20,))],
                lambda a, b, m: ((a.astype("uint16") * m.astype("uint16") + b.astype("uint16")
                                  * (255 - m.astype("uint16"))) >> 8).astype("uint8"),
                lambda a, b, m: ((a.astype(np.uint16) * m + b.astype(np.uint16) * (255 - m)) >> 8)
                .astype(np.uint8))  # fmt: skip
    enter_expression("narrow", "silu bfloat16", [("bfloat16", (1 << 18,))], lp.silu,
                lambda x: x / (1 + np.exp(-x.astype(np.float32))), tolerance=2e-2)  # fmt: skip

    def blurred(x: Any) -> Any:
        n = 1024
        return lp.compute((n, n), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2] + x[i + 1, j] + x[i + 2, j]) // 5,
                          name="y")  # fmt: skip

    enter_expression("narrow", "blur uint16", [("uint16", (1026, 1026))], blurred,
                lambda x: (x[:-2, :-2] + x[:-2, 1:-1] + x[:-2, 2:] + x[1:-1, :-2] + x[2:, :-2]) // 5)  # fmt: skip


# ---------------------------------------------------------------- memory


def _memory() -> None:
    for n, t in ((1024, "float32"), (4096, "float32"), (1024, "float64"), (1024, "uint8")):
        enter_expression("memory", f"transpose {n}^2 {t}", [(t, (n, n))],
                    lambda x, n=n: lp.compute((n, n), lambda i, j: x[j, i], name="y"),
                    lambda x: np.ascontiguousarray(x.T))  # fmt: skip
    enter_expression("memory", "NCHW to NHWC", [("float32", (8, 64, 56, 56))],
                lambda x: lp.transpose(x, (0, 2, 3, 1)) + 0.0,
                lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)))  # fmt: skip
    enter_expression("memory", "add", [("float32", (1 << 20,)), ("float32", (1 << 20,))], lambda a, b: a + b,
                lambda a, b: a + b)  # fmt: skip

    for name, ours, numpy in (
        ("relu", lambda x: lp.maximum(x, 0.0), lambda x: np.maximum(x, x.dtype.type(0))),
        ("x * x + x", lambda x: x * x + x, lambda x: x * x + x),
        ("reverse rows", lambda x: lp.flip(x, 1), lambda x: np.ascontiguousarray(x[:, ::-1])),
        ("every other", lambda x: x[:, ::2] + 0.0, lambda x: np.ascontiguousarray(x[:, ::2])),
        ("sum of 4 shifts", lambda x: x[:-1, :-1] + x[1:, :-1] + x[:-1, 1:] + x[1:, 1:],
         lambda x: x[:-1, :-1] + x[1:, :-1] + x[:-1, 1:] + x[1:, 1:]),
        ("heads", lambda x: lp.transpose(lp.reshape(x, (1024, 16, 64)), (1, 0, 2)) + 0.0,
         lambda x: np.ascontiguousarray(x.reshape(1024, 16, 64).transpose(1, 0, 2))),
    ):  # fmt: skip
        enter_expression("memory", name, [("float32", (1024, 1024))], ours, numpy)

    def make_gather(dtype: str) -> Callable[[], Program]:
        def made() -> Program:
            x, ix = lp.placeholder((1 << 16,), dtype, name="x"), lp.placeholder((1 << 18,), "int32", name="ix")
            s = lp.Schedule(lp.take(x, ix).named("y"))
            at = np.random.default_rng(0).integers(0, 1 << 16, 1 << 18).astype(np.int32)
            inputs = _array((1 << 16,), dtype, 1), at
            return Program(f"gather {dtype}", "memory", s, inputs, lambda x, i: x[i], {}, 1e-6)

        return made

    for t in ("float32", "float64"):
        GROUPS.setdefault("memory", {})[f"gather {t}"] = make_gather(t)


# ---------------------------------------------------------------- products


def _products() -> None:
    for m, n, k in ((512, 512, 512), (1000, 64, 256), (64, 1000, 500)):
        for t in ("float32", "float64"):
            enter_expression("products", f"{m}x{n}x{k} {t}", [(t, (m, k)), (t, (k, n))], lambda a, b: a @ b,
                        lambda a, b: a @ b, tolerance=1e-3)  # fmt: skip
    enter_expression("products", "batched 16x128^3", [("float32", (16, 128, 128))] * 2, lambda a, b: a @ b,
                lambda a, b: a @ b, tolerance=1e-3)  # fmt: skip


for enter in (_functions, _folds, _nests, _convolutions, _narrow, _memory, _products):
    enter()
