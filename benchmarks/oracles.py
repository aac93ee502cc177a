"""`python benchmarks/oracles.py`: how many examples a second the exact oracles of `loopir.testing` look at.

Small random programs under random schedules are drawn first; then each oracle is asked about all of them, best of
three. What is compiled for an example is compiled anew: no example is asked twice in one go.
"""

from __future__ import annotations

from time import process_time

from hypothesis import given, seed, settings, strategies as st

from loopir.interp.to_python import compiled, spelled
from loopir.testing import ORACLES, Case, arrays_for, funcs, schedules
from loopir.testing.checking import QUIET

EXAMPLES = 400


def cases() -> list[Case]:
    found: list[Case] = []

    @seed(0)
    @settings(QUIET, max_examples=EXAMPLES)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        func = data.draw(funcs())
        s = data.draw(schedules(func))
        sizes, arrays = data.draw(arrays_for(func, 5))
        found.append(Case(func, s.func, sizes, arrays))

    draw()
    return found


def rate(names: tuple[str, ...], every: list[Case]) -> float:
    best = float("inf")
    for _ in range(3):
        compiled.cache_clear()
        spelled.cache_clear()
        fresh = [Case(c.before, c.after, c.sizes, c.arrays) for c in every]
        start = process_time()
        for c in fresh:
            for name in names:
                ORACLES[name](c)
        best = min(best, process_time() - start)
    return len(every) / best


def main() -> None:
    every = cases()
    print("| oracles | examples a second |\n|---|---|")
    for names in (("last-writer trace",), ("exact ring",), ("last-writer trace", "exact ring")):
        print(f"| {' and '.join(names)} | {rate(names, every):.0f} |")


if __name__ == "__main__":
    main()
