"""Pool of device memory, by stream, so that calls need not ask the driver.

What is freed on a stream may be used again by what is launched on it later, with no event and no wait: a stream runs
in order. So blocks are kept by stream, identified by the driver's number for it, as handles are given out again. A
stream that is being captured into a graph gets none, as the graph may run at any time: there the driver's own
allocations become part of the graph. At most a part of the GPU's memory is kept, and none when memory runs out.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Protocol

ROUND = 512
"""Bytes that sizes are rounded up to."""
MOST_STREAMS = 16
"""Streams that have blocks kept; others get the driver's."""


class Source(Protocol):
    """Where blocks come from: the driver's stream-ordered memory."""

    def take(self, size: int, stream: int) -> int | None:
        """The address of `size` bytes in the order of `stream`; None if there are none left."""
        ...

    def give(self, pointer: int, stream: int) -> None:
        """Free a block when the stream gets there."""
        ...

    def drop(self, pointers: list[int]) -> None:
        """Free blocks, of whatever stream, when nothing runs any more."""
        ...


class StreamBlocks:
    """What is kept on one stream: addresses by size."""

    def __init__(self) -> None:
        self.by_size: dict[int, list[int]] = {}
        self.bytes = 0

    def shrink(self, most: int) -> list[int]:
        """Blocks to give back until at most `most` bytes are kept."""
        gone: list[int] = []
        while self.bytes > most:
            size, found = next(iter(self.by_size.items()))
            if found:
                gone.append(found.pop())
                self.bytes -= size
            else:
                del self.by_size[size]
        return gone


class MemoryPool:
    """The blocks of one GPU, at most `limit` bytes of a stream kept; safe from several threads."""

    def __init__(self, source: Source, limit: int) -> None:
        self.source, self.limit = source, limit
        self._kept: dict[Hashable, StreamBlocks] = {}
        self._live: dict[int, tuple[int, Hashable | None, int]] = {}
        """By address: bytes, under what they are kept, and the stream's handle."""
        self._lock = threading.Lock()

    def alloc(self, size: int, key: Hashable | None, stream: int) -> int | None:
        """The address of `size` bytes for `stream`; None if there are none left.

        When it is free, the block is kept under `key`, which tells the stream from any other there was, or not at all.
        """
        size = -(-max(1, size) // ROUND) * ROUND
        with self._lock:
            kept = self._kept.get(key)
            found = kept.by_size.get(size) if kept is not None else None
            if kept is not None and found:
                kept.bytes -= size
                pointer = found.pop()
                self._live[pointer] = (size, key, stream)
                return pointer
        pointer = self.source.take(size, stream)
        if pointer is None and (self._released(key, stream) or self._dropped()):
            pointer = self.source.take(size, stream)
        if pointer is None and self._dropped():
            pointer = self.source.take(size, stream)
        if pointer is not None:
            self._live[pointer] = (size, key, stream)
        return pointer

    def free(self, pointer: int) -> None:
        """Keep a block for what comes later on its stream, or give it back."""
        gone = [pointer]
        with self._lock:
            size, key, stream = self._live.pop(pointer)
            if key is not None and size <= self.limit and (key in self._kept or len(self._kept) < MOST_STREAMS):
                kept = self._kept.setdefault(key, StreamBlocks())
                gone = kept.shrink(self.limit - size)
                kept.by_size.setdefault(size, []).append(pointer)
                kept.bytes += size
        for p in gone:
            self.source.give(p, stream)

    def _released(self, key: Hashable | None, stream: int) -> bool:
        """Give back what is kept on this stream, in its order; whether there was anything."""
        with self._lock:
            kept = self._kept.pop(key, None)
        gone = kept.shrink(0) if kept is not None else []
        for p in gone:
            self.source.give(p, stream)
        return bool(gone)

    def _dropped(self) -> bool:
        """Give back what is kept on all streams; whether there was anything."""
        with self._lock:
            gone = [p for kept in self._kept.values() for p in kept.shrink(0)]
            self._kept.clear()
        if gone:
            self.source.drop(gone)
        return bool(gone)
