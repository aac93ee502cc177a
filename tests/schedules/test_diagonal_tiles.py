"""Sweeps by diagonals on a GPU: exact on interpreted threads, which tell races, and as C++ on a CPU."""

import cuda_on_cpu
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from schedules.cuda.diagonal_tiles import has_diagonals, in_a_block, in_tiles

RNG = np.random.default_rng(0)
AREAS = """
def areas(x: "int32[{b}, {n}, {m}]", S: "inout int32[{b}, {n} + 1, {m} + 1]"):
    for i in range({b}):
        for r in range({n}):
            for c in range({m}):
                S[i, r + 1, c + 1] = x[i, r, c] + S[i, r, c + 1] + S[i, r + 1, c] - S[i, r, c]
"""
COMMON = """
def common(a: "int32[{n}]", b: "int32[{m}]", L: "inout int32[{n} + 1, {m} + 1]"):
    for i in range({n}):
        for j in range({m}):
            if a[i] == b[j]:
                L[i + 1, j + 1] = L[i, j] + 1
            else:
                L[i + 1, j + 1] = maximum(L[i, j + 1], L[i + 1, j])
"""
RELAXED = """
def relaxed(A: "inout int32[{n}, {m}]"):
    for t in range(2):
        for i in range({n} - 2):
            for j in range({m} - 2):
                A[i + 1, j + 1] = A[i, j + 1] + A[i + 1, j] - A[i + 1, j + 2] + 2 * A[i + 2, j + 1] - A[i, j + 2]
"""


def parsed(text: str, **sizes: int) -> lp.Schedule:
    return lp.Schedule(lp.parse(text.format(**sizes)))


def summed(x: np.ndarray) -> np.ndarray:
    out = np.zeros([x.shape[0], x.shape[1] + 1, x.shape[2] + 1], np.int32)
    out[:, 1:, 1:] = x.cumsum(1).cumsum(2)
    return out


def common_by_numpy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    best = np.zeros([len(a) + 1, len(b) + 1], np.int32)
    for i, j in np.ndindex(len(a), len(b)):
        best[i + 1, j + 1] = best[i, j] + 1 if a[i] == b[j] else max(best[i, j + 1], best[i + 1, j])
    return best


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 3), st.integers(1, 70), st.integers(1, 70), st.sampled_from([None, 8, 32]))
def test_areas_are_what_they_were(batch: int, n: int, m: int, tile: int | None) -> None:
    s = parsed(AREAS, b=batch, n=n, m=m)
    if has_diagonals(s, "S"):
        s = in_a_block(s, "S") if tile is None else in_tiles(s, "S", tile=tile)
    x, S = RNG.integers(-9, 9, [batch, n, m]).astype(np.int32), np.zeros([batch, n + 1, m + 1], np.int32)
    (program,) = lp.lower(s, "cuda")
    np.testing.assert_array_equal(lp.interpret(program, [x, S])["S"], summed(x))


@settings(max_examples=6, deadline=None)
@given(st.integers(2, 50), st.integers(2, 50), st.sampled_from([4, 16]))
def test_two_branches_and_sweeps_in_time_are_what_they_were(n: int, m: int, tile: int) -> None:
    a, b = RNG.integers(0, 3, n).astype(np.int32), RNG.integers(0, 3, m).astype(np.int32)
    (program,) = lp.lower(in_tiles(parsed(COMMON, n=n, m=m), "L", tile=tile), "cuda")
    got = lp.interpret(program, [a, b, np.zeros([n + 1, m + 1], np.int32)])["L"]
    np.testing.assert_array_equal(got, common_by_numpy(a, b))
    s = parsed(RELAXED, n=n + 2, m=m + 2)
    start = RNG.integers(-9, 9, [n + 2, m + 2]).astype(np.int32)
    want = lp.interpret(s.func, [start.copy()])["A"]
    (program,) = lp.lower(in_tiles(s, "A", tile=tile), "cuda")
    np.testing.assert_array_equal(lp.interpret(program, [start])["A"], want)


@cuda_on_cpu.needs_compiler
@pytest.mark.parametrize("tile", [None, 16])
def test_the_same_as_cpp(tile: int | None) -> None:
    s = parsed(AREAS, b=2, n=45, m=60)
    x, S = RNG.integers(-9, 9, [2, 45, 60]).astype(np.int32), np.zeros([2, 46, 61], np.int32)
    cuda_on_cpu.build(in_a_block(s, "S") if tile is None else in_tiles(s, "S", tile=tile))(x, S)
    np.testing.assert_array_equal(S, summed(x))


@pytest.mark.parametrize(
    ("text", "sizes"), [(AREAS, {"b": 1, "n": 1000, "m": 900}), (COMMON, {"n": 700, "m": 900}),
                        (AREAS, {"b": 500, "n": 64, "m": 64}), (RELAXED, {"n": 500, "m": 500})]
)  # fmt: skip
def test_auto_takes_them(text: str, sizes: dict[str, int]) -> None:
    """Predicted at less than a fiftieth of what a thread, or one for each of a batch, takes as it is written."""
    s = parsed(text, **sizes)
    seconds = [lp.predict(x, "cuda", arch="sm_90a").seconds for x in (schedules.auto(s, "cuda", arch="sm_90a"), s)]
    assert seconds[0] < seconds[1] / 50


def test_others_are_refused() -> None:
    s = lp.Schedule(lp.parse('''
def f(a: "inout float32[9, 9]", b: "inout float32[1]"):
    for i in range(8):
        for j in range(9):
            a[i + 1, j] = a[i, j] * a[i, j]
    for k in range(8):
        for l in range(8):
            b[0] = b[0] * a[k, l]
'''))  # fmt: skip
    assert not has_diagonals(s, "a")
    assert has_diagonals(s, "b")
    with pytest.raises(lp.ScheduleError):
        in_tiles(s, "b", tile=4)
    with pytest.raises(lp.ScheduleError, match="A is no batch of sweeps"):
        in_a_block(parsed(RELAXED, n=9, m=9), "A")
