"""The recorder takes a mark before and after each kernel, and hands everything else on."""

from itertools import count
from typing import Any

import pytest

from loopir.runtime.recorder import Recorder, Span


class Ticking:
    """A runtime whose clock goes on by one at each mark."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.mark = count(10).__next__

    def moments(self, marks: list[int]) -> list[int]:
        return [10 * m for m in marks]

    def launch(self, n: int, grid: tuple[int, ...]) -> None:
        self.ran.append((n, grid))

    def alloc(self, size: int) -> int:
        self.ran.append(size)
        return 4096


def test_each_kernel_has_its_span() -> None:
    runtime = Ticking()

    def host(rt: Any) -> None:
        assert rt.alloc(7) == 4096
        rt.launch(1, (2, 1, 1))
        rt.launch(0, (1, 1, 1))

    recording = Recorder(runtime).record(host)
    assert runtime.ran == [7, (1, (2, 1, 1)), (0, (1, 1, 1))]
    assert recording.spans == (Span(1, 10, 20), Span(0, 30, 40))
    assert recording.seconds == 50


def test_an_error_of_the_kernel_is_the_callers() -> None:
    def host(rt: Any) -> None:
        rt.missing(3)

    with pytest.raises(AttributeError, match="missing"):
        Recorder(Ticking()).record(host)
