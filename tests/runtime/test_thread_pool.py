"""The threads of parallel loops: every iteration once, failures carried back, forks and interrupts survived."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from loopir.runtime.cpu.arena import ARENA_ALIGNMENT, Arena
from loopir.runtime.cpu.thread_pool import Pool, pool

RANGE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def run(p: Pool, fn: Callable[[int, int], int | None], extent: int) -> int:
    """`fn` as machine code on the threads of `p`."""

    def called(_: int, begin: int, end: int) -> int:
        return fn(begin, end) or 0

    code: Any = RANGE(called)
    return p.run(ctypes.cast(code, ctypes.c_void_p).value or 0, 0, extent)


def collect(into: list[int]) -> Callable[[int, int], None]:
    return lambda begin, end: into.extend(range(begin, end))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(0, 50))
def test_every_iteration_runs_once(threads: int, extent: int) -> None:
    seen: list[int] = []
    assert run(pool(threads), collect(seen), extent) == 0
    assert sorted(seen) == list(range(extent))


def test_ranges_become_smaller_and_are_taken_in_order() -> None:
    seen: list[tuple[int, int]] = []
    run(Pool(1), lambda begin, end: seen.append((begin, end)), 1000)
    assert [end for _, end in seen[:-1]] == [begin for begin, _ in seen[1:]]
    lengths = [end - begin for begin, end in seen]
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], lengths[-1]) == (500, 1)


def test_threads_that_have_slept_come_back() -> None:
    shared, met = Pool(3), threading.Barrier(3)
    for _ in range(3):
        assert run(shared, lambda begin, end: met.wait(300) < 0, 3) == 0  # three threads at once, or it is broken
        threading.Event().wait(0.02)


def test_a_thread_begins_with_the_same_part_of_each_loop() -> None:
    shared, met = Pool(3), threading.Barrier(3)
    begun: dict[int, set[int]] = {}

    def begin_together(begin: int, end: int) -> None:
        if begin in (0, 34, 67):  # where the parts of 100 iterations begin
            begun.setdefault(threading.get_ident(), set()).add(begin)
            met.wait(300)

    for _ in range(5):
        assert run(shared, begin_together, 100) == 0
    assert sorted(begun.values(), key=min) == [{0}, {34}, {67}]
    assert begun[threading.get_ident()] == {0}


def test_several_callers_share_a_pool() -> None:
    shared, results = Pool(3), [list[int]() for _ in range(4)]

    def call(seen: list[int]) -> None:
        for _ in range(20):
            run(shared, collect(seen), 17)

    callers = [threading.Thread(target=call, args=(seen,)) for seen in results]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert all(sorted(seen) == sorted(20 * list(range(17))) for seen in results)


def test_who_finds_the_threads_at_work_goes_on_alone() -> None:
    shared, begun, release, alone = Pool(2), threading.Event(), threading.Event(), set[int]()

    def long(begin: int, end: int) -> None:
        begun.set()
        assert release.wait(300)

    other = threading.Thread(target=run, args=(shared, long, 2))
    other.start()
    assert begun.wait(300)
    seen: list[int] = []

    def short(begin: int, end: int) -> None:
        alone.add(threading.get_ident())
        seen.extend(range(begin, end))

    run(shared, short, 10)
    release.set()
    other.join()
    assert seen == list(range(10))
    assert alone == {threading.get_ident()}


@pytest.mark.parametrize("at", [0, 99])
def test_after_a_failure_it_is_told_and_nothing_runs_on(at: int) -> None:
    running = set[int]()

    def fail(begin: int, end: int) -> int:
        running.add(begin)
        code = 7 * (at in range(begin, end))
        running.discard(begin)
        return code

    shared = Pool(3)
    for _ in range(20):
        assert run(shared, fail, 100) == 7
        assert not running
    assert run(shared, lambda begin, end: None, 100) == 0


def test_who_asks_first_at_once_gets_the_same_code() -> None:
    script = """
import threading
from loopir.runtime.cpu.thread_pool import native
found, together = [], threading.Barrier(4)
def ask():
    together.wait()
    found.append(native())
asking = [threading.Thread(target=ask) for _ in range(4)]
for t in asking: t.start()
for t in asking: t.join()
assert len(set(map(id, found))) == 1
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)


def test_where_no_thread_can_be_started_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen: list[int] = []
    run(Pool(4), collect(seen), 10)
    assert sorted(seen) == list(range(10))


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="a fork is a matter of POSIX")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    script = """
import os, warnings
import ctypes
from loopir.runtime.cpu.thread_pool import pool
warnings.simplefilter("ignore")
seen = []
kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
work = kind(lambda _, begin, end: seen.append(end - begin) or 0)
at = ctypes.cast(work, ctypes.c_void_p).value
pool(3).run(at, 0, 100)
child = os.fork()
seen.clear()
pool(3).run(at, 0, 100)
assert sum(seen) == 100
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)


def test_intermediates_are_aligned_and_used_again() -> None:
    arena = Arena()
    a, b = arena.alloc(100), arena.alloc(100)
    assert a % ARENA_ALIGNMENT == b % ARENA_ALIGNMENT == 0
    assert abs(a - b) >= 100
    arena.free(a)
    assert arena.alloc(100) == a


def test_what_is_kept_does_not_grow_with_ever_new_sizes() -> None:
    arena = Arena()
    for size in range(1000, 2000):
        arena.free(arena.alloc(size))
    assert sum(size for size, _, _ in arena._kept) <= 2 * 1999


def test_an_intermediate_beyond_memory_is_an_error() -> None:
    for size in (1 << 60, 1 << 80):
        with pytest.raises(MemoryError, match=f"an intermediate of {size} bytes"):
            Arena().alloc(size)
