"""loopir on the CPU beside NumPy and Halide: one table, of which the documentation has a copy.

    pip install -e '.[bench]'                # Halide among it; without it its columns are empty
    python benchmarks/cpu.py                 # the table, at one thread and at two, in three minutes or so
    python benchmarks/cpu.py --write         # the same, kept in benchmarks/results and docs/performance.md
    python benchmarks/cpu.py --threads 1 --only matmul

Each library is in a process of its own, with as many threads as the others, and is stopped while it is another's turn
(`cpu_peers`, which says why): blocks of calls of each in turn, after a call that is not timed. Times are medians of the
blocks, or the least for what the machine can do at most, and a ratio is that of two. At one thread they are the
processor's, so that a busy machine tells less. Results are compared first.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import cpu_programs as programs
import numpy as np
from cpu_peers import Peer, peers
from tables import Record, commit, writing

import loopir as lp
import schedules

try:
    import halide_peers as halide
except ImportError:
    halide = None

WHO = ("loopir", "NumPy", "Halide")
ROUNDS = 15
BLOCK_SECONDS = 0.02
ROWS: dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]] = {
    "matmul peak": ("peak", (1024,), WHO[:1]),
    "matmul": ("matmul", (1024, 1024, 1024), WHO),
    "matmul A": ("matmul", (1024, 1024, 1024, "A"), WHO[:2]),
    "matmul B": ("matmul", (1024, 1024, 1024, "B"), WHO[:2]),
    "gelu": ("gelu", (), WHO), "softmax": ("softmax", (), WHO), "layernorm": ("layernorm", (), WHO),
    "blur u16": ("blur", ("uint16",), WHO), "blur f32": ("blur", ("float32",), WHO),
    "sum": ("sums", ((1000003,),), WHO[:2]), "columns": ("sums", ((1021, 1031),), WHO[:2]),
    "transpose": ("transposed", (1021, 1031, "float32"), WHO[:2]),
    "int8": ("narrow", ("int8", 512), WHO[:2]), "float16": ("narrow", ("float16", 256), WHO[:2]),
    "bfloat16": ("narrow", ("bfloat16", 512), WHO[:2]),
}  # fmt: skip
"""By name what makes each row, with its arguments, and whose calls it compares."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument(
        "--only", default="", help="rows whose names have this in them; sweep and costs are two of them"
    )
    writing(parser)
    given = parser.parse_args()
    record = Record("cpu.txt", given.write)
    for line in head():
        record(line)
    for threads in given.threads:
        for line in table(threads, given.only):
            record(line)
    record.done("cpu")


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


# ---------------------------------------------------------------- rows


def table(threads: int, only: str) -> Iterator[str]:
    """The rows of the table at so many threads."""
    with peers(WHO if halide else WHO[:2], threads) as running, tempfile.TemporaryDirectory() as folder:
        result = f"{folder}/result.npy"
        yield ""
        yield f"{_at(threads):32s} loopir ms   NumPy ms  Halide ms   NumPy / loopir  Halide / loopir"
        measured: dict[str, dict[str, float]] = {}
        for name, (row, args, who) in ROWS.items():
            if only in name:
                chosen = {x: running[x] for x in who if x in running}
                title = prepared(chosen, row, args, result)
                times = measured[name] = alternated(chosen, of=min if row == "peak" else statistics.median)
                shown = [f"{times[x] * 1e3:10.2f}" if x in times else " " * 10 for x in WHO]
                ratios = [f"{times[x] / times['loopir']:16.2f}" for x in WHO[1:] if x in times]
                yield f"{title:32s}{' '.join(shown)}{' '.join(ratios)}"
        if "matmul" in measured:
            yield from of_peak(measured["matmul peak"]["loopir"], measured["matmul"])
        if only in "sweep":
            yield from sweep(running, threads, result)
    if threads == 1 and only in "costs":
        yield from costs()


def of_peak(least: float, times: Mapping[str, float]) -> Iterator[str]:
    """What of the rate of multiply-adds each reaches in a product of as many."""
    rate = 2 * 1024**3 / least / 1e9
    yield ""
    yield f"Of {rate:.0f} GFLOP/s in registers, matmul f32 1024^3 has: " + (
        ", ".join(f"{who} {least / found:.2f}" for who, found in times.items()) + "."
    )


def sweep(running: Mapping[str, Peer], threads: int, result: str) -> Iterator[str]:
    """NumPy's time by loopir's over many products."""
    ratios: dict[str, float] = {}
    chosen = {who: running[who] for who in WHO[:2]}
    for size in programs.SWEEP:
        prepared(chosen, "matmul", size, result)
        times = alternated(chosen, seconds=0.004)
        ratios["x".join(map(str, size))] = times["NumPy"] / times["loopir"]
    mean, least = statistics.geometric_mean(ratios.values()), min(ratios, key=lambda x: ratios[x])
    yield ""
    yield f"{len(ratios)} products {_at(threads)}, NumPy / loopir: mean {mean:.2f}, least {ratios[least]:.2f}."
    yield "Rows x columns x depth, by ratio:"
    yield ""
    listed = [f"{size:>15s} {ratios[size]:.2f}" for size in sorted(ratios, key=lambda x: ratios[x])]
    for n in range(0, len(listed), 5):
        yield " ".join(listed[n : n + 5])


def prepared(chosen: Mapping[str, Peer], row: str, args: tuple[Any, ...], result: str) -> str:
    """The title of a row that all of `chosen` are ready to run, loopir first, with whose result theirs is compared."""
    titles = [peer.ask("prepare", row, args, result) for peer in chosen.values()]
    return titles[0]


def alternated(
    chosen: Mapping[str, Peer],
    rounds: int = ROUNDS,
    seconds: float = BLOCK_SECONDS,
    of: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Seconds of a call of each, the median or another one `of` its blocks, which are in turn."""
    counts = {who: max(1, round(seconds / peer.ask("block", 1))) for who, peer in chosen.items()}
    times = {who: list[float]() for who in chosen}
    for _ in range(rounds):
        for who, peer in chosen.items():
            times[who].append(peer.ask("block", counts[who]))
    return {who: of(found) for who, found in times.items()}


def costs() -> Iterator[str]:
    """What a program costs before it runs, and a call besides its work."""

    def seconds(call: Callable[[], object]) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    scheduled, compiled = [], []
    os.environ["LOOPIR_NUM_THREADS"] = "1"
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


if __name__ == "__main__":
    main()
