"""CUDA C as it is emitted, compiled by g++ and run on the CPU: threads of a block are threads that meet at barriers.

`build(schedule)` gives a Kernel that is called as one for a GPU is, on NumPy's arrays. Blocks run one after another.
What is PTX alone (asynchronous copies, tensor instructions, narrow floats) is not there: `missing` says so of a source.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir import build as room
from loopir.codegen.cuda.emit import CudaModule, emit
from loopir.codegen.host import host_source
from loopir.lower import pipeline
from loopir.runtime.call import Kernel
from loopir.runtime.cpu.arena import Arena

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
"""Marks a test that runs emitted CUDA C on the CPU."""
PREAMBLE = r"""
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(x)
struct lp_dim3 { unsigned int x, y, z; };
static thread_local lp_dim3 threadIdx, blockIdx;
static thread_local int lp_thread;
static unsigned int __umulhi(unsigned int x, unsigned int y) { return ((unsigned long long)x * y) >> 32; }
template <class T, class F> static T lp_bits(F x) { T y; std::memcpy(&y, &x, sizeof y); return y; }
static float __uint_as_float(unsigned int x) { return lp_bits<float>(x); }
static unsigned int __float_as_uint(float x) { return lp_bits<unsigned int>(x); }
static double __longlong_as_double(long long x) { return lp_bits<double>(x); }
static long long __double_as_longlong(double x) { return lp_bits<long long>(x); }
"""
ALONE = r"""
template <class F> static void lp_together(int count, F thread) { for (int n = 0; n < count; ++n) thread(n); }
"""
MEETING = r"""
#include <barrier>
#include <memory>
#include <thread>
#include <vector>
static std::barrier<>* lp_block;
static std::vector<std::unique_ptr<std::barrier<>>> lp_warps;
static std::vector<unsigned long long> lp_lanes;
static void __syncthreads() { lp_block->arrive_and_wait(); }
template <class T> static T __shfl_xor_sync(unsigned int, T x, int bit) {
  unsigned long long word = 0; std::memcpy(&word, &x, sizeof x); lp_lanes[lp_thread] = word;
  std::barrier<>& warp = *lp_warps[lp_thread / 32];
  warp.arrive_and_wait();
  word = lp_lanes[lp_thread ^ bit];
  warp.arrive_and_wait();
  std::memcpy(&x, &word, sizeof x); return x;
}
template <class F> static void lp_together(int count, F thread) {
  std::barrier<> all(count);
  lp_block = &all;
  lp_lanes.assign((count + 31) / 32 * 32, 0);
  lp_warps.clear();
  for (int n = 0; n < count; n += 32)
    lp_warps.push_back(std::make_unique<std::barrier<>>(count - n < 32 ? count - n : 32));
  std::vector<std::thread> threads;
  for (int n = 0; n < count; ++n)
    threads.emplace_back([&, n] { thread(n); all.arrive_and_drop(); lp_warps[n / 32]->arrive_and_drop(); });
  for (auto& t : threads) t.join();
}
"""
LAUNCH = r"""
template <class P> static P lp_word(long long w) {
  if constexpr (std::is_pointer_v<P>) return reinterpret_cast<P>(w); else return static_cast<P>(w);
}
template <class... P, std::size_t... N>
static void lp_call(void (*kernel)(P...), const long long* words, std::index_sequence<N...>) {
  kernel(lp_word<P>(words[N])...);
}
template <class... P>
static void lp_run(void (*kernel)(P...), const long long* g, const long long* b, const long long* words) {
  auto call = [&] { lp_call(kernel, words, std::index_sequence_for<P...>{}); };
  auto place = [&](int n) {
    lp_thread = n;
    threadIdx = {unsigned(n % b[0]), unsigned(n / b[0] % b[1]), unsigned(n / b[0] / b[1])};
  };
  const int count = b[0] * b[1] * b[2];
  for (long long block = 0; block < g[0] * g[1] * g[2]; ++block) {
    const lp_dim3 at = {unsigned(block % g[0]), unsigned(block / g[0] % g[1]), unsigned(block / g[0] / g[1])};
    lp_together(count, [&, at](int n) { blockIdx = at; place(n); call(); });
  }
}
"""


def missing(source: str) -> str | None:
    """What `source` has that no CPU runs; None if it can be run. What no kernel uses is left out."""
    kernels = source[source.index('extern "C"') :]
    found = re.search(r"asm|atomic|lp_ring|lp_map|lp_(to|from|round)_|__cluster_dims__", kernels)
    return found[0] if found else None


def build(schedule: lp.Schedule) -> Kernel:
    """`schedule` built for "cuda", to be called with arrays in the CPU's memory."""
    lowered = pipeline.lower(schedule.func, "cuda")
    modules = tuple(emit(lowered, long=long, scalar=True) for long in (False, True))
    source = host_source(lowered, partial(room._launch, modules[0].kernels))  # pyright: ignore[reportPrivateUsage]
    host = room._host(schedule.func, lowered, source)  # pyright: ignore[reportPrivateUsage]
    signature = room._signature(schedule.func)  # pyright: ignore[reportPrivateUsage]
    text = modules[0].source
    return Kernel(signature, host, _Runtime(modules), source=text, resources={}, target="cuda", host_source=source)


class _Runtime:
    """What the host function of a program for a GPU calls, on the CPU."""

    device = "cpu"

    def __init__(self, modules: Sequence[CudaModule]) -> None:
        self.modules = modules
        arena = Arena()
        self.alloc, self.free = arena.alloc, arena.free

    @contextmanager
    def lent(self, words: np.ndarray[Any, Any]) -> Iterator[int]:
        yield words.ctypes.data

    def launch(self, n: int, grid: tuple[int, ...], args: tuple[int, ...], short: bool = True) -> None:
        """Run kernel `n`, where its indices are `short` the one that counts in 32 bits, if there is one."""
        if 0 in grid or min(grid) < 0:
            return
        module = self.modules[not short]
        k = module.kernels[n]
        run = getattr(_library(module.source, tuple(k.name for k in module.kernels)), f"{k.name}_run")
        run(_words(grid), _words(k.block), _words(a & (1 << 64) - 1 for a in args))


def _words(numbers: Any) -> Any:
    listed = [n - (n >> 63 << 64) if n >= 0 else n for n in numbers]
    return (ctypes.c_longlong * len(listed))(*listed)


@cache
def _library(source: str, kernels: tuple[str, ...]) -> ctypes.CDLL:
    """The kernels of `source` as functions `NAME_run(grid, block, words)`."""
    assert COMPILER is not None
    why = missing(source)
    assert why is None, f"{why} is not for a CPU"
    shared = r"extern __shared__ (__align__\(\d+\)) unsigned char lp_shared\[\];"
    text = re.sub(shared, r"static \1 unsigned char lp_shared[1 << 18];", source)
    meets = re.search(r"__syncthreads\(\)|lp_lane_xor", text[text.index('extern "C"') :])
    together = MEETING if meets else ALONE + "static void __syncthreads() {}\n"
    if not meets:
        together += "template <class T> static T __shfl_xor_sync(unsigned int, T x, int) { return x; }\n"
    entries = "".join(
        f'extern "C" void {k}_run(const long long* g, const long long* b, const long long* w) '
        f"{{ lp_run({k}, g, b, w); }}\n"
        for k in kernels
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cpp"
        path.write_text(PREAMBLE + together + text + LAUNCH + entries)
        made = path.with_suffix(".so")
        asked = ["-std=c++20", "-O1", "-w", "-fPIC", "-shared", "-pthread", "-ffp-contract=off"]
        done = subprocess.run(
            [COMPILER, *asked, str(path), "-o", str(made)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[:2000]
        return ctypes.CDLL(str(made))
