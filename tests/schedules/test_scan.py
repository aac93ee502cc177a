"""Prefix sums in blocks: right on interpreted threads, on the CPU, and compiled for a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from meaning import on_threads

import loopir as lp
import schedules
from schedules.cuda.scan import prefix_sum

RNG = np.random.default_rng(0)
SIZES = [0, 1, 7, 64, 1000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_prefix_sum(n: int, dtype: str) -> None:
    s = lp.Schedule(prefix_sum(dtype))
    a = RNG.integers(-9, 9, n).astype(dtype)
    want = np.cumsum(a, dtype=dtype)
    np.testing.assert_array_equal(on_threads(schedules.scan(s, "cuda", width=64, threads=32), a)["B"], want)
    np.testing.assert_array_equal(schedules.scan(s, "llvm", width=64).build("llvm", threads=3)(a), want)
