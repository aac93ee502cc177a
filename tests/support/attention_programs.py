"""Attention as a person writes it, stage by stage, the steps that its schedules begin with, and NumPy's answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import loopir as lp
from loopir.interp.interpret import interpret

LOG2_E = 1.4426950408889634
Mask = Callable[[Any, Any], Any]
"""Whether query i sees key j."""


def attention(
    heads: int, rows: int, depth: int, *, dtype: str = "float32", mask: Mask | None = None, cap: float | None = None,
    finite: bool = False,
) -> lp.Tensor:  # fmt: skip
    """softmax(Q @ K.T * scale) @ V for each head, as six or seven stages. `finite`: rows that see nothing are 0 / 0 of
    zeros, and no differences of infinities."""
    q, k, v = (lp.placeholder((heads, rows, depth), dtype, name=x) for x in "QKV")
    d, j, j2, j3 = (lp.reduce_axis(n, name=x) for n, x in ((depth, "d"), (rows, "j"), (rows, "j2"), (rows, "j3")))
    t, c = "float32", depth**-0.5 * LOG2_E
    s = lp.compute(
        (heads, rows, rows), lambda h, i, j: lp.sum(q[h, i, d].astype(t) * k[h, j, d].astype(t), axis=d), name="S"
    )
    x = s
    if cap is not None or mask is not None:

        def scored(h: Any, i: Any, j: Any) -> Any:
            y = s[h, i, j] if cap is None else cap * lp.tanh(s[h, i, j] / cap)
            return y if mask is None else lp.where(mask(i, j), y, -math.inf)

        x = lp.compute((heads, rows, rows), scored, name="X")
    m = lp.compute((heads, rows), lambda h, i: lp.max(x[h, i, j], axis=j), name="M")

    def top(h: Any, i: Any) -> Any:
        return lp.where(m[h, i] == -math.inf, 0.0, m[h, i]) if finite else m[h, i]

    p = lp.compute((heads, rows, rows), lambda h, i, j: lp.exp2(x[h, i, j] * c - top(h, i) * c), name="P")
    total = lp.compute((heads, rows), lambda h, i: lp.sum(p[h, i, j2], axis=j2), name="L")
    a = lp.compute((heads, rows, depth), lambda h, i, e: lp.sum(p[h, i, j3] * v[h, j3, e].astype(t), axis=j3), name="A")
    return lp.compute((heads, rows, depth), lambda h, i, e: (a[h, i, e] / total[h, i]).astype(dtype), name="O")


def blocked(s: lp.Schedule, rows: int, columns: int) -> lp.Schedule:
    """All stages in one loop `io` over blocks of queries; each fold over keys, and P, block by block of these."""
    (_, i, _) = s.loops("O")
    s = s.split(i, rows, names=("io", "ii"))
    for stage in reversed(s.stages[:-1]):
        s = s.compute_at(stage, "io")
    for stage, block in (("M", "jo"), ("P", "po"), ("L", "lo"), ("A", "ao")):
        s = s.split(s.loops(stage)[-1], columns, names=(block, f"{block[0]}b"))
        inside = s.loops(stage)[s.loops(stage).index("io") + 1 :]
        s = s.reorder(block, *(x for x in inside if x != block))
    return s.simplify(drop_unit_loops=True)


def flash(s: lp.Schedule, rows: int, columns: int) -> lp.Schedule:
    """The whole of attention in one loop over blocks of keys: nothing as long as a row of scores is kept."""
    s = blocked(s, rows, columns).rolling_update(("P", "L", "A"), "jo")
    for stage in ("X", "S"):
        s = s.compute_at(stage, "jo") if stage in s.stages else s
    return s


def reference(q: Any, k: Any, v: Any, *, mask: Mask | None = None, cap: float | None = None) -> Any:
    """In float64, by NumPy."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = np.einsum("hid,hjd->hij", q, k)
    s = s if cap is None else cap * np.tanh(s / cap)
    s = s if mask is None else np.where(mask(*np.indices(s.shape[1:]))[None], s, -np.inf)
    s = s * q.shape[-1] ** -0.5
    with np.errstate(all="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("hij,hjd->hid", p / p.sum(-1, keepdims=True), v)


def exact(s: lp.Schedule, shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
    """The results of `s` over a field in which exp is a homomorphism, of arrays of random elements of these shapes."""
    some = np.random.default_rng(1)
    args = {k: some.integers(0, 2**32, n, np.uint32).view(np.float32) for k, n in shapes.items()}
    return [x.tolist() for x in interpret(s.func, args, domain="field").values()]
