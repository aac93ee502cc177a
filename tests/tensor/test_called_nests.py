"""A nest that is called in a tensor expression is stages like any others."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules

solve = lp.parse("""
def solve(n: "size", L: "float32[n, n]", x: "inout float32[n]", r: "out float32[n]"):
    for i in range(n):
        for j in range(i):
            x[i] += -L[i, j] * x[j]
        x[i] = x[i] / L[i, i]
        r[i] = 1.0 / L[i, i]
""")
halves = lp.parse("""
def halves(n: "size", a: "float32[n * 2]", b: "float32[n]", out: "out float32[n]"):
    with alloc("float32[n]") as t:
        for i in range(n):
            t[i] = a[i] + a[i + n]
        for i in range(n):
            out[i] = t[i] * b[n - 1 - i]
""")
i = lp.symbol("i")  # a size that is called as loops of the nests are
A = lp.placeholder((i, i), "float32", name="x")
b = lp.placeholder((i,), "float32", name="b")


@cache
def solved_twice(target: str) -> Any:
    first, r = lp.call(solve, A * 2.0, b + 1.0)
    second, _ = lp.call(solve, A, first)
    s = lp.Schedule([first, (second * r).named("o")])
    return (schedules.auto(s, "llvm") if target == "llvm" else s).build(target)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 5), st.sampled_from(["interpret", "llvm"]), st.integers(0, 99))
def test_calls_before_and_after_other_expressions(n: int, target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, v = np.tril(rng.random((n, n), np.float32) + 1), rng.random(n, np.float32)
    got = solved_twice(target)(a, v)
    want = np.linalg.solve(2.0 * a.astype(np.float64), v + 1.0)
    again = np.linalg.solve(a.astype(np.float64), want) / np.diag(a) / 2
    for mine, right in zip(got, (want, again), strict=True):  # a difference of two that are nearly alike is near 0
        np.testing.assert_allclose(mine, right, rtol=2e-5, atol=2e-5 * np.abs(right).max())


def test_memory_of_the_nest_is_of_the_call() -> None:
    x = lp.placeholder((8,), "float32", name="t")
    s = lp.Schedule(lp.call(halves, x, lp.call(halves, x, x[:4])) + 1.0)
    v = np.arange(8, dtype=np.float32)
    once = (v[:4] + v[4:]) * v[3::-1]
    np.testing.assert_array_equal(s.build("interpret")(v), (v[:4] + v[4:]) * once[::-1] + 1)
    assert lp.parse(lp.text(s.func)) == s.func


b3 = lp.placeholder((3,), "float32", name="b3")
A2 = lp.placeholder((3, 2), "float32", name="A2")
REFUSED: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    ((A, b), TypeError, "call takes a nest, made by @lp.func or lp.parse, and then its arrays; not <Tensor x"),
    ((solve, A), lp.ExprError, "call of solve: it reads 2 arrays (L, x), and 1 are given"),
    ((solve, A.astype("float64"), b), lp.ExprError, "is an expression float64[i, i], and it takes float32; .astype"),
    ((solve, b, b), lp.ExprError, "L is b float32[i], and it takes 2 dimensions"),
    ((solve, A2, b), lp.ExprError, "takes n elements in dimension 1, which are 3 here"),
    ((solve, A, b3), lp.ExprError, "x is b3 float32[3], and takes n elements in dimension 0, which are i here"),
    ((lp.parse('def f(n: "size", a: "out float32[n]"):\n    for i in range(n):\n        a[i] = 1.0\n'),),
     lp.ExprError, "call of f: no array that it reads has the size n as a dimension"),
    ((lp.parse('def f(n: "size", a: "inout float32[n]"):\n    assume(n % 4 == 0)\n    for i in range(n):\n'
               '        a[i] = 1.0\n'), b), lp.ExprError, "it assumes n % 4 == 0, which is not so for all sizes"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "said"), REFUSED, ids=[x[2][:40] for x in REFUSED])
def test_a_call_that_does_not_fit_is_refused(given: tuple[Any, ...], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        lp.call(*given)
