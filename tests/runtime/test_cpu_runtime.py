"""Kernels on the threads of a CPU: without the interpreter's lock, from several threads at once, after a fork."""

import errno
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import loopir as lp
from loopir.runtime import cache
from loopir.runtime.cpu.runtime import CpuRuntime
from loopir.runtime.cpu.thread_pool import pool

PARALLEL = """
def f(n: "size", a: "float32[n, 64]", b: "out float32[n, 64]"):
    for i in parallel(n):
        for j in {inner}(64):
            b[i, j] = a[i, j] * 2.0
"""


def test_a_kernel_runs_without_the_interpreters_lock() -> None:
    kernel = lp.Schedule(lp.parse(PARALLEL.format(inner="range"))).build("llvm", threads=2)
    python_api = 4  # ctypes' flag for functions that are called with the lock
    runtime = kernel._runtime
    assert all(not k._flags_ & python_api for k in (*runtime.kernels, *runtime.shared))


def test_a_parallel_loop_in_another_runs_on_the_thread_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = lp.Schedule(lp.parse(PARALLEL.format(inner="parallel"))).build("llvm", threads=2)
    extents: list[int] = []
    parallel = CpuRuntime.parallel

    def counted(self: CpuRuntime, n: int, extent: int, args: tuple[int, ...]) -> None:
        extents.append(extent)
        parallel(self, n, extent, args)

    monkeypatch.setattr(CpuRuntime, "parallel", counted)
    a = np.arange(5 * 64, dtype=np.float32).reshape(5, 64)
    assert (kernel(a) == 2 * a).all()
    assert extents == [5]


def test_a_thread_that_has_no_memory_tells_the_caller() -> None:
    text = """
def f(n: "size", m: "size", a: "float32[n, m]", b: "out float32[n]"):
    for i in parallel(n):
        with alloc("float32[m * 4611686018427387904]") as big:
            for j in range(n):
                big[j] = a[j, 0]
            b[i] = big[n - 1 - i]
"""
    kernel = lp.Schedule(lp.parse(text)).build("llvm", threads=2)
    with pytest.raises(MemoryError, match="does not fit in memory"):
        kernel(np.ones((8, 1), np.float32))
    with pytest.raises(MemoryError, match="does not fit in memory"):  # and the threads are there for the next call
        kernel(np.ones((8, 1), np.float32))


def test_threads_of_python_call_one_kernel_at_once() -> None:
    x = lp.placeholder((40, 50), "float32", name="x")
    s = lp.Schedule(lp.exp(lp.compute((40, 50), lambda i, j: x[i, j] * 0.5, name="h")))
    first, second = s.stages
    kernel = s.parallel(s.loops(first)[0]).parallel(s.loops(second)[0]).build("llvm", threads=3)
    arrays = [np.random.default_rng(n).random((40, 50), np.float32) for n in range(6)]
    want = [kernel(a) for a in arrays]
    wrong: list[int] = []

    def call(n: int) -> None:
        wrong.extend(n for _ in range(50) if not np.array_equal(kernel(arrays[n]), want[n]))

    callers = [threading.Thread(target=call, args=(n,)) for n in range(6)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_as_many_threads_as_told_or_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    s = lp.Schedule(lp.parse(PARALLEL.format(inner="range")))
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "3")
    assert s.build("llvm").resources["threads"] == 3
    assert s.build("llvm", threads=2).resources["threads"] == 2
    assert pool(2).count == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork is a matter of POSIX")
def test_kernels_run_in_a_forked_process() -> None:
    script = f"""
import os, warnings
import numpy as np, loopir as lp
warnings.simplefilter("ignore")
kernel = lp.Schedule(lp.parse('''{PARALLEL.format(inner="range")}''')).build("llvm", threads=3)
a = np.ones((100, 64), np.float32)
assert (kernel(a) == 2).all()
child = os.fork()
right = bool((kernel(a) == 2).all())
if child == 0:
    os._exit(0 if right else 1)
assert right and os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)


def test_a_full_disk_is_told_once_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the disk is full, nothing is kept; what was kept stays, and is given."""
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_warned", False)
    kept = cache.key("kept")
    cache.store(kept, b"data")
    opened = os.open

    def full(path: str, flags: int, *args: int) -> int:
        handle = opened(path, flags, *args)
        if not (flags & os.O_CREAT and str(path).endswith(".tmp")):
            return handle
        os.close(handle)
        return opened("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "open", full)
    with pytest.warns(RuntimeWarning, match=os.strerror(errno.ENOSPC)):
        cache.store(cache.key("a"), b"data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store(cache.key("b"), b"data")
        x = lp.placeholder((3,), "float32", name="x")
        kernel = lp.Schedule(lp.compute((3,), lambda i: x[i] + 17.25, name="y")).build("llvm")
    assert (kernel(np.zeros(3, np.float32)) == 17.25).all()
    assert cache.load(kept) == b"data"
    assert [path.name for path in tmp_path.glob("??/*")] == [kept]


@pytest.mark.parametrize("stages", [5, 30])
def test_a_program_may_keep_more_in_memory_than_python_has_blocks(stages: int) -> None:
    last = lp.placeholder((8,), "float32", name="x")
    for n in range(stages):
        last = lp.compute((8,), lambda i, before=last: before[i] + 1.0, name=f"y{n}")
    kernel = lp.Schedule(last).build("llvm", threads=2)
    assert kernel.host_source.count("lp_rt.free") == stages - 1
    assert (kernel(np.arange(8, dtype=np.float32)) == np.arange(8) + stages).all()
