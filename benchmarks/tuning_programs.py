"""Sixty programs that no table has, drawn at random: what `benchmarks/tuning.py` tunes.

`draw(n)` gives the same program in every process. Families, sizes and types are drawn; sizes are drawn by their
logarithm, so that small arrays are as frequent as large ones, and are as odd as they come.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import loopir as lp

COUNT = 60
SEED = 25


@dataclass(frozen=True)
class Program:
    """A program and what it is called."""

    number: int
    name: str
    schedule: lp.Schedule


class Draw:
    """One program while it is drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.count = rng, 0

    def size(self, low: int, high: int) -> int:
        return round(math.exp(self.rng.uniform(math.log(low), math.log(high))))

    def given(self, *shape: int, dtype: str = "float32") -> Any:
        self.count += 1
        return lp.placeholder(shape, dtype, name=f"x{self.count}")


FAMILIES: dict[str, Callable[[Draw], tuple[str, Any]]] = {}


def family(make: Callable[[Draw], tuple[str, Any]]) -> Callable[[Draw], tuple[str, Any]]:
    FAMILIES[make.__name__] = make
    return make


def draw(number: int) -> Program:
    """Program `number`, of the family whose turn it is."""
    names = list(FAMILIES)
    name = names[number % len(names)]
    said, outputs = FAMILIES[name](Draw(random.Random(f"{SEED} {number}")))
    return Program(number, f"{name} {said}", lp.Schedule(outputs))


@family
def chain(d: Draw) -> tuple[str, Any]:
    """A line of elements through a few operations."""
    n, t = d.size(3000, 4_000_000), d.rng.choice(("float32", "float32", "float64"))
    x, y = d.given(n, dtype=t), d.given(n, dtype=t)
    f = d.rng.choice(("exp", "tanh", "sqrt", "sigmoid", "relu"))
    value = x * 0.5 + y
    return f"{f} {t} {n}", getattr(lp, f)(value * value + 0.25 if f == "sqrt" else value) * y + 1.0


@family
def grid(d: Draw) -> tuple[str, Any]:
    """A matrix with a row and a column broadcast along it."""
    n, m = d.size(40, 2500), d.size(40, 2500)
    x = d.given(n, m)
    value = (x - d.given(m)) * d.given(n)[:, None]
    if d.rng.random() < 0.5:
        return f"silu {n}x{m}", lp.silu(value)
    return f"linear {n}x{m}", value * 2.0 + x


@family
def row_fold(d: Draw) -> tuple[str, Any]:
    """A fold of each row."""
    n, m = d.size(16, 4000), d.size(16, 4000)
    x, kind = d.given(n, m), d.rng.choice(("sum", "max", "squares"))
    value = {
        "sum": lambda: lp.sum(x, axis=1),
        "max": lambda: lp.max(x, axis=1),
        "squares": lambda: lp.sum(x * x, axis=1),
    }
    return f"{kind} {n}x{m}", value[kind]()


@family
def column_fold(d: Draw) -> tuple[str, Any]:
    """A fold of each column."""
    n, m = d.size(30, 4000), d.size(30, 4000)
    x = d.given(n, m)
    return f"mean {n}x{m}", lp.mean(x * x, axis=0) if d.rng.random() < 0.5 else lp.mean(x, axis=0)


@family
def norm(d: Draw) -> tuple[str, Any]:
    """Softmax and norms along rows."""
    n, m = d.size(8, 2500), d.size(20, 3000)
    x, kind = d.given(n, m), d.rng.choice(("softmax", "layernorm", "rmsnorm"))
    if kind == "softmax":
        return f"{kind} {n}x{m}", lp.softmax(x, axis=1)
    v = x - lp.mean(x, axis=1, keepdims=True) if kind == "layernorm" else x
    return f"{kind} {n}x{m}", v * lp.rsqrt(lp.mean(v * v, axis=1, keepdims=True) + 1e-5) * d.given(m)


@family
def product(d: Draw) -> tuple[str, Any]:
    """A product of matrices, now and then with what is made of it, or of a transpose."""
    m, k, n = (d.size(12, 900) for _ in "mkn")
    kind = d.rng.choice(("plain", "plain", "relu", "transposed", "bias"))
    b = d.given(n, k).T if kind == "transposed" else d.given(k, n)
    y = d.given(m, k) @ b
    y = lp.relu(y) if kind == "relu" else y + d.given(n) if kind == "bias" else y
    return f"{kind} {m}x{k}x{n}", y


@family
def batch(d: Draw) -> tuple[str, Any]:
    """A batch of small products."""
    b, m, k, n = d.size(3, 40), d.size(8, 150), d.size(8, 150), d.size(8, 150)
    return f"{b} of {m}x{k}x{n}", d.given(b, m, k) @ d.given(b, k, n)


@family
def stencil(d: Draw) -> tuple[str, Any]:
    """Neighbours, in one pass or in two."""
    n, m = d.size(60, 1500), d.size(60, 1500)
    x = d.given(n, m)
    if d.rng.random() < 0.5:
        return f"cross {n}x{m}", lp.compute(
            (n - 2, m - 2), lambda i, j: x[i, j + 1] + x[i + 1, j] + x[i + 1, j + 2] + x[i + 2, j + 1], name="y"
        )
    a = lp.compute((n, m - 2), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2]) * 0.3333, name="a")
    return f"blur {n}x{m}", lp.compute(
        (n - 2, m - 2), lambda i, j: (a[i, j] + a[i + 1, j] + a[i + 2, j]) * 0.3333, name="y"
    )


@family
def turn(d: Draw) -> tuple[str, Any]:
    """A transpose with what is made of it."""
    n, m, t = d.size(30, 2500), d.size(30, 2500), d.rng.choice(("float32", "float64"))
    return f"{t} {n}x{m}", d.given(n, m, dtype=t).T * 2.0


@family
def convolution(d: Draw) -> tuple[str, Any]:
    """Windows over images."""
    c, k, h, r = d.size(3, 40), d.size(4, 48), d.size(10, 60), d.rng.choice((1, 3, 3, 5))
    y = lp.conv2d(d.given(1, c, h, h), d.given(k, c, r, r), padding=r // 2)
    return f"{c} to {k}, {h}x{h}, {r}x{r}", lp.relu(y)


@family
def integers(d: Draw) -> tuple[str, Any]:
    """Integers, in a product or one by one."""
    if d.rng.random() < 0.5:
        m, k, n = (d.size(20, 500) for _ in "mkn")
        return f"product int8 {m}x{k}x{n}", d.given(m, k, dtype="int8").astype("int32") @ d.given(
            k, n, dtype="int8"
        ).astype("int32")
    n = d.size(5000, 2_000_000)
    x, y = d.given(n, dtype="int32"), d.given(n, dtype="int32")
    return f"int32 {n}", lp.maximum(x * 3 + y, x)


@family
def several(d: Draw) -> tuple[str, Any]:
    """Several results of the same arrays, as an optimizer's."""
    n = d.size(5000, 1_500_000)
    p, g, m = d.given(n), d.given(n), d.given(n)
    new = (m * 0.9 + g).named("m1")
    return f"sgd {n}", [new, p - new * 1e-3]
