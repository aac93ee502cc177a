"""The kernels of the schedules under compute-sanitizer: no access out of bounds, no race in shared memory.

    python benchmarks/gpu_sanitizer.py [--only softmax,wgmma] [--tools memcheck,racecheck] [--shards 4] [--write]

Those are the rows of gpu_memory.py, with as many rows as keep the GPU busy and all their columns, each for its sizes
and for all; and the products, convolutions, scans and the like of sanitizer_rows.py. Each result is checked. Kernels
are compiled beforehand, by as many processes as there are CPUs; then each tool watches the kernels in several processes
at once. `compute-sanitizer` comes with CUDA's toolkit. What it said is left in --logs.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import memory_rows
import numpy as np
import sanitizer_rows
import tables

import loopir as lp
from loopir import schedules

TOOLS = ("memcheck", "racecheck", "synccheck")
"""initcheck does not see what the copy engine writes: it takes results that are stored so for memory never written."""
ROWS, CHAIN = 264, 1 << 18
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
RAN = "ran and is right:"


@dataclass(frozen=True)
class Memory:
    """A row of gpu_memory.py, made small, whose result is to be what the CPU gives."""

    row: memory_rows.Row
    symbolic: bool

    @property
    def name(self) -> str:
        return f"{self.row.name}{' for all sizes' if self.symbolic else ''}"

    def make(self) -> lp.Schedule:
        return schedules.auto(self.row.ours(symbolic=self.symbolic), "cuda", arch="sm_90a")

    @cached_property
    def inputs(self) -> list[np.ndarray[Any, Any]]:
        rng, row, most = np.random.default_rng(0), self.row, memory_rows.LARGEST
        types = [lp.placeholder(shape, row.dtype, name="x").dtype.numpy for shape in row.shapes]
        given = (rng.integers(-most, most + 1, s) if row.summed else rng.standard_normal(s, "f4") for s in row.shapes)
        return [x.astype(t) for x, t in zip(given, types, strict=True)]

    def wrong(self, kernel: Any) -> str:
        row, arrays = self.row, self.inputs
        got = kernel(*arrays).astype(np.float64)
        want = row.ours().build("llvm")(*arrays).astype(np.float64)
        limit = (64 if row.dtype == "bfloat16" else 4096) * {"bfloat16": 2.0**-7, "float32": 2.0**-23}[row.dtype]
        off = np.abs(got - want).max()
        return "" if off <= (0.0 if row.summed else limit * max(1.0, np.abs(want).max())) else f"off by {off:.2e}"


Watched = Memory | sanitizer_rows.Case


def watched(only: list[str]) -> list[Watched]:
    """What is run: all, or what has one of these words in its name."""
    return [x for x in (*sanitizer_rows.cases(), *small()) if not only or any(w in x.name for w in only)]


def small() -> Iterator[Memory]:
    for row in memory_rows.rows():
        first = row.shapes[0]
        shape = (CHAIN + 1,) if len(first) == 1 else (ROWS - first[0] % 2, first[1])
        if row.kernel == "jacobi":
            shape = (ROWS, 1034)
        for symbolic in (False, True):
            yield Memory(replace(row, shapes=(shape, *row.shapes[1:])), symbolic)


def run(only: list[str], shard: int, shards: int) -> None:
    """Run every `shards`th kernel, and check it."""
    for x in watched(only)[shard::shards]:
        start = time.perf_counter()
        if wrong := x.wrong(x.make().build("cuda")):
            raise SystemExit(f"{x.name}: {wrong}")
        print(f"{RAN} {x.name} ({time.perf_counter() - start:.1f} s)", flush=True)


def compile_one(only: list[str], n: int) -> None:
    """Have a kernel in the cache."""
    lp.compile_source(watched(only)[n].make(), arch="sm_90a")


def told(tool: str, asked: argparse.Namespace, logs: Path) -> tuple[str, bool]:
    """What a tool says of all kernels, and whether that is well."""
    inside = [sys.executable, __file__, "--inside", "--only", asked.only, "--shards", str(asked.shards)]
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "200"]
    files = [logs / f"{tool}.{k}.txt" for k in range(asked.shards)]
    runs = [
        subprocess.Popen(
            [*command, *inside, "--shard", str(k)], stdout=f.open("w"), stderr=subprocess.STDOUT, start_new_session=True
        )
        for k, f in enumerate(files)
    ]
    codes = [_ended(r, asked.limit) for r in runs]
    texts = [f.read_text(errors="replace") for f in files]
    ran = sum(t.count(RAN) for t in texts)
    found = [SUMMARY.search(t) for t in texts]
    wrong = sum(int(m[1] or m[2]) for m in found if m is not None)
    what = "hazards" if tool == "racecheck" else "errors"
    ended = "" if all(m is not None for m in found) and not any(codes) else f"; ended with {codes}: {texts[0][-300:]}"
    line = f"{tool}: {ran} of {len(watched(asked.only.split(',')))} kernels ran and are right, {wrong} {what}{ended}"
    return line, not wrong and not ended


def _ended(run: subprocess.Popen[bytes], limit: float) -> int:
    """How a process ended; one that takes longer than `limit` seconds is killed, with what it started."""
    try:
        return run.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        return run.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only kernels whose name holds one of these, separated by commas")
    parser.add_argument("--tools", default=",".join(TOOLS), help="those of compute-sanitizer")
    parser.add_argument("--shards", type=int, default=4, help="processes that a tool watches at once")
    parser.add_argument("--limit", type=float, default=600, help="seconds that a process may take")
    parser.add_argument("--logs", default="", help="a folder for what the tools said")
    tables.writing(parser)
    parser.add_argument("--inside", action="store_true", help="run the kernels: what the sanitizer is given")
    parser.add_argument("--shard", type=int, default=0, help="which of them")
    asked = parser.parse_args()
    only = tables.chosen(asked.only)
    asked.only = ",".join(only)
    if asked.inside:
        run(only, asked.shard, asked.shards)
        return 0
    logs = Path(asked.logs or tempfile.mkdtemp())
    logs.mkdir(exist_ok=True)
    count = len(watched(only))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(compile_one, [only] * count, range(count)))
    record = tables.Record("gpu_sanitizer.txt", asked.write)
    record(f"commit {tables.commit()}; {lp.describe_target('cuda')}; Python {platform.python_version()}")
    well = True
    for tool in asked.tools.split(","):
        line, right = told(tool, asked, logs)
        record(line)
        well = well and right
    record.done(None)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
