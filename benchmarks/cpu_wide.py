"""`schedules.auto` on many programs on the CPU, each beside the fastest of what a user would pick instead.

    python benchmarks/cpu_wide.py                          # all groups, at one thread and at two
    python benchmarks/cpu_wide.py --groups nests --threads 1
    python benchmarks/cpu_wide.py --only "sin,cos"         # programs whose names hold one of these
    python benchmarks/cpu_wide.py --write                  # kept in benchmarks/results/cpu_wide.txt

Peers are NumPy; plain C, which is the program as written, printed as C (`plain_c`) and compiled by g++ -O3
-march=native -ffast-math; and torch where a program names its function and it is installed. Each library
has a process of its own and is stopped while it is another's turn (`cpu_peers`); blocks of calls alternate, and times
are their medians. loopir's result is compared with NumPy's in float64, and the others' with loopir's; a peer with
another result is left out and named. The figure of a program is the time of its fastest peer by loopir's: below 1,
loopir is behind.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import cpu_wide_users as programs
import numpy as np
from cpu import alternated
from cpu_peers import Peer, peers
from tables import Record, chosen, commit, machine, writing

import loopir as lp

WHO = ("loopir", "NumPy", "C", "torch")
ROUNDS, BLOCK_SECONDS = 7, 0.01


@dataclass(frozen=True)
class Row:
    """A program's times, in seconds by library, and what was found wrong."""

    group: str
    name: str
    times: Mapping[str, float]
    prepared: float
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        return min((who for who in self.times if who != "loopir"), key=lambda who: self.times[who], default="loopir")

    @property
    def ratio(self) -> float:
        return self.times[self.best] / self.times["loopir"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--groups", default="", help=f"some of {','.join(programs.GROUPS)}")
    parser.add_argument("--only", default="", help="programs whose names hold one of these, separated by commas")
    writing(parser)
    given = parser.parse_args()
    record = Record("cpu_wide.txt", given.write)
    target = lp.describe_target("llvm").partition(",")[0]
    record(f"{machine()} ({target}); NumPy {np.__version__}; loopir at {commit()}.")
    brief = record.lines[:]
    for threads in given.threads:
        rows: list[Row] = []
        record(f"\nAt {threads} thread{'s' * (threads > 1)}, ms; ratio: the best peer's time by loopir's")
        for row in measured(threads, chosen(given.groups), chosen(given.only)):
            rows.append(row)
            record(line(row))
        brief += ["", f"At {threads} thread{'s' * (threads > 1)}"]
        for text in summary(rows):
            record(text)
            brief.append(text)
    record.done("cpu_wide", brief)


def measured(threads: int, groups: Sequence[str], only: Sequence[str]) -> Iterator[Row]:
    """The rows at so many threads."""
    with peers(WHO, threads) as running, tempfile.TemporaryDirectory() as folder:
        for group, named in programs.GROUPS.items():
            for name in named:
                if (not groups or group in groups) and (not only or any(x in name for x in only)):
                    yield one(running, group, name, f"{folder}/result.npy")


def one(running: Mapping[str, Peer], group: str, name: str, result: str) -> Row:
    """A program, timed in all libraries that have it."""
    notes, ready = list[str](), dict[str, Peer]()
    start = time.perf_counter()
    prepared = 0.0
    for who, peer in running.items():
        try:
            peer.ask("prepare", "cpu_wide_users:make", (group, name), result)
        except RuntimeError as error:
            if "LookupError" not in str(error):
                notes.append(str(error)[:80])
            if who == "loopir":
                raise
        else:
            ready[who] = peer
        if who == "loopir":
            prepared = time.perf_counter() - start
            if not right(programs.make(group, name), result):
                notes.append("loopir's result is WRONG")
    return Row(group, name, alternated(ready, ROUNDS, BLOCK_SECONDS), prepared, tuple(notes))


def right(program: programs.Program, result: str) -> bool:
    """Whether loopir's result is that of float64, to the program's tolerance."""
    found, exact = np.load(result).astype(np.float64), program.exact().astype(np.float64)
    size = max(1.0, float(np.abs(exact).max(initial=0.0)))
    return bool((np.abs(found - exact) <= program.tolerance * size).all())


def line(row: Row) -> str:
    times = "".join(f"{row.times[x] * 1e3:9.3f}" if x in row.times else " " * 9 for x in WHO)
    return f"{row.group:13s}{row.name:24s}{times}  {row.ratio:6.2f} of {row.best:6s}{'; '.join(row.notes)}".rstrip()


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Geometric means by group and of all, and the worst ten."""
    if not rows:
        return
    yield ""
    yield "group             programs  mean ratio  lowest"
    for group in (*dict.fromkeys(r.group for r in rows), ""):
        found = [r.ratio for r in rows if group in ("", r.group)]
        yield f"{group or 'all':18s}{len(found):8d}{statistics.geometric_mean(found):12.2f}{min(found):8.2f}"
    worst = sorted(rows, key=lambda r: r.ratio)[:10]
    yield "worst: " + ", ".join(f"{r.name} {r.ratio:.2f}" for r in worst)
    seconds = sorted(r.prepared for r in rows)
    yield f"schedule, compile and start: median {statistics.median(seconds):.2f} s, most {seconds[-1]:.2f} s"


if __name__ == "__main__":
    main()
