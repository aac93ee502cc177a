"""What a call from Python costs on the GPU: microseconds until it returns, for kernels that do next to nothing.

    python benchmarks/gpu_launch.py [--write]

Beside ours, in turns: torch's smallest operation in place; the driver's launch of an empty kernel with everything
prepared, by cuda-bindings, and from machine code, as a program in C would make it (so what is above that is ours); and
Triton's launch where it is installed. A sum in two kernels, and its replay as a CUDA graph. Medians of rounds of a
thousand calls.
"""

import argparse
import ctypes
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

import gpu_timing
import tables
import torch
from cuda.bindings import driver as cu

import loopir as lp
from loopir import schedules
from loopir.runtime.cuda import driver, nvrtc
from loopir.runtime.llvm_jit import Library

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

ROUNDS, CALLS = 15, 1000


def ours(shape: tuple[Any, ...], *, out: bool = True) -> Callable[[], Any]:
    x = lp.placeholder(shape, "float32", name="x")
    kernel = schedules.auto(lp.Schedule(x + 1.0), "cuda").build("cuda")
    a = torch.zeros(16, device="cuda")
    given = (torch.empty_like(a),) if out else None
    kernel(a, out=given)
    return lambda: kernel(a, out=given)


def total(*, graph: bool) -> Callable[[], Any]:
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    kernel = schedules.auto(lp.Schedule(x.sum()), "cuda").build("cuda")
    a, out = torch.zeros(1 << 14, device="cuda"), (torch.empty((), device="cuda"),)
    kernel(a, out=out)
    return kernel.graph(a, out=out) if graph else lambda: kernel(a, out=out)


def products() -> Callable[[], Any]:
    """A product on the tensor cores, whose arrays are told to the copy engine by tensor maps."""
    a, b = (lp.placeholder((256, 256), "bfloat16", name=name) for name in "ab")
    kernel = schedules.auto(lp.Schedule(a @ b), "cuda").build("cuda")
    x, y, z = (torch.zeros((256, 256), dtype=torch.bfloat16, device="cuda") for _ in range(3))
    kernel(x, y, out=(z,))
    return lambda: kernel(x, y, out=(z,))


def function() -> Any:
    cubin = nvrtc.compile('extern "C" __global__ void nothing() {}', driver.device().arch).cubin
    _, module = cu.cuModuleLoadData(cubin)
    _, function = cu.cuModuleGetFunction(module, b"nothing")
    return function


def empty() -> Callable[[], Any]:
    nothing, stream = function(), cu.CUstream(0)
    return lambda: cu.cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)


LOOP = """
define void @loop(ptr %launch, ptr %config, ptr %function, i64 %count) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %next ]
  call i32 %launch(ptr %config, ptr %function, ptr null, ptr null)
  %after = add i64 %n, 1
  %more = icmp ult i64 %after, %count
  br i1 %more, label %next, label %over
over:
  ret void
}
"""


def machine(*, early: bool) -> Callable[[], Any]:
    """`CALLS` launches of the empty kernel in machine code; `early` ones may be put in place before others end."""
    gpu, nothing = driver.device(), function()
    words = struct.pack("8I3q", 1, 1, 1, 32, 1, 1, 0, 0, 0, *(gpu.attributes if early else (0, 0)))
    config, library = ctypes.create_string_buffer(words), Library(LOOP)
    loop = library.bind("loop", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    launch = ctypes.cast(gpu.launch, ctypes.c_void_p)
    return lambda: (loop(launch, ctypes.addressof(config), int(nothing), CALLS), library)


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
    tables.writing(parser)
    asked = parser.parse_args()
    a = torch.zeros(16, device="cuda")
    runs: dict[str, Callable[[], Any] | None] = {
        "loopir, constant size": ours((16,)),
        "loopir, symbolic size": ours((lp.symbol("n"),)),
        "loopir, constant size, new output": ours((16,), out=False),
        "loopir, a product by tensor maps": products(),
        "loopir, a sum in two kernels": total(graph=False),
        "the same as a graph": total(graph=True),
        "torch, x.add_(1)": lambda: a.add_(1),
        "torch, x + 1": lambda: a + 1,
        "empty kernel, cuda-bindings": empty(),
        "empty kernel, machine code": machine(early=False),
        "empty kernel, machine code, early": machine(early=True),
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
            for _ in range(1 if "machine code" in name else CALLS):
                run()
            taken[name].append((time.perf_counter() - start) / CALLS)
            torch.cuda.synchronize()
    record = gpu_timing.record("gpu_launch.txt", asked.write)
    for name, times in taken.items():
        record(f"{name:34} {statistics.median(times) * 1e6:7.2f} us")
    record.done("gpu_launch")


if __name__ == "__main__":
    main()
