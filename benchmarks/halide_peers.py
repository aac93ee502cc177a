"""The CPU benchmarks' kernels in Halide 21, as Halide's own users would schedule them.

The blur is that of its `apps/blur`: strips of rows on threads, the first pass in a window that slides down a strip,
whole vectors. The reductions along rows fold vectors of partial results (`rfactor`, as its tutorial 18 has it) where
the row's results are made. The product is that of `apps/linear_algebra`: register tiles on threads over blocks of rows,
the right operand packed. Each of `PEERS` takes the arrays and gives the call to time; where two schedules are
plausible, the one that this machine runs faster has been kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import halide as hl
import numpy as np

Array = np.ndarray[Any, Any]
VERSION = "21.0.0"
STRIP = 32


def lanes(kind: Any) -> int:
    """The elements in a vector of this machine's CPU."""
    return hl.get_host_target().natural_vector_size(kind)


def ready(f: Any, out: Array) -> Callable[[], None]:
    """The call that fills `out` with `f`."""
    f.compile_jit()
    target = hl.Buffer(out)
    return lambda: f.realize(target)


def gelu(x: Array, out: Array) -> Callable[[], None]:
    """0.5 x (1 + tanh(u)) as x / (1 + exp(-2 u)): Halide's own tanh calls the C library for each element."""
    given, f, i, o, inner = hl.Buffer(x), hl.Func("gelu"), hl.Var("i"), hl.Var("o"), hl.Var("inner")
    v = given[i]
    u = v * (hl.f32(0.7978845608028654) + v * v * hl.f32(0.035677408136300125))
    f[i] = v / (1.0 + hl.exp(hl.f32(-2) * u))
    f.split(i, o, inner, 8192).parallel(o).vectorize(inner, 2 * lanes(hl.Float(32)))
    return ready(f, out)


def softmax(x: Array, out: Array) -> Callable[[], None]:
    given, columns = hl.Buffer(x), x.shape[1]
    c, r = hl.Var("c"), hl.Var("r")
    k = hl.RDom([(0, columns)])
    high, e, total, inverse, f = (hl.Func(n) for n in ("high", "e", "total", "inverse", "softmax"))
    high[r] = hl.f32(-np.inf)
    high[r] = hl.max(high[r], given[k, r])
    e[c, r] = hl.exp(given[c, r] - high[r])
    total[r] = hl.f32(0)
    total[r] += e[k, r]
    inverse[r] = 1.0 / total[r]
    f[c, r] = e[c, r] * inverse[r]
    width = lanes(hl.Float(32))
    f.parallel(r, 16).vectorize(c, width)
    e.compute_at(f, r).vectorize(c, width)
    inverse.compute_at(f, r)
    for fold in (high, total):
        folded(fold, k, f, r, width)
    return ready(f, out)


def folded(fold: Any, k: Any, at: Any, row: Any, width: int) -> None:
    """The reduction `fold` over `k` in four vectors of partial results, computed in the loop `row` of `at`."""
    outer, inner, lane = hl.RVar("outer"), hl.RVar("inner"), hl.Var("lane")
    fold.compute_at(at, row)
    partial = fold.update().split(k.x, outer, inner, 4 * width).rfactor(inner, lane)
    partial.compute_at(at, row).vectorize(lane, width).unroll(lane)
    partial.update().reorder(lane, outer).vectorize(lane, width).unroll(lane)
    fold.update().atomic().vectorize(inner, width)


def layernorm(x: Array, scale: Array, shift: Array, out: Array) -> Callable[[], None]:
    given, weight, bias, columns = hl.Buffer(x), hl.Buffer(scale), hl.Buffer(shift), x.shape[1]
    c, r = hl.Var("c"), hl.Var("r")
    k = hl.RDom([(0, columns)])
    total, square, mean, inverse, f = (hl.Func(n) for n in ("total", "square", "mean", "inverse", "layernorm"))
    total[r] = hl.f32(0)
    total[r] += given[k, r]
    mean[r] = total[r] / columns
    square[r] = hl.f32(0)
    d = given[k, r] - mean[r]
    square[r] += d * d
    inverse[r] = 1.0 / hl.sqrt(square[r] / columns + hl.f32(1e-5))
    f[c, r] = (given[c, r] - mean[r]) * inverse[r] * weight[c] + bias[c]
    width = lanes(hl.Float(32))
    f.parallel(r, 16).vectorize(c, width)
    mean.compute_at(f, r)
    inverse.compute_at(f, r)
    for fold in (total, square):
        folded(fold, k, f, r, width)
    return ready(f, out)


def blur(x: Array, out: Array) -> Callable[[], None]:
    """Three neighbours along a row, then three along a column, of `x`, which is two larger each way."""
    given, along, f = hl.Buffer(x), hl.Func("along"), hl.Func("blur")
    c, r, inner = hl.Var("c"), hl.Var("r"), hl.Var("inner")
    kind = hl.UInt(16) if x.dtype == np.uint16 else hl.Float(32)
    third: Callable[[Any], Any] = (lambda v: v / hl.u16(3)) if x.dtype == np.uint16 else (lambda v: v * hl.f32(1 / 3))
    along[c, r] = third(given[c, r] + given[c + 1, r] + given[c + 2, r])
    f[c, r] = third(along[c, r] + along[c, r + 1] + along[c, r + 2])
    width = lanes(kind)
    f.split(r, r, inner, STRIP).parallel(r).vectorize(c, width)
    along.store_at(f, r).compute_at(f, inner).vectorize(c, width)
    return ready(f, out)


def matmul(a: Array, b: Array, out: Array) -> Callable[[], None]:
    """That of Halide's `test/performance/matrix_multiplication.cpp`, in wider blocks, with the right operand packed."""
    left, right = hl.Buffer(a), hl.Buffer(b)
    (rows, depth), columns = a.shape, b.shape[1]
    lane = lanes(hl.Float(32))
    wide, high = 2 * lane, 12 if lane == 16 else 6
    x, y, xi, yi, xo, yo, p, both = (hl.Var(n) for n in ("x", "y", "xi", "yi", "xo", "yo", "p", "both"))
    k = hl.RDom([(0, depth)])
    packed, product, f = hl.Func("packed"), hl.Func("product"), hl.Func("matmul")
    source = right if columns % wide == 0 else hl.BoundaryConditions.repeat_edge(right)
    packed[xi, p, xo] = source[xo * wide + xi, p]
    product[x, y] = hl.f32(0)
    product[x, y] += packed[x % wide, k, x / wide] * left[k, y]
    f[x, y] = product[x, y]
    f.bound(x, 0, columns).bound(y, 0, rows)
    f.tile(x, y, xi, yi, 16 * wide, 16 * high).fuse(x, y, both).parallel(both)
    f.split(yi, yi, yo, high).split(xi, xi, xo, wide).reorder(xo, yo, yi, xi).vectorize(xo, lane).unroll(xo).unroll(yo)
    product.compute_at(f, yi).vectorize(x, lane).unroll(x).unroll(y)
    product.update().reorder(x, y, k).vectorize(x, lane).unroll(x).unroll(y).unroll(k, 2)
    packed.compute_root().bound(xi, 0, wide).vectorize(xi, lane).unroll(xi).reorder(xi, xo, p).parallel(p, 16)
    return ready(f, out)
