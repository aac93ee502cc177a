"""Programs that people schedule, for measurements and for tests of steps: the nests that a kernel book would print.

Each is made of tensor expressions, at sizes that are numbers or at symbolic ones; nothing is scheduled yet.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import loopir.intrinsics  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers every operation)
import loopir.tensor as lp
from loopir.ir.grammar import Func

Size = Any
"""An int, or a symbolic size."""


def matmul(rows: Size, columns: Size, depth: Size) -> Func:
    """C = A @ B, three loops."""
    A = lp.placeholder((rows, depth), "float32", name="A")
    B = lp.placeholder((depth, columns), "float32", name="B")
    k = lp.reduce_axis(depth, name="k")
    C = lp.compute((rows, columns), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
    return C.__loopir_func__()


def blur(rows: Size, columns: Size) -> Func:
    """Means of three in a row, then of three in a column: two stages."""
    x = lp.placeholder((rows, columns), "float32", name="x")
    h = lp.compute((rows, columns - 2), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2]) / 3.0, name="h")
    v = lp.compute((rows - 2, columns - 2), lambda i, j: (h[i, j] + h[i + 1, j] + h[i + 2, j]) / 3.0, name="v")
    return v.__loopir_func__()


def conv2d(images: Size, height: Size, width: Size, channels: Size, filters: Size) -> Func:
    """A 3x3 convolution, channels first, with a border of zeros: two stages, the second of seven loops."""
    x = lp.placeholder((images, channels, height, width), "float32", name="x")
    w = lp.placeholder((filters, channels, 3, 3), "float32", name="w")
    p = lp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    c, u, v = lp.reduce_axis(channels, name="c"), lp.reduce_axis(3, name="u"), lp.reduce_axis(3, name="v")
    y = lp.compute(
        (images, filters, height, width),
        lambda n, f, i, j: lp.sum(p[n, c, i + u, j + v] * w[f, c, u, v], axis=(c, u, v)),
        name="y",
    )
    return y.__loopir_func__()


def layernorm(rows: Size, columns: Size) -> Func:
    """Each row less its mean, over its standard deviation: three stages, two of them reductions."""
    x = lp.placeholder((rows, columns), "float32", name="x")
    scale = lp.placeholder((columns,), "float32", name="scale")
    mean = lp.mean(x, axis=1, keepdims=True)
    variance = lp.mean((x - mean) * (x - mean), axis=1, keepdims=True)
    return ((x - mean) / lp.sqrt(variance + 1e-5) * scale).__loopir_func__()


def attention(heads: Size, length: Size, depth: Size) -> Func:
    """softmax(Q @ K.T) @ V with every intermediate in memory: six stages, four of them reductions."""
    q, k, v = (lp.placeholder((heads, length, depth), "float32", name=name) for name in "QKV")
    d, t = lp.reduce_axis(depth, name="d"), lp.reduce_axis(length, name="t")
    scores = lp.compute((heads, length, length), lambda h, i, j: lp.sum(q[h, i, d] * k[h, j, d], axis=d), name="S")
    top = lp.compute((heads, length), lambda h, i: lp.max(scores[h, i, t], axis=t), name="M")
    e = lp.compute(scores.shape, lambda h, i, j: lp.exp(scores[h, i, j] - top[h, i]), name="E")
    total = lp.compute((heads, length), lambda h, i: lp.sum(e[h, i, t], axis=t), name="L")
    p = lp.compute(scores.shape, lambda h, i, j: e[h, i, j] / total[h, i], name="P")
    out = lp.compute((heads, length, depth), lambda h, i, j: lp.sum(p[h, i, t] * v[h, t, j], axis=t), name="O")
    return out.__loopir_func__()


def stencils(rows: Size, columns: Size, stages: int = 16) -> Func:
    """A chain of 3x3 means, each of the one before it."""
    x = lp.placeholder((rows, columns), "float32", name="x")
    for n in range(1, stages + 1):
        x = lp.compute((rows - 2 * n, columns - 2 * n), _mean_of(x), name=f"s{n}")
    return x.__loopir_func__()


def _mean_of(x: Any) -> Callable[[Any, Any], Any]:
    def mean(i: Any, j: Any) -> Any:
        return functools.reduce(operator.add, (x[i + u, j + v] for u in range(3) for v in range(3))) / 9.0

    return mean


NESTS: dict[str, tuple[Callable[..., Func], tuple[int, ...]]] = {
    "matmul": (matmul, (1024, 1024, 1024)),
    "blur": (blur, (2048, 2048)),
    "conv2d": (conv2d, (8, 56, 56, 64, 128)),
    "layernorm": (layernorm, (4096, 1024)),
    "attention": (attention, (16, 512, 64)),
    "stencils": (stencils, (2048, 2048)),
}
"""Each program, with sizes as people have them."""


def constant(name: str) -> Func:
    """The program `name` at its sizes."""
    make, sizes = NESTS[name]
    return make(*sizes)


def symbolic(name: str) -> Func:
    """The program `name` at sizes that are symbols, each at least 1."""
    make, sizes = NESTS[name]
    return make(*(lp.symbol(f"n{k}") for k in range(len(sizes))))
