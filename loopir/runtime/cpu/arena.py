"""Arena for intermediates on the host, reused from call to call.

What is kept is at most twice what was in use at once, so that calls with ever new sizes do not fill the machine.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np

ARENA_ALIGNMENT = 64
HUGE = 2 << 20
"""What is no smaller lies on whole large pages, where the system has them: NumPy asks for these from 4 MiB on, and a
processor then looks up few addresses of a long panel."""


class Arena:
    """Blocks of bytes for one program; safe from several threads, and from what interrupts a thread that is in here.

    So a list is changed by single calls, and what was read before is not relied on.
    """

    def __init__(self) -> None:
        self._live: dict[int, tuple[int, Any]] = {}
        self._kept: list[tuple[int, int, Any]] = []
        self._most = 0
        self._grown = False
        """Whether a block was made since all that is kept was last seen to be within bounds: else it still is."""
        self._lock = threading.RLock()
        _arenas.add(self)

    def alloc(self, size: int) -> int:
        """The address of `size` bytes, aligned to 64; what was freed is used again. MemoryError if there are none."""
        with self._lock:
            pointer, block = self._taken(size) or self._new(size)
            self._live[pointer] = (size, block)
            if self._grown:
                self._most = max(self._most, self._bytes())
            return pointer

    def _taken(self, size: int) -> tuple[int, Any] | None:
        """A block that was kept, of this size, which is kept no more."""
        while (found := next((k for k in reversed(self._kept) if k[0] == size), None)) is not None:
            with suppress(ValueError):  # taken in between
                self._kept.remove(found)
                return found[1], found[2]
        return None

    def _bytes(self) -> int:
        """What is in use."""
        return sum(size for size, _ in list(self._live.values()))

    def _new(self, size: int) -> tuple[int, Any]:
        self._grown = True
        apart = HUGE if size >= HUGE else ARENA_ALIGNMENT
        try:
            block = np.empty(size + apart, np.uint8)
        except (MemoryError, ValueError, OverflowError):  # NumPy's words for sizes beyond its own range
            self._kept.clear()
            raise MemoryError(f"an intermediate of {size} bytes does not fit in memory") from None
        return -(-block.ctypes.data // apart) * apart, block

    def free(self, pointer: int) -> None:
        with self._lock:
            size, block = self._live.pop(pointer)
            self._kept.append((size, pointer, block))
            if self._grown:
                while sum(k[0] for k in list(self._kept)) > 2 * self._most:
                    with suppress(IndexError):  # taken in between
                        self._kept.pop(0)
                self._grown = bool(self._live)

    def reset_lock(self) -> None:
        self._lock = threading.RLock()


_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()


def _forked() -> None:
    """A lock that another thread held when the process was forked would be held for ever."""
    for arena in list(_arenas):
        arena.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
