"""Threads that stay: the ranges of a parallel loop are run on them, without the interpreter's lock.

Ranges are handed out as threads become free. The caller works, too. A pool is made when first needed and made anew
after a fork, as threads do not survive one. A parallel loop inside a parallel loop runs on the thread that meets it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

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


class Pool:
    """`count` threads, the caller's among them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._executor: ThreadPoolExecutor | None = None
        self._pid = 0
        self._lock = threading.Lock()

    def _workers(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None or self._pid != os.getpid():
                self._executor = ThreadPoolExecutor(self.count - 1, thread_name_prefix="loopir")
                self._pid = os.getpid()
            return self._executor

    def run(self, fn: Range, extent: int) -> None:
        """`fn(begin, end)` for ranges that cover 0 .. extent-1; the first exception of any is raised."""
        if extent <= 0:
            return
        if self.count == 1 or extent == 1:
            fn(0, extent)
            return
        step = max(1, -(-extent // (self.count * CHUNKS_PER_THREAD)))
        starts = iter(range(0, extent, step))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    begin = next(starts, None)
                if begin is None:
                    return
                fn(begin, min(extent, begin + step))

        helpers = min(self.count - 1, -(-extent // step) - 1)
        futures: list[Future[None]] = [self._workers().submit(work) for _ in range(helpers)]
        error: BaseException | None = None
        try:
            work()
        except BaseException as caught:
            error = caught
        for f in futures:
            failed = f.exception()
            error = error or failed
        if error is not None:
            raise error


_pools: dict[int, Pool] = {}
_lock = threading.Lock()


def pool(threads: int | None = None) -> Pool:
    """The process' pool of that many threads."""
    count = thread_count(threads)
    with _lock:
        return _pools.setdefault(count, Pool(count))
