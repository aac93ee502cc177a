"""Builds in threads, forks, signal handlers and finalisers: none waits for ever, and every result is right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """
import gc, itertools, os, signal, threading, time
import numpy as np
import loopir as lp

def build(value, threads=1):
    x = lp.placeholder((16,), "float32", name="x")
    return lp.Schedule(lp.compute((16,), lambda i: lp.exp(x[i]) * value, name="y")).build("llvm", threads=threads)

def right(value, threads=1):
    return bool((build(value, threads)(np.zeros(16, np.float32)) == value).all())

fresh = itertools.count(1)
"""
IMPORTED = "assert right(0.125)"
"""For who interrupts a build in its own thread: what is imported half way is of no use to anyone."""

FORKS = """
stopped = threading.Event()
def busy():
    while not stopped.is_set():
        build(float(next(fresh)))
others = [threading.Thread(target=busy) for _ in range(2)]
for t in others:
    t.start()
failed = 0
for n in range(12):
    time.sleep(0.003 * n)
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        os._exit(0 if right(0.5 + n) else 1)
    failed += os.waitpid(child, 0)[1] != 0
stopped.set()
for t in others:
    t.join()
print(failed)
"""

NESTED_FORK = (
    IMPORTED
    + """
done = []
def handler(*_):
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        os._exit(0 if right(0.25) else 1)
    done.append(os.waitpid(child, 0)[1])
signal.signal(signal.SIGPROF, handler)
signal.setitimer(signal.ITIMER_PROF, 0.01, 0.05)
while len(done) < 5:
    assert right(float(next(fresh)))
signal.setitimer(signal.ITIMER_PROF, 0)
print(sum(map(bool, done)))
"""
)

SIGNALS = (
    IMPORTED
    + """
done = []
def handler(*_):
    done.append(right(float(next(fresh)) / 2))
    signal.setitimer(signal.ITIMER_PROF, 0.02)  # from here on: a build that takes longer is not interrupted without end
signal.signal(signal.SIGPROF, handler)
signal.setitimer(signal.ITIMER_PROF, 0.02)
while len(done) < 25:
    assert right(float(next(fresh)), threads=2)
signal.setitimer(signal.ITIMER_PROF, 0)
print(done.count(False))
"""
)

FINALISERS = """
from llvmlite import binding
from loopir.runtime import cache
done = []
class Last:
    def __del__(self):
        if not done or done[-1] is not None:
            done.append(None)  # one at a time: a build makes garbage, too
            done[-1] = right(float(next(fresh)) / 2)
def leaving(function):
    def called(*args, **options):
        Last()
        return function(*args, **options)
    return called
for module, names in ((binding, ("parse_assembly", "create_mcjit_compiler")), (cache, ("load", "store"))):
    for name in names:
        setattr(module, name, leaving(getattr(module, name)))
for _ in range(5):
    assert right(float(next(fresh)))
assert len(done) >= 20
print(done.count(False))
"""


def run(script: str, tmp_path: Path) -> str:
    settings = {**os.environ, "LOOPIR_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], env=settings, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("script", [FORKS, NESTED_FORK], ids=["beside threads that build", "during a build"])
def test_a_process_forked_while_another_thread_builds_can_build(script: str, tmp_path: Path) -> None:
    assert run(script, tmp_path) == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no such signals")
def test_a_signal_handler_that_interrupts_a_build_can_build(tmp_path: Path) -> None:
    assert run(SIGNALS, tmp_path) == "0"


def test_a_finaliser_that_runs_during_a_build_can_build(tmp_path: Path) -> None:
    assert run(FINALISERS, tmp_path) == "0"


MEMORY = """
from importlib import import_module
jit, target = import_module("loopir.runtime.llvm_jit"), import_module("loopir.codegen.llvm.emit")
x = lp.placeholder((16,), "float32", name="x")
source = target.emit(*lp.lower(lp.Schedule(lp.compute((16,), lambda i: lp.exp(x[i]), name="y")), "llvm")).source
library = jit.Library(source)
def grown(builds):
    for _ in range(builds):
        jit._compiled(source, library._machine, True)
    gc.collect()
    with open("/proc/self/statm") as facts:
        return int(facts.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
first = grown(30)
print((grown(60) - first) // 60)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell a process' memory")
def test_a_build_keeps_no_memory_but_its_kernel(tmp_path: Path) -> None:
    assert int(run(MEMORY, tmp_path)) < 16_000
