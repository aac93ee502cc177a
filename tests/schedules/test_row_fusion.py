"""Stages a row at a time on a CPU: windows that slide are folded in lanes, rows by vectors; the values stay."""

import numpy as np
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.schedules import auto, cpu
from loopir.testing.oracles.equivalence import assert_equivalent
from schedules.llvm.row_fusion import windows_in_lanes


def moving(size: int | None, window: int, dtype: str = "int32") -> lp.Schedule:
    """Sums of squared distances to the sum of the same window: two folds of windows, the second reads the first."""
    n = lp.symbol("n", min=window) if size is None else size
    rows = 3
    x = lp.placeholder((rows, n), dtype, name="x")
    k, q = lp.reduce_axis(window, name="k"), lp.reduce_axis(window, name="q")
    m = lp.compute((rows, n - window + 1), lambda i, j: lp.sum(x[i, j + k], axis=k), name="m")
    d = lambda i, j: x[i, j + q] - m[i, j]  # noqa: E731
    return lp.Schedule(lp.compute((rows, n - window + 1), lambda i, j: lp.sum(d(i, j) * d(i, j), axis=q), name="v"))


@given(st.integers(1, 70), st.integers(1, 20), st.booleans())
@settings(max_examples=12, deadline=None)
def test_windows_are_summed_exactly(extra: int, window: int, known: bool) -> None:
    size = window + extra
    s = auto(moving(size if known else None, window), "llvm")
    x = np.random.default_rng(size).integers(-9, 9, (3, size), np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(x, window, 1)
    expected = ((windows - windows.sum(-1, keepdims=True)) ** 2).sum(-1)
    assert np.array_equal(s.build("llvm")(x), expected)


def test_windows_side_by_side_are_lanes() -> None:
    s = auto(moving(4096, 16, "float32"), "llvm")
    assert any(s.loop(x).kind == "vectorize" for x in s.loops())
    assert "rfactor" not in s.script()


def test_the_last_vector_of_windows_is_whole_where_they_are_computed_anew() -> None:
    x = lp.placeholder((3, 25), "int32", name="x")
    k = lp.reduce_axis(5, name="k")
    s = lp.Schedule(lp.compute((3, 21), lambda i, j: lp.sum(x[i, j + k], axis=k), name="m"))
    t = windows_in_lanes(s, "m", lanes=8)
    assert "min(j_o * 8, 13) + j_i" in lp.text(t.func)
    assert_equivalent(s, t)
    added = lp.Schedule(
        lp.parse("""
def f(x: "int32[3, 25]", y: "inout int32[3, 21]"):
    for i in range(3):
        for j in range(21):
            for k in range(5):
                y[i, j] += x[i, j + k]
""")
    )
    t = windows_in_lanes(added, "y", lanes=8)
    assert "min(" not in lp.text(t.func)
    assert_equivalent(added, t)


def test_rows_are_still_folded_by_vectors() -> None:
    x = lp.placeholder((64, 4096), "float32", name="x")
    s = auto(lp.Schedule(lp.softmax(x, axis=1)), "llvm")
    assert "rfactor" in s.script()


@given(st.integers(1, 300), st.integers(1, 40))
@settings(max_examples=8, deadline=None)
def test_one_signal_is_filtered_exactly(count: int, taps: int) -> None:
    x, h = (lp.placeholder((n,), "int32", name=name) for n, name in ((count + taps - 1, "x"), (taps, "h")))
    k = lp.reduce_axis(taps, name="k")
    s = auto(lp.Schedule(lp.compute((count,), lambda i: lp.sum(x[i + k] * h[k], axis=k), name="y")), "llvm")
    a, b = (np.random.default_rng(taps).integers(-9, 9, n, np.int32) for n in (count + taps - 1, taps))
    assert np.array_equal(s.build("llvm")(a, b), np.convolve(a, b[::-1], "valid"))


def test_a_fold_under_a_guard_of_its_row_keeps_its_vector_in_lanes_of_its_own() -> None:
    """That a vector is folded by halves is refused there."""
    s = lp.Schedule(lp.parse("""
def f(A: "float32[3, 8]", S: "inout float32[3]", B: "out float32[3, 8]"):
    for i in range(3):
        for j in range(8):
            if i < 1:
                S[i] = sum(A[i, j], over=j, init=0.0)
    for k in range(3):
        for l in range(8):
            B[k, l] = A[k, l] * S[k]
"""))  # fmt: skip
    made = cpu(s, lanes=4)
    assert "vectorize(8)" in str(made)
    assert_equivalent(made, s)
