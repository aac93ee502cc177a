"""Reductions on a CPU across rows, and of all that there is: right at any size, and in the order that memory has."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.llvm.column_reduction import across, columns
from schedules.llvm.split_reduction import into_one


def same_in_the_ring(s: lp.Schedule, t: lp.Schedule, x: np.ndarray[Any, Any], sizes: dict[str, int]) -> None:
    want, got = (lp.interpret(p.func, {"x": x}, sizes, domain="ring") for p in (s, t))
    for name in want:
        np.testing.assert_array_equal(got[name], want[name])


def reduced(shape: tuple[int, ...], axis: Any, how: str, symbolic: bool) -> tuple[lp.Schedule, dict[str, int]]:
    sizes = {f"n{d}": n for d, n in enumerate(shape)} if symbolic else {}
    x = lp.placeholder(tuple(map(lp.symbol, sizes)) if symbolic else shape, "float32", name="x")
    return lp.Schedule(getattr(lp, how)(x, axis=axis)), sizes


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(17, 40), st.integers(1, 40)),
    st.sampled_from(["sum", "max", "argmin"]),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_columns_of_any_number(shape: tuple[int, int], how: str, lanes: int, symbolic: bool) -> None:
    s, sizes = reduced(shape, 0, how, symbolic)
    t = columns(s, s.stages[0], lanes=lanes)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    same_in_the_ring(s, t, x, sizes)
    want = getattr(np, how)(x, axis=0)
    np.testing.assert_array_equal(t.build("llvm")(x), want)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_rows_come_by_in_order_and_threads_have_columns(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", threads)
    s, _ = reduced((50, 1000), 0, "sum", False)
    t = schedules.auto(s, "llvm")
    *_, row, _, lane = t.loops("sum")
    assert (t.reduced("sum"), t.loop(lane).kind) == ((row,), "vectorize")
    assert any(t.loop(x).kind == "parallel" for x in t.loops()) == (threads == "3")
    x = np.arange(50_000, dtype=np.float32).reshape(50, 1000) % 7
    np.testing.assert_array_equal(t.build("llvm")(x), x.sum(axis=0))


def test_a_vector_by_a_matrix_reads_the_matrix_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    v, m = lp.placeholder((40,), "float32", name="v"), lp.placeholder((40, 100), "float32", name="m")
    k = lp.reduce_axis(40, name="k")
    s = lp.Schedule(lp.compute((100,), lambda j: lp.sum(v[k] * m[k, j], axis=k), name="y"))
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "1")
    t = schedules.auto(s, "llvm")
    assert t.loops("y")[0] == "k"
    a, b = (
        np.random.default_rng(n).integers(-5, 5, shape).astype(np.float32) for n, shape in ((0, 40), (1, (40, 100)))
    )
    np.testing.assert_array_equal(t.build("llvm")(a, b), a @ b)


@pytest.mark.parametrize(("shape", "axis"), [((16, 40), 0), ((40, 3), 0), ((40, 40), 1), ((40, 40), (0, 1))])
def test_few_rows_few_columns_and_what_runs_along_rows_is_no_fold_of_columns(shape: Any, axis: Any) -> None:
    s, _ = reduced(shape, axis, "sum", False)
    assert across(s, "sum") is None
    assert columns(s, "sum").func == s.func


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 200), st.integers(0, 3), st.sampled_from(["sum", "min", "argmax"]), st.booleans())
def test_all_of_it_by_parts(length: int, rows: int, how: str, symbolic: bool) -> None:
    shape = (length,) if not rows or how == "argmax" else (rows, length)
    s, sizes = reduced(shape, None if how != "argmax" else 0, how, symbolic)
    t = into_one(s, s.stages[0], lanes=4, part=40)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    same_in_the_ring(s, t, x, sizes)
    np.testing.assert_array_equal(t.build("llvm")(x), getattr(np, how)(x))


def test_threads_have_the_parts() -> None:
    s, _ = reduced((100_003,), 0, "sum", False)
    t = schedules.auto(s, "llvm")
    assert any(t.loop(x).kind == "parallel" for x in t.loops())
    assert lp.text(t.func).count(" if ") == 1  # the last elements, in a masked vector
    x = np.ones(100_003, np.float32)
    assert t.build("llvm")(x) == 100_003
