"""More programs of `benchmarks/cpu_wide.py`: filters and series, parts of models, sweeps in time and in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from cpu_wide_programs import GROUPS as GROUPS, Array, Program as Program, enter_expression, enter_nest, make as make
from scipy import special
from scipy.signal import lfilter

import loopir as lp


def _signals() -> None:
    """Filters, images and series: windows, strides, cumulative folds, odd sizes."""
    f, d = "float32", "float64"
    enter = partial(enter_expression, "signals")

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
    enter = partial(enter_expression, "models")
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
    enter = partial(enter_nest, "sweeps")
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


for enter in (_signals, _models, _sweeps):
    enter()
