"""Record when each kernel of a call starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

LAUNCHING = frozenset({"call", "parallel", "launch"})
"""What the host function of a program runs a kernel by; the first argument is the kernel's number."""


class Span(NamedTuple):
    """One run of a kernel: its number in the program, and seconds after the start of the call."""

    kernel: int
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Recording(NamedTuple):
    """The runs of one call in order, and the seconds of the call as a whole."""

    spans: tuple[Span, ...]
    seconds: float


class Recorder:
    """A runtime that takes the time around each kernel and does everything else as the runtime that it stands for.

    The runtime's `mark` notes a moment, and its `moments` gives marks as seconds, when all that was launched is done.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._marks: list[Any] = []
        self._kernels: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._runtime, name)
        return partial(self._timed, found) if name in LAUNCHING else found

    def _timed(self, run: Callable[..., None], n: int, *args: Any) -> None:
        self._marks.append(self._runtime.mark())
        run(n, *args)
        self._marks.append(self._runtime.mark())
        self._kernels.append(n)

    def record(self, run: Callable[[Recorder], None]) -> Recording:
        """Run a call by `run`, which is given this recorder as its runtime, and give the times of its kernels."""
        self._marks, self._kernels = [self._runtime.mark()], []
        run(self)
        self._marks.append(self._runtime.mark())
        first, *inner, last = self._runtime.moments(self._marks)
        return Recording(tuple(_spans(self._kernels, inner, first)), last - first)


def _spans(kernels: Sequence[int], moments: Sequence[float], first: float) -> list[Span]:
    """A span for each kernel from pairs of moments."""
    pairs = zip(kernels, moments[::2], moments[1::2], strict=True)
    return [Span(n, start - first, end - first) for n, start, end in pairs]
