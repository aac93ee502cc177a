"""Ctrl-C in the main thread: builds and long calls are left at once, what was begun ends by itself, and all goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.runtime import call
from loopir.runtime.interruptible import interruptible

PRELUDE = """
import os, signal, threading, time
import numpy as np
import loopir as lp
from loopir.runtime import llvm_jit as jit

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us without it

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def interrupted(work):
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False

x = lp.placeholder((16,), "float32", name="x")
s = lp.Schedule(lp.compute((16,), lambda i: x[i] + 0.5, name="y"))

def right(kernel):
    return bool((kernel(np.zeros(16, np.float32)) == 0.5).all())
"""

BUILD = """
left, compiled = threading.Event(), jit._compiled
def slow(*args):
    if not left.is_set():
        interrupt()
    assert left.wait(600)  # it is let go after the caller is, so a caller that waited for it would wait for ever
    return compiled(*args)
jit._compiled = slow
assert interrupted(lambda: s.build("llvm"))
left.set()
assert right(s.build("llvm"))  # waits for LLVM, and takes what was abandoned from the cache
print("well")
"""

NVRTC = """
from loopir.runtime.cuda import nvrtc
left, compiled, calls = threading.Event(), nvrtc._compile, []
def slow(*args):
    calls.append(args)
    interrupt()
    assert left.wait(600)
    return compiled(*args)
nvrtc._compile = slow
source = 'extern "C" __global__ void k(float *x) { x[0] = 1.0f; }'
assert interrupted(lambda: nvrtc.compile(source))
left.set()
for t in threading.enumerate():
    if t is not threading.main_thread():
        t.join()
assert nvrtc.compile(source).cubin and len(calls) == 1
print("well")
"""

ENDLESS = '''
k = lp.Schedule(lp.parse("""
def f(n: "size", m: "size", a: "inout float64[n]"):
    for i in {kind}(n):
        for t in range(m):
            for r in range(2000000000):
                for q in range(2000000000):
                    a[i] = a[i] * 0.5 + 1.0
""")).build("llvm", threads=2)
k(np.ones(4), m=0)
assert interrupted(lambda: (threading.Timer(0.2, interrupt).start(), k(np.ones(4), m=1)))  # some hundred years
a = np.ones(4)
k(a, m=0)
assert (a == 1).all() and right(s.build("llvm"))
print("well")
'''

FORKED = """
warnings = __import__("warnings")
warnings.simplefilter("ignore")
from loopir.runtime.interruptible import interruptible
parent, begun, children = os.getpid(), [], []
def work():
    begun.append(os.getpid())
    if os.getpid() == parent:
        os.kill(parent, signal.SIGUSR1)
        while not children:
            time.sleep(0.001)
    return len(begun)
def fork(*_):
    child = os.fork()
    signal.alarm(600)
    if child:
        children.append(os.waitpid(child, 0)[1])
signal.signal(signal.SIGUSR1, fork)
try:
    found = interruptible(work, once=ONCE)
except RuntimeError as error:
    found = "only its parent goes on" in str(error) and "refused"
if os.getpid() != parent:
    os._exit(0 if found == ("refused" if ONCE else 2) else 1)
assert found == 1 and children == [0]
print("well")
"""


def run(script: str, tmp_path: Path) -> str:
    settings = {**os.environ, "LOOPIR_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], env=settings, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


@pytest.mark.parametrize("script", [BUILD, NVRTC], ids=["llvm", "nvrtc"])
def test_a_build_is_left_while_the_compiler_works(script: str, tmp_path: Path) -> None:
    assert run(script, tmp_path) == "well"


@pytest.mark.parametrize("kind", ["range", "parallel"])
def test_a_long_call_is_left_while_the_kernel_runs(kind: str, tmp_path: Path) -> None:
    assert run(ENDLESS.replace("{kind}", kind), tmp_path) == "well"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("once", [False, True])
def test_a_child_that_a_handler_forks_does_not_wait_for_a_thread_it_has_not(once: bool, tmp_path: Path) -> None:
    assert run(FORKED.replace("ONCE", str(once)), tmp_path) == "well"


def test_what_the_work_gives_and_raises_comes_back() -> None:
    assert interruptible(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_another_thread_than_the_main_one_works_itself() -> None:
    seen: list[bool] = []
    other = threading.Thread(target=lambda: seen.append(interruptible(threading.get_ident) == threading.get_ident()))
    other.start()
    other.join()
    assert seen == [True]


def test_where_no_thread_can_be_started_the_caller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert interruptible(threading.get_ident) == threading.get_ident()


def test_calls_that_are_long_are_not_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was learnt would go to machine code at once, in the main thread."""
    n = lp.symbol("n")
    a = lp.placeholder((n,), "float32", name="a")
    k: Any = lp.Schedule(lp.compute((n,), lambda i: a[i] + 1.0, name="b")).build("llvm")
    monkeypatch.setattr(call, "LONG_CALL_SECONDS", -1.0)
    for _ in range(2):
        np.testing.assert_array_equal(k(np.zeros(3, np.float32)), 1.0)
        assert k._direct is None
        assert not k._short
    assert k.time(np.zeros(3, np.float32), repeats=1) > 0
    monkeypatch.undo()
    for rows in range(1, call.MAX_PLANS + 3):
        k(np.zeros(rows, np.float32))
        assert k._direct is not None
        assert (rows,) in k._short
        assert len(k._short) <= call.MAX_PLANS
