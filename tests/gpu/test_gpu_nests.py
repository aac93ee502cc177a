"""Nests that people write, as `auto` schedules them for a GPU: chains, diagonals, several statements; exactly."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
import schedules

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]
RNG = np.random.default_rng(0)
NESTS = {
    "chains along rows": """
def f(x: "int32[{b}, {n}]", y: "inout int32[{b}, {n}]"):
    for i in range({b}):
        for t in range({n} - 1):
            y[i, t + 1] = 3 * y[i, t] - x[i, t + 1]
""",
    "chains along columns": """
def f(x: "int32[{n}, {b}]", y: "inout int32[{n}, {b}]"):
    for t in range({n} - 1):
        for i in range({b}):
            y[t + 1, i] = 3 * y[t, i] - x[t + 1, i]
""",
    "summed areas": """
def f(x: "int32[{b}, {n}]", y: "inout int32[{b1}, {n1}]"):
    for i in range({b}):
        for j in range({n}):
            y[i + 1, j + 1] = x[i, j] + y[i, j + 1] + y[i + 1, j] - y[i, j]
""",
    "summed areas of a batch": """
def f(x: "int32[{b}, 40, {n}]", y: "inout int32[{b}, 41, {n1}]"):
    for a in range({b}):
        for i in range(40):
            for j in range({n}):
                y[a, i + 1, j + 1] = x[a, i, j] + y[a, i, j + 1] + y[a, i + 1, j] - y[a, i, j]
""",
    "longest common subsequence": """
def f(a: "int32[{b}]", c: "int32[{n}]", y: "inout int32[{b1}, {n1}]"):
    for i in range({b}):
        for j in range({n}):
            if a[i] % 3 == c[j] % 3:
                y[i + 1, j + 1] = y[i, j] + 1
            else:
                y[i + 1, j + 1] = maximum(y[i, j + 1], y[i + 1, j])
""",
    "relaxed in place": """
def f(y: "inout int32[{b2}, {n2}]"):
    for t in range(3):
        for i in range({b}):
            for j in range({n}):
                y[i + 1, j + 1] = y[i, j + 1] + y[i + 1, j] - y[i + 1, j + 2] + 2 * y[i + 2, j + 1] - y[i, j + 2]
""",
    "two folds of one nest": """
def f(x: "int32[{b}]", z: "int32[{n}]", y: "inout int32[{b}]", m: "inout int32[{n}]"):
    for i in range({b}):
        for j in range({n}):
            y[i] = maximum(y[i], x[i] - z[j])
            m[j] = maximum(m[j], x[i] * z[j])
""",
    "a fold into one": """
def f(x: "int32[{b}, {n}]", s: "inout int32[1]"):
    for i in range({b}):
        for j in range({n}):
            s[0] += x[i, j] * x[i, j]
""",
    "a fold over a triangle": """
def f(x: "int32[{b}, {b}]", s: "inout int32[1]"):
    for i in range({b}):
        for j in range(i):
            s[0] += x[i, j] * x[j, i]
""",
    "two histograms": """
def f(x: "int32[{b}, {n}]", h: "inout int32[64]", c: "inout int32[64]"):
    for i in range({b}):
        for j in range({n}):
            h[x[i, j] % 64] += x[i, j]
            c[x[i, j] % 64] += 1
""",
}


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize(("b", "n"), [(2, 3), (33, 65), (300, 200), (70, 1001)])
def test_what_is_stored_is_what_the_cpu_stores(name: str, b: int, n: int) -> None:
    func = lp.parse(NESTS[name].format(b=b, n=n, b1=b + 1, n1=n + 1, b2=b + 2, n2=n + 2))
    given = [RNG.integers(-9, 9, [getattr(d, "value", 0) for d in a.buffer.shape]).astype(np.int32) for a in func.args]
    given[0] = abs(given[0])
    want, got = [x.copy() for x in given], [x.copy() for x in given]
    lp.Schedule(func).build("llvm")(*want)
    schedules.auto(lp.Schedule(func), "cuda").build("cuda")(*got)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, theirs)
