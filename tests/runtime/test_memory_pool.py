"""Memory kept by stream: used again in order, bounded, given up when there is no more; against a driver that counts."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings, strategies as st

from loopir.runtime.cuda.memory_pool import MOST_STREAMS, MemoryPool

KIB = 1024


class Driver:
    """Hands out addresses, at most `room` bytes at once, and remembers on which stream each was given back."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room, self.next, self.taken = room, 1 << 20, 0
        self.sizes: dict[int, int] = {}
        self.waits = 0

    def take(self, size: int, stream: int) -> int | None:
        if sum(self.sizes.values()) + size > self.room:
            return None
        self.taken += 1
        self.next += size
        self.sizes[self.next] = size
        return self.next

    def give(self, pointer: int, stream: int) -> None:
        del self.sizes[pointer]

    def drop(self, pointers: list[int]) -> None:
        self.waits += 1
        for p in pointers:
            del self.sizes[p]


def taken(blocks: MemoryPool, size: int, stream: int = 0) -> int:
    pointer = blocks.alloc(size, stream, stream)
    assert pointer is not None
    return pointer


def test_what_was_freed_is_used_again_on_its_stream_alone() -> None:
    driver = Driver()
    blocks = MemoryPool(driver, 100 * KIB)
    first = taken(blocks, 1000, stream=1)
    blocks.free(first)
    assert taken(blocks, 1000, stream=2) != first
    assert taken(blocks, 1001, stream=1) == first  # sizes are rounded up
    assert taken(blocks, 1000, stream=1) != first  # it is in use
    assert driver.taken == 3


def test_a_stream_without_a_key_keeps_nothing() -> None:
    driver = Driver()
    blocks = MemoryPool(driver, 100 * KIB)
    pointer = blocks.alloc(1000, None, 7)
    assert pointer is not None
    blocks.free(pointer)
    assert not driver.sizes


def test_no_more_is_kept_than_the_limit() -> None:
    driver = Driver()
    blocks = MemoryPool(driver, 10 * KIB)
    held = [taken(blocks, n * KIB) for n in (4, 3, 2, 1, 5, 11)]
    for pointer in held:
        blocks.free(pointer)
    assert sum(driver.sizes.values()) <= 10 * KIB
    assert held[-2] in driver.sizes  # the last one that fits


def test_when_memory_ends_what_is_kept_is_given_up_without_a_wait_if_that_will_do() -> None:
    driver = Driver(room=10 * KIB)
    blocks = MemoryPool(driver, 10 * KIB)
    blocks.free(taken(blocks, 6 * KIB, stream=1))
    assert blocks.alloc(5 * KIB, 1, 1) is not None
    assert driver.waits == 0
    blocks.free(taken(blocks, 4 * KIB, stream=2))
    assert blocks.alloc(5 * KIB, 3, 3) is not None
    assert driver.waits == 1
    assert blocks.alloc(5 * KIB, 3, 3) is None
    assert driver.waits == 1


def test_streams_beyond_the_most_keep_nothing() -> None:
    driver = Driver()
    blocks = MemoryPool(driver, 10 * KIB)
    for stream in range(2 * MOST_STREAMS):
        blocks.free(taken(blocks, 100, stream))
    assert len(driver.sizes) == MOST_STREAMS


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3000), st.booleans()), max_size=60))
@settings(max_examples=60, deadline=None)
def test_no_block_has_two_owners(steps: list[tuple[int, int, bool]]) -> None:
    driver = Driver(room=20 * KIB)
    blocks = MemoryPool(driver, 4 * KIB)
    live: list[int] = []
    for stream, size, back in steps:
        pointer = blocks.alloc(size, stream, stream)
        if pointer is not None:
            assert pointer not in live
            assert driver.sizes[pointer] >= size
            live.append(pointer)
        if live and (back or pointer is None):
            blocks.free(live.pop(0))
    for pointer in live:
        blocks.free(pointer)
    assert sum(driver.sizes.values()) <= 4 * 4 * KIB


def test_threads_share_a_stream() -> None:
    driver = Driver()
    blocks = MemoryPool(driver, 100 * KIB)
    owners: dict[int, int] = {}
    wrong: list[int] = []

    def work(me: int) -> None:
        for _ in range(300):
            pointer = taken(blocks, 1000)
            if owners.setdefault(pointer, me) != me:
                wrong.append(pointer)
            del owners[pointer]
            blocks.free(pointer)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_pointer_is_freed_once() -> None:
    blocks = MemoryPool(Driver(), 100 * KIB)
    pointer = taken(blocks, 10)
    blocks.free(pointer)
    with pytest.raises(KeyError):
        blocks.free(pointer)
