"""Memory for intermediates on the host, kept from call to call.

What is kept is at most twice what was in use at once, so that calls with ever new sizes do not fill the machine.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import numpy as np

ALIGNMENT = 64
HUGE = 2 << 20
"""What is no smaller lies on whole large pages, where the system has them: NumPy asks for these from 4 MiB on, and a
processor then looks up few addresses of a long panel."""


class Arena:
    """Blocks of bytes for one program; safe from several threads."""

    def __init__(self) -> None:
        self._live: dict[int, tuple[int, Any]] = {}
        self._kept: list[tuple[int, int, Any]] = []
        self._live_bytes = self._kept_bytes = self._most = 0
        self._lock = threading.Lock()
        _arenas.add(self)

    def alloc(self, size: int) -> int:
        """The address of `size` bytes, aligned to 64; what was freed is used again. MemoryError if there are none."""
        with self._lock:
            at = next((n for n in reversed(range(len(self._kept))) if self._kept[n][0] == size), None)
            if at is not None:
                _, pointer, block = self._kept.pop(at)
                self._kept_bytes -= size
            else:
                pointer, block = self._new(size)
            self._live[pointer] = (size, block)
            self._live_bytes += size
            self._most = max(self._most, self._live_bytes)
            return pointer

    def _new(self, size: int) -> tuple[int, Any]:
        apart = HUGE if size >= HUGE else ALIGNMENT
        try:
            block = np.empty(size + apart, np.uint8)
        except (MemoryError, ValueError, OverflowError):  # NumPy's words for sizes beyond its own range
            self._kept.clear()
            self._kept_bytes = 0
            raise MemoryError(f"an intermediate of {size} bytes does not fit in memory") from None
        return -(-block.ctypes.data // apart) * apart, block

    def free(self, pointer: int) -> None:
        with self._lock:
            size, block = self._live.pop(pointer)
            self._live_bytes -= size
            self._kept.append((size, pointer, block))
            self._kept_bytes += size
            while self._kept_bytes > 2 * self._most:
                self._kept_bytes -= self._kept.pop(0)[0]

    def reset_lock(self) -> None:
        self._lock = threading.Lock()


_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()


def _forked() -> None:
    """A lock that another thread held when the process was forked would be held for ever."""
    for arena in list(_arenas):
        arena.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
