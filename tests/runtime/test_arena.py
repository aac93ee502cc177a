"""An arena is used by who interrupts it."""

from __future__ import annotations

import sys

from loopir.runtime.cpu.arena import Arena


def test_an_arena_is_used_by_who_interrupts_it() -> None:
    """What runs between any two lines of `alloc` and `free`, in the same thread, may use the arena, too."""
    arena, held, depth = Arena(), list[int](), [0]

    def interrupt(frame: object, event: str, _: object) -> object:
        if depth[0] == 0 and event == "line":
            depth[0] = 1
            pointer = arena.alloc(64)
            assert pointer not in held
            arena.free(pointer)
            depth[0] = 0
        return interrupt

    traced = sys.gettrace()
    for n in range(8):
        sys.settrace(interrupt)  # pyright: ignore[reportArgumentType]
        try:
            pointer = arena.alloc(64 if n % 3 else 128)
        finally:
            sys.settrace(traced)
        assert pointer not in held
        held.append(pointer)
        if n % 2:
            arena.free(held.pop(0))
    assert len(set(held)) == len(held)
