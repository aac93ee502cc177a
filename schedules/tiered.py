"""Tiered kernels: one kernel for all sizes answers at once; sizes that recur get kernels of their own meanwhile.

A kernel for all sizes has guards, grids and tails that one for constant sizes need not have. Which sizes a program is
called with is known when it is called. So calls are counted by size, and a background thread compiles an exact kernel
once the calls so far would have gained, by prediction, what making it takes. Sizes decide which kernel runs and never
what it computes; with an exact kernel refused, failed or discarded, the one for all sizes goes on answering.
"""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import loopir as lp

from .auto import auto

FIRST_COST = 0.25
"""Seconds that scheduling and compiling a kernel are taken for until one has been measured."""
MOST_COUNTED = 64
"""For each exact kernel that there may be, the sizes whose calls are counted."""
Scheduler = Callable[[lp.Schedule, str, str | None], lp.Schedule]


@dataclass
class _Calls:
    """The calls at one combination of shapes, and the exact kernel if there is one."""

    sizes: dict[str, int]
    count: int = 0
    last: int = 0
    """The call of all calls that was the last one at these sizes."""
    ask_at: float = 1
    """The count at which an exact kernel is considered next; infinity once there is one, or none can be."""
    kernel: Any = None
    scheduled: lp.Schedule | None = None
    """The exact Schedule while it waits for enough calls."""
    gain: float = field(default=math.inf)
    """Seconds that it gains a call, by prediction."""


class TieredKernel:
    """A kernel for all sizes that compiles exact kernels for recurring sizes in the background; see `tiered`.

    It is called as any Kernel is, from any thread. `.general` is the kernel for all sizes; `.exact` lists the sizes
    that have kernels of their own, `.failures` what refused to become one. `wait()` returns when nothing is being
    compiled.
    """

    def __init__(
        self, s: lp.Schedule, target: str, arch: str | None, entries: int, cost: float | None, schedule: Scheduler
    ) -> None:
        if s.trace:
            raise lp.ScheduleError("tiered schedules the program itself, and takes it before any step")
        if entries < 0 or (cost is not None and cost < 0):
            raise ValueError(f"entries and cost are at least 0, not {entries} and {cost}")
        self.program, self.arch, self.entries = s, arch, entries
        self.target = lp.resolve_target(target)
        self.scheduled = schedule(s, self.target, arch)
        self.general = self.scheduled.build(self.target, arch=arch)
        self.failures: dict[tuple[tuple[str, int], ...], str] = {}
        self._schedule, self._cost, self._measured = schedule, cost, FIRST_COST
        self._calls: dict[Any, _Calls] = {}
        self._clock = 0
        self._fresh()
        _ALL.add(self)

    def _fresh(self) -> None:
        """Locks and a queue that no other process holds."""
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._queue: deque[_Calls] = deque()
        self._worker: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<tiered {self.general!r}, {len(self.exact)} exact>"

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        if named or not self.program.func.sizes:
            return self.general(*args, out=out, **named)
        try:
            key = tuple([tuple(a.shape) for a in args])
            calls = self._calls.get(key)
        except (AttributeError, TypeError):  # no arrays with shapes: the kernel says what they are, or takes them
            return self.general(*args, out=out)
        if calls is not None and calls.kernel is not None:
            self._clock += 1
            calls.last = self._clock
            return calls.kernel(*args, out=out)
        results = self.general(*args, out=out)
        self._count(key, calls, args)  # once a call was right
        return results

    @property
    def exact(self) -> tuple[dict[str, int], ...]:
        """The sizes that have kernels of their own."""
        return tuple(dict(c.sizes) for c in list(self._calls.values()) if c.kernel is not None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is being compiled, for `timeout` seconds at most; whether that is so."""
        with self._idle:
            return self._idle.wait_for(lambda: self._worker is None, timeout)

    # ------------------------------------------------------------ counting

    def _count(self, key: Any, calls: _Calls | None, args: tuple[Any, ...]) -> None:
        if self.entries == 0:
            return
        if calls is None:
            calls = _Calls(self.general.sizes(*args))
            with self._lock:
                calls = self._calls.setdefault(key, calls)
                self._forget(MOST_COUNTED * self.entries)
        self._clock += 1
        calls.count, calls.last = calls.count + 1, self._clock
        if calls.count >= calls.ask_at:
            self._ask(calls)

    def _forget(self, most: int) -> None:
        """Drop the counts of the sizes that were called longest ago, so that `most` are left."""
        counted = [(c.last, key) for key, c in self._calls.items() if c.kernel is None and c.count]
        for _, key in sorted(counted, key=lambda x: x[0])[: max(0, len(self._calls) - most)]:
            del self._calls[key]

    def _ask(self, calls: _Calls) -> None:
        """Have the thread consider an exact kernel for `calls`."""
        with self._lock:
            if calls.ask_at > calls.count:
                return
            calls.ask_at = math.inf
            self._queue.append(calls)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="loopir exact kernels")
                try:
                    self._worker.start()
                except RuntimeError:  # the interpreter shuts down
                    self._worker = None
                    self._queue.clear()

    # ------------------------------------------------------------ in the background

    def _work(self) -> None:
        """Consider what is asked for, until nothing is left or the interpreter shuts down."""
        while True:
            with self._idle:
                if not self._queue or not threading.main_thread().is_alive():
                    self._queue.clear()
                    self._worker = None
                    self._idle.notify_all()
                    return
                calls = self._queue.popleft()
            try:
                self._consider(calls)
            except Exception as error:  # whatever fails, the kernel for all sizes goes on answering
                self._failed(calls, error)

    def _consider(self, calls: _Calls) -> None:
        """Compile the exact kernel if `calls` are enough; else say how many are."""
        begun = time.perf_counter()
        general = 0.0 if self._cost == 0.0 else self._predicted(self.scheduled, calls.sizes)
        if self._too_few(calls, general):
            return
        if calls.scheduled is None:
            program = lp.Schedule(lp.fix_sizes(self.program.func, calls.sizes))
            calls.scheduled = self._schedule(program, self.target, self.arch)
            calls.gain = general if self._cost == 0.0 else general - self._predicted(calls.scheduled, {})
        if self._too_few(calls, calls.gain):
            return
        kernel = calls.scheduled.build(self.target, arch=self.arch)
        self._measured = time.perf_counter() - begun
        with self._lock:
            calls.kernel, calls.scheduled = kernel, None
            self._evict()

    def _too_few(self, calls: _Calls, gain: float) -> bool:
        """Whether `calls` that gain so many seconds each do not make up for compiling; asks again when they do."""
        cost = self._measured if self._cost is None else self._cost
        if gain * calls.count >= cost:
            return False
        calls.ask_at = math.ceil(cost / gain) if gain > 0.0 else math.inf
        return True

    def _predicted(self, s: lp.Schedule, sizes: dict[str, int]) -> float:
        arch = (self.arch or lp.local_machine()) if self.target == "cuda" else None
        return lp.predict(s, self.target, arch=arch, sizes=sizes).seconds

    def _evict(self) -> None:
        """Discard exact kernels, those that were called longest ago first, so that `entries` are left."""
        having = sorted((c for c in self._calls.values() if c.kernel is not None), key=lambda c: c.last)
        for calls in having[: max(0, len(having) - self.entries)]:
            calls.kernel, calls.count, calls.ask_at = None, 0, 1

    def _failed(self, calls: _Calls, error: Exception) -> None:
        first = not self.failures
        said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        self.failures[tuple(calls.sizes.items())] = said
        if first:
            sizes = ", ".join(f"{name}={value}" for name, value in calls.sizes.items())
            told = f"no kernel for {sizes} alone, the one for all sizes goes on: {said}"
            warnings.warn(told, RuntimeWarning, stacklevel=2)


def tiered(
    s: lp.Schedule,
    target: str = "auto",
    *,
    arch: str | None = None,
    entries: int = 8,
    cost: float | None = None,
    schedule: Scheduler = auto,
) -> TieredKernel:
    """Build `s`, a program of symbolic sizes that no step was taken on, with exact kernels for sizes that recur.

        f = schedules.tiered(lp.Schedule(lp.softmax(x)), "llvm")
        f(a)                  # at any size, at once

    The kernel for all sizes answers the first calls of every size. Once the calls at some sizes would have gained,
    by prediction, as many seconds as compiling takes, a background thread compiles a kernel for these sizes alone. At
    most `entries` of them are held, and the least recently called is discarded first. `cost` is the seconds that
    compiling is taken for, unless given what it took the last time; 0 compiles at the first call of each size.
    `schedule` makes both kinds of schedules, from a Schedule, the target and `arch`.
    """
    return TieredKernel(s, target, arch, entries, cost, schedule)


_ALL: weakref.WeakSet[TieredKernel] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked process no thread compiles any more: ask again."""
    for kernel in list(_ALL):
        for calls in kernel._calls.values():  # pyright: ignore[reportPrivateUsage]
            if calls.kernel is None and calls.ask_at == math.inf and tuple(calls.sizes.items()) not in kernel.failures:
                calls.ask_at = calls.count + 1
        kernel._fresh()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
