"""The process that runs candidates: `python -m loopir.schedules.tuning.worker` answers lines of JSON, one at a time.

What it runs may crash it, hang it or ask for more memory than there is; whoever asks sees that it is gone, and starts
another (`.measure`). A question holds a program as text, the nests to run as text, and how: nothing of the asker's
code. Every candidate is run once and its result compared before it is timed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import numpy as np

import loopir as lp

try:
    import resource
except ImportError:  # a system without such limits
    resource = None

from .arrays import Array, difference, input_arrays, mostly_numbers, output_arrays

MOST_KERNELS = 32
"""That are kept built, more than a race has."""
HELD_BYTES = 128 << 20
"""Bytes of arrays up to which every candidate's stay on a GPU; larger ones are copied there for each run."""
SHORT = 0.02
"""Seconds of a call up to which one that is not timed comes before a block."""
EVICTED = 64 << 20
"""Bytes that are read to empty caches, at most."""
MEMORY = 0.9
"""What part of the machine's memory a candidate may ask for."""


class Bench:
    """One program with its inputs and its result, and the candidates for it that are built."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.target, self.threads, self.arch = job["target"], job["threads"], job["arch"]
        self.sizes, self.allowed = tuple(job["sizes"]), float(job["tolerance"])
        self.kernels: dict[str, tuple[Callable[[], Any], ExitStack]] = {}
        """By text how to run a candidate, and what it holds on a GPU."""
        reference = self._built(job["reference"])
        self.signature = reference.signature
        self.out = tuple(output_arrays(self.signature, self.sizes))
        for positive in (False, True):
            self.given = input_arrays(self.signature, self.sizes, positive=positive)
            read = [a for a in self.signature.args if a.access != "out"]
            self.updated = [x.copy() for a, x in zip(read, self.given, strict=True) if a.access == "inout"]
            self.wanted = [x.copy() for x in self._results(reference)]
            if mostly_numbers(self.wanted):
                break
        self.held = sum(x.nbytes for x in (*self.given, *self.wanted)) <= HELD_BYTES
        size = 2 * lp.caches()[1] * (os.cpu_count() or 1)
        self.evicted = np.zeros(min(EVICTED, size) // 8)

    def _built(self, text: str) -> Any:
        return lp.Schedule(lp.parse(text)).build(self.target, arch=self.arch, threads=self.threads)

    def _run(self, kernel: Any) -> tuple[Callable[[], None], list[Array]]:
        """A call of a kernel, and the arrays that it writes; what it updates is as at first each time.

        All candidates write the same arrays, as which pages of memory an array has got may count for more than the
        schedule: with arrays of its own, one of several alike candidates was 1.8 times slower in all rounds of a race.
        """
        specs = self.signature.args
        for mine, unwritten in zip(self.out, output_arrays(self.signature, self.sizes), strict=True):
            np.copyto(mine, unwritten)
        given, out, updated = iter(self.given), self.out, iter(self.updated)
        arguments, fresh = list[Array](), list[tuple[Array, Array]]()
        for spec in specs:
            if spec.access == "out":
                continue
            x = next(given)
            if spec.access == "inout":
                fresh.append((next(updated), x))
                x = fresh[-1][0]
            arguments.append(x)
        call = partial(kernel, *arguments, out=out) if out else partial(kernel, *arguments)

        def run() -> None:
            for mine, first in fresh:
                np.copyto(mine, first)
            call()

        return run, [*(mine for mine, _ in fresh), *out]

    def _results(self, kernel: Any) -> list[Array]:
        run, results = self._run(kernel)
        run()
        return results

    def ready(self, text: str) -> Callable[[], Any]:
        """A call of a candidate, whose result was compared. ValueError, with where it differs, for a wrong one."""
        if text not in self.kernels:
            kernel = self._built(text)
            run, results = self._run(kernel)
            run()
            inout = [a.name for a in self.signature.args if a.access == "inout"]
            names = [*inout, *(a.name for a in self.signature.args if a.access == "out")]
            said = difference(results, self.wanted, names, self.allowed)
            if said:
                raise ValueError(said)
            while len(self.kernels) >= MOST_KERNELS:
                self.kernels.pop(next(iter(self.kernels)))[1].close()
            memory = ExitStack()
            if self.target != "llvm":
                timer = partial(kernel.timer, *self.given)
                run = memory.enter_context(timer()) if self.held else partial(_timed_once, timer)
            self.kernels[text] = run, memory
        return self.kernels[text][0]

    def close(self) -> None:
        """Free the arrays of all candidates on a GPU."""
        for _, memory in self.kernels.values():
            memory.close()

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds of this process where it has one thread, as other processes do not count then."""
        return time.process_time if lp.thread_count(self.threads) == 1 else time.perf_counter

    def seconds(self, run: Callable[[], Any], block: float) -> float:
        """Seconds of a call, of as many in a row as take a block; caches are emptied first."""
        if self.target != "llvm":
            return float(run())
        self.evicted.sum()
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
        if once > SHORT:
            return self._timed(run, 1)
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
        return self._timed(run, max(1, int(block / max(once, 1e-7))))

    def _timed(self, run: Callable[[], Any], count: int) -> float:
        clock = self.clock
        start = clock()
        for _ in range(count):
            run()
        return (clock() - start) / count


def _timed_once(timer: Callable[[], AbstractContextManager[Callable[[], float]]]) -> float:
    """Seconds of a run on a GPU, to which its inputs are copied before it."""
    with timer() as seconds:
        return seconds()


_benches: dict[str, Bench] = {}


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """What a question asks: "check" gives the time of one call, "race" those of blocks of each nest in turn, "calls"
    those of many calls of one nest, each by itself."""
    start = time.monotonic()
    key = json.dumps([job[x] for x in ("program", "reference", "sizes", "target", "threads", "arch")])
    try:
        if key not in _benches:
            for old in _benches.values():
                old.close()
            _benches.clear()
            _benches[key] = Bench(job)
        bench = _benches[key]
        runs: list[Callable[[], Any]] = []
        for n, text in enumerate(job["nests"]):
            try:
                runs.append(bench.ready(text))
            except ValueError as error:
                return {"outcome": "wrong", "said": str(error), "at": n}
        match job["what"]:
            case "check":
                times: Any = [bench.seconds(run, 0.0) for run in runs]
            case "race":
                times = _race(bench, runs, job["rounds"], job["block"])
            case _:
                times = [bench.seconds(runs[0], 0.0) for _ in range(job["rounds"])]
    except MemoryError:
        return {"outcome": "out of memory", "said": "it asks for more memory than there is"}
    except (lp.LoopirError, ValueError, TypeError, IndexError) as error:
        return {"outcome": "failed", "said": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return {"outcome": "ok", "times": times, "spent": time.monotonic() - start}


def _race(bench: Bench, runs: Sequence[Callable[[], Any]], rounds: int, block: float) -> list[list[float]]:
    """Blocks of each in turn, one after the other in every round, each round in the other direction."""
    times: list[list[float]] = [[] for _ in runs]
    for n in range(rounds):
        order = range(len(runs)) if n % 2 == 0 else range(len(runs) - 1, -1, -1)
        for k in order:
            times[k].append(bench.seconds(runs[k], block))
    return times


def _limit_memory() -> None:
    """Have what asks for more than the machine has get a MemoryError, and not the whole machine into trouble."""
    if resource is None:
        return
    try:
        most = int(MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (AttributeError, ValueError, OSError):
        return


def main() -> None:
    """Answer questions until there are no more. What candidates print goes to where errors go."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    limited = False
    for line in sys.stdin:
        job = json.loads(line)
        if job["target"] == "llvm" and not limited:
            _limit_memory()
            limited = True
        answers.write(json.dumps(answer(job)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
