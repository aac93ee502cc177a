"""Thread pool: run ranges of a parallel loop in machine code, without the interpreter's lock.

What they do is in `pool.ll`, beside this file: who asks for a loop works, too, and nothing returns before all ranges
that were begun are done, as they write the caller's arrays. Threads start when first needed, and anew in a process that
was forked. They are Python's, so that they end with it, but never come back to it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from pathlib import Path
from typing import Any

from loopir.runtime.llvm_jit import Library

SHARES = 2
"""A range is so great a share of what is left of a thread's part of a loop: the last ones are short."""
PATIENCE = 2000
"""How often who waits looks before it sleeps: some 30 us, and as often again, giving way to others, some 500 us."""
CACHE_LINE = 64
X86 = ("x86_64", "AMD64")
"""Machines whose cores have an instruction for waiting in a loop."""


MAX_THREADS = 1024
"""Threads of a pool: more than any machine has use for; systems refuse to start some thousands."""


def thread_count(asked: int | None = None) -> int:
    """How many threads to use: `asked`, else LOOPIR_NUM_THREADS, else the CPUs that this process may use."""
    if asked is None:
        text = os.environ.get("LOOPIR_NUM_THREADS", "")
        if text:
            if not (text.isascii() and text.isdigit()):
                raise ValueError(f"LOOPIR_NUM_THREADS is {text!r}; it is a whole number of at least 1")
            return _some(int(text[:9]), f"LOOPIR_NUM_THREADS is {text!r}")
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(asked, int) or isinstance(asked, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"threads={asked!r}; it is a whole number of threads")
    return _some(asked, f"threads={asked}")


def _some(count: int, told: str) -> int:
    """`count`, if a pool may have as many threads."""
    if not 1 <= count <= MAX_THREADS:
        raise ValueError(f"{told}; it is a whole number of at least 1, and at most {MAX_THREADS}")
    return count


class Native:
    """The functions of `pool.ll`."""

    def __init__(self) -> None:
        lines = (Path(__file__).parent / "pool.ll").read_text(encoding="utf-8").splitlines()
        here = platform.machine() in X86
        self.library = Library("\n".join(x for x in lines if here or "llvm.x86" not in x))
        word, address = ctypes.c_int64, ctypes.c_void_p
        self.size = self.library.bind("size", word, word)
        self.init = self.library.bind("init", None, address, word, word, word)
        self.serve = self.library.bind("serve", None, address, word)
        self.run = self.library.bind("run", ctypes.c_int32, address, address, address, word)
        self.run_at = self.library.address("run")


_native: list[Native] = []
_making = threading.RLock()


def native() -> Native:
    """The functions, compiled when the first thread is needed; the same for whoever asks first at once."""
    if not _native:
        with _making:
            if not _native:
                _native.append(Native())
    return _native[0]


class Pool:
    """`count` threads, the caller's among them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.living = (ctypes.c_int64 * 1)(1)
        """1 as long as what `ready` gave is of use: what has kept it asks."""
        self.reset()

    def reset(self) -> None:
        """As new, without threads: after a fork there are none, and locks may be held for ever."""
        self.living[0], self.living = 0, (ctypes.c_int64 * 1)(1)
        self._address = 0
        self._lock = threading.RLock()

    def ready(self) -> int:
        """Where the pool is that `run` of `pool.ll` takes, with its threads started."""
        return self._address or self._start()

    def _start(self) -> int:
        code = native()
        with self._lock:
            if not self._address:
                memory = ctypes.create_string_buffer(code.size(self.count) + CACHE_LINE)
                address = -(-ctypes.addressof(memory) // CACHE_LINE) * CACHE_LINE
                code.init(address, self.count, SHARES, PATIENCE)
                for part in range(1, self.count):
                    args = (code, memory, address, part)
                    thread = threading.Thread(target=_serve, args=args, name="loopir", daemon=True)
                    try:
                        thread.start()
                    except RuntimeError:
                        break  # the interpreter is closing down, or the system gives no more: the caller does the work
                if not self._address:  # a signal handler may have been here in between
                    self._memory, self._address = memory, address
        return self._address

    def run(self, fn: int, args: int, extent: int) -> int:
        """Call the function at `fn` with `args` and ranges that cover 0 .. extent-1; 0, or what one gave that failed.

        It takes an address and the two ends of a range, and gives an int32; after one that is not 0 no more are begun.
        """
        return native().run(self.ready(), fn, args, extent)


def _serve(code: Native, memory: Any, address: int, part: int) -> None:
    """A thread's life; while it lasts, so do its code and its memory."""
    code.serve(address, part)


_pools: dict[int, Pool] = {}


def pool(threads: int | None = None) -> Pool:
    """The process' pool of that many threads."""
    count = thread_count(threads)
    return _pools.get(count) or _pools.setdefault(count, Pool(count))


def _forked() -> None:
    global _making
    _making = threading.RLock()
    for p in _pools.values():
        p.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
