"""loopir on the CPU beside NumPy and Halide: one table, of which the documentation has a copy.

    pip install -e '.[bench]'                # Halide among it; without it its columns are empty
    python benchmarks/cpu.py                 # the table, at one thread and at two, in three minutes or so
    python benchmarks/cpu.py --write         # the same, kept in benchmarks/results and docs/performance.md
    python benchmarks/cpu.py --threads 1 --only matmul

Each library is in a process of its own, with as many threads as the others, and is stopped while it is another's turn
(`cpu_peers`, which says why): blocks of calls of each in turn, after a call that is not timed. Times are medians of the
blocks, or the least for what the machine can do at most, and a ratio is that of two. At one thread they are the
processor's, so that a busy machine tells less. Results are compared first. Where the CPU has AVX-512 and NumPy's
OpenBLAS takes no kernels for it, products are compared with NumPy twice: as it is, and told to take these.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import cpu_programs as programs
import numpy as np
from cpu_peers import TOLD, Peer, kernels, peers
from tables import Record, commit, writing

import loopir as lp
from loopir import schedules

try:
    import halide_peers as halide
except ImportError:
    halide = None

WHO = ("loopir", "NumPy", TOLD, "Halide")
BLAS = WHO[:3]
NUMPY = ("loopir", "NumPy")
LOOPS = (*NUMPY, "Halide")
ROUNDS = 15
BLOCK_SECONDS = 0.02
ROWS: dict[str, tuple[str, tuple[Any, ...], tuple[str, ...]]] = {
    "matmul peak": ("peak", (1024,), WHO[:1]),
    "matmul": ("matmul", (1024, 1024, 1024), WHO),
    "matmul A": ("matmul", (1024, 1024, 1024, "A"), BLAS),
    "matmul B": ("matmul", (1024, 1024, 1024, "B"), BLAS),
    "gelu": ("gelu", (), LOOPS), "softmax": ("softmax", (), LOOPS), "layernorm": ("layernorm", (), LOOPS),
    "blur u16": ("blur", ("uint16",), LOOPS), "blur f32": ("blur", ("float32",), LOOPS),
    "sum": ("sums", ((1000003,),), NUMPY), "columns": ("sums", ((1021, 1031),), NUMPY),
    "transpose": ("transposed", (1021, 1031, "float32"), NUMPY),
    "int8": ("narrow", ("int8", 512), NUMPY), "float16": ("narrow", ("float16", 256), NUMPY),
    "bfloat16": ("narrow", ("bfloat16", 512), NUMPY),
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
    taken = kernels()
    who = tuple(x for x in WHO if (x != TOLD or x in taken) and (x != "Halide" or halide))
    for line in head(taken):
        record(line)
    for threads in given.threads:
        for line in table(threads, who, given.only):
            record(line)
    record.done("cpu")


def head(taken: Mapping[str, str]) -> Iterator[str]:
    """What was measured, and on what; OpenBLAS has `taken` these kernels."""
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
    if TOLD in taken:
        yield f"OpenBLAS takes its kernels for {taken['NumPy']} by itself; {TOLD} is NumPy with it told to take"
        yield f"those for {taken[TOLD]}, which are for AVX-512 (OPENBLAS_CORETYPE)."
    elif taken["NumPy"]:
        yield f"OpenBLAS takes its kernels for {taken['NumPy']}."


# ---------------------------------------------------------------- rows


def table(threads: int, who: Sequence[str], only: str) -> Iterator[str]:
    """The rows of the table at so many threads, and what of it `who` has."""
    with peers(tuple(who), threads) as running, tempfile.TemporaryDirectory() as folder:
        result = f"{folder}/result.npy"
        yield ""
        yield f"{_at(threads) + ', ms':33s}{_columns(who)}   by loopir's:{_columns(who[1:])}"
        measured: dict[str, dict[str, float]] = {}
        for name, (row, args, compared) in ROWS.items():
            if only in name:
                chosen = {x: running[x] for x in compared if x in running}
                title = prepared(chosen, row, args, result)
                times = measured[name] = alternated(chosen, of=min if row == "peak" else statistics.median)
                shown = "".join(f"{times[x] * 1e3:9.2f}" if x in times else " " * 9 for x in who)
                ratios = "".join(f"{times[x] / times['loopir']:9.2f}" if x in times else " " * 9 for x in who[1:])
                yield f"{title:33s}{shown}{' ' * 15}{ratios}".rstrip()
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


def _columns(who: Sequence[str]) -> str:
    return "".join(f"{x:>9s}" for x in who)


def sweep(running: Mapping[str, Peer], threads: int, result: str) -> Iterator[str]:
    """NumPy's time by loopir's over many products."""
    chosen = {who: running[who] for who in BLAS if who in running}
    others = tuple(chosen)[1:]
    ratios: dict[str, dict[str, float]] = {who: {} for who in others}
    for size in programs.SWEEP:
        prepared(chosen, "matmul", size, result)
        times = alternated(chosen, seconds=0.004)
        for who in others:
            ratios[who]["x".join(map(str, size))] = times[who] / times["loopir"]
    for who, found in ratios.items():
        mean, least = statistics.geometric_mean(found.values()), min(found.values())
        yield ""
        yield f"{len(found)} products {_at(threads)}, {who} / loopir: mean {mean:.2f}, least {least:.2f}."
        yield "Rows x columns x depth, by ratio:"
        yield ""
        listed = [f"{size:>15s} {found[size]:.2f}" for size in sorted(found, key=lambda x: found[x])]
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
