"""From three loops to tensor cores: what each step of tutorials/07_tensor_cores.py wins, beside cuBLAS, in one run.

    python benchmarks/gpu_walk.py [--size 4096] [--write]

A product of bfloat16 matrices with float32 sums, random data, times in turns, medians; each result is held to cuBLAS'.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import gpu_timing
import tables
import torch
from loopir.schedules.cuda.matmul_wgmma import matmul_wgmma

import loopir as lp
from loopir import schedules

ROUNDS, REPEATS = 7, 5


def product(n: int) -> lp.Schedule:
    A, B = (lp.placeholder((n, n), "bfloat16", name=x) for x in "AB")
    return lp.Schedule(A @ B)


def one_thread_an_element(s: lp.Schedule) -> lp.Schedule:
    for stage in s.stages:
        row, column = s.loops(stage)[:2]
        s = s.split(column, 256).bind(row, "blockIdx.y").bind(f"{column}_o", "blockIdx.x")
        s = s.bind(f"{column}_i", "threadIdx.x")
    return s


PLAIN: dict[str, Any] = {"stage": "matmul", "roles": False, "whole_rows": False}
WIDE: dict[str, Any] = {"stage": "matmul", "block": (128, 256), "group": 8}
WALK: dict[str, Callable[[lp.Schedule], lp.Schedule]] = {
    "one thread an element": one_thread_an_element,
    "tiles in shared memory and registers": lambda s: schedules.epilogue(schedules.matmul_gpu(s, "matmul"), "matmul"),
    "tensor cores by warps (mma.sync, cp.async)": schedules.gpu,
    "by warpgroups (wgmma), boxes waited for": partial(matmul_wgmma, **PLAIN, block=(128, 128), group=1, stages=1),
    "copies under way (pipeline)": partial(matmul_wgmma, **PLAIN, block=(128, 128), group=1, stages=4),
    "tiles of 128 x 256, in bands": partial(matmul_wgmma, **PLAIN, block=(128, 256), group=8, stages=4),
    "results through shared memory, in rows": partial(matmul_wgmma, **WIDE, roles=False, store="rows"),
    "results as boxes (tma_store)": partial(matmul_wgmma, **WIDE, roles=False, store="boxes"),
    "warps of their own (specialize_warps)": partial(matmul_wgmma, **WIDE),
}
"""Each with all of those before it, from the first by warpgroups on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096, help="rows, columns and steps of the sum")
    tables.writing(parser)
    asked = parser.parse_args()
    n: int = asked.size
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    want = a @ b
    runs: dict[str, Callable[[], object]] = {}
    for name, schedule in WALK.items():
        kernel = schedule(product(n)).build("cuda")
        kernel(a, b, out=(out,))
        off = float((out.float() - want.float()).abs().max() / want.float().abs().max())
        assert off < 0.02, f"{name}: off by {off}"
        runs[name] = partial(kernel, a, b, out=(out,))
    runs["cuBLAS"] = partial(torch.matmul, a, b, out=out)
    record = gpu_timing.record("gpu_walk.txt", asked.write)
    record(f"bfloat16 {n}^3")
    for name, t in gpu_timing.in_turns(runs, ROUNDS, REPEATS).items():
        record(f"{name:45} {t * 1e6:10.1f} us {2 * n**3 / t / 1e12:8.1f} TFLOP/s")
    record.done(None)


if __name__ == "__main__":
    main()
