"""Which products are worth tiles, and which row of the table multiplies them."""

from __future__ import annotations

import pytest

import loopir as lp
from schedules.common.contraction import contraction
from schedules.cuda.tiled_products import PRODUCTS, is_product, is_tiled


def matmul(m: int, n: int, k: int, dtype: str) -> lp.Schedule:
    a, b = lp.placeholder((m, k), dtype, name="A"), lp.placeholder((k, n), dtype, name="B")
    c = lp.reduce_axis(k, name="k")
    wide = "int32" if dtype == "int8" else "float32"
    f = lambda i, j: lp.sum(lp.cast(a[i, c], wide) * lp.cast(b[c, j], wide), axis=c)  # noqa: E731
    return lp.Schedule(lp.compute((m, n), f, name="C"))


@pytest.mark.parametrize(
    ("sizes", "dtype", "row"),
    [
        ((128, 128, 128), "bfloat16", "16 bits on tensor cores"),
        ((2048, 2048, 64), "float32", "whole tiles of float32"),
        ((1000, 1000, 100), "float32", "float32 in the cheapest tiles"),
        ((40, 40, 40), "float32", "float32 in the cheapest tiles"),
    ],
)
def test_a_product_is_for_the_first_unit_that_takes_it(sizes: tuple[int, int, int], dtype: str, row: str) -> None:
    s = matmul(*sizes, dtype)
    with lp.scheduling_for(lp.machine("sm_90a")):
        assert is_tiled(s, "C")
        assert next(r.name for r in PRODUCTS if r.matches(s, "C")) == row


def test_a_product_of_few_rows_is_not_worth_tiles() -> None:
    s = matmul(8, 128, 128, "float32")
    assert contraction(s, "C") is not None
    assert not is_product(s, "C")
