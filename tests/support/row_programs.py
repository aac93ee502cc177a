"""Programs whose stages are computed row by row, where a later one reads them."""

from __future__ import annotations

import loopir as lp


def softmax(n: int, m: int) -> lp.Schedule:
    x = lp.placeholder((n, m), "float32", name="x")
    e = lp.exp(x - lp.max(x, axis=1)[:, None])
    return lp.Schedule(e / e.sum(axis=1)[:, None])


def blur(n: int, m: int) -> lp.Schedule:
    x = lp.placeholder((n + 2, m), "float32", name="x")
    h = lp.compute((n + 2, m), lambda i, j: x[i, j] + 1.0, name="h")
    return lp.Schedule(lp.compute((n, m), lambda i, j: h[i, j] + h[i + 1, j] + h[i + 2, j], name="y"))
