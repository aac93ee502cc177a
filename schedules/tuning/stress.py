"""`python -m loopir.schedules.tuning.stress`: processes killed while they write one tuning database, and what is left.

    --count N      N times, one of 8 processes that write records as fast as they can is ended by SIGKILL, and another
                   started; all the while the database is read, and once in a while merged

A process notes each record that it has finished, after it was written, in memory that outlives it. At the end every
record that was noted has to be there, whole, and no line may be refused. What was done is counted and printed; the exit
status is the number of failures, at most 100.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from .database import STALE, Database
from .records import Record, Subject

WORKERS = 8
SLOTS = 4096
"""Processes that may be started: each counts what it finished in a word of its own."""
PAUSE = 0.01
"""Seconds from one kill to the next, at most."""
MOST = 40
"""Records that a process writes, so that a machine with much else to do writes no more of them."""


def record(process: int, number: int) -> Record:
    """Record `number` of a process: of a length of its own, so that lines end anywhere in a page."""
    draw = random.Random(f"{process} {number}")
    trace = tuple(("split", (f"i_{n}", draw.randrange(1, 64)), ()) for n in range(draw.randrange(200)))
    subject = Subject(f"program {process % 7}", (), "llvm", "a machine", "stress")
    return Record(subject, "candidate", f"{process}.{number}", (), trace, "ok", seconds=1e-3)


def write_on(folder: Path, process: int, finished: mmap.mmap, parent: int) -> None:
    """Write records until the parent is gone, and count those that are finished."""
    database = Database(folder)
    number = 0
    while os.getppid() == parent:
        if number == MOST:
            time.sleep(PAUSE)
            continue
        if not database.add(record(process, number)):
            os._exit(3)
        number += 1
        finished[4 * process : 4 * process + 4] = number.to_bytes(4, "little")


def start_writer(folder: Path, process: int, finished: mmap.mmap) -> int:
    """A process that writes; its number."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            warnings.simplefilter("error")
            write_on(folder, process, finished, parent)
        finally:
            os._exit(4)
    return child


def kill_writers(count: int, seed: int = 0, workers: int = WORKERS) -> Counter[str]:
    """Kill `count` processes that write; what was done and found."""
    done, draw = Counter[str](), random.Random(seed)
    finished, ended = mmap.mmap(-1, 4 * SLOTS), os.WEXITED | os.WNOHANG | os.WNOWAIT
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, started = Path(name), 0
        running: list[int] = []
        reader = Database(folder)
        try:
            for _ in range(workers):
                running.append(start_writer(folder, started, finished))
                started += 1
            while not (any(finished[:]) or any(os.waitid(os.P_PID, x, ended) for x in running)):
                time.sleep(0.001)  # the first record may take its time
            for n in range(count):
                time.sleep(draw.uniform(0, PAUSE))
                victim = draw.randrange(workers)
                os.kill(running[victim], signal.SIGKILL)
                _, status = os.waitpid(running[victim], 0)
                done["processes that ended by themselves"] += not os.WIFSIGNALED(status)
                done["kills"] += 1
                if n % 100 == 50:
                    _merge_old(folder, done)
                if n % 100 == 99:
                    done["reads"] += bool(reader.records(record(draw.randrange(7), 0).subject))
                running[victim] = start_writer(folder, started, finished)
                started += 1
        finally:
            for process in running:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        _check(folder, started, finished, done)
    return done


def _merge_old(folder: Path, done: Counter[str]) -> None:
    """Have the files of some processes that are dead be old, and merge them."""
    old = time.time() - 2 * STALE
    for path in sorted(folder.glob("*.jsonl"))[:40]:
        pid = path.name.split("-")[1]
        if path.name.startswith("merged") or not Path(f"/proc/{pid}").exists():
            os.utime(path, (old, old))
    went, stayed = Database(folder).prune()
    done["lines merged"] += went + stayed


def _check(folder: Path, started: int, finished: mmap.mmap, done: Counter[str]) -> None:
    """Look for every record that was finished, and for lines that are refused."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = {r.name: r for r in Database(folder).records()}
    done["wrong: lines refused"] += len(said)
    done["records found"] += len(found)
    for process in range(started):
        for number in range(int.from_bytes(finished[4 * process : 4 * process + 4], "little")):
            done["records finished"] += 1
            wanted = record(process, number)
            done["wrong: finished records lost"] += found.get(wanted.name) != wanted


def failures_in(done: Counter[str]) -> int:
    """How many of what was counted should not be."""
    return sum(count for what, count in done.items() if what.startswith(("wrong", "processes that")))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.schedules.tuning.stress", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(argv)
    if not hasattr(os, "fork"):
        print("processes are forked, which this system does not do", file=sys.stderr)
        return 1
    start = time.monotonic()
    done = kill_writers(chosen.count, chosen.seed)
    counted = ", ".join(f"{what} {count}" for what, count in sorted(done.items()) if count)
    print(f"{counted}; {failures_in(done)} failures in {time.monotonic() - start:.0f} s")
    return min(failures_in(done), 100)


if __name__ == "__main__":
    sys.exit(main())
