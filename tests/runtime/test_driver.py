"""The GPU's context in threads that work on another GPU, or on none; the driver is one that only keeps contexts."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

import loopir as lp
from loopir.runtime.cuda.driver import Device

OURS, ANOTHER = 7, 8


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_LAUNCH_FAILED = 719


class Contexts:
    """The contexts of one thread."""

    CUresult = Result

    def __init__(self, *stack: int) -> None:
        self.stack = list(stack)

    def cuCtxGetCurrent(self) -> Any:
        return 0, self.stack[-1] if self.stack else 0

    def cuCtxSetCurrent(self, context: int) -> Any:
        self.stack[-1:] = [context]
        return (0,)

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.stack.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> Any:
        return 0, self.stack.pop()

    def cuMemAllocAsync(self, size: int, stream: int) -> Any:
        assert self.stack[-1] == OURS
        return 0, 4096


def gpu(*stack: int) -> tuple[Device, Contexts]:
    made = Device.__new__(Device)
    made.cu, made.context = Contexts(*stack), OURS
    return made, made.cu


@pytest.mark.parametrize(("before", "after"), [((), [OURS]), ((OURS,), [OURS]), ((ANOTHER,), [ANOTHER])])
def test_a_thread_goes_on_with_the_gpu_it_worked_on(before: tuple[int, ...], after: list[int]) -> None:
    device, thread = gpu(*before)
    with device.here():
        assert thread.stack[-1] == OURS
    assert device.take(64, 0) == 4096
    assert thread.stack == after


def test_it_does_so_after_an_error() -> None:
    device, thread = gpu(ANOTHER)
    with pytest.raises(KeyError), device.here():
        raise KeyError
    assert thread.stack == [ANOTHER]


def test_what_failed_for_want_of_a_context_is_launched_again() -> None:
    device, thread = gpu(ANOTHER)
    seen: list[int] = []

    def launch(*what: Any) -> int:
        seen.append(thread.stack[-1])
        return 0 if what == ("kernel",) else 719

    device.launch = launch
    device.relaunch("k", "kernel")
    with pytest.raises(lp.TargetError, match="could not launch k: CUDA_ERROR_LAUNCH_FAILED"):
        device.relaunch("k", "another")
    assert seen == [OURS, OURS]
    assert thread.stack == [ANOTHER]
