"""Tiered kernels: any size is right at once; exact kernels come in the background, within a budget, and may fail."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir import schedules

WIDTH = 4


def program() -> lp.Schedule:
    n = lp.symbol("n")
    x = lp.placeholder((n, WIDTH), "float32", name="x")
    return lp.Schedule((x * 2.0 + 1.0).named("y"))


def plain(s: lp.Schedule, target: str, arch: str | None) -> lp.Schedule:
    return s


def made(**options: Any) -> schedules.TieredKernel:
    return schedules.tiered(program(), "llvm", **{"cost": 0.0, "schedule": plain, **options})


def array(n: int) -> Any:
    return np.arange(n * WIDTH, dtype=np.float32).reshape(n, WIDTH)


def check(f: schedules.TieredKernel, n: int) -> None:
    assert np.array_equal(f(array(n)), array(n) * 2 + 1)


def test_sizes_that_recur_get_exact_kernels_and_the_oldest_is_discarded() -> None:
    f = made(entries=2)
    for n in (1, 7, 1, 5):
        check(f, n)
        assert f.wait(600)
        check(f, n)
    assert f.exact == ({"n": 1}, {"n": 5})
    check(f, 7)
    out = np.empty((1, WIDTH), np.float32)
    assert f(array(1), out=(out,)) is out
    assert np.array_equal(out, array(1) * 2 + 1)
    assert not f.failures


def test_what_calls_do_not_gain_is_not_compiled() -> None:
    for f in (made(cost=1e9), made(entries=0), made(cost=None)):
        for _ in range(20):
            check(f, 3)
        assert f.wait(600)
        assert f.exact == ()


def test_many_calls_make_up_for_compiling() -> None:
    f = schedules.tiered(program(), "llvm", cost=1e-7)  # of a program that its schedule for all sizes serves worse
    gain = lp.predict(f.scheduled, "llvm", sizes={"n": 300}).seconds
    exact = schedules.auto(lp.Schedule(lp.fix_sizes(program().func, {"n": 300})), "llvm")
    gain -= lp.predict(exact, "llvm").seconds
    for _ in range(400):
        check(f, 300)
    assert f.wait(600)
    assert bool(f.exact) == (gain * 400 >= 1e-7)


def test_a_kernel_that_fails_is_named_once_and_the_general_one_answers() -> None:
    def refuses(s: lp.Schedule, target: str, arch: str | None) -> lp.Schedule:
        if not s.func.sizes:
            raise lp.ScheduleError("not at these sizes")
        return s

    f = made(schedule=refuses)
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda said, *_, **__: seen.append(str(said)))
        for n in (2, 3, 2):
            check(f, n)
            assert f.wait(600)
    assert seen == ["no kernel for n=2 alone, the one for all sizes goes on: ScheduleError: not at these sizes"]
    assert len(f.failures) == 2
    assert f.exact == ()


def test_wrong_arguments_raise_what_a_kernel_raises_before_and_after() -> None:
    f = made()
    for _ in range(2):
        with pytest.raises(TypeError):
            f(array(3).astype(np.float64))
        with pytest.raises(ValueError, match=r"x has 1 dimension .*, and the kernel takes 2"):
            f(np.zeros(3, np.float32))
        with pytest.raises(TypeError):
            f(None)
        with pytest.raises(TypeError, match="is missing"):
            f()
        check(f, 3)
        assert f.wait(600)
    assert np.array_equal(f(x=array(3)), array(3) * 2 + 1)
    assert f.exact == ({"n": 3},)


def test_threads_may_call_it_while_kernels_are_made() -> None:
    f, wrong = made(entries=3), list[BaseException]()

    def calls() -> None:
        try:
            for n in range(60):
                check(f, n % 6 + 1)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert f.wait(600)
    assert not wrong
    assert len(f.exact) <= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_compiles_by_itself_and_a_process_ends_while_kernels_are_made() -> None:
    code = """
import os, numpy as np, threading
import tests.schedules.test_tiered as t
f = t.made()
started, go = threading.Event(), threading.Event()
def slow(s, target, arch):
    started.set(); go.wait(300)
    return s
t.check(f, 2); f.wait(600)
f._schedule = slow
t.check(f, 3); started.wait(300)
pid = os.fork()
if pid == 0:
    f._schedule = t.plain
    t.check(f, 3); t.check(f, 4); done = f.wait(600); t.check(f, 4)
    os._exit(0 if done and {"n": 4} in f.exact and {"n": 2} in f.exact else 1)
go.set()
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert f.wait(600) and {"n": 3} in f.exact
for n in range(10, 30):
    t.check(f, n)
"""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=900, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_what_has_been_scheduled_is_not_taken() -> None:
    with pytest.raises(lp.ScheduleError, match="before any step"):
        schedules.tiered(program().unroll("j"), "llvm")
    with pytest.raises(ValueError, match="at least 0"):
        made(entries=-1)
