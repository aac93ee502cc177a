"""`python -m loopir.testing.fuzz --seconds N --seed S`: random programs, random schedules, every oracle and backend.

Every case is put to the exact oracles, and one in a few also to those that compile: threads in adversarial orders, LLVM
against the interpreter, CUDA by NVRTC, and on the GPU where there is one.

Rounds are numbered from the seed on; each draws its own programs, so that a round is run again by its number alone. A
failure is printed as a script that shows it. The exit status is the number of failures, at most 100.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from time import monotonic

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.schedule.primitive import PRIMITIVES
from loopir.schedule.trace import Step, script
from loopir.testing.checking import Wrong, put, quietly, repro
from loopir.testing.draws import between
from loopir.testing.families import documented
from loopir.testing.oracles import ORACLES, SLOW, Case, false_witness
from loopir.testing.steps import Crash, schedules
from loopir.testing.strategies import arrays_for, funcs

QUICK = ("language", "last-writer trace", "promises", "exact ring")
"""The oracles that compile nothing: hundreds of cases a second."""
ALL = (*ORACLES, *SLOW)
SHARE = 8
"""One case in so many is put to all oracles."""


@st.composite
def themed(draw: st.DrawFn, theme: str, primitives: Iterable[str] | None = None) -> tuple[Func, list[str]]:
    """A program, perhaps one that the docstring of the primitive `theme` shows, and primitives, half of them that."""
    names = sorted(PRIMITIVES if primitives is None else primitives)
    func = draw(documented([theme])) if not draw(between(0, 2)) else draw(funcs())
    return func, [*names, *[theme] * len(names)]


def trial(
    data: st.DataObject, oracles: Iterable[str], tally: Counter[str], primitives: Iterable[str] | None = None,
    share: int = 1,
) -> None:  # fmt: skip
    """One program under one schedule: Wrong if an oracle is against it, a witness is false or a step crashes.

    `oracles` are asked about one case in `share`, and those of QUICK about the others.
    """
    asked = tuple(oracles) if not data.draw(between(0, share - 1)) else QUICK
    names = sorted(PRIMITIVES if primitives is None else primitives)
    func, weighted = data.draw(themed(names[data.draw(between(0, len(names) - 1))], names))

    def refused(before: Func, step: Step, error: ScheduleError) -> None:
        if why := false_witness(before, error):
            raise Wrong("witness", why, str(step), before, None, {})

    try:
        s = data.draw(schedules(func, primitives=weighted, refused=refused))
    except Crash as crash:
        taken = [*crash.before.trace, crash.step]
        why = f"{type(crash.cause).__name__}: {crash.cause}\n\n{repro(func, taken)}"
        raise Wrong("crash", why, script(taken), func, None, {}) from crash.cause
    sizes, arrays = data.draw(arrays_for(func))
    tally["cases"] += 1
    tally["cases of all oracles"] += asked != QUICK
    tally.update(step.name for step in s.trace)
    try:
        put(Case(func, s.func, sizes, arrays), script(s.trace), asked)
    except Wrong as wrong:
        wrong.args = (f"{wrong}\n{repro(func, s.trace)}",)
        raise


def fuzz(
    seconds: float,
    seed: int = 0,
    *,
    examples: int = 100,
    oracles: Iterable[str] = tuple(ORACLES),
    primitives: Iterable[str] | None = None,
    share: int = 1,
    patience: float = 8.0,
    say: Callable[[str], object] = print,
) -> int:
    """Rounds of `examples` cases from `seed` on, until `seconds` have gone by; gives the number of failures."""
    end, failures = monotonic() + seconds, 0
    tally: Counter[str] = Counter()
    while True:
        try:
            quietly(lambda data: trial(data, oracles, tally, primitives, share), seed, examples, patience)
        except Wrong as wrong:
            failures += 1
            again = f"python -m loopir.testing.fuzz --seconds 0 --seed {seed} --share {share}"
            say(f"{'=' * 30} round {seed}\n{wrong}\nagain: {again}")
        if monotonic() >= end:
            break
        seed += 1
    cases, whole = tally.pop("cases", 0), tally.pop("cases of all oracles", 0)
    steps = ", ".join(f"{name} {count}" for name, count in sorted(tally.items()))
    say(f"{cases} cases, {whole} of them on all oracles, {failures} failures; steps taken: {steps}")
    return failures


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (0: one round)")
    parser.add_argument("--seed", type=int, default=0, help="the first round")
    parser.add_argument("--examples", type=int, default=100, help="cases in a round")
    parser.add_argument("--primitives", nargs="*", help="draw steps from these only")
    parser.add_argument("--share", type=int, default=SHARE, help="one case in so many goes to all oracles")
    parser.add_argument("--quick", action="store_true", help=f"only the oracles {', '.join(QUICK)}")
    chosen = parser.parse_args(argv)
    failures = fuzz(
        chosen.seconds, chosen.seed, examples=chosen.examples, oracles=QUICK if chosen.quick else ALL,
        primitives=chosen.primitives, share=chosen.share,
    )  # fmt: skip
    return min(failures, 100)


if __name__ == "__main__":
    sys.exit(main())
