"""What a call from Python costs on the GPU: microseconds until it returns, for kernels that do next to nothing.

    python benchmarks/gpu_launch.py [--write]

Beside ours, in turns: torch's smallest operation in place, the driver's launch of an empty kernel by cuda-bindings with
everything prepared, and Triton's launch where it is installed; a sum in two kernels, and its replay as a CUDA graph.
Medians of rounds of a thousand calls.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import tables
import torch
from cuda.bindings import driver as cu

import loopir as lp
import schedules
from loopir.runtime import driver, nvrtc

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

ROUNDS, CALLS = 15, 1000


def ours(shape: tuple[Any, ...]) -> Callable[[], Any]:
    x = lp.placeholder(shape, "float32", name="x")
    kernel = schedules.auto(lp.Schedule(x + 1.0), "cuda").build("cuda")
    a = torch.zeros(16, device="cuda")
    out = (torch.empty_like(a),)
    kernel(a, out=out)
    return lambda: kernel(a, out=out)


def total(*, graph: bool) -> Callable[[], Any]:
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    kernel = schedules.auto(lp.Schedule(x.sum()), "cuda").build("cuda")
    a, out = torch.zeros(1 << 14, device="cuda"), (torch.empty((), device="cuda"),)
    kernel(a, out=out)
    return kernel.graph(a, out=out) if graph else lambda: kernel(a, out=out)


def empty() -> Callable[[], Any]:
    cubin = nvrtc.compile('extern "C" __global__ void nothing() {}', driver.device().arch).cubin
    _, module = cu.cuModuleLoadData(cubin)
    _, function = cu.cuModuleGetFunction(module, b"nothing")
    stream = cu.CUstream(0)
    return lambda: cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)


def by_triton() -> Callable[[], Any] | None:
    if triton is None:
        return None

    @triton.jit
    def add(x, y, n, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, SIZE)
        tl.store(y + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)

    a = torch.zeros(16, device="cuda")
    b = torch.empty_like(a)
    return lambda: add[(1,)](a, b, 16, SIZE=16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results and docs/performance.md")
    record = tables.Record("gpu_launch.txt", parser.parse_args().write)
    a = torch.zeros(16, device="cuda")
    runs: dict[str, Callable[[], Any] | None] = {
        "loopir, constant size": ours((16,)),
        "loopir, symbolic size": ours((lp.symbol("n"),)),
        "loopir, a sum in two kernels": total(graph=False),
        "the same as a graph": total(graph=True),
        "torch, x.add_(1)": lambda: a.add_(1),
        "empty kernel, cuda-bindings": empty(),
        "triton": by_triton(),
    }
    taken: dict[str, list[float]] = {name: [] for name, run in runs.items() if run is not None}
    for _ in range(ROUNDS):
        for name in taken:
            run = runs[name]
            assert run is not None
            run()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                run()
            taken[name].append((time.perf_counter() - start) / CALLS)
            torch.cuda.synchronize()
    record(f"commit {tables.commit()}")
    record(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name, times in taken.items():
        record(f"{name:30} {statistics.median(times) * 1e6:7.2f} us")
    record.done("gpu_launch")


if __name__ == "__main__":
    main()
