"""`python -m loopir.testing.stress kills | threads`: processes killed at the compile cache, and threads that build.

    kills --count N      N times, one of 8 processes that build, store, load and evict is ended by SIGKILL, and another
                         started; after each, every entry on disk has to be whole, and what is built has to be right
    threads --seconds S  16 threads build kernels, and call their own and those of others, for S seconds

Results are exact. Both use a cache of their own, which is small, so that entries are evicted all the time. What was
done is counted and printed; the exit status is the number of failures, at most 100.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from loopir.build import Schedule
from loopir.runtime import cache
from loopir.tensor import compute, placeholder

WORKERS = 8
CACHE_LIMIT = 12 << 20
"""What the cache may take: less than all that is put there."""
BLOBS = 64
"""Entries that hold no code, of which everyone knows what they have to be."""
KERNELS = 40
LENGTH = 37
PAUSE = 0.02
"""Seconds from one kill to the next, at most."""


def kernel(number: int, threads: int = 1) -> Any:
    """Kernel `number`, built for the CPU: 2 x + number + 1; if it is odd, backwards and by a parallel loop."""
    x = placeholder((LENGTH,), "float32", name="x")
    first = compute((LENGTH,), lambda i: x[i] * 2.0 + float(number), name="first")
    if number % 2 == 0:
        return Schedule(first + 1.0).compute_inline("first").build("llvm", threads=threads)
    second = compute((LENGTH,), lambda i: first[LENGTH - 1 - i] + 1.0, name="second")
    return Schedule(second).parallel("second.i").build("llvm", threads=threads)


INPUT = np.arange(LENGTH, dtype=np.float32)


def right(number: int, built: Any) -> bool:
    """Whether a call of kernel `number` gives what it has to."""
    expected = INPUT * 2 + (number + 1)
    return bool((built(INPUT) == (expected if number % 2 == 0 else expected[::-1])).all())


@contextmanager
def small_cache() -> Iterator[Path]:
    """A cache that is empty, small, and gone afterwards."""
    before = {name: os.environ.get(name) for name in ("LOOPIR_CACHE_DIR", "LOOPIR_CACHE_BYTES")}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {"LOOPIR_CACHE_DIR": folder, "LOOPIR_CACHE_BYTES": str(CACHE_LIMIT)}
        try:
            yield Path(folder)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


# ---------------------------------------------------------------- processes that are killed


@lru_cache(maxsize=BLOBS)
def blob(number: int) -> tuple[str, bytes]:
    """The name and the data of an entry without code: from nothing to a megabyte."""
    draw = random.Random(number)
    return cache.key("blob", str(number)), draw.randbytes(int(2 ** draw.uniform(0, 20)))


def is_intact(path: Path) -> bool:
    """Whether the file of an entry begins with the digest of its name and the rest; what is gone is whole."""
    try:
        kept = path.read_bytes()
    except FileNotFoundError:
        return True
    head = len(kept[:8]) + hashlib.sha256().digest_size
    return kept[8:head] == hashlib.sha256(path.name.encode() + kept[head:]).digest()


def work(seed: int, parent: int) -> int:
    """Use the cache until something is wrong, or until `parent` is gone; what is wrong, as an exit status."""
    draw = random.Random(seed)
    while os.getppid() == parent:
        what = draw.random()
        if what < 0.3:
            number = draw.randrange(KERNELS)
            if not right(number, kernel(number)):
                return 2
        elif what < 0.98:
            name, data = blob(draw.randrange(BLOBS))
            if cache.load(name) not in (None, data):
                return 3
            cache.store(name, data)
        elif what < 0.995:
            cache.trim(CACHE_LIMIT // 2)
        else:
            cache.clear()
    return 0


def started(seed: int) -> int:
    """A process that does `work`; its number."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = 4  # something was raised
        try:
            warnings.simplefilter("error")
            status = work(seed, parent)
        finally:
            os._exit(status)
    return child


def kills(count: int, seed: int = 0, workers: int = WORKERS) -> Counter[str]:
    """Kill `count` processes at work; what was done and found."""
    done, draw = Counter[str](), random.Random(seed)
    with small_cache() as folder:
        for number in range(BLOBS):
            blob(number)
        for number in (0, 1):  # all is imported before the first fork
            done["wrong results"] += not right(number, kernel(number))
        running = [started(seed * 1_000_003 + n) for n in range(workers)]
        try:
            for n in range(count):
                time.sleep(draw.uniform(0, PAUSE))
                victim = draw.randrange(workers)
                os.kill(running[victim], signal.SIGKILL)
                os.waitpid(running[victim], 0)
                done["kills"] += 1
                check(folder, draw, done)
                for other, process in enumerate(running):
                    if other != victim and os.waitpid(process, os.WNOHANG) != (0, 0):
                        done["processes that ended by themselves"] += 1
                        running[other] = started(draw.getrandbits(60))
                running[victim] = started(seed * 1_000_003 + workers + n)
        finally:
            for process in running:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
    return done


def check(folder: Path, draw: random.Random, done: Counter[str]) -> None:
    """Read every entry that there is, and build a kernel."""
    for path in folder.glob("??/*"):
        if path.suffix == "":
            done["entries read"] += 1
            done["entries that are not whole"] += not is_intact(path)
        else:
            done["files left half written"] += 1
    for number in range(BLOBS):
        name, data = blob(number)
        done["wrong entries"] += cache.load(name) not in (None, data)
    number = draw.randrange(KERNELS)
    done["kernels built"] += 1
    done["wrong results"] += not right(number, kernel(number))


# ---------------------------------------------------------------- threads that build and call


def build_concurrently(seconds: float, seed: int = 0, threads: int = 16) -> Counter[str]:
    """Build and call on `threads` threads at once; what was done and found."""
    counts = [Counter[str]() for _ in range(threads)]
    built: list[tuple[int, Any]] = [(0, kernel(0))]
    end, begin = time.monotonic() + seconds, threading.Barrier(threads)

    def one(place: int) -> None:
        draw, done = random.Random(seed * 1_000_003 + place), counts[place]
        begin.wait()
        while time.monotonic() < end:
            number = draw.randrange(1000) if draw.random() < 0.5 else draw.randrange(KERNELS)
            try:
                mine = kernel(number, draw.choice((1, 2, 3)))
                done["kernels built"] += 1
                built[draw.randrange(min(len(built), 50))] = number, mine
                if len(built) < 50:
                    built.append((number, mine))
                for _ in range(20):
                    which, shared = draw.choice(built)
                    done["calls"] += 1
                    done["wrong results"] += not right(which, shared)
            except Exception as error:
                done[f"errors: {type(error).__name__}: {error}"] += 1

    with small_cache():
        running = [threading.Thread(target=one, args=(place,)) for place in range(threads)]
        for t in running:
            t.start()
        for t in running:
            t.join()
    return sum(counts, Counter[str]())


WRONG = ("wrong", "errors", "entries that are not", "processes that")
"""How the names of failures begin."""


def failures(done: Counter[str]) -> int:
    """How many of what was counted should not be."""
    return sum(count for what, count in done.items() if what.startswith(WRONG))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.stress", description=__doc__)
    parser.add_argument("what", choices=("kills", "threads"))
    parser.add_argument("--count", type=int, default=1000, help="kills")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long threads build and call")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(argv)
    if chosen.what == "kills" and not hasattr(os, "fork"):
        print("processes are forked, which this system does not do", file=sys.stderr)
        return 1
    start = time.monotonic()
    done = (
        kills(chosen.count, chosen.seed) if chosen.what == "kills" else build_concurrently(chosen.seconds, chosen.seed)
    )
    told = ", ".join(f"{what} {count}" for what, count in sorted(done.items()) if count)
    print(f"{told}; {failures(done)} failures in {time.monotonic() - start:.0f} s")
    return min(failures(done), 100)


if __name__ == "__main__":
    sys.exit(main())
