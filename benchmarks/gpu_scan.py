"""Prefix sums on the GPU, beside torch's `cumsum`: microseconds, and the share of what two passes of memory take.

    python benchmarks/gpu_scan.py [--tiles WIDTHxTHREADSxROWS ...] [--write]

Sums are of small integers, so that results are compared bit by bit. One that is not whole blocks, and types of other
widths, are checked, too. Medians of rounds in turns.
"""

import argparse
from functools import partial
from typing import Any

import gpu_timing
import tables
import torch
from loopir.schedules.cuda.scan import prefix_sum

import loopir as lp
from loopir import schedules

CHECKED = (0, 1, 5, 4095, 4096, 4097, 70001, (1 << 24) + 3)
SIZES = (1 << 20, 1 << 24, 1 << 26)
PEAK = 4.2e12
"""Bytes a second that a copy moves on an H200."""


def kernel(dtype: str, width: int, threads: int, rows: int = 8) -> Any:
    s = schedules.scan(lp.Schedule(prefix_sum(dtype)), "cuda", width=width, threads=threads, rows=rows)
    return s.build("cuda")


def check(k: Any, dtype: torch.dtype) -> str:
    for n in CHECKED:
        a = torch.randint(-4, 5, (n,), device="cuda").to(dtype)
        if not torch.equal(k(a), torch.cumsum(a, 0, dtype=dtype)):
            return f"WRONG at n={n}"
    return "right"


def race(n: int, kernels: dict[str, Any]) -> dict[str, float]:
    a = torch.randint(-4, 5, (n,), device="cuda").float()
    out = torch.empty_like(a)
    runs = {name: partial(k, a, out=(out,)) for name, k in kernels.items()}
    return gpu_timing.in_turns({**runs, "torch": partial(torch.cumsum, a, 0, out=out)}, 9, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", nargs="*", default=["4096x256x8"], help="elements, threads and rows")
    tables.writing(parser)
    asked = parser.parse_args()
    record = gpu_timing.record("gpu_scan.txt", asked.write)
    kernels = {name: kernel("float32", *map(int, name.split("x"))) for name in asked.tiles}
    for name, k in kernels.items():
        record(f"float32 {name}: {check(k, torch.float32)}; {k.resources}")
    for dtype in ("int64", "int32", "int8"):
        record(f"{dtype}: {check(kernel(dtype, 4096, 256), getattr(torch, dtype))}")
    for n in SIZES:
        for name, taken in race(n, kernels).items():
            record(f"{n:>10} {name:>12} {taken * 1e6:8.1f} us {8 * n / taken / PEAK:6.0%}")
    record.done(None)


if __name__ == "__main__":
    main()
