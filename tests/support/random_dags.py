"""Random programs of several stored values, drawn by a seed: what plans are made of in tests and in a campaign."""

from __future__ import annotations

import random
from typing import Any

import loopir as lp

ROWS, COLUMNS = 12, 16


def random_dag(seed: int, most: int = 5, rows: int = ROWS, columns: int = COLUMNS, dtype: str = "float32") -> Any:
    """The outputs of a program of up to `most` stored values over one to three inputs, the same for the same seed."""
    rng = random.Random(seed)
    shape = (rows, columns)
    values: list[Any] = [lp.placeholder(shape, dtype, name=f"x{n}") for n in range(rng.randint(1, 3))]
    given = len(values)
    for n in range(rng.randint(1, most)):
        a, b = rng.choice(values), rng.choice(values)
        values.append(rng.choice(STEPS)(a, b, n).astype(dtype).named(f"v{n}"))
    count = min(rng.randint(1, 3), len(values) - given)
    return values[-count:]


def gathered(a: Any, b: Any, n: int) -> Any:
    return a[lp.placeholder((a.shape[0],), "int32", name=f"ids{n}")] + b


def learnt(a: Any, b: Any, n: int) -> Any:
    return a @ lp.placeholder((a.shape[1], a.shape[1]), a.dtype.name, name=f"w{n}") + b


STEPS = (
    lambda a, b, n: a + b * 2.0,
    lambda a, b, n: lp.maximum(a, 0.0),
    lambda a, b, n: lp.where(a > b, a, b * 3.0),
    lambda a, b, n: lp.cast(lp.cast(a, "float16"), "float32") - b,
    lambda a, b, n: a * b.sum(axis=1, keepdims=True),
    lambda a, b, n: a - lp.max(b, axis=0),
    lambda a, b, n: a * lp.min(b),
    lambda a, b, n: lp.cumsum(a, axis=1) + b,
    lambda a, b, n: a @ lp.transpose(b, (1, 0)) @ b,
    learnt,
    gathered,
    lambda a, b, n: lp.reshape(lp.transpose(a, (1, 0)), a.shape) + b,
    lambda a, b, n: lp.reshape(a, (a.shape[0] * a.shape[1],)).reshape(a.shape) * b,
    lambda a, b, n: lp.concatenate([a[:, : a.shape[1] // 2], b[:, a.shape[1] // 2 :]], axis=1),
    lambda a, b, n: lp.concatenate([a[1:], b[:1]], axis=0) - a,
)
"""Steps of two values; `n` numbers what a step is given besides."""
