"""One kernel for all sizes beside its twin for the sizes that are measured, in one run on one GPU.

    python benchmarks/gpu_symbolic.py [--rows softmax,sum] [--write]

The rows are those of gpu_memory.py. The two results are compared, sums of integers bit by bit, and the two are timed
in turns. Printed: TB/s of each, and how many times as fast as its twin the kernel for all sizes is.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import gpu_timing
import memory_rows
import prepared
import tables
import torch

import loopir as lp

ROUNDS, REPEATS = 5, 20


def measure(row: memory_rows.Row, fixed: lp.Schedule, symbolic: lp.Schedule) -> tuple[float, float] | None:
    """Seconds of the kernel for these sizes, and of the one for all; None if they do not give the same."""
    dtype = getattr(torch, row.dtype)
    kernels = [s.build("cuda") for s in (fixed, symbolic)]
    if not close(row, *(kernel(*gpu_timing.checked_with(row, dtype)) for kernel in kernels)):
        return None
    inputs = tuple(torch.randn(*shape, device="cuda", dtype=dtype) for shape in row.shapes)
    results = [kernel(*inputs) for kernel in kernels]
    times = gpu_timing.in_turns(
        {str(n): lambda k=k, out=(out,): k(*inputs, out=out) for n, (k, out) in enumerate(zip(kernels, results))},
        ROUNDS,
        REPEATS,
    )
    return times["0"], times["1"]


def close(row: memory_rows.Row, one: Any, other: Any) -> bool:
    """Whether the two results are no further apart than rounding explains: those of sums, which are exact, the same."""
    limit = 0.0 if row.summed else 64 * torch.finfo(one.dtype).eps * one.double().abs().max()
    return bool((one.double() - other.double()).abs().max() <= limit)


def main() -> int:
    asked = tables.options(__doc__).parse_args()
    ratios: list[float] = []
    wrong = 0
    chosen = prepared.rows(tables.chosen(asked.rows))
    made = prepared.prepared([(row, symbolic) for row in chosen for symbolic in (False, True)])
    record = gpu_timing.record("gpu_symbolic.txt", asked.write)
    record(f"{'kernel':34} {'fixed':>6} {'all sizes':>9} {'x fixed':>8}")
    for row, one, other in zip(chosen, made[::2], made[1::2], strict=True):
        times = measure(row, one, other)
        if times is None:
            wrong += 1
            record(f"{row.name:34} the kernel for all sizes gives another result")
            continue
        fixed, symbolic = times
        ratios.append(fixed / symbolic)
        tb = row.bytes / 1e12
        record(f"{row.name:34} {tb / fixed:6.2f} {tb / symbolic:9.2f} {fixed / symbolic:8.2f}")
    if ratios:
        record(f"geometric mean over the twins: {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    record.done("gpu_symbolic")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
