"""`python -m loopir.testing.mutants`: hunts the mutants and prints what became of each, with the smallest case.

`--family` and `--name` pick some; `--table FILE` writes the results as a table; `--clean N` runs N examples of the same
hunts without any fault, and counts alarms; `--jobs N` takes so many processes. The exit status is the number of mutants
that survived, or of alarms.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import loopir.build  # noqa: F401  # pyright: ignore[reportUnusedImport]  (loads every room)
from loopir.testing.mutants import FAMILIES, MUTANTS, Result
from loopir.testing.mutants.jobs import clean_part, hunt_nth
from loopir.testing.mutants.run import EXAMPLES, describe_result, parts, summary, table


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.mutants", description=__doc__)
    parser.add_argument("--family", choices=FAMILIES, help="the mutants of one family")
    parser.add_argument("--name", help="the mutants whose name has this in it")
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to make a case small")
    parser.add_argument("--table", type=Path, help="a file to write the results to, as a table")
    parser.add_argument("--clean", type=int, metavar="N", help="run N examples without a fault, and count alarms")
    parser.add_argument("--jobs", type=int, default=1, help="processes that hunt at once")
    chosen = parser.parse_args(argv)
    picked = [n for n, m in enumerate(MUTANTS) if chosen.family in (None, m.family) and (chosen.name or "") in m.name]
    mutants = [MUTANTS[n] for n in picked]
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) if chosen.jobs > 1 else nullcontext() as pool:
        each = map if pool is None else pool.map
        if chosen.clean:
            pieces = range(len(parts(mutants, chosen.clean, chosen.seed)))
            every = [*each(partial(clean_part, picked, chosen.clean, chosen.seed), pieces)]
            alarms, cases = [x for found, _ in every for x in found], sum(count for _, count in every)
            print(*alarms, f"{cases} clean cases, {len(alarms)} false alarms", sep="\n")
            return min(len(alarms), 100)
        results: list[Result] = []
        hunt = partial(hunt_nth, examples=chosen.examples, seed=chosen.seed, patience=chosen.patience)
        for mutant, (found, seconds) in zip(mutants, each(hunt, picked), strict=True):
            results.append(Result(mutant, found, seconds))
            print(describe_result(results[-1]), flush=True)
    print(summary(results))
    if chosen.table is not None:
        chosen.table.write_text(table(results))
    return min(sum(r.outcome == "survived" for r in results), 100)


if __name__ == "__main__":
    sys.exit(main())
