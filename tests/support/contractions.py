"""Contractions of two matrices, in a batch or alone, transposed in memory or not."""

from __future__ import annotations

import loopir as lp


def program(n: object, m: object, depth: object, *, turned: str = "", batch: int = 0, fold: str = "sum") -> lp.Schedule:
    """C = A B; the operands named in `turned` are transposed in memory."""
    around = (batch,) if batch else ()
    a, b = (x if name not in turned else x[::-1] for name, x in (("A", (n, depth)), ("B", (depth, m))))
    A = lp.placeholder((*around, *a), "float32", name="A")
    B = lp.placeholder((*around, *b), "float32", name="B")
    k = lp.reduce_axis(depth, name="k")

    def element(*at: object) -> object:
        *outer, i, j = at
        x = A[(*outer, *((i, k) if "A" not in turned else (k, i)))]
        y = B[(*outer, *((k, j) if "B" not in turned else (j, k)))]
        return lp.sum(x * y, axis=k) if fold == "sum" else lp.min(x + y, axis=k)

    return lp.Schedule(lp.compute((*around, n, m), element, name="C"))
