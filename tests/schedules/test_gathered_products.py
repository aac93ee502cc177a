"""Products of gathered rows: tiles take what is gathered, stored or in the copies of the tiles, and mean the same."""

from __future__ import annotations

from typing import Any

import pytest

import loopir as lp
from loopir import schedules


def rows(dtype: str) -> lp.Schedule:
    """A table's rows by index, times a matrix."""
    table, w = lp.placeholder((9, 16), dtype, name="table"), lp.placeholder((16, 16), dtype, name="w")
    return lp.Schedule(table[lp.placeholder((16,), "int64", name="ids")] @ w)


def pairs(dtype: str) -> lp.Schedule:
    """Every two of the rows that are looked up together."""
    found = lp.placeholder((9, 16), dtype, name="table")[lp.placeholder((2, 16), "int64", name="ids")]
    return lp.Schedule(found @ found.transpose((0, 2, 1)))


@pytest.mark.parametrize("make", [rows, pairs])
def test_tensor_cores_take_gathered_rows(make: Any) -> None:
    s = make("bfloat16")
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert made.instructions, made
    lp.testing.assert_equivalent(s, made)


def test_the_table_is_read_by_the_copies_of_the_tiles_where_that_is_faster() -> None:
    table, w = (
        lp.placeholder((10_000, 1024), "bfloat16", name="table"),
        lp.placeholder((1024, 256), "bfloat16", name="w"),
    )
    s = lp.Schedule(table[lp.placeholder((2048,), "int64", name="ids")] @ w)
    cost = lp.predict(schedules.auto(s, "cuda", arch="sm_90a"), "cuda", arch="sm_90a")
    assert cost.kernels == 1
    assert cost.temp_bytes == 0


def test_a_product_that_is_not_worth_tiles_gathers_where_it_multiplies() -> None:
    table, w = lp.placeholder((40, 4), "float32", name="table"), lp.placeholder((4, 2), "float32", name="w")
    s = lp.Schedule(table[lp.placeholder((6,), "int64", name="ids")] @ w)
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert not any(x.startswith("table_at") for x in made.stages)
    lp.testing.assert_equivalent(s, made)


def test_pairs_of_nearly_a_tile_of_float32_rows_are_tiles_whose_copies_gather() -> None:
    def program(samples: int) -> lp.Schedule:
        found = lp.placeholder((9, 32), "float32", name="table")[lp.placeholder((samples, 26), "int64", name="ids")]
        return lp.Schedule(found @ found.transpose((0, 2, 1)))

    many = schedules.auto(program(1024), "cuda", arch="sm_90a")
    cost = lp.predict(many, "cuda", arch="sm_90a")
    assert (cost.kernels, cost.temp_bytes) == (1, 0)
    assert any(many.buffer(x).scope == "shared" for x in many.buffers)
    small = program(2)
    lp.testing.assert_equivalent(small, small.replay(many.trace))
