"""Matmul on the CPU against NumPy, in one process with as many threads.

    OPENBLAS_NUM_THREADS=1 python benchmarks/cpu.py [size ...]

Times are the least of several calls into given outputs, taken in turn, so that what else the machine does meets both.
With one thread they are the processor's, so that a busy machine hardly tells.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import loopir as lp
import schedules

THREADS = int(os.environ.get("OPENBLAS_NUM_THREADS", os.cpu_count() or 1))
ROUNDS = 12


def main(sizes: list[int]) -> None:
    print(f"{lp.describe_target('llvm').partition(',')[0]}, {THREADS} threads, NumPy {np.__version__}, float32")
    print("size         loopir ms (GFLOP/s)   NumPy ms (GFLOP/s)   NumPy's time / loopir's")
    for n in sizes:
        for turned in ("", "A", "B"):
            mine, theirs = measured(n, turned)
            flops = 2 * n**3 / 1e9
            name = f"{n}, {turned}^T" if turned else f"{n}"
            print(
                f"{name:12s} {mine * 1e3:8.2f} ({flops / mine:4.0f})      {theirs * 1e3:8.2f} ({flops / theirs:4.0f})"
                f"      {theirs / mine:5.2f}"
            )


def measured(n: int, turned: str) -> tuple[float, float]:
    """Seconds of loopir and of NumPy for C = A B of n x n, the operand called `turned` transposed in memory."""
    rng = np.random.default_rng(0)
    given = {name: rng.random((n, n), np.float32) for name in "AB"}
    out, want = np.empty((n, n), np.float32), np.empty((n, n), np.float32)
    kernel = schedules.matmul_cpu(program(n, turned), "C").build("llvm", threads=THREADS)
    a, b = (x.T if name == turned else x for name, x in given.items())
    calls = [partial(kernel, *given.values(), out=(out,)), partial(np.matmul, a, b, out=want)]
    for call in calls:
        call()
    assert np.allclose(out, want, rtol=1e-4)
    mine, theirs = fastest(calls)
    return mine, theirs


def program(n: int, turned: str) -> lp.Schedule:
    A, B = (lp.placeholder((n, n), "float32", name=name) for name in "AB")
    k = lp.reduce_axis(n, name="k")

    def element(i: Any, j: Any) -> Any:
        return lp.sum((A[k, i] if turned == "A" else A[i, k]) * (B[j, k] if turned == "B" else B[k, j]), axis=k)

    return lp.Schedule(lp.compute((n, n), element, name="C"))


def fastest(calls: list[Callable[[], object]]) -> list[float]:
    """The least seconds of each call, in turn."""
    clock = time.thread_time if THREADS == 1 else time.perf_counter
    times = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for n, call in enumerate(calls):
            start = clock()
            call()
            times[n] = min(times[n], clock() - start)
    return times


if __name__ == "__main__":
    main([int(x) for x in sys.argv[1:]] or [256, 512, 1000, 1024, 1536])
