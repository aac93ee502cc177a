"""Calling a kernel: arrays in, arrays out, the same for every target."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from loopir.runtime.arrays import Bound, Signature, bind
from loopir.runtime.plans import Plans


class Runtime(Protocol):
    """What a target lends a program while it runs."""

    device: str


class Placed(Runtime, Protocol):
    """A target with memory of its own: arguments are brought there, results back."""

    def enter(self, bound: Bound, signature: Signature) -> Sequence[int]: ...

    def leave(self, bound: Bound, signature: Signature, pointers: Sequence[int]) -> None: ...

    def time(self, run: Callable[[], None]) -> float: ...


class Kernel:
    """A compiled program. `kernel(a, b)` takes the inputs in order or by name and returns the outputs.

    `out=(c,)` writes into arrays of the caller; "inout" arguments are updated in place. One output is returned as an
    array, several as a tuple, none as None, each of the kind of the first argument (NumPy, torch, cupy). Arguments
    are checked before anything runs: TypeError for dtypes, ValueError for shapes, strides, devices and overlaps. A
    subscript that the arrays' contents bring outside its array raises BoundsError, an IndexError, after the run:
    nothing outside was touched, but the outputs are not complete. On a GPU a call of a program with such subscripts
    waits for its tests.

    `.source` is what was compiled (CUDA C, or LLVM IR after optimisation), `.resources` what it takes.
    """

    def __init__(
        self,
        signature: Signature,
        host: Callable[..., None],
        runtime: Any,
        *,
        source: str,
        resources: Any,
        target: str,
        host_source: str = "",
    ) -> None:
        self.signature, self.target = signature, target
        self.source, self.resources, self.host_source = source, resources, host_source
        self._host, self._runtime = host, runtime
        self._placed = hasattr(runtime, "enter")
        self._plans = Plans(signature)

    def __repr__(self) -> str:
        listed = ", ".join(f"{a.name}: {a.access} {a.dtype}[{', '.join(a.shape)}]" for a in self.signature.args)
        return f"<{self.target} kernel {self.signature.name}({listed})>"

    def __call__(self, *args: Any, out: Sequence[Any] | None = None, **named: Any) -> Any:
        if not named and not self._placed and (ready := self._plans.ready(args, out)) is not None:
            sizes, pointers, results = ready
            self._host(self._runtime, *sizes, *pointers)
            return _given(results)
        bound = bind(self.signature, args, named, out, self._runtime.device)
        if not named:
            self._plans.learn(args, bound)
        if self._placed:
            pointers = self._runtime.enter(bound, self.signature)
            try:
                self._host(self._runtime, *bound.sizes, *pointers)
            finally:
                self._runtime.leave(bound, self.signature, pointers)
        else:
            self._host(self._runtime, *bound.sizes, *(t.pointer for t in bound.arrays))
        return _given(bound.results)

    def time(self, *args: Any, repeats: int = 7, **named: Any) -> float:
        """Median seconds of one run, without checking arguments or copying them to a GPU."""
        bound = bind(self.signature, args, named, None, self._runtime.device)
        pointers = self._runtime.enter(bound, self.signature) if self._placed else [t.pointer for t in bound.arrays]

        def run() -> None:
            self._host(self._runtime, *bound.sizes, *pointers)

        try:
            run()
            if self._placed:
                return statistics.median(self._runtime.time(run) for _ in range(repeats))
            return statistics.median(_seconds(run) for _ in range(repeats))
        finally:
            if self._placed:
                self._runtime.leave(bound, self.signature, pointers)


def _given(results: tuple[Any, ...]) -> Any:
    """What a call returns: one array, a tuple of several, or None."""
    return results[0] if len(results) == 1 else results or None


def _seconds(run: Callable[[], None]) -> float:
    """Seconds of one run: of as many as take a millisecond together, divided."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            run()
        elapsed = time.perf_counter() - start
        if elapsed > 1e-3:
            return elapsed / count
        count *= 4
