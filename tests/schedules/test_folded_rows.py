"""Folds of several rows at a time: exact at any number of rows and lengths, and taken where rows share a vector."""

from typing import Any

import numpy as np
import pytest
from meaning import same_in_the_ring

import loopir as lp
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.folded_rows import folded_rows


def products(n: Any, m: Any, *, shared: bool = True) -> lp.Schedule:
    A = lp.placeholder((n, m), "float32", name="A")
    x = lp.placeholder((m,) if shared else (n, m), "float32", name="x")
    k = lp.reduce_axis(m, name="k")
    return lp.Schedule(lp.compute((n,), lambda i: lp.sum(A[i, k] * (x[k] if shared else x[i, k]), axis=k), name="y"))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("n", "m"), [(4, 4), (9, 7), (5, 12), (21, 37), (3, 8), (8, 3)])
def test_rows_are_folded_side_by_side(n: int, m: int, symbolic: bool) -> None:
    s = products(lp.symbol("n"), lp.symbol("m")) if symbolic else products(n, m)
    t = folded_rows(s, "y", rows=4, lanes=4)
    assert (t.func is s.func) == (not symbolic and (n < 4 or m < 4))
    A, x = (np.arange(np.prod(a), dtype=np.float32).reshape(a) % 5 for a in ((n, m), (m,)))
    same_in_the_ring(s, t, {"A": A, "x": x}, {"n": n, "m": m} if symbolic else {})
    np.testing.assert_array_equal(t.build("llvm")(A, x), A @ x)


def test_the_rows_are_unrolled_in_each_step_and_their_sums_are_in_local_memory() -> None:
    text = lp.text(folded_rows(products(16, 32), "y", rows=4, lanes=8).func)
    assert 'alloc("float32[4, 8]", scope="local") as y_rf' in text
    assert "y_rf[i_i, k_i] = sum(A[i_o * 4 + i_i, k_o * 8 + k_i] * x[k_o * 8 + k_i], over=k_o" in text


def test_what_rows_do_not_share_is_left_alone() -> None:
    for s in (products(16, 64, shared=False), products(16, 64).parallel("i"), products(16, 64).split("k", 8)):
        assert folded_rows(s, "y").func is s.func


def test_auto_takes_it() -> None:
    assert any("folded_rows" in str(x) for x in cpu(products(64, 256)).trace)
    assert not any("folded_rows" in str(x) for x in cpu(products(64, 256, shared=False)).trace)
