"""Rows spread over threads: how many are worth it, in vectors that the rows are made of, and the meaning stays."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import same_in_the_ring

import loopir as lp
from schedules.cuda.row_threads import (
    LEAST_BYTES,
    MAX_ROW_THREADS,
    SHARE_BYTES,
    UNKNOWN,
    VECTOR_BYTES,
    WARP,
    spread_row,
    threads_evenly,
    threads_worth,
    vector,
    vector_read,
)


@given(st.integers(1, 1 << 20), st.sampled_from([1, 2, 4, 8]))
def test_a_row_is_worth_threads_for_its_bytes(length: int, size: int) -> None:
    threads = threads_worth(length, size)
    assert threads & (threads - 1) == 0
    assert threads <= MAX_ROW_THREADS
    assert threads_worth(2 * length, size) >= threads
    assert threads * SHARE_BYTES <= max(16 * SHARE_BYTES, 2 * length * size), "none has less than half its share"
    assert threads_worth(None, size) == UNKNOWN


@given(st.integers(1, 1 << 16), st.sampled_from([1, 2, 4, 8]), st.sampled_from([32, 64, 256, 1024]))
def test_threads_share_vectors_evenly_where_whole_warps_can(length: int, width: int, threads: int) -> None:
    pieces = max(1, length // width)
    found = threads_evenly(pieces * width, width, threads)
    assert 1 <= found <= threads
    even = [n for n in range(max(WARP, threads // 2), threads + 1) if n % WARP == 0 and pieces % n == 0]
    if even:
        assert found == max(even)
    else:
        assert found == threads or found < 2 * pieces
    assert threads_evenly(None, width, threads) == threads


def row(rows: int, length: int, dtype: str = "float32", text: str = "x[i, j] + x[i, j] * y[j]") -> lp.Schedule:
    x, y = lp.placeholder((rows, length), dtype, name="x"), lp.placeholder((length,), dtype, name="y")
    element: Any = {
        "x[i, j] + x[i, j] * y[j]": lambda i, j: x[i, j] + x[i, j] * y[j],
        "x[i, j] + x[i, 0]": lambda i, j: x[i, j] + x[i, 0],
    }[text]
    return lp.Schedule(lp.compute((rows, length), element, name="z"))


@pytest.mark.parametrize(
    ("length", "dtype", "width"),
    [(64, "float32", 4), (64, "float16", 8), (64, "int8", 16), (64, "float64", 2), (6, "float32", 2), (7, "float32", 1),
     (20, "float16", 4), (6, "float16", 2), (6, "int8", 1), (1, "float32", 4)],
)  # fmt: skip
def test_a_vector_is_as_wide_as_divides_the_row(length: int, dtype: str, width: int) -> None:
    s = row(3, length, dtype)
    found = vector(s, {"z": s.loops("z")[-1]}, frozenset(s.buffers))
    assert found == width
    if found > 1:
        size = s.buffer("z").dtype.bytes
        assert LEAST_BYTES <= found * size <= VECTOR_BYTES


def test_of_arrays_that_are_not_asked_about_a_vector_has_one_element() -> None:
    s = row(3, 64)
    assert vector(s, {"z": s.loops("z")[-1]}, frozenset()) == 1


@settings(max_examples=8)
@given(
    st.integers(1, 3), st.integers(1, 70), st.sampled_from([4, 32]), st.sampled_from([1, 2, 4]), st.booleans(),
    st.sampled_from(["x[i, j] + x[i, j] * y[j]", "x[i, j] + x[i, 0]"]),
)  # fmt: skip
def test_a_row_that_is_spread_means_the_same(
    rows: int, length: int, lanes: int, width: int, alone: bool, text: str
) -> None:
    s = row(rows, length, text=text)
    outer = None if alone else s.loops("z")[0]
    t = spread_row(s, "z", outer, lanes, width)
    rng = np.random.default_rng(0)
    arrays = {a.buffer.name: rng.integers(-9, 9, [d.value for d in a.buffer.shape]).astype(np.float32)
              for a in s.func.args if a.access == "in"}  # fmt: skip
    same_in_the_ring(s, t, arrays, {})
    (program,) = lp.lower(t if alone else t.bind(outer, "blockIdx.x"), "cuda")
    got, want = lp.interpret(program, arrays, domain="ring"), lp.interpret(s.func, arrays, domain="ring")
    np.testing.assert_array_equal(got["z"], want["z"])


def test_a_fold_along_a_row_reads_vectors_into_registers() -> None:
    x = lp.placeholder((3, 64), "float32", name="x")
    s = lp.Schedule(lp.sum(x, axis=1))
    (stage,) = s.stages
    outer, loop = s.loops(stage)
    t, (_, lane) = s.split(loop, 4).with_loops
    t = vector_read(t, stage, "x", t.loops(stage)[-2])
    (copy,) = set(t.buffers) - set(s.buffers)
    assert t.buffer(copy).scope == "local"
    assert t.loop(t.loops(copy)[-1]).kind == "vectorize"
    same_in_the_ring(s, t, {"x": np.arange(192, dtype=np.float32).reshape(3, 64)}, {})
    assert lane in t.loops(stage)
    assert outer in t.loops(copy)


def test_a_stage_without_loops_in_a_row_is_left_to_all_threads() -> None:
    x = lp.placeholder((8,), "float32", name="x")
    s = lp.Schedule(lp.compute((8,), lambda i: x[i] * 2.0, name="z"))
    assert spread_row(s, "z", "i", 32, 4) is s
