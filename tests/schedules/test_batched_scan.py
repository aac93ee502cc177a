"""Running folds of rows and columns: exact on interpreted threads and as C++ on a CPU, at any size, in one read."""

from __future__ import annotations

import math
import re

import cuda_on_cpu
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.cuda.batched_scan import batched_scan, is_scan

FOLDS = {"+": np.add, "max": np.maximum}


HEAD = """
def scan(x: "{t}[{r}, {c}]", y: "out {t}[{r}, {c}]"):
    for i in range({r}):
"""
ROWS = """        for j in range({c}):
            y[i, j] = {op}select(1 <= j, y[i, j - 1], {zero}){to}x[i, j]{end}
"""
COLUMNS = """        for j in range({c}):
            y[i, j] = {op}select(1 <= i, y[i - 1, j], {zero}){to}x[i, j]{end}
"""
STARTED = """        y[i, 0] = x[i, 0]
        for j in range({c} - 1):
            y[i, j + 1] = {op}y[i, j]{to}x[i, j + 1]{end}
"""
SPELLED = {
    "+": {"op": "", "to": " + ", "end": "", "zero": "0"},
    "max": {"op": "maximum(", "to": ", ", "end": ")", "zero": "-9"},
}


def scan(rows: int, columns: int, *, form: str = ROWS, fold: str = "+", dtype: str = "int32") -> lp.Schedule:
    """y = the running fold of x."""
    spelled = SPELLED[fold] | ({"zero": SPELLED[fold]["zero"] + ".0"} if "float" in dtype else {})
    return lp.Schedule(lp.parse((HEAD + form).format(r=rows, c=columns, t=dtype, **spelled)))


def scanned(s: lp.Schedule) -> lp.Schedule:
    """In small blocks, so that small arrays have several of them."""
    stage = s.stages[-1]
    assert is_scan(s, stage)
    return batched_scan(s, stage, threads=32, part=16)


def on_threads(s: lp.Schedule, x: np.ndarray) -> np.ndarray:
    (program,) = lp.lower(s, "cuda")
    return lp.interpret(program, [x])["y"]


@settings(max_examples=10, deadline=None)
@given(
    st.integers(1, 9), st.sampled_from([3, 4, 8, 31, 64, 100, 129, 200]), st.sampled_from(["+", "max"]),
    st.sampled_from(["int32", "float32", "int64", "int8"]), st.sampled_from([ROWS, STARTED]),
)  # fmt: skip
def test_rows_are_what_they_were(rows: int, columns: int, fold: str, dtype: str, form: str) -> None:
    x = np.random.default_rng(columns).integers(-4, 5, (rows, columns)).astype(dtype)
    s = scan(rows, columns, form=form, fold=fold, dtype=dtype)
    np.testing.assert_array_equal(on_threads(scanned(s), x), FOLDS[fold].accumulate(x, axis=1, dtype=dtype))


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([2, 9, 64, 130]), st.sampled_from([2, 4, 7]), st.sampled_from(["+", "max"]))
def test_columns_are_what_they_were(rows: int, columns: int, fold: str) -> None:
    x = np.random.default_rng(rows).integers(-4, 5, (rows, columns)).astype(np.int32)
    s = scan(rows, columns, form=COLUMNS, fold=fold)
    np.testing.assert_array_equal(on_threads(scanned(s), x), FOLDS[fold].accumulate(x, axis=0))


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 5, 9]), min_size=2, max_size=3), st.sampled_from([3, 8, 31, 64, 130, 200]),
    st.integers(0, 3), st.booleans(),
)  # fmt: skip
def test_batches_of_any_rank_with_what_reads_them(batch: list[int], length: int, axis: int, narrow: bool) -> None:
    """Rows of a block lie in a box of the array; what reads one element for each of its own is in the copy out."""
    axis = min(axis, len(batch))
    shape = (*batch[:axis], length, *batch[axis:])
    x = np.random.default_rng(length).integers(-4, 5, shape).astype(np.int32)
    a = lp.placeholder(shape, "int32", name="x")
    total = lp.cumsum(a, axis=axis, dtype="int32")
    s = lp.Schedule((lp.cast(total * 2, "int16") if narrow else total).named("y"))
    with lp.scheduling_for(lp.machine("sm_90a")):
        made = batched_scan(s, s.stages[0], threads=32, part=16)
    want = np.cumsum(x, axis=axis, dtype=np.int32)
    np.testing.assert_array_equal(on_threads(made, x), (want * 2).astype(np.int16) if narrow else want)


@cuda_on_cpu.needs_compiler
@pytest.mark.parametrize(("rows", "columns", "axis"), [(2, 600, 1), (9, 20, 1), (140, 40, 0)])
def test_the_same_as_cpp(rows: int, columns: int, axis: int) -> None:
    """The emitted CUDA C, its barriers by a CPU's threads: long rows in blocks, short rows together, columns."""
    x = np.random.default_rng(0).integers(-4, 5, (rows, columns)).astype(np.int32)
    s = scanned(scan(rows, columns, form=ROWS if axis else COLUMNS))
    np.testing.assert_array_equal(cuda_on_cpu.build(s)(x), np.cumsum(x, axis=axis, dtype=np.int32))


@pytest.mark.parametrize(
    ("rows", "columns", "axis", "kernels", "over"),
    [(4096, 4096, 1, 1, 1.1), (65536, 100, 1, 1, 1.1), (32, 100_000, 1, 3, 1.6), (4096, 65536, 0, 1, 1.1)],
)
def test_auto_takes_them_and_reads_rows_once(rows: int, columns: int, axis: int, kernels: int, over: float) -> None:
    """One pass over memory; two reads where long rows are cut into blocks."""
    made = schedules.auto(scan(rows, columns, form=ROWS if axis else COLUMNS), "cuda", arch="sm_90a")
    report = made.report()
    assert len(report.kernels) == kernels
    assert sum(k.moved for k in report.kernels) <= over * 8 * rows * columns


@pytest.mark.parametrize(
    ("shape", "axis", "kernels"), [((8, 4096, 512), 1, 3), ((8, 4000, 510), 1, 3), ((16, 12, 128, 128), 3, 1)]
)
def test_sums_that_are_rounded_are_stored_once(shape: tuple[int, ...], axis: int, kernels: int) -> None:
    """Sums of bfloat16 are float32 inside, and of these no array is stored."""
    a = lp.placeholder(shape, "bfloat16", name="a")
    made = schedules.auto(lp.Schedule(lp.cumsum(a, axis=axis)), "cuda", arch="sm_90a")
    report = made.report()
    assert len(report.kernels) == kernels
    assert sum(k.moved for k in report.kernels) <= (4.1 if kernels > 1 else 2.1) * 2 * math.prod(shape)


@pytest.mark.parametrize("shape", [(4, 8, 1 << 17), (2, 3, 1 << 18), (8, 16, 64), (64, 1000, 50)])
def test_rows_of_a_batch_are_not_a_thread_each(shape: tuple[int, ...]) -> None:
    a = lp.placeholder(shape, "float32", name="a")
    s = lp.Schedule(lp.cumsum(a, axis=2))
    flat = lp.Schedule(lp.cumsum(lp.placeholder((shape[0] * shape[1], shape[2]), "float32", name="a"), axis=1))
    ours, theirs = (lp.predict(schedules.auto(x, "cuda", arch="sm_90a"), "cuda", arch="sm_90a") for x in (s, flat))
    assert ours.seconds <= 2.0 * theirs.seconds


def test_two_chains_are_no_scan() -> None:
    s = lp.Schedule(lp.parse('''
def sweep(a: "inout float32[9, 9]"):
    for i in range(8):
        for j in range(8):
            a[i + 1, j + 1] = a[i, j + 1] + a[i + 1, j]
'''))  # fmt: skip
    assert not is_scan(s, "a")
    with pytest.raises(lp.ScheduleError, match="not a running fold along one loop"):
        batched_scan(s, "a")


def test_a_flat_array_is_not_kept_whole_between_its_rows() -> None:
    x = lp.placeholder((64 * 1000 * 128,), "float32", name="x")
    s = schedules.auto(lp.Schedule(lp.cumsum(x.reshape((64, 1000, 128)), axis=0)), "cuda", arch="sm_90a")
    assert all(int(n) <= 4096 for n in re.findall(r'alloc\("float32\[(\d+)\]", scope="local"', str(s)))
