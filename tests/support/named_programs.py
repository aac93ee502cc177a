"""The programs that a scheduling language is asked for first, with sizes to try them at and a schedule for each target.

Each is made for given sizes or for symbols; the tests of the interpreter, of LLVM and of the GPU take it from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import loopir as lp
import schedules
from loopir.ir.layout.layouts import evaluate
from schedules.common.direct_conv import direct_cpu, direct_gpu
from schedules.common.products import several
from schedules.cuda.conv import conv_mma

Size = Any
Scheduler = Callable[[lp.Schedule], lp.Schedule]


@dataclass(frozen=True)
class Named:
    """A program of some sizes: `fits` are such as tiles divide, `odd` are not.

    `cpu` and `gpu` schedule it, with tiles so small that tests can run them thread by thread.
    """

    make: Callable[..., Any]
    sizes: tuple[str, ...]
    fits: tuple[int, ...]
    odd: tuple[int, ...]
    cpu: Scheduler
    gpu: Scheduler
    tolerance: float = 0.0
    inputs: Callable[[dict[str, Any]], dict[str, Any]] = field(default=lambda arrays: arrays)

    def schedule(self, *sizes: Size) -> lp.Schedule:
        return lp.Schedule(self.make(*(sizes or map(lp.symbol, self.sizes))))

    def arrays(self, s: lp.Schedule, sizes: dict[str, int]) -> dict[str, Any]:
        """Small integers of the types of the inputs."""
        rng = np.random.default_rng(sum(sizes.values()))
        found: dict[str, Any] = {}
        for a in s.func.args:
            if a.access != "out":
                shape = [evaluate(d, sizes) for d in a.buffer.shape]
                found[a.buffer.name] = rng.integers(0, 4, shape).astype(a.buffer.dtype.numpy)
        return self.inputs(found)


def text(source: str) -> Callable[..., lp.Func]:
    """A nest whose sizes are called in braces: fixed where integers are given, parameters where symbols are."""

    def make(*sizes: Size) -> lp.Func:
        names = [x if isinstance(x, int) else x.ix.name for x in sizes]
        head = "".join(f'{x}: "size", ' for x in names if isinstance(x, str))
        return lp.parse(source.replace("SIZES, ", head).format(*names))

    return make


# ---------------------------------------------------------------- stencils


def blur(n: Size, m: Size) -> Any:
    A = lp.placeholder((n + 2, m + 2), "float32", name="A")
    h = lp.compute((n + 2, m), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="h")
    return lp.compute((n, m), lambda y, x: h[y, x] + h[y + 1, x] + h[y + 2, x], name="v")


def unsharp(n: Size, m: Size) -> Any:
    """Borders clamped; the image, sharpened by how it differs from a blur of it."""
    A = lp.placeholder((n, m), "float32", name="A")
    h = lp.compute((n, m), lambda y, x: A[y, lp.maximum(x - 1, 0)] + A[y, x] + A[y, lp.minimum(x + 1, m - 1)], name="h")
    v = lp.compute((n, m), lambda y, x: h[lp.maximum(y - 1, 0), x] + h[y, x] + h[lp.minimum(y + 1, n - 1), x], name="v")
    return lp.compute((n, m), lambda y, x: (A[y, x] * 2.0 - v[y, x] * 0.125) * A[y, x], name="out")


TAPS = "0.25 * (a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2] + a[i + 1, j + 1])"
JACOBI = """
def jacobi(SIZES, a: "inout float32[{1} + 2, {1} + 2]", b: "inout float32[{1} + 2, {1} + 2]"):
    for t in range({0}):
        for i in range({1}):
            for j in range({1}):
                b[i + 1, j + 1] = {TAPS}
        for y in range({1}):
            for x in range({1}):
                a[y + 1, x + 1] = b[y + 1, x + 1]
""".replace("{TAPS}", TAPS)


# ---------------------------------------------------------------- convolutions


@dataclass(frozen=True)
class Conv:
    """A convolution of [n, h, w, c] images by 3 x 3 filters, or of [n, c, h, w] ones, and what is made of it."""

    dtype: str = "float32"
    channels: int = 2
    filters: int = 6
    stride: int = 1
    dilation: int = 1
    padding: int = 1
    groups: int = 1
    channels_first: bool = False
    named: bool = True
    norm: bool = False
    pool: tuple[int, int, int] | None = None

    def __call__(self, n: Size, h: Size) -> Any:
        size = (h + 2 * self.padding - 2 * self.dilation - 1) // self.stride + 1
        y = self.sums(n, h, size)
        if not self.norm:
            return y
        shape = (self.filters, 1, 1) if self.channels_first else (self.filters,)
        scale, shift = (lp.placeholder(shape, self.dtype, name=x) for x in ("scale", "shift"))
        z = lp.relu(y * scale + shift).named("Z")
        return z if self.pool is None else self.pooled(z, n, size)

    def sums(self, n: Size, h: Size, size: Size) -> Any:
        inner, outer = self.channels // self.groups, self.filters // self.groups
        sides, none = [(self.padding, self.padding)] * 2, [(0, 0)]
        first = self.channels_first
        x = lp.placeholder((n, self.channels, h, h) if first else (n, h, h, self.channels), self.dtype, name="X")
        w = lp.placeholder((self.filters, inner, 3, 3) if first else (3, 3, inner, self.filters), self.dtype, name="W")
        padded = lp.pad(x, [*none, *none, *sides] if first else [*none, *sides, *none])
        padded = padded.named("P") if self.named else padded
        r, s, c = (lp.reduce_axis(k, name=name) for k, name in ((3, "r"), (3, "s"), (inner, "c")))

        def term(b: Any, p: Any, q: Any, k: Any) -> Any:
            y, z = p * self.stride + r * self.dilation, q * self.stride + s * self.dilation
            channel = k // outer * inner + c if self.groups > 1 else c
            left = padded[b, channel, y, z] if first else padded[b, y, z, channel]
            right = w[k, c, r, s] if first else w[r, s, c, k]
            return lp.cast(left, "float32") * lp.cast(right, "float32")

        if first:
            return lp.compute(
                (n, self.filters, size, size), lambda b, k, p, q: lp.sum(term(b, p, q, k), axis=(c, r, s)), name="Y"
            ).astype(self.dtype)
        return lp.compute(
            (n, size, size, self.filters), lambda b, p, q, k: lp.sum(term(b, p, q, k), axis=(r, s, c)), name="Y"
        ).astype(self.dtype)

    def pooled(self, z: Any, n: Size, size: Size) -> Any:
        assert self.pool is not None
        width, step, border = self.pool
        z = lp.pad(z, [(0, 0), (border, border), (border, border), (0, 0)]) if border else z
        u, v = lp.reduce_axis(width, name="u"), lp.reduce_axis(width, name="v")
        out = (size + 2 * border - width) // step + 1
        return lp.compute(
            (n, out, out, self.filters), lambda b, p, q, k: lp.max(z[b, p * step + u, q * step + v, k], axis=(u, v))
        )


def the_product(s: lp.Schedule) -> str:
    """The stage that folds products."""
    return next(x for x in s.stages if several(s, x, 1))


def direct_on_cpu(s: lp.Schedule) -> lp.Schedule:
    s = schedules.inlined(s)
    return direct_cpu(s, the_product(s), lanes=4, registers=9)


def direct_on_gpu(s: lp.Schedule) -> lp.Schedule:
    s = schedules.inlined(s)
    return direct_gpu(s, the_product(s), tile=(2, 4), lanes=8, threads=4, depth=4)


def by_tensor_cores(s: lp.Schedule) -> lp.Schedule:
    s = schedules.inlined(s)
    return conv_mma(s, the_product(s), block=(32, 16), warps=(2, 1), stages=2)


# ---------------------------------------------------------------- rows, products


def softmax(n: Size, m: Size) -> Any:
    return lp.softmax(lp.placeholder((n, m), "float32", name="A"))


def layernorm(n: Size, m: Size) -> Any:
    A, w, b = (lp.placeholder(shape, "float32", name=x) for shape, x in (((n, m), "A"), ((m,), "w"), ((m,), "b")))
    d = A - lp.mean(A, axis=1)[:, None]
    return d * lp.rsqrt(lp.mean(d * d, axis=1) + 1.0)[:, None] * w + b


def batched(n: Size, m: Size) -> Any:
    A, B = (lp.placeholder(shape, "bfloat16", name=x) for shape, x in (((2, n, m), "A"), ((2, m, n), "B")))
    return A @ B


def transposed(n: Size, m: Size) -> Any:
    A, B = (lp.placeholder((m, n), "float32", name=x) for x in "AB")
    k = lp.reduce_axis(m, name="k")
    return lp.compute((n, n), lambda i, j: lp.sum(A[k, i] * B[k, j], axis=k), name="C")


def batched_on_gpu(s: lp.Schedule) -> lp.Schedule:
    return schedules.matmul_mma(s, s.stages[0], block=(32, 16), warps=(2, 1), stages=2)


# ---------------------------------------------------------------- scans and scatters

PREFIX = """
def prefix_sum(SIZES, A: "float32[{0}]", B: "out float32[{0}]"):
    for i in range({0}):
        B[i] = select(1 <= i, B[i - 1], 0.0) + A[i]
"""
HISTOGRAM = """
def histogram(SIZES, x: "uint8[{0}, {1}]", bins: "inout int32[256]"):
    for i in range({0}):
        for j in range({1}):
            bins[x[i, j]] += 1
"""
RAGGED = """
def ragged(SIZES, start: "int32[{0} + 1]", values: "float32[{1}]", out: "out float32[{0}]"):
    for i in range({0}):
        for k in range(start[i + 1] - start[i]):
            out[i] = sum(values[start[i] + k], over=k, init=0.0)
"""


def rows_that_fit(arrays: dict[str, Any]) -> dict[str, Any]:
    """Row starts, in order, that end with the values."""
    most = len(arrays["values"])
    cuts = np.sort(np.random.default_rng(0).integers(0, most + 1, len(arrays["start"])))
    return arrays | {"start": cuts.astype(np.int32)}


def auto(target: str) -> Scheduler:
    return lambda s: schedules.auto(s, target)


PROGRAMS: dict[str, Named] = {
    "blur": Named(blur, ("n", "m"), (8, 16), (7, 13), lambda s: schedules.windows(s, strip=4, lanes=4), auto("cuda")),
    "unsharp mask": Named(
        unsharp, ("n", "m"), (8, 16), (7, 13), lambda s: schedules.windows(s, strip=4, lanes=4), auto("cuda")
    ),
    "jacobi": Named(
        text(JACOBI), ("T", "n"), (4, 8), (3, 9), lambda s: schedules.time_tiled(s, sweeps=2, rows=4),
        lambda s: schedules.time_tiled_gpu(s, sweeps=2, rows=4, threads=32), 1e-5,
    ),
    "conv direct": Named(Conv(), ("n", "h"), (1, 6), (2, 5), direct_on_cpu, direct_on_gpu),
    "conv with a stride": Named(
        Conv(stride=2, named=False), ("n", "h"), (1, 6), (2, 5), direct_on_cpu, direct_on_gpu
    ),
    "conv with dilation": Named(
        Conv(dilation=2, padding=2), ("n", "h"), (1, 6), (2, 3), direct_on_cpu, direct_on_gpu
    ),
    "conv in groups": Named(
        Conv(groups=2, channels_first=True), ("n", "h"), (1, 6), (2, 5), direct_on_cpu, direct_on_gpu
    ),
    "conv by tensor cores": Named(
        Conv("bfloat16", channels=8, filters=16), ("n", "h"), (2, 4), (4, 3), direct_on_cpu, by_tensor_cores
    ),
    "conv, strides, by tensor cores": Named(
        Conv("bfloat16", channels=3, filters=20, stride=2, named=False),
        ("n", "h"), (8, 4), (9, 3), auto("llvm"), by_tensor_cores,
    ),
    "conv + norm + relu": Named(
        Conv("bfloat16", channels=8, filters=16, norm=True), ("n", "h"), (2, 4), (4, 3), auto("llvm"), by_tensor_cores
    ),
    "conv + norm + relu + pool": Named(
        Conv(norm=True, pool=(2, 2, 0)), ("n", "h"), (1, 6), (2, 5), direct_on_cpu, direct_on_gpu
    ),
    "conv + norm + relu + overlapping pool": Named(
        Conv(norm=True, pool=(3, 2, 1)), ("n", "h"), (1, 6), (1, 5), direct_on_cpu, direct_on_gpu
    ),
    "softmax": Named(softmax, ("n", "m"), (8, 16), (5, 13), lambda s: schedules.rows(s, lanes=4), auto("cuda"), 1e-5),
    "layernorm": Named(
        layernorm, ("n", "m"), (8, 16), (5, 13), lambda s: schedules.rows(s, lanes=4), auto("cuda"), 1e-5
    ),
    "batched matmul": Named(batched, ("n", "m"), (32, 16), (35, 5), auto("llvm"), batched_on_gpu),
    "transposed matmul": Named(
        transposed, ("n", "m"), (16, 16), (11, 13), lambda s: schedules.matmul_cpu(s, "C", lanes=4, registers=9),
        lambda s: schedules.matmul_gpu(s, "C", block=16, part=4, depth=4),
    ),
    "prefix sum": Named(
        text(PREFIX), ("n",), (64,), (45,), lambda s: schedules.scan(s, "llvm", width=8),
        lambda s: schedules.scan(s, "cuda", width=8, threads=4),
    ),
    "histogram": Named(
        text(HISTOGRAM), ("n", "m"), (4, 16), (5, 7), lambda s: schedules.scatter(s, "bins", "llvm", chunk=16),
        lambda s: schedules.scatter(s, "bins", "cuda", threads=8),
    ),
    "ragged row sums": Named(
        text(RAGGED), ("n", "z"), (8, 64), (5, 33), lambda s: s.parallel("i"),
        lambda s: schedules.reduction(s, "out", threads=32), inputs=rows_that_fit,
    ),
}  # fmt: skip
"""By name. Sums are of small integers, so that no order of them rounds."""
