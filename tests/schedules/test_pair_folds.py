"""Folds over pairs: right at any size, no matrix of pairs in memory, and no more memory moved than arguments."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.cuda import pair_folds
from schedules.cuda.pair_folds import folds_pairs, pair_fold, pairs_in_tiles
from schedules.normal_form import normal_form


def distances(rows: int, columns: int, terms: int, dtype: str = "float32") -> Any:
    a, b = lp.placeholder((rows, terms), dtype, name="a"), lp.placeholder((columns, terms), dtype, name="b")
    return lp.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=-1)


def nearest(rows: int, columns: int, terms: int) -> Any:
    return lp.sqrt(lp.min(distances(rows, columns, terms), axis=1))


def nearest_row(rows: int, columns: int, terms: int) -> Any:
    return lp.max(distances(columns, rows, terms), axis=0)


def places(rows: int, columns: int, terms: int) -> Any:
    return lp.argmin(distances(rows, columns, terms), axis=1)


def forces(rows: int, columns: int, terms: int) -> Any:
    """Of one array with itself: rows and columns are of one number."""
    p, m = lp.placeholder((rows, terms), "float32", name="p"), lp.placeholder((rows,), "float32", name="m")
    d = p[None, :, :] - p[:, None, :]
    return lp.sum(d * (m[None, :] * (lp.sum(d * d, axis=-1) + 1.0))[:, :, None], axis=1)


def of_a_batch(rows: int, columns: int, terms: int) -> Any:
    a, b = lp.placeholder((2, rows, terms), name="a"), lp.placeholder((2, columns, terms), name="b")
    return lp.min(lp.sum(lp.abs(a[:, :, None, :] - b[:, None, :, :]), axis=-1), axis=2)


def without_coordinates(rows: int, columns: int, terms: int) -> Any:
    x, y = lp.placeholder((rows,), name="x"), lp.placeholder((columns,), name="y")
    return lp.sum(abs(x[:, None] - y[None, :]) * y[None, :], axis=1)


def of_classes(rows: int, columns: int, terms: int) -> Any:
    """A row is the number of a class alone."""
    y, x = lp.placeholder((columns,), "int32", name="y"), lp.placeholder((columns, terms), name="x")
    own = y[None, :, None] == lp.arange(rows, dtype="int32")[:, None, None]
    return lp.sum(lp.where(own, x[None], 0.0), axis=1)


def assigned(rows: int, columns: int, terms: int) -> Any:
    """Distances as a product and what belongs to columns alone, as k-means has them."""
    a, b = lp.placeholder((rows, terms), name="a"), lp.placeholder((columns, terms), name="b")
    return lp.argmin(lp.placeholder((columns,), name="n") - 2.0 * (a @ b.T), axis=1)


PROGRAMS = (assigned, nearest, nearest_row, places, forces, of_a_batch, without_coordinates, of_classes)


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(PROGRAMS), st.integers(2, 9), st.integers(2, 11), st.integers(2, 4), st.data())
def test_they_are_what_they_were(
    program: Callable[[int, int, int], Any], rows: int, columns: int, terms: int, data: st.DataObject
) -> None:
    s = schedules.inlined(lp.Schedule(program(rows, columns, terms)))
    draw = lambda *sizes: data.draw(st.sampled_from(sizes))  # noqa: E731
    with patch.object(pair_folds, "FEWEST", 2):
        (stage,) = (x for x in s.stages if pair_fold(s, x) is not None)
        made = pairs_in_tiles(
            s, stage, side=draw(1, 2, 4), rows=draw(1, 2, 4), parts=draw(1, 1, 2, 3), columns=draw(1, 2, 3), threads=8
        )
    assert_equivalent(s.func, made.func)
    lp.lower(made, "cuda")


@pytest.mark.parametrize(("rows", "columns", "terms"), [(100000, 64, 32), (20000, 500, 24)])
def test_a_product_that_is_folded_at_once_is_not_stored(rows: int, columns: int, terms: int) -> None:
    """Of float32 and few terms: a thread has whole rows, and reads columns as vectors."""
    made = schedules.auto(lp.Schedule(assigned(rows, columns, terms)), "cuda", arch="sm_90a")
    assert all(lp.buffer_bytes(made)[b] < 4 * rows * columns for b in made.buffers if made.buffer(b).scope == "global")
    for used in lp.compile_source(made, "sm_90a").resources.values():
        assert used.spill_stores == used.spill_loads == used.stack == 0


def test_many_results_of_a_row_are_made_in_parts_of_all_rows() -> None:
    s = schedules.inlined(lp.Schedule(of_classes(5, 7, 6)))
    with patch.multiple(pair_folds, FEWEST=2, MOST_INSIDE=2, THREADS=8):
        assert folds_pairs(s, s.stages[0])
        made = pair_folds.pair_folds(s, s.stages[0])
    assert_equivalent(s.func, made.func)
    lp.lower(made, "cuda")
    auto = schedules.auto(lp.Schedule(of_classes(64, 1 << 15, 128)), "cuda", arch="sm_90a")
    assert lp.predict(auto, "cuda", arch="sm_90a").seconds < 2.0e-4  # by a thread for each, a millisecond


def test_a_fold_starts_from_what_there_is() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(x: "float32[7]", y: "float32[9]", m: "inout float32[9]"):
    for j in range(9):
        for i in range(7):
            m[j] = max(x[i] * y[j], over=i)
""")
    )
    with patch.object(pair_folds, "FEWEST", 2):
        made = pairs_in_tiles(s, "m", side=2, rows=2, threads=8)
    assert_equivalent(s.func, made.func)
    assert "x_at" in made.buffers


@pytest.mark.parametrize("program", PROGRAMS)
def test_auto_stores_no_matrix_of_pairs(program: Callable[[int, int, int], Any]) -> None:
    made = schedules.auto(lp.Schedule(program(2048, 2048, 3)), "cuda", arch="sm_90a")
    assert sum(k.moved for k in made.report(arch="sm_90a").kernels) < 2048 * 2048
    assert all(lp.buffer_bytes(made)[b] < 2048 * 2048 for b in made.buffers if made.buffer(b).scope == "global")


def test_pairs_that_two_folds_take_are_computed_for_each() -> None:
    d = distances(1000, 900, 3)
    s = lp.Schedule(lp.mean(lp.min(d, axis=1)) + lp.mean(lp.min(d, axis=0)))
    made = normal_form(s)
    assert [x for x in made.stages if pair_fold(made, x) is not None] == ["min", "min_1"]
    assert made.validate()
    auto = schedules.auto(s, "cuda", arch="sm_90a")
    assert lp.predict(auto, "cuda", arch="sm_90a").seconds < 4.0e-5
    both = lp.Schedule((d, lp.min(d, axis=1)))
    assert normal_form(both) is both  # which is stored in any case


def test_what_belongs_to_pairs_in_memory_is_no_fold_over_pairs() -> None:
    a, x = lp.placeholder((512, 512), name="a"), lp.placeholder((512,), name="x")
    for value in (a @ x, lp.sum(abs(a - x[None, :]) * x[:, None], axis=1), lp.sum(a, axis=1)):
        s = lp.Schedule(value)
        assert all(pair_fold(s, stage) is None for stage in s.stages)


def test_parts_of_columns_make_blocks_enough_for_few_rows() -> None:
    made = schedules.auto(lp.Schedule(nearest(128, 1 << 18, 3)), "cuda", arch="sm_90a")
    kernels = made.report(arch="sm_90a").kernels
    assert len(kernels) <= 3
    assert kernels[0].work.blocks >= 100
