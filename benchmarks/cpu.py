"""loopir on the CPU beside NumPy and Halide: one table, of which the documentation has a copy.

    pip install -e '.[bench]'                # Halide among it; without it its columns are empty
    python benchmarks/cpu.py                 # the table, at one thread and at two, in four minutes or so
    python benchmarks/cpu.py --write         # the same, kept in benchmarks/results and docs/performance.md
    python benchmarks/cpu.py --threads 1 --only matmul

Each row is a run of its own in a process with as many threads for all. Calls alternate in blocks with a pause between
them, as the idle threads of one pool slow the other; times are medians of the blocks, and a ratio is that of two
medians. At one thread they are the processor's, so that a busy machine tells less. Results are compared first.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cpu_programs as programs
import numpy as np
from tables import Record, commit

import loopir as lp
import schedules

try:
    import halide_peers as halide
except ImportError:
    halide = None

WHO = ("loopir", "NumPy", "Halide")
POOLS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "HL_NUM_THREADS", "LOOPIR_NUM_THREADS")
ROUNDS = 15
BLOCK_SECONDS = 0.02
PAUSE_SECONDS = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument(
        "--only", default="", help="rows whose names have this in them; sweep and costs are two of them"
    )
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results, and in the page")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        for line in worker(given.threads[0], given.only):
            print(line, flush=True)
        return
    record = Record("cpu.txt", given.write)
    for line in head():
        record(line)
    for threads in given.threads:
        for line in one_process(threads, given.only):
            record(line)
    record.done("cpu")


def one_process(threads: int, only: str) -> Iterator[str]:
    """The rows at so many threads, from a process in which all libraries have as many."""
    command = [sys.executable, __file__, "--worker", "--threads", str(threads), "--only", only]
    settings = {**os.environ, **dict.fromkeys(POOLS, str(threads))}
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield from (line.rstrip("\n") for line in running.stdout)
    if running.returncode:
        raise SystemExit(running.returncode)


def head() -> Iterator[str]:
    """What was measured, and on what."""
    with suppress(OSError, StopIteration):
        model = next(x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name"))
        model = model.partition(":")[2].strip()
        yield f"{model} ({lp.describe_target('llvm').partition(',')[0]}), {os.cpu_count()} CPUs, vectors of " + (
            f"{8 * lp.vector_unit()[0]} bits, caches of {', '.join(f'{n >> 10} KiB' for n in lp.caches())};"
        )
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[index]
    yield f"Python {platform.python_version()}, NumPy {np.__version__} with {blas['name']} {blas['version']}, " + (
        f"Halide {halide.VERSION if halide else 'not there'}; loopir at {commit()}."
    )


# ---------------------------------------------------------------- one process


def worker(threads: int, only: str) -> Iterator[str]:
    """The rows of the table at so many threads."""
    named: dict[str, Callable[[], Any]] = {
        "matmul": lambda: programs.matmul(1024, 1024, 1024),
        "matmul A": lambda: programs.matmul(1024, 1024, 1024, "A"),
        "matmul B": lambda: programs.matmul(1024, 1024, 1024, "B"),
        "gelu": programs.gelu, "softmax": programs.softmax, "layernorm": programs.layernorm,
        "blur u16": lambda: programs.blur("uint16"), "blur f32": lambda: programs.blur("float32"),
    }  # fmt: skip
    yield ""
    yield f"{_at(threads):32s} loopir ms   NumPy ms  Halide ms   NumPy / loopir  Halide / loopir"
    for name, make in named.items():
        if only in name:
            work = make()
            peer = halide if len(name.split()) == 1 or "blur" in name else None
            times = alternated(work.calls(threads, peer), threads)
            shown = [f"{times[who] * 1e3:10.2f}" if who in times else " " * 10 for who in WHO]
            ratios = [f"{times[who] / times['loopir']:16.2f}" for who in WHO[1:] if who in times]
            yield f"{work.name:32s}{' '.join(shown)}{' '.join(ratios)}"
    if only in "sweep":
        yield from sweep(threads)
    if threads == 1 and only in "costs":
        yield from costs()


def sweep(threads: int) -> Iterator[str]:
    """NumPy's time by loopir's over many products."""
    ratios: dict[str, float] = {}
    for m, n, k in programs.SWEEP:
        times = alternated(programs.matmul(m, n, k).calls(threads, None), threads, rounds=9, seconds=0.004)
        ratios[f"{m}x{n}x{k}"] = times["NumPy"] / times["loopir"]
    mean, least = statistics.geometric_mean(ratios.values()), min(ratios, key=lambda x: ratios[x])
    yield ""
    yield f"{len(ratios)} products {_at(threads)}, NumPy / loopir: mean {mean:.2f}, least {ratios[least]:.2f}."
    yield "Rows x columns x depth, by ratio:"
    yield ""
    listed = [f"{size:>15s} {ratios[size]:.2f}" for size in sorted(ratios, key=lambda x: ratios[x])]
    for n in range(0, len(listed), 5):
        yield " ".join(listed[n : n + 5])


def costs() -> Iterator[str]:
    """What a program costs before it runs, and a call besides its work."""

    def seconds(call: Callable[[], object]) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    scheduled, compiled = [], []
    schedules.matmul_cpu(programs.matmul(640, 640, 640).program, "C").build("llvm")  # what is imported, is
    for n in range(1024, 1029):
        with tempfile.TemporaryDirectory() as empty:
            os.environ["LOOPIR_CACHE_DIR"] = empty
            s = programs.matmul(n, n, n).program
            scheduled.append(seconds(lambda s=s: schedules.matmul_cpu(s, "C")))
            t = schedules.matmul_cpu(s, "C")
            compiled.append(seconds(lambda t=t: t.build("llvm")))
    x = lp.placeholder((4,), "float32", name="x")
    kernel = lp.Schedule(lp.compute((4,), lambda i: x[i] + 1.0, name="y")).build("llvm")
    given, out = np.ones(4, np.float32), np.empty(4, np.float32)
    kernel(given, out=(out,))
    called = min(seconds(lambda: [kernel(given, out=(out,)) for _ in range(100)]) / 100 for _ in range(50))
    yield ""
    yield (
        f"A matmul of 1024^3 and the like, median: {statistics.median(scheduled) * 1e3:.0f} ms to schedule, every step "
        f"proved; {statistics.median(compiled) * 1e3:.0f} ms to compile, nothing cached."
    )
    yield f"A call: {called * 1e6:.1f} us besides its work."


def _at(threads: int) -> str:
    return f"at {threads} thread{'s' * (threads > 1)}"


def alternated(
    calls: dict[str, Callable[[], object]], threads: int, rounds: int = ROUNDS, seconds: float = BLOCK_SECONDS
) -> dict[str, float]:
    """Median seconds of each call: blocks of each in turn, after a pause and a call that is not timed."""
    clock = time.process_time if threads == 1 else time.perf_counter
    counts, times = {}, {who: list[float]() for who in calls}
    for who, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        counts[who] = max(1, int(seconds / (time.perf_counter() - start)))
    for _ in range(rounds):
        for who, call in calls.items():
            time.sleep(PAUSE_SECONDS)
            call()
            start = clock()
            for _ in range(counts[who]):
                call()
            times[who].append((clock() - start) / counts[who])
    return {who: statistics.median(found) for who, found in times.items()}


if __name__ == "__main__":
    main()
