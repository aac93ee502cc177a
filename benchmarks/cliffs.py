"""How far `schedules.auto` is from the roofline on 500 programs drawn at random from twelve families, by prediction.

    python benchmarks/cliffs.py [--count 500] [--seed 0] [--rows attention,norms] [--arch sm_90a] [--jobs 2] [--write]

Over is predicted time by the floor of a program: the bytes that it needs and makes moved once, or its products at the
rate of the unit that does them, whichever is more, with one launch. No GPU is needed. The worst ten stand with their
cause: the kernel that takes longest, what bounds it, and how many kernels there are. `--count` takes a share of the
programs, the same of every family; a program that takes longer than `--limit` seconds of the processor, or is refused,
counts as infinitely far.
"""

from __future__ import annotations

import math
import signal
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import tables
from cliff_programs import FAMILIES, Drawn, draw, floor

import loopir as lp
import schedules


@dataclass(frozen=True)
class Row:
    family: str
    n: int
    name: str
    kernels: int
    seconds: float
    floor: float
    cause: str
    took: float

    @property
    def over(self) -> float:
        return self.seconds / self.floor

    def __str__(self) -> str:
        times = f"{self.seconds * 1e6:10.1f} {self.floor * 1e6:9.1f} {self.over:7.2f} {self.took:6.1f}"
        return f"{f'{self.family} {self.n}':16} {self.name:70.70} {self.kernels:7} {times}"


def late(*_: object) -> None:
    raise TimeoutError("no schedule within the limit of time")


def cause(made: lp.Schedule, arch: str) -> str:
    """The kernel that takes longest, by what bounds it."""
    found = made.report(arch=arch).kernels
    longest = max(found, key=lambda k: k.total)
    stages = ", ".join(made.stages)
    return f"{longest.work.name}: {longest.total * 1e6:.1f} us by {longest.bound}; stages {stages:.200}"


def row(name: str, seed: int, n: int, arch: str, limit: int) -> Row:
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    begun, machine = time.process_time(), lp.machine(arch)
    program: Drawn | None = None
    least = math.nan
    try:
        program = draw(name, seed, n)
        least = floor(program, machine)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            made = schedules.auto(program.schedule, "cuda", arch=arch)
        cost = lp.predict(made, "cuda", arch=arch)
        kernels, seconds, why = cost.kernels, cost.seconds, ""
        if seconds > 2.0 * least:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            why = cause(made, arch)
    except Exception as error:  # a program that is refused is a row of the table
        kernels, seconds, why = 0, math.inf, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]:.150}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    said = program.name if program is not None else ""
    return Row(name, n, said, kernels, seconds, least, why, time.process_time() - begun)


def summary(name: str, over: list[float]) -> str:
    ordered = sorted(over)
    ninety_fifth = ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]
    return f"{name:16} {len(over):9} {statistics.median(ordered):7.2f} {ninety_fifth:7.2f} {ordered[-1]:9.2f}"


def main() -> None:
    parser = tables.options(__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=60, help="seconds of the processor for a program, at most")
    parser.add_argument("--all", action="store_true", help="print every row, not only the worst ten")
    asked = parser.parse_args()
    wanted = [f for f in FAMILIES if not asked.rows or any(w in f for w in tables.chosen(asked.rows))]
    record = tables.Record("cliffs.txt", asked.write)
    record(f"commit {tables.commit()}; predicted for {lp.machine(asked.arch).name}, seed {asked.seed}, no GPU")
    todo = [
        (wanted[k % len(wanted)], asked.seed, k // len(wanted), asked.arch, asked.limit) for k in range(asked.count)
    ]
    rows: list[Row] = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for found in pool.map(row, *zip(*todo, strict=True), chunksize=1):
            rows.append(found)
            if asked.all:
                print(found, f"\n    {found.cause}" if found.cause else "", flush=True)
    record(f"{'family':16} {'programs':>9} {'median':>7} {'95 %':>7} {'worst':>9}   of predicted over floor")
    by_family: dict[str, Any] = {f: [r.over for r in rows if r.family == f] for f in wanted}
    for name, over in by_family.items():
        if over:
            record(summary(name, over))
    record(summary("all", [r.over for r in rows]))
    worst = sorted(rows, key=lambda r: -r.over)[:10]
    record(f"{'the worst':87} {'kernels':>7} {'predicted':>10} {'floor':>9} {'over':>7} {'s':>6}")
    for r in worst:
        record(f"{r}\n    {r.cause}")
    record.done(None)


if __name__ == "__main__":
    main()
