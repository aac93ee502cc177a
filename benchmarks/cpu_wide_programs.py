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
from scipy.signal import lfilter

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


def _expression(
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


def _nest(group: str, name: str, text: str, numpy: Numpy, *, scale: float = 1.0, dominant: bool = False,
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
            _expression("functions", f"{name} {t}", [(t, (n,))], ours, numpy, positive=positive)
    for t in ("float32", "float64"):
        _expression("functions", f"pow {t}", [(t, (n,)), (t, (n,))], lp.pow, np.power, positive=True)
        _expression("functions", f"sin^2 + cos^2 {t}", [(t, (n,))], lambda x: lp.sin(x) * lp.sin(x) + lp.cos(x)
                    * lp.cos(x), lambda x: np.sin(x) ** 2 + np.cos(x) ** 2)  # fmt: skip
        _expression("functions", f"gelu {t}", [(t, (n,))], lp.gelu,
                    lambda x: 0.5 * x * (1 + special.erf(x * 0.7071067811865476)))  # fmt: skip
        _expression("functions", f"softplus {t}", [(t, (n,))], lambda x: lp.log(1.0 + lp.exp(x)),
                    lambda x: np.log(1 + np.exp(x)))  # fmt: skip
    _expression("functions", "gelu bfloat16", [("bfloat16", (n,))], lp.gelu,
                lambda x: 0.5 * x * (1 + special.erf(x.astype(np.float32) * 0.7071067811865476)),
                tolerance=2e-2)  # fmt: skip
    _expression("functions", "tanh float16", [("float16", (n,))], lp.tanh, np.tanh, tolerance=2e-3)


# ---------------------------------------------------------------- folds and statistics


def _folds() -> None:
    f, d = "float32", "float64"
    _expression("folds", "mean NCHW (2, 3)", [(f, (8, 64, 56, 56))], lambda x: lp.mean(x, axis=(2, 3)),
                lambda x: x.mean(axis=(2, 3)))  # fmt: skip
    _expression("folds", "var rows", [(f, (1024, 1024))], lambda x: lp.var(x, axis=1), lambda x: x.var(axis=1))
    _expression("folds", "argmax rows", [(f, (1024, 1024))], lambda x: lp.argmax(x, axis=1), lambda x: x.argmax(axis=1))
    _expression("folds", "argmax columns", [(f, (1024, 1024))], lambda x: lp.argmax(x, axis=0),
                lambda x: x.argmax(axis=0))  # fmt: skip
    _expression("folds", "max rows float64", [(d, (1024, 1024))], lambda x: lp.max(x, axis=1), lambda x: x.max(axis=1))
    _expression("folds", "sum all float64", [(d, (1 << 20,))], lambda x: lp.sum(x, axis=0), lambda x: x.sum())

    def normed(x: Any) -> Any:
        m, v = lp.mean(x, axis=(0, 2, 3)), lp.var(x, axis=(0, 2, 3))
        return (x - m[None, :, None, None]) * lp.rsqrt(v + 1e-5)[None, :, None, None]

    def normed_numpy(x: Array) -> Array:
        m, v = x.mean(axis=(0, 2, 3), keepdims=True), x.var(axis=(0, 2, 3), keepdims=True)
        return (x - m) / np.sqrt(v + 1e-5)

    _expression("folds", "batch norm NCHW", [(f, (8, 64, 28, 28))], normed, normed_numpy)

    def standard(x: Any) -> Any:
        return (x - lp.mean(x, axis=0)[None, :]) * lp.rsqrt(lp.var(x, axis=0) + 1e-5)[None, :]

    _expression("folds", "standardise columns", [(f, (2048, 512))], standard,
                lambda x: (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5))  # fmt: skip
    _expression("folds", "softmax rows", [(f, (512, 1000))], lambda x: lp.softmax(x),
                lambda x: (e := np.exp(x - x.max(axis=1, keepdims=True))) / e.sum(axis=1, keepdims=True))  # fmt: skip
    _expression("folds", "matvec", [(f, (2048, 2048)), (f, (2048,))], lambda a, x: lp.sum(a * x[None, :], axis=1),
                lambda a, x: a @ x)  # fmt: skip
    _expression("folds", "matvec transposed", [(f, (2048, 2048)), (f, (2048,))],
                lambda a, x: lp.sum(a * x[:, None], axis=0), lambda a, x: a.T @ x)  # fmt: skip
    k = 33

    def fir(x: Any, w: Any) -> Any:
        r = lp.reduce_axis(k, name="r")
        return lp.compute((65536,), lambda i: lp.sum(x[i + r] * w[r], axis=r), name="y")

    _expression("folds", "FIR", [(f, (65536 + k - 1,)), (f, (k,))], fir, lambda x, w: np.correlate(x, w, "valid"))
    _expression("folds", "norm rows float64", [(d, (1024, 1024))], lambda x: lp.sqrt(lp.sum(x * x, axis=1)),
                lambda x: np.sqrt((x * x).sum(axis=1)))  # fmt: skip
    _expression("folds", "cumsum rows", [(f, (512, 2048))], lambda x: lp.cumsum(x, axis=1),
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
        _expression("folds", name, [(f, (1024, 768))], ours, numpy)
    _expression("folds", "mean NHWC (1, 2)", [(f, (8, 56, 56, 64))], lambda x: lp.mean(x, axis=(1, 2)),
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
    enter = partial(_nest, "nests")
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
        _expression("convolutions", name, [("float32", x), ("float32", w)], partial(_conv2d, how=how),
                    partial(_convolve, **how), tolerance=1e-3, torch=partial(_torch_conv2d, how=how))  # fmt: skip
    _expression("convolutions", "max pool 3x3", [("float32", (1, 64, 56, 56))],
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
        _expression("narrow", f"matmul {t}", [(t, (512, 512)), (t, (512, 512))],
                    lambda a, b, total=total: a.astype(total) @ b.astype(total),
                    lambda a, b, total=total: a.astype(total if a.dtype != np.float64 else np.float64)
                    @ b.astype(total if a.dtype != np.float64 else np.float64), tolerance=1e-2)  # fmt: skip
    _expression("narrow", "quantise", [("float32", (1 << 20,))],
                lambda x: lp.clip(lp.round(x * 31.5), -128.0, 127.0).astype("int8"),
                lambda x: np.clip(np.rint(x * x.dtype.type(31.5)), -128, 127).astype(np.int8),
                tolerance=1.01)  # fmt: skip
    _expression("narrow", "dequantise", [("int8", (1 << 20,))], lambda x: x.astype("float32") * 0.03125,
                lambda x: x.astype(np.float32) * np.float32(0.03125))  # fmt: skip
    _expression("narrow", "alpha blend", [("uint8", (1 << 20,)), ("uint8", (1 << 20,)), ("uint8", (1 << 20,))],
                lambda a, b, m: ((a.astype("uint16") * m.astype("uint16") + b.astype("uint16")
                                  * (255 - m.astype("uint16"))) >> 8).astype("uint8"),
                lambda a, b, m: ((a.astype(np.uint16) * m + b.astype(np.uint16) * (255 - m)) >> 8)
                .astype(np.uint8))  # fmt: skip
    _expression("narrow", "silu bfloat16", [("bfloat16", (1 << 18,))], lp.silu,
                lambda x: x / (1 + np.exp(-x.astype(np.float32))), tolerance=2e-2)  # fmt: skip

    def blurred(x: Any) -> Any:
        n = 1024
        return lp.compute((n, n), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2] + x[i + 1, j] + x[i + 2, j]) // 5,
                          name="y")  # fmt: skip

    _expression("narrow", "blur uint16", [("uint16", (1026, 1026))], blurred,
                lambda x: (x[:-2, :-2] + x[:-2, 1:-1] + x[:-2, 2:] + x[1:-1, :-2] + x[2:, :-2]) // 5)  # fmt: skip


# ---------------------------------------------------------------- memory


def _memory() -> None:
    for n, t in ((1024, "float32"), (4096, "float32"), (1024, "float64"), (1024, "uint8")):
        _expression("memory", f"transpose {n}^2 {t}", [(t, (n, n))],
                    lambda x, n=n: lp.compute((n, n), lambda i, j: x[j, i], name="y"),
                    lambda x: np.ascontiguousarray(x.T))  # fmt: skip
    _expression("memory", "NCHW to NHWC", [("float32", (8, 64, 56, 56))], lambda x: lp.transpose(x, (0, 2, 3, 1)) + 0.0,
                lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)))  # fmt: skip
    _expression("memory", "add", [("float32", (1 << 20,)), ("float32", (1 << 20,))], lambda a, b: a + b,
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
        _expression("memory", name, [("float32", (1024, 1024))], ours, numpy)

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
            _expression("products", f"{m}x{n}x{k} {t}", [(t, (m, k)), (t, (k, n))], lambda a, b: a @ b,
                        lambda a, b: a @ b, tolerance=1e-3)  # fmt: skip
    _expression("products", "batched 16x128^3", [("float32", (16, 128, 128))] * 2, lambda a, b: a @ b,
                lambda a, b: a @ b, tolerance=1e-3)  # fmt: skip


# ---------------------------------------------------------------- more of what people write


def _signals() -> None:
    """Filters, images and series: windows, strides, cumulative folds, odd sizes."""
    f, d = "float32", "float64"
    enter = partial(_expression, "signals")

    def windowed(shape: tuple[int, ...], at: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: lp.compute(shape, lambda *ix: at(given, *ix), name="y")

    n = 1021
    enter("gradient magnitude", [(f, (n, n))],
          windowed((n - 2, n - 2), lambda g, i, j: lp.sqrt((g[0][i + 1, j + 2] - g[0][i + 1, j]) ** 2
                                                         + (g[0][i + 2, j + 1] - g[0][i, j + 1]) ** 2)),
          lambda x: np.sqrt((x[1:-1, 2:] - x[1:-1, :-2]) ** 2 + (x[2:, 1:-1] - x[:-2, 1:-1]) ** 2))  # fmt: skip
    enter(
        "sobel",
        [(f, (n, n))],
        windowed(
            (n - 2, n - 2),
            lambda g, i, j: (
                (g[0][i, j + 2] + 2.0 * g[0][i + 1, j + 2] + g[0][i + 2, j + 2])
                - (g[0][i, j] + 2.0 * g[0][i + 1, j] + g[0][i + 2, j])
            ),
        ),
        lambda x: (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2] + x[2:, :-2]),
    )

    def separable(x: Any, w: Any) -> Any:
        r, c = lp.reduce_axis(9, name="r"), lp.reduce_axis(9, name="c")
        rows = lp.compute((504, 512), lambda i, j: lp.sum(x[i + r, j] * w[r], axis=r), name="rows")
        return lp.compute((504, 504), lambda i, j: lp.sum(rows[i, j + c] * w[c], axis=c), name="y")

    def separable_numpy(x: Array, w: Array) -> Array:
        v = np.lib.stride_tricks.sliding_window_view
        return v(v(x, 9, axis=0) @ w, 9, axis=1) @ w

    enter("gaussian 9 + 9", [(f, (512, 512)), (f, (9,))], separable, separable_numpy)
    enter("median of 3", [(f, (1 << 18,))],
          windowed(((1 << 18) - 2,), lambda g, i: lp.maximum(lp.minimum(g[0][i], g[0][i + 1]),
                   lp.minimum(lp.maximum(g[0][i], g[0][i + 1]), g[0][i + 2]))),
          lambda x: np.median(np.stack([x[:-2], x[1:-1], x[2:]]), axis=0))  # fmt: skip
    enter("dilate 5x5 uint8", [("uint8", (516, 516))], _dilated, _dilated_numpy)
    enter("downsample 2x2 uint8", [("uint8", (1024, 1024))],
          _halved,
          lambda x: ((x[::2, ::2].astype(np.uint16) + x[::2, 1::2] + x[1::2, ::2] + x[1::2, 1::2] + 2) // 4)
          .astype(np.uint8))  # fmt: skip
    enter("grey of RGB", [("uint8", (512, 512, 3))],
          windowed((512, 512), lambda g, i, j: 0.299 * g[0][i, j, 0].astype(f) + 0.587 * g[0][i, j, 1].astype(f)
                   + 0.114 * g[0][i, j, 2].astype(f)),
          lambda x: x @ np.array([0.299, 0.587, 0.114], np.float32))  # fmt: skip
    enter("threshold", [("uint8", (1 << 20,))], lambda x: lp.where(x > 127, 255, 0).astype("uint8"),
          lambda x: np.where(x > 127, 255, 0).astype(np.uint8))  # fmt: skip
    enter("gamma", [(f, (1 << 18,))], lambda x: lp.pow(x, 0.45), lambda x: x ** x.dtype.type(0.45), positive=True)
    enter("moving average 64", [(d, (1 << 16,))], _moving, lambda x: np.convolve(x, np.ones(64) / 64, "valid"))
    enter(
        "autocorrelation 32",
        [(d, (1 << 15,))],
        _lags,
        lambda x: np.array([x[: len(x) - 32] @ x[k : len(x) - 32 + k] for k in range(32)]),
    )
    enter("differences", [(d, (1 << 19,))], lp.diff, np.diff)
    enter("power of complex", [(f, (1 << 18,)), (f, (1 << 18,))],
          lambda a, b: 4.342944819032518 * lp.log(a * a + b * b + 1e-12),
          lambda a, b: 10 * np.log10(a * a + b * b + a.dtype.type(1e-12)))  # fmt: skip
    enter("upsample nearest", [(f, (16, 64, 64))], windowed((16, 128, 128), lambda g, c, i, j: g[0][c, i // 2, j // 2]),
          lambda x: x.repeat(2, axis=1).repeat(2, axis=2))  # fmt: skip


def _halved(x: Any) -> Any:
    w = x.astype("uint16")
    return lp.compute(
        (512, 512),
        lambda i, j: (
            (w[2 * i, 2 * j] + w[2 * i, 2 * j + 1] + w[2 * i + 1, 2 * j] + w[2 * i + 1, 2 * j + 1] + 2) // 4
        ).astype("uint8"),
        name="y",
    )


def _dilated(x: Any) -> Any:
    r, c = lp.reduce_axis(5, name="r"), lp.reduce_axis(5, name="c")
    return lp.compute((512, 512), lambda i, j: lp.max(x[i + r, j + c], axis=(r, c)), name="y")


def _dilated_numpy(x: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, (5, 5)).max(axis=(2, 3))


def _moving(x: Any) -> Any:
    r = lp.reduce_axis(64, name="r")
    return lp.compute(((1 << 16) - 63,), lambda i: lp.sum(x[i + r], axis=r) * (1.0 / 64), name="y")


def _lags(x: Any) -> Any:
    r = lp.reduce_axis((1 << 15) - 32, name="r")
    return lp.compute((32,), lambda k: lp.sum(x[r] * x[r + k], axis=r), name="y")


def _models() -> None:
    """Losses, optimizers, embeddings and small batched algebra."""
    f, d = "float32", "float64"
    enter = partial(_expression, "models")
    n = 1 << 18

    def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
        m1, v1 = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return p - 0.001 * m1 / (lp.sqrt(v1) + 1e-8)

    enter(
        "adam step",
        [(f, (n,))] * 4,
        lambda p, g, m, v: adam(p, g, m, lp.abs(v)),
        lambda p, g, m, v: p - 0.001 * (0.9 * m + 0.1 * g) / (np.sqrt(0.999 * np.abs(v) + 0.001 * g * g) + 1e-8),
    )
    enter("focal loss", [(f, (1 << 15,)), (f, (1 << 15,))], _focal, _focal_numpy)
    enter("huber", [(f, (n,)), (f, (n,))],
          lambda a, b: lp.mean(lp.where(lp.abs(a - b) < 1.0, 0.5 * (a - b) * (a - b), lp.abs(a - b) - 0.5)),
          lambda a, b: np.where(np.abs(a - b) < 1, 0.5 * (a - b) ** 2, np.abs(a - b) - 0.5).mean())  # fmt: skip
    enter("cosine rows", [(f, (2048, 300)), (f, (2048, 300))],
          lambda a, b: lp.sum(a * b, axis=1) * lp.rsqrt(lp.sum(a * a, axis=1) * lp.sum(b * b, axis=1)),
          lambda a, b: (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)))  # fmt: skip
    enter("log softmax", [(f, (777, 1003))], lp.log_softmax,
          lambda x: x - special.logsumexp(x, axis=1, keepdims=True))  # fmt: skip
    enter("pairwise distances", [(f, (500, 60)), (f, (400, 60))],
          lambda a, b: lp.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=2),
          lambda a, b: (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T, tolerance=1e-3)  # fmt: skip
    enter("linear + bias + relu", [(f, (200, 300)), (f, (300, 400)), (f, (400,))],
          lambda x, w, b: lp.relu(x @ w + b), lambda x, w, b: np.maximum(x @ w + b, 0), tolerance=1e-3)  # fmt: skip
    enter("linear of one row", [(f, (1, 1024)), (f, (1024, 1024))], lambda x, w: x @ w, lambda x, w: x @ w,
          tolerance=1e-3)  # fmt: skip
    enter("linear of one row transposed", [(f, (1, 1024)), (f, (1024, 1024))], lambda x, w: x @ w.T,
          lambda x, w: x @ w.T, tolerance=1e-3)  # fmt: skip
    enter("batched 4x4", [(f, (4096, 4, 4)), (f, (4096, 4, 4))], lambda a, b: a @ b, lambda a, b: a @ b)
    enter("batched 16x16 f64", [(d, (512, 16, 16)), (d, (512, 16, 16))], lambda a, b: a @ b, lambda a, b: a @ b)
    enter("batched matvec", [(f, (512, 64, 64)), (f, (512, 64))], lambda a, x: lp.sum(a * x[:, None, :], axis=2),
          lambda a, x: (a @ x[:, :, None])[:, :, 0])  # fmt: skip
    enter("bilinear form", [(d, (300, 300)), (d, (1000, 300))], lambda a, x: lp.sum((x @ a) * x, axis=1),
          lambda a, x: ((x @ a) * x).sum(1), tolerance=1e-3)  # fmt: skip
    enter("outer sum", [(f, (777,)), (f, (1001,))], lambda a, b: a[:, None] + b[None, :], lambda a, b: a[:, None] + b)
    enter("rotary", [(f, (512, 8, 64)), (f, (512, 32)), (f, (512, 32))], _rotary, _rotary_numpy)
    enter("group norm", [(f, (8, 32, 28, 28))], _group_norm, _group_norm_numpy)
    enter("int8 dot rows", [("int8", (2048, 512)), ("int8", (512,))],
          lambda a, x: lp.sum(a.astype("int32") * x.astype("int32")[None, :], axis=1),
          lambda a, x: a.astype(np.int32) @ x.astype(np.int32))  # fmt: skip
    enter("any rows", [("uint8", (1024, 1024))], lambda x: lp.any(x > 254, axis=1), lambda x: (x > 254).any(axis=1))
    enter("count", [("int32", (1 << 20,))], lambda x: lp.sum((x > 100).astype("int32"), axis=0),
          lambda x: np.count_nonzero(x > 100))  # fmt: skip


def _focal(x: Any, y: Any) -> Any:
    p = lp.sigmoid(x)
    t = lp.sigmoid(y)
    return lp.mean(-t * (1.0 - p) ** 2 * lp.log(p + 1e-7) - (1.0 - t) * p**2 * lp.log(1.0 - p + 1e-7))


def _focal_numpy(x: Array, y: Array) -> Any:
    p, t = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-y))
    e = x.dtype.type(1e-7)
    return (-t * (1 - p) ** 2 * np.log(p + e) - (1 - t) * p**2 * np.log(1 - p + e)).mean()


def _rotary(x: Any, c: Any, s: Any) -> Any:
    a, b = x[:, :, :32], x[:, :, 32:]
    c, s = c[:, None, :], s[:, None, :]
    return lp.concatenate([a * c - b * s, b * c + a * s], axis=2)


def _rotary_numpy(x: Array, c: Array, s: Array) -> Array:
    a, b, c, s = x[..., :32], x[..., 32:], c[:, None], s[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def _group_norm(x: Any) -> Any:
    g = lp.reshape(x, (8, 8, 4 * 28 * 28))
    m, v = lp.mean(g, axis=2, keepdims=True), lp.var(g, axis=2, keepdims=True)
    return lp.reshape((g - m) * lp.rsqrt(v + 1e-5), (8, 32, 28, 28))


def _group_norm_numpy(x: Array) -> Array:
    g = x.reshape(8, 8, -1)
    m, v = g.mean(axis=2, keepdims=True), g.var(axis=2, keepdims=True)
    return ((g - m) / np.sqrt(v + 1e-5)).reshape(x.shape)


def _sweeps() -> None:
    """Nests with several statements, in time, in place."""
    enter = partial(_nest, "sweeps")
    enter("SOR in time", """
def f(A: "inout float64[130, 203]"):
    for t in range(10):
        for i in range(128):
            for j in range(201):
                A[i + 1, j + 1] = 0.2 * A[i + 1, j + 1] + 0.2 * (
                    A[i, j + 1] + A[i + 1, j] + A[i + 2, j + 1] + A[i + 1, j + 2])
""", _sor)  # fmt: skip
    enter("summed area", """
def f(A: "inout float64[513, 513]"):
    for i in range(512):
        for j in range(512):
            A[i + 1, j + 1] = A[i + 1, j + 1] + A[i, j + 1] + A[i + 1, j] - A[i, j]
""", _summed)  # fmt: skip
    enter("wave 2d", """
def f(U: "inout float32[258, 258]", V: "inout float32[258, 258]"):
    for t in range(8):
        for i in range(256):
            for j in range(256):
                V[i + 1, j + 1] = 2.0 * U[i + 1, j + 1] - V[i + 1, j + 1] + 0.1 * (
                    U[i, j + 1] + U[i + 2, j + 1] + U[i + 1, j] + U[i + 1, j + 2] - 4.0 * U[i + 1, j + 1])
        for k in range(256):
            for l in range(256):
                U[k + 1, l + 1] = 2.0 * V[k + 1, l + 1] - U[k + 1, l + 1] + 0.1 * (
                    V[k, l + 1] + V[k + 2, l + 1] + V[k + 1, l] + V[k + 1, l + 2] - 4.0 * V[k + 1, l + 1])
""", _wave, tolerance=1e-3)  # fmt: skip
    enter("heat 3d", """
def f(A: "inout float64[42, 42, 42]", B: "inout float64[42, 42, 42]"):
    for t in range(4):
        for i in range(40):
            for j in range(40):
                for k in range(40):
                    B[i + 1, j + 1, k + 1] = A[i + 1, j + 1, k + 1] * 0.4 + 0.1 * (
                        A[i, j + 1, k + 1] + A[i + 2, j + 1, k + 1] + A[i + 1, j, k + 1] + A[i + 1, j + 2, k + 1]
                        + A[i + 1, j + 1, k] + A[i + 1, j + 1, k + 2])
        for i1 in range(40):
            for j1 in range(40):
                for k1 in range(40):
                    A[i1 + 1, j1 + 1, k1 + 1] = B[i1 + 1, j1 + 1, k1 + 1] * 0.4 + 0.1 * (
                        B[i1, j1 + 1, k1 + 1] + B[i1 + 2, j1 + 1, k1 + 1] + B[i1 + 1, j1, k1 + 1]
                        + B[i1 + 1, j1 + 2, k1 + 1] + B[i1 + 1, j1 + 1, k1] + B[i1 + 1, j1 + 1, k1 + 2])
""", _heat_3d)  # fmt: skip
    enter("IIR rows", """
def f(x: "float32[256, 1024]", y: "inout float32[256, 1025]"):
    for i in range(256):
        for j in range(1024):
            y[i, j + 1] = 0.9 * y[i, j] + 0.1 * x[i, j]
""", _iir)  # fmt: skip
    enter("3mm", """
def f(A: "float32[200, 180]", B: "float32[180, 220]", C: "float32[220, 240]", D: "float32[240, 210]",
      E: "out float32[200, 220]", F: "out float32[220, 210]", G: "out float32[200, 210]"):
    for i in range(200):
        for j in range(220):
            E[i, j] = 0.0
            for k in range(180):
                E[i, j] += A[i, k] * B[k, j]
    for i1 in range(220):
        for j1 in range(210):
            F[i1, j1] = 0.0
            for k1 in range(240):
                F[i1, j1] += C[i1, k1] * D[k1, j1]
    for i2 in range(200):
        for j2 in range(210):
            G[i2, j2] = 0.0
            for k2 in range(220):
                G[i2, j2] += E[i2, k2] * F[k2, j2]
""", lambda a, b, c, d: (a @ b) @ (c @ d), tolerance=1e-3)  # fmt: skip
    enter("gemver", """
def f(A: "inout float64[512, 512]", u1: "float64[512]", v1: "float64[512]", u2: "float64[512]", v2: "float64[512]",
      y: "float64[512]", z: "float64[512]", x: "inout float64[512]", w: "inout float64[512]"):
    for i in range(512):
        for j in range(512):
            A[i, j] = A[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    for i1 in range(512):
        for j1 in range(512):
            x[i1] += 1.2 * A[j1, i1] * y[j1]
    for i2 in range(512):
        x[i2] = x[i2] + z[i2]
    for i3 in range(512):
        for j3 in range(512):
            w[i3] += 1.5 * A[i3, j3] * x[j3]
""", _gemver)  # fmt: skip
    enter("correlation of columns", """
def f(X: "float32[400, 120]", R: "out float32[120, 120]"):
    with alloc("float32[120]") as m, alloc("float32[400, 120]") as c:
        for j in range(120):
            m[j] = 0.0
            for i in range(400):
                m[j] += X[i, j]
            m[j] = m[j] / 400.0
        for i1 in range(400):
            for j1 in range(120):
                c[i1, j1] = X[i1, j1] - m[j1]
        for a in range(120):
            for b in range(120):
                R[a, b] = 0.0
                for k in range(400):
                    R[a, b] += c[k, a] * c[k, b]
""", lambda x: (y := x - x.mean(axis=0)).T @ y, tolerance=1e-3)  # fmt: skip
    enter("polynomial", """
def f(x: "float64[65536]", c: "float64[12]", y: "out float64[65536]"):
    for i in range(65536):
        y[i] = 0.0
        for k in range(12):
            y[i] = y[i] * x[i] + c[k]
""", lambda x, c: np.polyval(c, x), scale=0.5)  # fmt: skip
    enter("histogram of columns", """
def f(x: "uint8[65536]", h: "inout int32[256]"):
    for i in range(65536):
        h[x[i]] += 1
""", lambda x, h: h + np.bincount(x, minlength=256).astype(np.int32))  # fmt: skip


def _sor(a: Array) -> Array:
    for _ in range(10):
        for i in range(1, 129):
            rest = 0.2 * a[i, 1:-1] + 0.2 * (a[i - 1, 1:-1] + a[i + 1, 1:-1] + a[i, 2:])
            a[i, 1:-1] = lfilter([1.0], [1.0, -0.2], rest, zi=np.array([0.2 * a[i, 0]]))[0]
    return a


def _summed(a: Array) -> Array:
    a[1:, 1:] = a[1:, 1:].cumsum(0).cumsum(1) + a[:1, 1:] + a[1:, :1] - a[0, 0]
    return a


def _wave(u: Array, v: Array) -> Array:
    def step(a: Array, b: Array) -> None:
        c = a[1:-1, 1:-1]
        b[1:-1, 1:-1] = 2 * c - b[1:-1, 1:-1] + 0.1 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * c)

    for _ in range(8):
        step(u, v)
        step(v, u)
    return v


def _heat_3d(a: Array, b: Array) -> Array:
    def step(x: Array, y: Array) -> None:
        c = (slice(1, -1),) * 3
        around = sum(x[tuple(slice(1 + s * (d == k), x.shape[k] - 1 + s * (d == k)) for k in range(3))]
                     for d in range(3) for s in (-1, 1))  # fmt: skip
        y[c] = x[c] * 0.4 + 0.1 * around

    for _ in range(4):
        step(a, b)
        step(b, a)
    return b


def _iir(x: Array, y: Array) -> Array:
    y[:, 1:] = lfilter([0.1], [1.0, -0.9], x, axis=1, zi=0.9 * y[:, :1])[0]
    return y


def _gemver(a: Array, u1: Array, v1: Array, u2: Array, v2: Array, y: Array, z: Array, x: Array, w: Array) -> Array:
    b = a + np.outer(u1, v1) + np.outer(u2, v2)
    return w + 1.5 * (b @ (x + 1.2 * (b.T @ y) + z))


for enter in (_functions, _folds, _nests, _convolutions, _narrow, _memory, _products, _signals, _models, _sweeps):
    enter()
