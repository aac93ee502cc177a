"""What scheduling costs, every check on: each primitive on the matmul nest, a whole schedule, and the import.

    python benchmarks/scheduling.py

Prints one row a measurement: median and worst of the repeats in milliseconds, beside the bound that the project
sets itself, and `over` where it is missed. Each repeat starts from a Schedule whose caches are cold, as in the
first use in a session.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import loopir as lp

REPEATS = 30


def matmul(size: int | None = 1024) -> Any:
    """C = A @ B in float32, three loops; symbolic sizes when `size` is None."""
    n, m, k = (lp.symbol(name) for name in ("rows", "columns", "depth")) if size is None else (size,) * 3
    A = lp.placeholder((n, k), "float32", name="A")
    B = lp.placeholder((k, m), "float32", name="B")
    r = lp.reduce_axis(k, name="k")
    return lp.compute((n, m), lambda i, j: lp.sum(A[i, r] * B[r, j], axis=r), name="C")


def tiled(s: Any) -> Any:
    return s.tile("i", "j", 64, 64).split("k", 16).reorder("i_o", "j_o", "k_o", "i_i", "k_i", "j_i")


def chain() -> Any:
    """Two stages, the first of which can be inlined."""
    x = lp.placeholder((lp.symbol("n"), 1024), "float32", name="x")
    y = lp.compute(x.shape, lambda i, j: lp.exp(x[i, j]), name="y")
    return lp.compute(x.shape, lambda i, j: y[i, j] + 1.0, name="z")


PRIMITIVES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "split": (lambda s: s, lambda s: s.split("i", 32)),
    "split, guard": (lambda s: s, lambda s: s.split("i", 30)),
    "split, peel": (lambda s: s, lambda s: s.split("i", 30, tail="peel")),
    "fuse": (lambda s: s, lambda s: s.fuse("i", "j")),
    "reorder": (lambda s: s, lambda s: s.reorder("k", "i", "j")),
    "tile": (lambda s: s, lambda s: s.tile("i", "j", 32, 32)),
    "reorder, tiled": (tiled, lambda s: s.reorder("j_o", "i_o")),
    "unroll, tiled": (tiled, lambda s: s.unroll("k_i")),
    "vectorize, tiled": (lambda s: tiled(s).split("j_i", 8), lambda s: s.vectorize("j_i_i")),
    "parallel, tiled": (tiled, lambda s: s.parallel("i_o")),
    "bind, tiled": (tiled, lambda s: s.bind("i_o", "blockIdx.x")),
    "rename": (lambda s: s, lambda s: s.rename("i", "row")),
}


def cold(schedule: Any) -> Any:
    """The same nest in a new Func, which no cache has met: one label is renamed and renamed back by text."""
    cold.count += 1  # type: ignore[attr-defined]
    source = lp.text(schedule.func).replace(f"def {schedule.func.name}(", f"def f{cold.count}(")  # type: ignore
    return lp.Schedule(lp.parse(source))


cold.count = 0  # type: ignore[attr-defined]


def measure(setup: Callable[[], Any], step: Callable[[Any], Any]) -> tuple[float, float]:
    """(median, worst) milliseconds of `step`; the worst leaves out the first, which loads modules."""
    times: list[float] = []
    for _ in range(REPEATS + 1):
        s = setup()
        start = time.perf_counter()
        step(s)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:]), max(times[1:])


def row(name: str, median: float, worst: float, bound: float) -> None:
    print(f"{name:34s} {median:9.3f} {worst:9.3f} {bound:9.1f}  {'over' if median > bound else ''}")


def whole(s: Any) -> Any:
    s = s.tile("i", "j", 64, 64).split("k", 16).reorder("i_o", "j_o", "k_o", "i_i", "k_i", "j_i")
    return s.split("j_i", 8).vectorize("j_i_i").parallel("i_o")


def import_ms() -> float:
    code = "import time; t = time.perf_counter(); import loopir; print((time.perf_counter() - t) * 1e3)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    return statistics.median(runs)


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, loopir {lp.__version__}")
    print(f"{'':34s} {'median ms':>9s} {'worst ms':>9s} {'bound ms':>9s}")
    for kind, size in (("1024^3", 1024), ("symbolic", None)):
        for name, (prepare, step) in PRIMITIVES.items():
            base = prepare(lp.Schedule(matmul(size)))
            row(f"{name} ({kind})", *measure(lambda base=base: cold(base), step), 2.0)
    inlined = lp.Schedule(chain())
    row("compute_inline (two stages)", *measure(lambda: cold(inlined), lambda s: s.compute_inline("y")), 2.0)
    row("Schedule(matmul) + 5 steps", *measure(matmul, lambda e: whole(lp.Schedule(e))), 50.0)
    row("import loopir", import_ms(), 0.0, 150.0)


if __name__ == "__main__":
    main()
