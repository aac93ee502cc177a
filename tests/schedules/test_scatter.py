"""Histograms, prefix sums and ragged rows: right on interpreted threads, on the CPU, and compiled for a GPU."""

from __future__ import annotations

import importlib
from itertools import pairwise

import numpy as np
import pytest
from meaning import on_threads

import loopir as lp
import schedules

RNG = np.random.default_rng(0)


HISTOGRAM = """
def histogram(n: "size", m: "size", x: "uint8[n, m]", bins: "inout int32[256]"):
    for i in range(n):
        for j in range(m):
            bins[x[i, j]] += 1
"""
CHAIN = """
def chain(n: "size", bins: "inout int32[n + 1]"):
    for i in range(n):
        bins[i + 1] += bins[i]
"""
RAGGED = """
def ragged(n: "size", z: "size", start: "int32[n]", end: "int32[n]", values: "float32[z]", out: "out float32[n]"):
    for i in range(n):
        for k in range(end[i] - start[i]):
            out[i] = sum(values[start[i] + k], over=k, init=0.0)
"""


@pytest.mark.parametrize("size", [(0, 3), (1, 1), (5, 77), (40, 25)])
def test_histogram(size: tuple[int, int]) -> None:
    x = RNG.integers(0, 256, size).astype(np.uint8)
    start = RNG.integers(0, 9, 256).astype(np.int32)
    want = start + np.bincount(x.ravel(), minlength=256)
    s = lp.Schedule(lp.parse(HISTOGRAM))
    np.testing.assert_array_equal(on_threads(schedules.scatter(s, "bins", "cuda", threads=64), x, start)["bins"], want)
    got = start.copy()
    schedules.scatter(s, "bins", "llvm", chunk=16).build("llvm", threads=4)(x, got)
    np.testing.assert_array_equal(got, want)


def test_what_clashes_otherwise_is_no_scatter() -> None:
    with pytest.raises(lp.ScheduleError, match=r"writes bins\[4096\], which bins at \(i_o=1, i_i=0\) reads later"):
        schedules.scatter(lp.Schedule(lp.parse(CHAIN)), "bins", "llvm")


@pytest.mark.parametrize("n", [0, 1, 13])
def test_ragged_rows(n: int) -> None:
    start = np.concatenate([[0], np.cumsum(RNG.choice([0, 1, 5, 70, 33], n))]).astype(np.int32)
    values = RNG.integers(-9, 9, int(start[-1])).astype(np.float32)
    want = np.array([values[a:b].sum() for a, b in pairwise(start)], np.float32)
    s = lp.Schedule(lp.parse(RAGGED))
    for threads in (32, 64):
        got = on_threads(schedules.reduction(s, "out", threads=threads), start[:-1], start[1:], values)["out"]
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(
        s.parallel("i").build("llvm", threads=3)(start[:-1].copy(), start[1:].copy(), values), want
    )


@pytest.mark.parametrize(("count", "bins", "dtype"), [(1000, 7, "int32"), (640, 256, "uint8")])
def test_blocks_have_a_histogram_of_their_own(
    count: int, bins: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small blocks, so that a few hundred elements make several; what is outside is reported, and skipped."""
    scatter = importlib.import_module("schedules.common.scatter")
    for name, value in (("HISTOGRAM_THREADS", 16), ("FOLDS_IN_FLIGHT", 2), ("LEAST_FOLDS", 0), ("HISTOGRAMS", 1)):
        monkeypatch.setattr(scatter, name, value)
    source = (
        f'def f(x: "{dtype}[{count}]", h: "inout int32[{bins}]"):\n    for i in range({count}):\n        h[x[i]] += 1\n'
    )
    s = schedules.auto(lp.Schedule(lp.parse(source)), "cuda", arch="sm_90a")
    assert s.buffer("h_shared").scope == "shared"
    x = RNG.integers(0, bins, count).astype(dtype)
    h = RNG.integers(0, 9, bins).astype(np.int32)
    want = h + np.bincount(x, minlength=bins)
    np.testing.assert_array_equal(on_threads(s, x, h)["h"], want)
    assert lp.testing.memory_report(s, [x, h]).fault is None
    assert ("checks" in lp.compile_source(s, "sm_90a").source) == (dtype == "int32")  # no byte is beyond 255
