"""`python -m loopir bench`: how fast the ready-made schedules are on this machine, every result checked.

A table that an installed package prints in a minute. On the CPU each row stands beside NumPy; on a GPU beside the time
that `Schedule.report` predicts. The comparisons with vendors' libraries are programs in `benchmarks/` of the source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import loopir as lp
from loopir import schedules

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """What we compute and what NumPy does, on float32 arrays of these shapes; operations, bytes in and out, and the
    error against float64 that is allowed, relative to the largest result."""

    name: str
    ours: Callable[..., Any]
    numpy: Callable[..., NDArray[Any]]
    shapes: tuple[tuple[int, ...], ...]
    operations: float
    bytes: float
    tolerance: float


def rows(n: int) -> Iterator[Row]:
    """The table, for matrices of `n` by `n`."""
    square, size = (n, n), 4.0 * n * n
    yield Row("matmul", lambda a, b: a @ b, np.matmul, (square, square), 2.0 * n**3, 3 * size, 1e-5)
    yield Row("add", lambda a, b: a + b, np.add, (square, square), n * n, 3 * size, 1e-6)
    yield Row("gelu", lambda a: lp.gelu(a, approximate="tanh"), _gelu, (square,), 9.0 * n * n, 2 * size, 1e-6)
    yield Row("softmax", lp.softmax, _softmax, (square,), 5.0 * n * n, 2 * size, 1e-5)
    yield Row("row sum", lambda a: a.sum(axis=1), lambda a: a.sum(axis=1), (square,), n * n, size, 1e-5)
    yield Row("transpose", lambda a: a.T, lambda a: np.ascontiguousarray(a.T), (square,), 0.0, 2 * size, 0.0)


def main(target: str = "auto", size: int = 2048, wanted: str = "") -> int:
    """Print the rows whose names hold one of `wanted`, separated by commas; 0 if every result is right, else 1."""
    target = lp.resolve_target(target)
    if target == "interpret":
        raise lp.TargetError("the interpreter says what a nest means, not how fast it is; bench llvm or cuda")
    names = [w for w in wanted.split(",") if w]
    chosen = [row for row in rows(size) if not names or any(w in row.name for w in names)]
    if not chosen:
        print(f"no row is called {wanted}; there are {', '.join(row.name for row in rows(size))}")
        return 2
    print(f"{target}: {lp.describe_target(target)}; float32 matrices of {size} x {size}")
    beside = "predicted" if target == "cuda" else "NumPy"
    print(f"{'':10} {'ms':>9} {'Gop/s':>9} {'GB/s':>9} {beside + ' ms':>13} {'ratio':>7}  error")
    failed = sum(not _measured(row, target) for row in chosen)
    print(f"{failed} of {len(chosen)} results are wrong" if failed else "every result was checked against float64")
    return 1 if failed else 0


def _measured(row: Row, target: str) -> bool:
    """Print one row; whether the result is right."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in row.shapes]
    given = [lp.placeholder(shape, "float32", name=name) for shape, name in zip(row.shapes, "AB", strict=False)]
    schedule = schedules.auto(lp.Schedule(row.ours(*given)), target)
    kernel = schedule.build(target)
    exact = row.numpy(*(a.astype(np.float64) for a in arrays))
    error = float(np.abs(kernel(*arrays) - exact).max() / max(1e-30, float(np.abs(exact).max())))
    ours = kernel.time(*arrays, repeats=ROUNDS)
    other = schedule.report().seconds if target == "cuda" else _seconds(lambda: row.numpy(*arrays))
    right = error <= row.tolerance
    print(
        f"{row.name:10} {ours * 1e3:9.3f} {row.operations / ours * 1e-9:9.1f} {row.bytes / ours * 1e-9:9.1f} "
        f"{other * 1e3:13.3f} {other / ours:7.2f}  {error:.1e}{'' if right else f', and at most {row.tolerance:.0e}'}",
        flush=True,
    )
    return right


def _seconds(run: Callable[[], object]) -> float:
    """The median of a few runs, after one that is not timed."""
    times: list[float] = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times[1:])[ROUNDS // 2]


def _gelu(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))))


def _softmax(x: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))
