"""`python -m loopir.testing.mutants`: hunts the mutants and prints what became of each, with the smallest case.

`--family` and `--name` pick some, `--clean N` runs N examples of the same hunts without any fault, and counts alarms.
The exit status is the number of mutants that survived, or of alarms.
"""

from __future__ import annotations

import argparse
import sys

import loopir.build  # noqa: F401  # pyright: ignore[reportUnusedImport]  (loads every room)
from loopir.testing.mutants import FAMILIES, MUTANTS, hunted
from loopir.testing.mutants.run import EXAMPLES, summary, told


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.mutants", description=__doc__)
    parser.add_argument("--family", choices=FAMILIES, help="the mutants of one family")
    parser.add_argument("--name", help="the mutants whose name has this in it")
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to make a case small")
    chosen = parser.parse_args(argv)
    results = []
    for m in MUTANTS:
        if chosen.family in (None, m.family) and (chosen.name is None or chosen.name in m.name):
            result = hunted(m, examples=chosen.examples, seed=chosen.seed, patience=chosen.patience)
            results.append(result)
            print(told(result), flush=True)
    print(summary(results))
    return min(sum(r.outcome == "survived" for r in results), 100)


if __name__ == "__main__":
    sys.exit(main())
