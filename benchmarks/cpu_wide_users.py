"""A group more of programs for `benchmarks/cpu_wide.py`: images, statistics, small algebra, gathers, quantised layers.

They were written to look for programs that `auto` schedules badly, not for its recipes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from cpu_wide_more import GROUPS as GROUPS, Program as Program, enter_expression, enter_nest, make as make
from cpu_wide_programs import Array
from scipy import ndimage, signal, special

import loopir as lp

enter = partial(enter_expression, "users")
f, d = "float32", "float64"


def _places(x: Any, most: int) -> Any:
    """Indices below `most`, of any integers."""
    return x % most


def _window(size: int, last: int, fold: Any, scale: float | None = None) -> Callable[[Any], Any]:
    def of(x: Any) -> Any:
        r, c = lp.reduce_axis(size, name="r"), lp.reduce_axis(size, name="c")
        y = lp.compute((last, last), lambda i, j: fold(x[i + r, j + c], axis=(r, c)))
        return y if scale is None else y * scale

    return of


def _local_contrast(x: Any) -> Any:
    mean, square = _window(5, 252, lp.sum, 1 / 25)(x), _window(5, 252, lp.sum, 1 / 25)(x * x)
    return (x[2:254, 2:254] - mean) * lp.rsqrt(square - mean * mean + 0.01)


def _local_contrast_numpy(x: Array) -> Array:
    mean, square = (ndimage.uniform_filter(y, 5)[2:-2, 2:-2] for y in (x, x * x))
    return (x[2:-2, 2:-2] - mean) / np.sqrt(square - mean * mean + x.dtype.type(0.01))


def _images() -> None:
    enter("box blur 7x7", [(f, (512, 512))], _window(7, 506, lp.sum, 1 / 49),
          lambda x: ndimage.uniform_filter(x, 7)[3:-3, 3:-3])  # fmt: skip
    enter("colours by a matrix", [(f, (512, 512, 3)), (f, (3, 3))], lambda x, m: lp.einsum("ijc,dc->ijd", x, m),
          lambda x, m: x @ m.T)  # fmt: skip
    enter("table of bytes", [("uint8", (1 << 20,)), ("uint8", (256,))], lambda x, t: t[x], lambda x, t: t[x])
    enter("local contrast", [(f, (256, 256))], _local_contrast, _local_contrast_numpy, tolerance=1e-3)
    enter("morphological gradient", [("uint8", (512, 512))],
          lambda x: _window(3, 510, lp.max)(x) - _window(3, 510, lp.min)(x),
          lambda x: ndimage.maximum_filter(x, 3)[1:-1, 1:-1] - ndimage.minimum_filter(x, 3)[1:-1, 1:-1])  # fmt: skip


def _pearson(a: Any, b: Any) -> Any:
    x, y = a - lp.mean(a), b - lp.mean(b)
    return lp.sum(x * y) / lp.sqrt(lp.sum(x * x) * lp.sum(y * y))


def _statistics() -> None:
    enter("covariance of columns", [(f, (2000, 100))],
          lambda x: (lambda y: (y.T @ y) * (1 / 1999))(x - lp.mean(x, axis=0)), lambda x: np.cov(x.T),
          tolerance=1e-3)  # fmt: skip
    enter("correlation of two", [(f, (1 << 19,)), (f, (1 << 19,))], _pearson, lambda a, b: np.corrcoef(a, b)[0, 1])
    enter("scores of rows f64", [(d, (333, 1001))],
          lambda x: (x - lp.mean(x, axis=1, keepdims=True)) / lp.std(x, axis=1, keepdims=True),
          lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True))  # fmt: skip
    enter("masked mean of rows", [(f, (1000, 777)), ("uint8", (1000, 777))],
          lambda x, m: lp.sum(lp.where(m > 100, x, 0.0), axis=1)
          / lp.maximum(lp.sum((m > 100).astype(f), axis=1), 1.0),
          lambda x, m: np.where(m > 100, x, 0).sum(1) / np.maximum((m > 100).sum(1), 1))  # fmt: skip
    enter("largest 8 of 1024", [(f, (64, 1024))], lambda x: lp.topk(x, 8)[0],
          lambda x: -np.sort(np.partition(-x, 8, axis=1)[:, :8], axis=1))  # fmt: skip
    enter("sort rows of 64", [(f, (512, 64))], lambda x: lp.sort(x, axis=1), lambda x: np.sort(x, axis=1))
    enter("cumulative sum of columns", [(d, (1000, 512))], lambda x: lp.cumsum(x, axis=0), lambda x: x.cumsum(0))
    enter(
        "softmax of columns", [(f, (1000, 77))], lambda x: lp.softmax(x, axis=0), lambda x: special.softmax(x, axis=0)
    )
    enter("sum of the middle", [(f, (17, 1025, 33))], lambda x: lp.sum(x, axis=1), lambda x: x.sum(1))
    enter_nest("users", "exponential average", """
def f(x: "float32[2048, 64]", y: "inout float32[2049, 64]"):
    for t in range(2048):
        for c in range(64):
            y[t + 1, c] = 0.95 * y[t, c] + 0.05 * x[t, c]
""", _averaged)  # fmt: skip


def _averaged(x: Array, y: Array) -> Array:
    y[1:] = signal.lfilter([0.05], [1, -0.95], x, axis=0, zi=0.95 * y[:1])[0]
    return y


def _cofactors(a: Any) -> Any:
    def minor(n: Any, i: int, j: int) -> Any:
        (p, q), (r, t) = ([(k + 1) % 3, (k + 2) % 3] for k in (i, j))
        return a[:, p, r] * a[:, q, t] - a[:, p, t] * a[:, q, r]

    whole = a[:, 0, 0] * minor(0, 0, 0) + a[:, 0, 1] * minor(0, 0, 1) + a[:, 0, 2] * minor(0, 0, 2)
    return lp.stack([minor(0, j, i) / whole for i in range(3) for j in range(3)], axis=1)


def _algebra() -> None:
    enter("inverses 3x3", [(d, (20000, 3, 3))], _cofactors, lambda a: np.linalg.inv(a).reshape(-1, 9), tolerance=1e-3)
    enter_nest("users", "triangular solves 16", """
def f(L: "float64[500, 16, 16]", x: "inout float64[500, 16]"):
    for b in range(500):
        for i in range(16):
            for j in range(i):
                x[b, i] -= 0.1 * L[b, i, j] * x[b, j]
            x[b, i] = x[b, i] / (3.0 + L[b, i, i] * L[b, i, i])
""", _solved)  # fmt: skip
    enter("triangle by matrix", [(f, (400, 400)), (f, (400, 300))], lambda a, b: lp.tril(a) @ b,
          lambda a, b: np.tril(a) @ b, tolerance=1e-3)  # fmt: skip
    enter("A @ A @ A", [(f, (200, 200))], lambda a: a @ a @ a, lambda a: a @ a @ a, tolerance=1e-3)
    for spelled, shapes, numpy in (
        ("bi,bj->ij", ((1000, 64), (1000, 96)), lambda a, b: a.T @ b),
        ("bhqd,bhkd->bhqk", ((2, 8, 64, 64), (2, 8, 64, 64)), lambda a, b: a @ b.transpose(0, 1, 3, 2)),
        ("ijk,jil->kl", ((30, 40, 50), (40, 30, 60)), lambda a, b: np.tensordot(a, b, ([0, 1], [1, 0]))),
        ("bij,bjk,bk->bi", ((64, 32, 48), (64, 48, 40), (64, 40)), lambda a, b, c: (a @ (b @ c[..., None]))[..., 0]),
        ("abc,cd->dab", ((40, 50, 60), (60, 70)), lambda a, b: np.ascontiguousarray((a @ b).transpose(2, 0, 1))),
    ):  # fmt: skip
        enter(spelled, [(f, x) for x in shapes], partial(lp.einsum, spelled), numpy, tolerance=1e-3)
    enter("Kronecker product", [(f, (32, 32)), (f, (24, 24))],
          lambda a, b: lp.reshape(a[:, None, :, None] * b[None, :, None, :], (768, 768)), np.kron)  # fmt: skip
    enter("A.T @ B of odd sizes", [(d, (301, 203)), (d, (301, 157))], lambda a, b: a.T @ b, lambda a, b: a.T @ b)
    enter("rows by rows of a batch", [(f, (512, 27, 64))], lambda x: x @ lp.transpose(x, (0, 2, 1)),
          lambda x: x @ x.transpose(0, 2, 1), tolerance=1e-3)  # fmt: skip
    enter("x @ W.T", [(f, (128, 512)), (f, (512, 512))], lambda x, w: x @ w.T, lambda x, w: x @ w.T, tolerance=1e-3)
    enter("trace of a product", [(f, (300, 300)), (f, (300, 300))], lambda a, b: lp.sum(a * b.T),
          lambda a, b: (a * b.T).sum(), tolerance=1e-3)  # fmt: skip
    enter("norms of columns", [(d, (1001, 37))], lambda x: lp.sqrt(lp.sum(x * x, axis=0)),
          lambda x: np.sqrt((x * x).sum(0)))  # fmt: skip
    enter("batched transpose + bias", [(f, (33, 65, 129)), (f, (129,))], lambda x, b: lp.transpose(x + b, (0, 2, 1)),
          lambda x, b: np.ascontiguousarray((x + b).transpose(0, 2, 1)))  # fmt: skip


def _solved(matrix: Array, x: Array) -> Array:
    low = 0.1 * np.tril(matrix, -1)
    at = np.arange(16)
    low[:, at, at] = 3.0 + matrix[:, at, at] ** 2
    x[...] = np.linalg.solve(low, x[..., None])[..., 0]
    return x


def _resampled(x: Any, t: Any) -> Any:
    p = lp.abs(t) * 100.0
    at = lp.floor(p)
    k, w = at.astype("int32"), p - at
    return lp.take(x, k) * (1.0 - w) + lp.take(x, k + 1) * w


def _resampled_numpy(x: Array, t: Array) -> Array:
    p = np.abs(t.astype(f)) * np.float32(100)
    k = np.floor(p).astype(np.int32)
    w = p - k
    return x[k] * (1 - w) + x[k + 1] * w


def _signals_and_gathers() -> None:
    enter("frames of a signal", [(f, (64256,)), (f, (256,))],
          lambda x, w: lp.compute((500, 256), lambda i, k: x[i * 128 + k] * w[k]),
          lambda x, w: np.lib.stride_tricks.sliding_window_view(x, 256)[:64000:128] * w)  # fmt: skip
    enter("full convolution", [(d, (4096,)), (d, (129,))], _convolved, np.convolve)
    enter("Haar transform", [(f, (1 << 18,))],
          lambda x: lp.concatenate([(x[0::2] + x[1::2]) * 0.70710678, (x[0::2] - x[1::2]) * 0.70710678]),
          lambda x: np.concatenate([x[0::2] + x[1::2], x[0::2] - x[1::2]]) * x.dtype.type(0.70710678))  # fmt: skip
    enter("linear resampling", [(f, (4096,)), (f, (1 << 17,))], _resampled, _resampled_numpy, tolerance=1e-3)
    enter("sums of embeddings", [("int32", (1024, 20)), (f, (10000, 64))],
          lambda i, t: lp.sum(t[_places(lp.abs(i), 10000)], axis=1),
          lambda i, t: t[_places(np.abs(i), 10000)].sum(1))  # fmt: skip
    enter("sparse rows of 16", [(f, (4096, 16)), ("int32", (4096, 16)), (f, (4096,))],
          lambda v, c, x: lp.sum(v * x[_places(lp.abs(c), 4096)], axis=1),
          lambda v, c, x: (v * x[_places(np.abs(c), 4096)]).sum(1))  # fmt: skip
    enter("cross entropy", [(f, (1000, 500)), ("int32", (1000,))],
          lambda x, y: lp.mean(lp.logsumexp(x, axis=1)
                               - lp.sum(lp.where(lp.arange(500) == (lp.abs(y) % 500)[:, None], x, 0.0), axis=1)),
          lambda x, y: (special.logsumexp(x, axis=1) - x[np.arange(1000), np.abs(y) % 500]).mean())  # fmt: skip


def _convolved(x: Any, w: Any) -> Any:
    r, p = lp.reduce_axis(129, name="r"), lp.pad(x, [(128, 128)])
    return lp.compute((4224,), lambda i: lp.sum(p[i + r] * w[128 - r], axis=r))


def _quantised(x: Any) -> Any:
    scale = lp.max(lp.abs(x), axis=1) * (1 / 127)
    return lp.clip(lp.round(x / scale[:, None]), -127, 127).astype("int8")


def _quantised_numpy(x: Array) -> Array:
    scale = np.abs(x).max(1) * x.dtype.type(1 / 127)
    return np.clip(np.round(x / scale[:, None]), -127, 127).astype("int8")


def _layers() -> None:
    enter("linear int8, scales", [("int8", (256, 512)), ("int8", (512, 256)), (f, (256,))],
          lambda x, w, s: lp.relu(lp.sum(x.astype("int32")[:, :, None] * w.astype("int32")[None], axis=1).astype(f)
                                  * s * 0.01),
          lambda x, w, s: np.maximum((x.astype(f) @ w.astype(f)) * s * s.dtype.type(0.01), 0))  # fmt: skip
    enter("quantise by rows", [(f, (512, 768))], _quantised, _quantised_numpy, tolerance=1e-2)
    enter("4-bit matrix by vector", [("uint8", (1024, 512)), (f, (1024,))],
          lambda w, x: lp.sum(((w % 16).astype(f) - 8.0) * x[0::2] + ((w // 16).astype(f) - 8.0) * x[1::2], axis=1),
          lambda w, x: (w & 15).astype(x.dtype) @ x[0::2] + (w >> 4).astype(x.dtype) @ x[1::2] - 8 * x.sum(),
          tolerance=1e-3)  # fmt: skip
    enter("causal softmax", [(f, (512, 512))],
          lambda x: lp.softmax(lp.where(lp.arange(512)[None, :] <= lp.arange(512)[:, None], x, -1e30)),
          lambda x: special.softmax(np.where(np.tri(512, dtype=bool), x, x.dtype.type(-1e30)), axis=1))  # fmt: skip
    enter("layernorm f64, odd sizes", [(d, (301, 257)), (d, (257,))],
          lambda x, g: (x - lp.mean(x, axis=1, keepdims=True))
          * lp.rsqrt(lp.var(x, axis=1, keepdims=True) + 1e-5) * g,
          lambda x, g: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g)  # fmt: skip
    enter("nearest of 64 centres", [(f, (1000, 16)), (f, (64, 16))],
          lambda x, c: lp.argmin(lp.sum((x[:, None, :] - c[None]) ** 2, axis=2), axis=1),
          lambda x, c: ((x * x).sum(1)[:, None] + (c * c).sum(1) - 2 * x @ c.T).argmin(1))  # fmt: skip


def _saturation(x: Any, m: Any) -> Any:
    most, least = (fold(fold(x[..., 0], x[..., 1]), x[..., 2]) for fold in (m.maximum, m.minimum))
    return m.where(most > 0.0, (most - least) / most, 0.0)


def _stepped(x: Array, v: Array) -> Array:
    v -= 0.1 * x
    x += 0.1 * v
    out = x > 1.0
    x[out], v[out] = 2.0 - x[out], -v[out]
    return v


def _drawdown(p: Array, m: Array, d: Array) -> Array:
    top = np.maximum(np.maximum.accumulate(p, axis=1), m[:, None])
    m[:] = top[:, -1]
    d[:] = np.maximum(d, (top - p).max(1))
    return d


def _filtered(x: Array, y: Array) -> Array:
    start = np.stack([0.5 * y[:, 1] - 0.2 * y[:, 0], -0.2 * y[:, 1]], 1)
    y[:, 2:] = signal.lfilter([0.2], [1, -0.5, 0.2], x, axis=1, zi=start)[0]
    return y


def _hashed(x: Array, h: Array) -> Array:
    for j in range(x.shape[1]):
        h *= np.uint32(31)
        h += x[:, j]
    return h


def _run_lengths(x: Array, y: Array) -> Array:
    for t in range(x.shape[1]):
        y[:, t + 1] = np.where(x[:, t] > 20, y[:, t] + 1, 0)
    return y


def _rows_that_wait() -> None:
    """Rows whose steps wait for one another, and what data choose."""
    enter("brightness of bytes", [("uint8", (1024, 1024))],
          lambda x: lp.clip((x.astype(f) - 128.0) * 1.3 + 140.0, 0.0, 255.0).astype("uint8"),
          lambda x: np.clip((x.astype(f) - 128) * np.float32(1.3) + 140, 0, 255).astype("uint8"),
          tolerance=1e-2)  # fmt: skip
    enter("saturation of pixels", [(f, (512, 512, 3))], lambda x: _saturation(x, lp), lambda x: _saturation(x, np),
          positive=True)  # fmt: skip
    enter_nest("users", "particles in a box", """
def f(x: "inout float32[100000]", v: "inout float32[100000]"):
    for i in range(100000):
        v[i] = v[i] - 0.1 * x[i]
        x[i] = x[i] + 0.1 * v[i]
        if x[i] > 1.0:
            x[i] = 2.0 - x[i]
            v[i] = -v[i]
""", _stepped)  # fmt: skip
    enter_nest("users", "drawdown of rows", """
def f(p: "float64[100, 4096]", m: "inout float64[100]", d: "inout float64[100]"):
    for i in range(100):
        for t in range(4096):
            m[i] = maximum(m[i], p[i, t])
            d[i] = maximum(d[i], m[i] - p[i, t])
""", _drawdown)  # fmt: skip
    enter_nest("users", "filter of rows", """
def f(x: "float64[32, 4096]", y: "inout float64[32, 4098]"):
    for c in range(32):
        for t in range(4096):
            y[c, t + 2] = 0.2 * x[c, t] + 0.5 * y[c, t + 1] - 0.2 * y[c, t]
""", _filtered)  # fmt: skip
    enter_nest("users", "hash of rows", """
def f(x: "uint8[512, 1024]", h: "inout uint32[512]"):
    for i in range(512):
        for j in range(1024):
            h[i] = h[i] * uint32(31) + uint32(x[i, j])
""", _hashed)  # fmt: skip
    enter_nest("users", "run lengths of rows", """
def f(x: "uint8[256, 2000]", y: "inout int32[256, 2001]"):
    for i in range(256):
        for t in range(2000):
            y[i, t + 1] = y[i, t] + 1 if x[i, t] > uint8(20) else 0
""", _run_lengths)  # fmt: skip


for group in (_images, _statistics, _algebra, _signals_and_gathers, _layers, _rows_that_wait):
    group()
