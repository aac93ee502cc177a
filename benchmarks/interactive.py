"""How long a person waits: each question that a Schedule answers, on every program of `loopir.testing.generate.nests`.

    python benchmarks/interactive.py [--write]

Milliseconds of processor time, the least of a few rounds, each on Schedules made anew so that nothing is known from
before. What has to be reached: diff, why and the HTML of the attention nest under 100 ms, suggest under 1 s.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from tables import Record, commit, machine, writing

import loopir as lp
from loopir.testing.generate.nests import NESTS, constant, symbolic

ROUNDS = 3
LIMITS = {"diff": 100.0, "why": 100.0, "html": 100.0, "explain": 100.0, "suggest": 1000.0}
QUESTIONS: dict[str, Callable[[lp.Schedule, str], object]] = {
    "diff": lambda s, loop: s.diff(),
    "why": lambda s, loop: s.why("parallel", loop),
    "html": lambda s, loop: s._repr_html_(),
    "explain": lambda s, loop: s.explain(loop),
    "suggest": lambda s, loop: s.suggest(),
}


def asked(make: Callable[[], lp.Func], question: Callable[[lp.Schedule, str], object]) -> float:
    """Milliseconds of `question` about the innermost loop, after a step on a program that is made for it."""
    best = float("inf")
    for _ in range(ROUNDS):
        s = lp.Schedule(make())
        loop = s.loops(s.stages[0])[-1]
        s = s.split(loop, 4, tail="guard")
        start = time.process_time()
        question(s, f"{loop}_o")
        best = min(best, time.process_time() - start)
    return best * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    writing(parser)
    record = Record("interactive.txt", parser.parse_args().write)
    record(f"{machine()}, loopir at {commit()}; processor time")
    record(f"{'ms':26}" + "".join(f"{name:>10}" for name in QUESTIONS) + f"{'html kB':>10}")
    worst = dict.fromkeys(QUESTIONS, 0.0)
    for name in NESTS:
        for kind, make in (("constant", constant), ("symbolic", symbolic)):
            times = {q: asked(lambda make=make, name=name: make(name), ask) for q, ask in QUESTIONS.items()}
            worst = {q: max(worst[q], t) for q, t in times.items()}
            size = len(lp.Schedule(make(name))._repr_html_()) / 1e3
            record(f"{name + ', ' + kind:26}" + "".join(f"{t:10.1f}" for t in times.values()) + f"{size:10.1f}")
    record(f"{'worst; allowed, attention':26}" + "".join(f"{worst[q]:5.0f}/{LIMITS[q]:4.0f}" for q in QUESTIONS))
    record.done(None)


if __name__ == "__main__":
    main()
