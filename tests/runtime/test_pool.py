"""The threads of parallel loops: every iteration once, failures carried back, forks and interrupts survived."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from loopir.runtime.memory import ALIGNMENT, Arena
from loopir.runtime.pool import Pool, pool


def collect(into: list[int]) -> Callable[[int, int], None]:
    return lambda begin, end: into.extend(range(begin, end))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(0, 50))
def test_every_iteration_runs_once(threads: int, extent: int) -> None:
    seen: list[int] = []
    pool(threads).run(collect(seen), extent)
    assert sorted(seen) == list(range(extent))


def test_several_callers_share_a_pool() -> None:
    shared, results = Pool(3), [list[int]() for _ in range(4)]

    def call(seen: list[int]) -> None:
        for _ in range(20):
            shared.run(collect(seen), 17)

    callers = [threading.Thread(target=call, args=(seen,)) for seen in results]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert all(sorted(seen) == sorted(20 * list(range(17))) for seen in results)


@pytest.mark.parametrize("at", [0, 99])
def test_after_a_failure_it_is_raised_and_nothing_runs_on(at: int) -> None:
    running = set[int]()

    def fail(begin: int, end: int) -> None:
        running.add(begin)
        try:
            if at in range(begin, end):
                raise ZeroDivisionError(f"at {at}")
        finally:
            running.discard(begin)

    for _ in range(20):
        with pytest.raises(ZeroDivisionError, match=f"at {at}"):
            Pool(3).run(fail, 100)
        assert not running


def test_an_interrupt_waits_for_who_is_writing() -> None:
    helper, release, done = threading.Event(), threading.Event(), threading.Event()
    caller = threading.current_thread()

    def work(begin: int, end: int) -> None:
        if threading.current_thread() is caller:
            assert helper.wait(10)
            threading.Timer(0.05, release.set).start()
            raise KeyboardInterrupt
        helper.set()
        assert release.wait(10)
        done.set()

    with pytest.raises(KeyboardInterrupt):
        Pool(2).run(work, 2)
    assert done.is_set()


def test_where_no_thread_can_be_started_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen: list[int] = []
    Pool(4).run(collect(seen), 10)
    assert sorted(seen) == list(range(10))


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="a fork is a matter of POSIX")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    script = """
import os, warnings
from loopir.runtime.pool import pool
warnings.simplefilter("ignore")
seen = []
def work(begin, end): seen.append(end - begin)
pool(3).run(work, 100)
child = os.fork()
seen.clear()
pool(3).run(work, 100)
assert sum(seen) == 100
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_intermediates_are_aligned_and_used_again() -> None:
    arena = Arena()
    a, b = arena.alloc(100), arena.alloc(100)
    assert a % ALIGNMENT == b % ALIGNMENT == 0
    assert abs(a - b) >= 100
    arena.free(a)
    assert arena.alloc(100) == a


def test_what_is_kept_does_not_grow_with_ever_new_sizes() -> None:
    arena = Arena()
    for size in range(1000, 2000):
        arena.free(arena.alloc(size))
    assert arena._kept_bytes <= 2 * 1999
    assert arena._kept_bytes == sum(size for size, _, _ in arena._kept)


def test_an_intermediate_beyond_memory_is_an_error() -> None:
    for size in (1 << 60, 1 << 80):
        with pytest.raises(MemoryError, match=f"an intermediate of {size} bytes"):
            Arena().alloc(size)
