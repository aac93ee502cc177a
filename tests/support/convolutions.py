"""Convolutions with batch norm and relu as they are written, beside NumPy: layouts, strides, padding, dilation, groups.

Operands are small integers and scales are powers of two, so that results are exact in float32 before they are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import loopir as lp


@dataclass(frozen=True)
class Conv:
    """relu(conv(x, w) * scale + shift) of n images of h x h with c channels, by k filters of r x r."""

    name: str
    layout: str = "NHWC"
    n: int = 1
    c: int = 16
    h: int = 4
    k: int = 16
    r: int = 3
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    dtype: str = "bfloat16"

    @property
    def size(self) -> int:
        """Of the output, each way."""
        return (self.h + 2 * self.padding - self.dilation * (self.r - 1) - 1) // self.stride + 1

    def shapes(self) -> list[tuple[int, ...]]:
        """Of x, w, scale and shift; filters have the channels of one group."""
        own = self.c // self.groups
        if self.layout == "NHWC":
            return [(self.n, self.h, self.h, self.c), (self.r, self.r, own, self.k), (self.k,), (self.k,)]
        return [(self.n, self.c, self.h, self.h), (self.k, own, self.r, self.r), (self.k,), (self.k,)]

    def schedule(self) -> lp.Schedule:
        x, w, scale, shift = (lp.placeholder(s, self.dtype, name=v) for s, v in zip(self.shapes(), "xwab"))
        p, own, each = self.padding, self.c // self.groups, self.k // self.groups
        nhwc = self.layout == "NHWC"
        border = [(0, 0), (p, p), (p, p), (0, 0)] if nhwc else [(0, 0), (0, 0), (p, p), (p, p)]
        padded = lp.pad(x, border).named("padded") if p else x
        u, v, z = lp.reduce_axis(self.r, name="u"), lp.reduce_axis(self.r, name="v"), lp.reduce_axis(own, name="z")

        def element(b: Any, i: Any, j: Any, o: Any) -> Any:
            y, x_ = i * self.stride + u * self.dilation, j * self.stride + v * self.dilation
            channel = z if self.groups == 1 else o // each * own + z
            left = padded[b, y, x_, channel] if nhwc else padded[b, channel, y, x_]
            right = w[u, v, z, o] if nhwc else w[o, z, u, v]
            return lp.sum(lp.cast(left, "float32") * lp.cast(right, "float32"), axis=(u, v, z))

        wide = [lp.cast(t, "float32") for t in (scale, shift)]
        if nhwc:
            y = lp.compute((self.n, self.size, self.size, self.k), element, name="conv")
            return lp.Schedule(lp.relu(y * wide[0] + wide[1]).astype(self.dtype))
        y = lp.compute((self.n, self.k, self.size, self.size), lambda b, o, i, j: element(b, i, j, o), name="conv")
        return lp.Schedule(lp.relu(y * wide[0][:, None, None] + wide[1][:, None, None]).astype(self.dtype))

    def arrays(self, seed: int = 0) -> list[Any]:
        rng = np.random.default_rng(seed)
        x, w, a, b = self.shapes()
        out = [rng.integers(-2, 3, x), rng.integers(-2, 3, w), 2.0 ** rng.integers(-1, 2, a), rng.integers(-4, 5, b)]
        return [t.astype(ml_dtypes.bfloat16 if self.dtype == "bfloat16" else self.dtype) for t in out]

    def wanted(self, x: Any, w: Any, a: Any, b: Any) -> Any:
        x, w, a, b = (t.astype(np.float64) for t in (x, w, a, b))
        if self.layout == "NHWC":
            x, w = x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
        p, own, each = self.padding, self.c // self.groups, self.k // self.groups
        x = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
        y = np.zeros((self.n, self.k, self.size, self.size))
        last = self.stride * (self.size - 1) + 1
        for g in range(self.groups):
            filters = w[g * each : (g + 1) * each]
            for u in range(self.r):
                for v in range(self.r):
                    i, j = u * self.dilation, v * self.dilation
                    part = x[:, g * own : (g + 1) * own, i : i + last : self.stride, j : j + last : self.stride]
                    y[:, g * each : (g + 1) * each] += np.einsum("nchw,kc->nkhw", part, filters[:, :, u, v])
        y = np.maximum(y * a[:, None, None] + b[:, None, None], 0)
        y = y.transpose(0, 2, 3, 1) if self.layout == "NHWC" else y
        return y.astype(ml_dtypes.bfloat16 if self.dtype == "bfloat16" else self.dtype)

    def right(self, found: Any, given: list[Any]) -> bool:
        return np.array_equal(np.asarray(found).astype(np.float64), self.wanted(*given).astype(np.float64))


WAYS: dict[str, dict[str, int]] = {
    "plain": {"h": 6}, "padding": {"padding": 1}, "stride 2": {"stride": 2, "padding": 1, "h": 7},
    "dilation 2": {"dilation": 2, "padding": 2}, "2 groups": {"groups": 2, "c": 32, "k": 32},
    "1 x 1": {"r": 1}, "5 x 5, stride 3": {"r": 5, "stride": 3, "padding": 2, "h": 7},
    "2 groups, stride 2, dilation 2": {"groups": 2, "c": 32, "k": 32, "stride": 2, "dilation": 2, "padding": 2, "h": 5},
    "3 channels": {"c": 3, "padding": 1}, "odd": {"c": 17, "k": 19, "padding": 1, "h": 3},
}  # fmt: skip
CONVS = [Conv(f"{layout}, {name}", layout, **way) for layout in ("NHWC", "NCHW") for name, way in WAYS.items()]
CONVS += [Conv("NHWC, float16", dtype="float16", padding=1), Conv("NHWC, float32", dtype="float32", padding=1)]
