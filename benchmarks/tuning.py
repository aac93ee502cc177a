"""`schedules.tune` on sixty programs that no table has, each beside what `schedules.auto` makes of it.

    python benchmarks/tuning.py --effort quick --programs 0:20 --to FILE   # measure some, and note them in FILE
    python benchmarks/tuning.py --read FILE ... --write                    # the table, in docs/tuning.md, too
    python benchmarks/tuning.py --again --programs 0:60                    # a second run: no measurement, and its cost

Programs are drawn (`tuning_programs.py`). A figure is of a race of its own, after the tuner has ended: its choice and
that of `auto`, built anew, in blocks that alternate; the median of their ratios. With one thread, as by default, times
are of the processor, so that a busy machine tells less. The best found of a program is the fastest choice of all runs,
in that race; with the fastest of all candidates in any race, of a few rounds and so in part by chance, beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tuning_programs as programs
from loopir.schedules.auto import choose_by_formula
from loopir.schedules.tuning.records import canonical
from loopir.schedules.tuning.worker import answer
from tables import RESULTS, ROOT, commit, machine, replaced

import loopir as lp
from loopir import schedules

ROUNDS, BLOCK = 25, 0.004
PAGE = ROOT / "docs" / "tuning.md"
CLOSE = 1.03


def raced(program: programs.Program, made: lp.Schedule) -> float:
    """The time of `auto` by that of `made`, both built anew: above 1, the tuner's choice is faster."""
    s = canonical(program.schedule)
    auto = choose_by_formula(s, "llvm")
    texts = [lp.text(auto.func), lp.text(made.func)]
    if texts[0] == texts[1]:
        return 1.0
    job = {"program": "p", "reference": texts[0], "sizes": [], "target": "llvm", "arch": None, "threads": None}
    job |= {"tolerance": 1e-3, "block": BLOCK, "what": "race", "nests": texts, "rounds": ROUNDS}
    found = answer(job)
    if found["outcome"] != "ok":
        raise RuntimeError(f"{program.name}: {found}")
    return statistics.median(a / b for a, b in zip(*found["times"], strict=True))


def measured(number: int, effort: str, budget: float | None, folder: str) -> dict[str, Any]:
    """One program: what tuning gained, and how many candidates went how."""
    program = programs.draw(number)
    start = time.perf_counter()
    s = canonical(program.schedule)
    found = schedules.tune(s, "llvm", effort, budget_s=budget, database=folder, progress=False)  # type: ignore[arg-type]
    spent = time.perf_counter() - start
    outcomes = [outcome for _, outcome, _, _ in found.rows]
    best = min((ratio for _, outcome, ratio, _ in found.rows if outcome == "ok"), default=1.0)
    return {
        "number": number, "name": program.name, "effort": effort, "gain": raced(program, found.schedule),
        "choice": found.name, "seconds": found.first_seconds, "spent": spent, "measured": found.measured,
        "best": 1.0 / best, "outcomes": {x: outcomes.count(x) for x in set(outcomes)},
    }  # fmt: skip


def again(numbers: Sequence[int], folder: str) -> str:
    """What a second run costs, with the database, beside `auto` without it."""
    extra: list[float] = []
    measurements = 0
    database = schedules.Database(folder)
    for n in numbers:
        s = programs.draw(n).schedule
        times: dict[str, list[float]] = {"auto": [], "database": []}
        for _ in range(3):
            for who in times:
                s = lp.Schedule(lp.parse(lp.text(s.func)))  # nothing is known of it yet
                start = time.process_time()
                if who == "auto":
                    choose_by_formula(s, "llvm")
                else:
                    measurements += schedules.tune(s, "llvm", "quick", database=database).measured
                times[who].append(time.process_time() - start)
        extra.append(1e3 * (min(times["database"]) - min(times["auto"])))
    extra.sort()
    return (
        f"second run, {len(extra)} programs: {measurements} measurements; beside auto it takes "
        f"{statistics.median(extra):+.1f} ms in the median, {extra[-1]:+.1f} ms at most"
    )


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines: every program, then what has to hold."""
    lines = [f"{machine()}, {lp.thread_count()} thread; loopir at {commit()}; gain: auto's time by the choice's"]
    efforts = [e for e in ("quick", "full") if any(r["effort"] == e for r in rows)]
    by = {(r["number"], r["effort"]): r for r in rows}
    lines.append(f"{'':38s}{'auto us':>10s}" + "".join(f"{e:>8s}" for e in efforts) + "  choice")
    best: dict[int, float] = {}
    any_raced: dict[int, float] = {}
    for n in sorted({r["number"] for r in rows}):
        mine = [by[n, e] for e in efforts if (n, e) in by]
        best[n] = max(1.0, *(r["gain"] for r in mine))
        any_raced[n] = max(best[n], *(r["best"] for r in mine))
        gains = "".join(f"{by[n, e]['gain']:8.2f}" if (n, e) in by else " " * 8 for e in efforts)
        top = max(mine, key=lambda r: r["gain"])
        lines.append(f"{top['name'][:37]:38s}{top['seconds'] * 1e6:10.1f}{gains}  {top['choice']}")
    lines.append("")
    for e in efforts:
        mine = [r for r in rows if r["effort"] == e]
        gains = [r["gain"] for r in mine]
        counts: dict[str, int] = {}
        for r in mine:
            for outcome, count in r["outcomes"].items():
                counts[outcome] = counts.get(outcome, 0) + count
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        mean, spent = statistics.geometric_mean(gains), statistics.median(r["spent"] for r in mine)
        lines.append(
            f"{e}: {len(mine)} programs, geometric mean {mean:.3f}, least {min(gains):.2f}, most {max(gains):.2f}; "
            f"{spent:.1f} s each; candidates: {said}"
        )
    close, by_any = (sum(x <= CLOSE for x in found.values()) for found in (best, any_raced))
    lines.append(
        f"auto is within 3 % of the best found at {close} of {len(best)} programs ({close / len(best):.0%}); "
        f"of the fastest of any few rounds at {by_any} ({by_any / len(best):.0%})"
    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", choices=("quick", "full"), default="quick")
    parser.add_argument("--programs", default=f"0:{programs.COUNT}")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--database", default="")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--read", type=Path, nargs="*", default=[])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    os.environ["LOOPIR_NUM_THREADS"] = str(given.threads)
    numbers = range(*map(int, given.programs.split(":")))
    if given.read:
        rows = [json.loads(x) for path in given.read for x in path.read_text().splitlines() if x.startswith("{")]
        lines = table(rows) + [
            x for path in given.read for x in path.read_text().splitlines() if x.startswith("second")
        ]
        print("\n".join(lines))
        if given.write:
            (RESULTS / "tuning.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
            PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "tuning", "\n".join(lines)), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as own:
        folder = given.database or own
        if given.again:
            print(again(numbers, folder))
            return
        for n in numbers:
            line = json.dumps(measured(n, given.effort, given.budget, folder))
            print(line, flush=True)
            if given.to is not None:
                with given.to.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
