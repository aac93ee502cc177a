"""Any number of threads fold any number of terms, along any axes."""

from __future__ import annotations

import pytest
from test_lower_thread_reductions import check, ints, rows

import loopir as lp


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 31, 32, 64, 96, 100, 160])
def test_any_number_of_threads_and_of_terms(threads: int) -> None:
    s = lp.Schedule(lp.parse(rows("sum(A[i, k], over=k, init=3.0)")))
    s = s.bind("i", "blockIdx.x").split("k", threads).bind("k_i", "threadIdx.x")
    for n, m in ((2, 0), (1, 1), (2, 37), (0, 37), (1, 200)):
        check(s.func, ints(n, m), seeds=1)


def test_columns_fold_along_y() -> None:
    f = lp.parse(
        """
def f(n: "size", m: "size", A: "float32[n, m]", S: "out float32[m]"):
    for j in range(m):
        for k in range(n):
            S[j] = sum(A[k, j], over=k, init=0.0)
"""
    )
    s = lp.Schedule(f).split("j", 8).split("k", 4).bind("j_o", "blockIdx.x")
    s = s.bind("j_i", "threadIdx.x").bind("k_i", "threadIdx.y")
    for n, m in ((1, 1), (9, 13), (0, 5)):
        check(s.func, ints(n, m))


def test_two_axes_fold_together() -> None:
    f = lp.parse(
        """
def f(n: "size", A: "float32[n, 12, 8]", S: "out float32[n]"):
    for i in range(n):
        for a in range(12):
            for b in range(8):
                S[i] = sum(A[i, a, b], over=(a, b), init=0.0)
"""
    )
    s = lp.Schedule(f).bind("i", "blockIdx.x").split("a", 4)
    check(s.bind("a_i", "threadIdx.y").bind("b", "threadIdx.x").func, ints(3, 12, 8))
    check(s.bind("a_i", "threadIdx.z").bind("b", "threadIdx.y").func, ints(3, 12, 8))
    check(s.bind("a_i", "threadIdx.x").bind("b", "threadIdx.z").func, ints(3, 12, 8))
