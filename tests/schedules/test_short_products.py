"""Products of matrices smaller than a vector: exact, and without masks or copies."""

from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.short_products import short_product


def products(batch: Any, rows: int, terms: int, columns: int) -> lp.Schedule:
    a = lp.placeholder((batch, rows, terms), "float32", name="a")
    b = lp.placeholder((batch, terms, columns), "float32", name="b")
    k = lp.reduce_axis(terms, name="k")
    return lp.Schedule(
        lp.compute((batch, rows, columns), lambda n, i, j: lp.sum(a[n, i, k] * b[n, k, j], axis=k), name="y")
    )


@pytest.mark.parametrize("batch", [5, None])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(4, 4, 4), (3, 7, 2), (70, 5, 4), (5, 4, 4)])
def test_small_products_mean_the_same(batch: int | None, rows: int, terms: int, columns: int) -> None:
    s = products(batch or lp.symbol("n"), rows, terms, columns)
    t = short_product(s, "y", lanes=8)
    assert t.func is not s.func
    assert_equivalent(s, t)
    a, b = (np.arange(5 * n * m, dtype=np.float32).reshape(5, n, m) % 7 for n, m in ((rows, terms), (terms, columns)))
    np.testing.assert_array_equal(t.build("llvm")(a, b), a @ b)


def test_all_of_a_small_product_is_unrolled_around_its_columns() -> None:
    t = short_product(products(9, 4, 4, 4), "y", lanes=8)
    assert [t.loop(x).kind for x in t.loops("y")] == ["parallel", "unroll", "unroll", "vectorize"]


@pytest.mark.parametrize("sizes", [(4, 4, 8), (4, 8, 4), (4, 4, 3), (4, 4, 1)])
def test_others_are_left_alone(sizes: tuple[int, int, int]) -> None:
    s = products(9, *sizes)
    assert short_product(s, "y", lanes=8).func is s.func


@pytest.mark.parametrize("registers", [16, 32])
def test_auto_takes_it_where_masks_cost(monkeypatch: pytest.MonkeyPatch, registers: int) -> None:
    monkeypatch.setattr(lp, "vector_unit", lambda: (32, registers))
    taken = any("short_product" in str(x) for x in cpu(products(9, 4, 4, 4)).trace)
    assert taken == (registers == 16)
