"""`python -m loopir.testing.mutants`: hunts the mutants and prints what became of each, with the smallest case.

`--family` and `--name` pick some; `--table FILE` writes the results as a table; `--clean N` runs N examples of the same
hunts without any fault, and counts alarms. The exit status is the number of mutants that survived, or of alarms.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import loopir.build  # noqa: F401  # pyright: ignore[reportUnusedImport]  (loads every room)
from loopir.testing.mutants import FAMILIES, MUTANTS, Result, hunted
from loopir.testing.mutants.run import EXAMPLES, clean, summary, table, told


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.mutants", description=__doc__)
    parser.add_argument("--family", choices=FAMILIES, help="the mutants of one family")
    parser.add_argument("--name", help="the mutants whose name has this in it")
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to make a case small")
    parser.add_argument("--table", type=Path, help="a file to write the results to, as a table")
    parser.add_argument("--clean", type=int, metavar="N", help="run N examples without a fault, and count alarms")
    chosen = parser.parse_args(argv)
    picked = [m for m in MUTANTS if chosen.family in (None, m.family) and (chosen.name or "") in m.name]
    if chosen.clean:
        alarms, cases = clean(picked, chosen.clean, chosen.seed)
        print(*alarms, f"{cases} clean cases, {len(alarms)} false alarms", sep="\n")
        return min(len(alarms), 100)
    results: list[Result] = []
    for m in picked:
        results.append(hunted(m, examples=chosen.examples, seed=chosen.seed, patience=chosen.patience))
        print(told(results[-1]), flush=True)
    print(summary(results))
    if chosen.table is not None:
        chosen.table.write_text(table(results))
    return min(sum(r.outcome == "survived" for r in results), 100)


if __name__ == "__main__":
    sys.exit(main())
