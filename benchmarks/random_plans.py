"""Count random programs whose plan, and what `auto` gives, mean what the program means: none may differ or raise.

    python benchmarks/random_plans.py [--count 2000] [--seed 0] [--rows cuda,llvm] [--jobs 2] [--write]

Each program has up to five stored values: elementwise steps, folds along both axes and over everything, running sums,
products, gathers, transposes, reshapes, slices and concatenations. Planned and scheduled for both targets, it is
lowered and interpreted over an exact ring, where only the same function gives the same; on "cuda" for an H200. Plans
are read back from their JSON, too. No GPU is needed. A program that differs is named by its seed.
"""

from __future__ import annotations

import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import numpy as np
import tables
from random_dags import random_dag

import loopir as lp
import schedules

ARCH = {"cuda": "sm_90a", "llvm": None}


def wrong(seed: int, target: str) -> str | None:
    """What is wrong with the plan or the schedule of a random program; None if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            s = lp.Schedule(random_dag(seed))
            rng = np.random.default_rng(seed)
            arrays = {
                a.buffer.name: rng.integers(-4, 5, [n.value for n in a.buffer.shape]).astype(a.buffer.dtype.numpy)
                for a in s.func.args
                if a.access != "out"
            }
            want = ring(s, arrays)
            p = schedules.plan(s, target, arch=ARCH[target])
            made = p.apply()
            for name, other in (("plan", made), ("auto", schedules.auto(s, target, arch=ARCH[target]))):
                lp.lower(other, target)
                got = ring(other, arrays)
                if any(not np.array_equal(want[x], got[x]) for x in want):
                    return f"{name} differs"
            return None if schedules.load(s, p.json()).apply() == made else "JSON gives another Schedule"
    except Exception as error:  # whatever is raised is counted
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]:.200}"


def ring(s: lp.Schedule, arrays: dict[str, Any]) -> dict[str, Any]:
    return lp.interpret(s.func, {k: v.copy() for k, v in arrays.items()}, {}, domain="ring")


def main() -> int:
    parser = tables.options(__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    chosen = tables.chosen(asked.rows)
    targets = [t for t in ARCH if not chosen or t in chosen]
    record = tables.Record("random_plans.txt", asked.write)
    todo = [(seed, target) for seed in range(asked.seed, asked.seed + asked.count) for target in targets]
    begun, failures = time.perf_counter(), 0
    with ProcessPoolExecutor(asked.jobs) as pool:
        for (seed, target), said in zip(todo, pool.map(wrong, *zip(*todo, strict=True), chunksize=8), strict=True):
            if said is not None:
                failures += 1
                record(f"seed {seed}, {target}: {said}")
    took = time.perf_counter() - begun
    last = asked.seed + asked.count - 1
    record(f"commit {tables.commit()}; programs {asked.seed} to {last} on {', '.join(targets)}: "
           f"{len(todo)} plans and schedules, {failures} wrong or refused, {took:.0f} s")  # fmt: skip
    record.done(None)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
