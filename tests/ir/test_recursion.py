"""Entries recurse as deep as the stack has room for, on a thread that has it."""

from __future__ import annotations

import threading

import pytest

import loopir as lp
from loopir.ir.recursion import deep
from loopir.ir.stack import LARGE, on_large_stack, own_stack


def test_a_larger_stack_gives_what_is_given_and_raises_what_is_raised() -> None:
    assert on_large_stack(own_stack) >= LARGE
    with lp.scheduling_for(lp.machine("sm_90a")):
        assert on_large_stack(lp.machine) is lp.machine()
    with pytest.raises(ZeroDivisionError):
        on_large_stack(lambda: 1 // 0)


def test_threads_of_little_stack_enter_on_another_thread() -> None:
    found: list[tuple[int, int]] = []
    before = threading.stack_size(256 << 10)
    try:
        enter = deep(lp.LowerError)(lambda: (threading.get_ident(), own_stack()))
        thread = threading.Thread(target=lambda: found.append(enter()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    ((ident, size),) = found
    assert ident != thread.ident
    assert size >= LARGE
    assert deep(lp.LowerError)(threading.get_ident)() == threading.get_ident()
