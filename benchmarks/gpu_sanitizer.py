"""Memory-bound kernels under compute-sanitizer: no access out of bounds, no race in shared memory.

    python benchmarks/gpu_sanitizer.py [--rows softmax,sum] [--write]

The rows are those of gpu_memory.py, with as many rows as keep the GPU busy and all their columns, and the same kernels
for all sizes. Each result is checked against that of the CPU. `compute-sanitizer` comes with CUDA's toolkit.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import memory_rows
import numpy as np
import tables

import loopir as lp
import schedules

TOOLS = {"memcheck": "ERROR SUMMARY", "racecheck": "RACECHECK SUMMARY"}
ROWS, CHAIN = 264, 1 << 18


def kernels(wanted: list[str]) -> Iterator[tuple[str, memory_rows.Row, bool]]:
    """The rows, made small, each for its sizes and for all."""
    for row in memory_rows.rows():
        if wanted and not any(w in row.name for w in wanted):
            continue
        first = row.shapes[0]
        shape = (CHAIN + 1,) if len(first) == 1 else (ROWS - first[0] % 2, first[1])
        if row.kernel == "jacobi":
            shape = (ROWS, 1034)
        small = replace(row, shapes=(shape, *row.shapes[1:]))
        for symbolic in (False, True):
            yield f"{row.name}{' for all sizes' if symbolic else ''}", small, symbolic


def run(wanted: list[str]) -> int:
    """Run each kernel once and check it; how many there are."""
    rng, count = np.random.default_rng(0), 0
    for name, row, symbolic in kernels(wanted):
        inputs = [lp.placeholder(shape, row.dtype, name="x").dtype.numpy for shape in row.shapes]
        most = memory_rows.LARGEST
        given = (rng.integers(-most, most + 1, s) if row.summed else rng.standard_normal(s, "f4") for s in row.shapes)
        arrays = [x.astype(t) for x, t in zip(given, inputs, strict=True)]
        got = schedules.auto(row.ours(symbolic=symbolic), "cuda").build("cuda")(*arrays).astype(np.float64)
        want = row.ours().build("llvm")(*arrays).astype(np.float64)
        limit = (64 if row.dtype == "bfloat16" else 4096) * {"bfloat16": 2.0**-7, "float32": 2.0**-23}[row.dtype]
        if not np.abs(got - want).max() <= (0.0 if row.summed else limit * max(1.0, np.abs(want).max())):
            raise SystemExit(f"{name}: off by {np.abs(got - want).max():.2e}")
        count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose name holds one of these, separated by commas")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    parser.add_argument("--inside", action="store_true", help="run the kernels: what the sanitizer is given")
    asked = parser.parse_args()
    wanted = [w for w in asked.rows.split(",") if w]
    if asked.inside:
        print(f"{run(wanted)} kernels ran and gave what the CPU gives")
        return 0
    run(wanted)  # what is compiled is kept, and the sanitizer need not wait for it
    record = tables.Record("gpu_sanitizer.txt", asked.write)
    record(f"commit {tables.commit()}; {lp.describe_target('cuda')}; Python {platform.python_version()}")
    wrong = 0
    for tool, summary in TOOLS.items():
        command = ["compute-sanitizer", "--tool", tool, sys.executable, __file__, "--inside", "--rows", asked.rows]
        out = subprocess.run(command, capture_output=True, text=True)
        said = [line for line in out.stdout.splitlines() if summary in line or "kernels ran" in line]
        record(f"{tool}: {'; '.join(said) or out.stdout[-500:] + out.stderr[-500:]}")
        wrong += out.returncode != 0 or not any(f"{summary}: 0 " in line for line in said)
    record.done(None)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
