"""Threads that stay: the ranges of a parallel loop are run on them, without the interpreter's lock.

Ranges are handed out as threads become free, and the caller works, too. Threads start when first needed, and anew in
a process that was forked. Nothing returns before all ranges that were begun are done, as they write the caller's
arrays, not even an interrupt from the keyboard.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

Range = Callable[[int, int], None]
CHUNKS_PER_THREAD = 4


def thread_count(asked: int | None = None) -> int:
    """How many threads to use: `asked`, else LOOPIR_NUM_THREADS, else the CPUs that this process may use."""
    if asked is None:
        text = os.environ.get("LOOPIR_NUM_THREADS", "")
        if text:
            if not text.isdigit() or int(text) < 1:
                raise ValueError(f"LOOPIR_NUM_THREADS is {text!r}; it is a whole number of at least 1")
            return int(text)
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked < 1:
        raise ValueError(f"threads={asked}; it is at least 1")
    return asked


class _Job:
    """One parallel loop on its way."""

    def __init__(self, fn: Range, extent: int, step: int) -> None:
        self.fn, self.extent, self.step = fn, extent, step
        self.next, self.busy = 0, 0
        self.error: BaseException | None = None
        self.changed = threading.Condition()

    def take(self, busy: int) -> tuple[int, int] | None:
        """The next range, if there is one and nothing has failed; `busy` more threads are at work then."""
        with self.changed:
            if self.next >= self.extent or self.error is not None:
                return None
            begin, self.next = self.next, min(self.extent, self.next + self.step)
            self.busy += busy
            return begin, self.next

    def help(self) -> None:
        """The share of a thread of the pool."""
        while (part := self.take(1)) is not None:
            error = None
            try:
                self.fn(*part)
            except BaseException as caught:
                error = caught
            with self.changed:
                self.error = self.error or error
                self.busy -= 1
                self.changed.notify_all()

    def lead(self) -> None:
        """The caller's share; then the others are waited for, and what failed is raised."""
        waiting = False
        while True:
            try:
                while not waiting and (part := self.take(0)) is not None:
                    self.fn(*part)
                waiting = True
                with self.changed:
                    self.changed.wait_for(lambda: self.busy == 0)
                break
            except BaseException as caught:  # an interrupt, too, waits for who is writing
                self.error, waiting = self.error or caught, True
        if self.error is not None:
            raise self.error


class Pool:
    """`count` threads, the caller's among them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reset()

    def reset(self) -> None:
        """As new, without threads: after a fork there are none, and locks may be held for ever."""
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def run(self, fn: Range, extent: int) -> None:
        """`fn(begin, end)` for ranges that cover 0 .. extent-1; after a failure no more are begun, and it is raised."""
        if extent <= 0:
            return
        if self.count == 1 or extent == 1:
            fn(0, extent)
            return
        step = -(-extent // (self.count * CHUNKS_PER_THREAD))
        job = _Job(fn, extent, step)
        self._start()
        for _ in range(min(self.count, -(-extent // step)) - 1):
            self._jobs.put(job)
        job.lead()

    def _start(self) -> None:
        if self._started == self.count - 1:
            return
        with self._lock:
            while self._started < self.count - 1:
                try:
                    threading.Thread(target=_serve, args=(self._jobs,), name="loopir", daemon=True).start()
                except RuntimeError:
                    return  # the interpreter is closing down, or the system gives no more: the caller does the work
                self._started += 1


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        jobs.get().help()


_pools: dict[int, Pool] = {}


def pool(threads: int | None = None) -> Pool:
    """The process' pool of that many threads."""
    count = thread_count(threads)
    return _pools.get(count) or _pools.setdefault(count, Pool(count))


def _forked() -> None:
    for p in _pools.values():
        p.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
