"""Programs of several nests, random ones among them, of which plans are made."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

import loopir as lp
from loopir.testing.generate.draws import between, choose

SHAPE = (12, 16)


@st.composite
def dags(draw: st.DrawFn, most: int = 4) -> lp.Schedule:
    """A program of several stored values over a few inputs, and one to three of them as outputs."""
    values = [lp.placeholder(SHAPE, "float32", name=f"x{n}") for n in range(draw(between(1, 2)))]
    for n in range(draw(between(1, most))):
        a, b = choose(draw, values), choose(draw, values)
        made: Any = choose(draw, [
            lambda a=a, b=b: a + b * 2.0, lambda a=a, b=b: a * b.sum(axis=1, keepdims=True),
            lambda a=a, b=b: a - lp.max(b, axis=0), lambda a=a, b=b: a @ lp.transpose(b, (1, 0)) @ b,
            lambda a=a, b=b: lp.reshape(lp.transpose(a, (1, 0)), SHAPE) + b, lambda a=a, b=b: lp.maximum(a, 0.0),
        ])()  # fmt: skip
        values.append(made.named(f"v{n}"))
    outputs = [v for v in values[-draw(between(1, 3)) :] if not v.name.startswith("x")]
    return lp.Schedule(outputs)


@cache
def norm() -> lp.Schedule:
    x = lp.placeholder((512, 512), "float32", name="x")
    return lp.Schedule([lp.softmax(x), (x * 2.0).named("z")])
