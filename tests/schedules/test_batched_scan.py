"""Running folds of rows and columns: exact on interpreted threads and as C++ on a CPU, at any size, in one read."""

from __future__ import annotations

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
