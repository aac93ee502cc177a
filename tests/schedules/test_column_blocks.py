"""Stages along columns in one kernel: right at any size, one read of what is given, no spills."""

from __future__ import annotations

import cuda_on_cpu
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing import assert_equivalent
from schedules.cuda.column_blocks import along_columns, along_few_columns, column_blocks, few_column_blocks


def softmax(*shape: int, dtype: str = "float32") -> lp.Schedule:
    x = lp.placeholder(shape, dtype, name="x")
    wide = x if dtype == "float32" else x.astype("float32")
    return schedules.inlined(lp.Schedule(lp.softmax(wide, axis=len(shape) - 2).astype(dtype)))


def statistics(rows: int, columns: int, dtype: str = "float32") -> lp.Schedule:
    x = lp.placeholder((rows, columns), dtype, name="x")
    return schedules.inlined(lp.Schedule([lp.max(x, axis=0), (x * x).sum(axis=0), x.sum(axis=0)]))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([2, 4]), st.sampled_from([8, 16]))
def test_columns_are_what_they_were(rows: int, columns: int, side: int, threads: int) -> None:
    for make in (softmax, statistics):
        s = make(rows, columns)
        if along_columns(s):
            assert_equivalent(s.func, column_blocks(s, side=side, threads=threads).func)


@settings(max_examples=5, deadline=None)
@given(st.integers(2, 4), st.integers(2, 9), st.integers(9, 20))
def test_columns_of_a_batch_are_what_they_were(batch: int, rows: int, columns: int) -> None:
    s = softmax(batch, rows, columns)
    assert_equivalent(s.func, column_blocks(s, side=2, threads=8).func)


def normed(rows: int, columns: int, dtype: str) -> lp.Schedule:
    x = lp.placeholder((rows, columns), dtype, name="x")
    wide = x if dtype == "float32" else x.astype("float32")
    mean = wide.sum(axis=0) / float(rows)
    squares = ((wide - mean) * (wide - mean)).sum(axis=0)
    return lp.Schedule([((wide - mean) * lp.rsqrt(squares + 1e-5)).astype(dtype), mean])


@settings(max_examples=5, deadline=None)
@given(st.integers(2, 40), st.integers(1, 40), st.sampled_from(["float32", "bfloat16"]))
def test_few_columns_are_what_they_were(rows: int, columns: int, dtype: str) -> None:
    s = normed(rows, columns, dtype)
    if along_few_columns(s):
        assert_equivalent(s.func, few_column_blocks(s).func)


@pytest.mark.parametrize(("rows", "columns", "dtype"), [(1024, 64, "float32"), (1024, 256, "bfloat16")])
def test_few_columns_are_one_kernel(rows: int, columns: int, dtype: str) -> None:
    """Few blocks that read once take less than several launches."""
    s = normed(rows, columns, dtype)
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert not along_columns(s)
    assert along_few_columns(s)
    assert lp.predict(made, "cuda", arch="sm_90a").kernels == 1


@cuda_on_cpu.needs_compiler
def test_the_same_as_cpp() -> None:
    """The emitted CUDA C, its barriers by a CPU's threads, on integers, whose sums are exact in any order."""
    x = lp.placeholder((37, 24), name="x")
    total = x.sum(axis=0)
    s = schedules.inlined(lp.Schedule([total, x - 2.0 * total]))
    given_x = np.random.default_rng(0).integers(-9, 9, (37, 24)).astype(np.float32)
    sums, moved = cuda_on_cpu.build(column_blocks(s, side=2, threads=32))(given_x)
    np.testing.assert_array_equal(sums, given_x.sum(0))
    np.testing.assert_array_equal(moved, given_x - 2 * given_x.sum(0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), [(200, 65536), (7, 100_000)])
def test_auto_takes_them_and_reads_once(rows: int, columns: int, dtype: str) -> None:
    made = schedules.auto(softmax(rows, columns, dtype=dtype), "cuda", arch="sm_90a")
    (kernel,) = made.report().kernels
    assert kernel.moved <= 1.4 * 2 * rows * columns * (4 if dtype == "float32" else 2)
    for resources in lp.compile_source(made, arch="sm_90a").resources.values():
        assert resources.spill_stores == resources.spill_loads == 0


def test_rows_are_none() -> None:
    x = lp.placeholder((64, 64), name="x")
    s = schedules.inlined(lp.Schedule(lp.softmax(x, axis=1)))
    assert not along_columns(s)
    with pytest.raises(lp.ScheduleError, match="are not reductions along the same columns"):
        column_blocks(s)
