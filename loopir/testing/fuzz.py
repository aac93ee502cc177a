"""`python -m loopir.testing.fuzz --seconds N --seed S`: random programs, random schedules, every oracle and backend.

Every case is put to the exact oracles, and one in a few also to those that compile: threads in adversarial orders, LLVM
against the interpreter, CUDA by NVRTC, and on the GPU where there is one.

Rounds are numbered from the seed on; each draws its own programs, so that a round is run again by its number alone. A
failure is printed as a script that shows it. Rounds are run in a process of their own: one that dies, or hangs, is a
failure, too. The exit status is the number of failures, at most 100.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.schedule.core.trace import Step, script
from loopir.testing.checking import Wrong, judge_case, quietly, repro, run_in_process
from loopir.testing.generate.draws import between
from loopir.testing.generate.families import documented
from loopir.testing.generate.steps import EXACT, Crash, schedules
from loopir.testing.generate.strategies import arrays_for, funcs
from loopir.testing.oracles.oracles import ORACLES, SLOW, Case, false_witness
from loopir.testing.subprocess_rounds import Note, run_rounds

QUICK = ("language", "last-writer trace", "promises", "exact ring")
"""The oracles that compile nothing: hundreds of cases a second."""
ALL_ORACLES = (*ORACLES, *SLOW)
ORACLE_SAMPLE = 8
"""One case in so many is put to all oracles."""
STUCK = 240.0
"""Seconds after which a process that has begun no new case is taken to hang."""


@st.composite
def themed(draw: st.DrawFn, theme: str, primitives: Iterable[str] | None = None) -> tuple[Func, list[str]]:
    """A program, perhaps one that the docstring of the primitive `theme` shows, and primitives, half of them that."""
    names = sorted(EXACT if primitives is None else primitives)
    func = draw(documented([theme])) if not draw(between(0, 2)) else draw(funcs())
    return func, [*names, *[theme] * len(names)]


def trial(
    data: st.DataObject, oracles: Iterable[str], note: Note, primitives: Iterable[str] | None = None, share: int = 1
) -> None:
    """One program under one schedule: Wrong if an oracle is against it, a witness is false or a step crashes.

    `oracles` are asked about one case in `share`, and those of QUICK about the others.
    """
    note.goes_on()
    asked = tuple(oracles) if not data.draw(between(0, share - 1)) else QUICK
    names = sorted(EXACT if primitives is None else primitives)
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
    note.tally["cases"] += 1
    note.tally["cases of all oracles"] += asked != QUICK
    note.tally.update(step.name for step in s.trace)
    if asked != QUICK:
        note.case = repro(func, s.trace)
        note.keep()
    try:
        judge_case(Case(func, s.func, sizes, arrays), script(s.trace), asked)
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
    note: Note | None = None,
) -> int:
    """Rounds of `examples` cases from `seed` on, until `seconds` have gone by; gives the number of failures.

    In `note` is kept what it is at.
    """
    kept = note or Note(seed)
    return run_in_process(
        lambda n: quietly(lambda data: trial(data, oracles, kept, primitives, share), n, examples, patience),
        seconds, seed, kept, lambda n, wrong: say(f"{'=' * 30} round {n}\n{wrong}\nagain: {command(n, share)}"),
    )  # fmt: skip


def command(seed: int, share: int) -> str:
    """What runs the round `seed` again."""
    return f"python -m loopir.testing.fuzz --seconds 0 --seed {seed} --share {share}"


def summary(note: Note) -> str:
    tally = dict(note.tally)
    cases, whole = tally.pop("cases", 0), tally.pop("cases of all oracles", 0)
    steps = ", ".join(f"{name} {count}" for name, count in sorted(tally.items()))
    return f"{cases} cases, {whole} of them on all oracles, {note.failures} failures; steps taken: {steps}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (0: one round)")
    parser.add_argument("--seed", type=int, default=0, help="the first round")
    parser.add_argument("--examples", type=int, default=100, help="cases in a round")
    parser.add_argument("--primitives", nargs="*", help="draw steps from these only")
    parser.add_argument("--share", type=int, default=ORACLE_SAMPLE, help="one case in so many goes to all oracles")
    parser.add_argument("--quick", action="store_true", help=f"only the oracles {', '.join(QUICK)}")
    parser.add_argument("--stuck", type=float, default=STUCK, help="seconds without a new case until it is ended")
    parser.add_argument("--here", action="store_true", help="no process apart: a crash ends the run")
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)
    argv = sys.argv[1:] if argv is None else argv
    chosen = parser.parse_args(argv)
    if chosen.here:
        note = Note(chosen.seed, path=chosen.note)
        fuzz(
            chosen.seconds, chosen.seed, examples=chosen.examples, oracles=QUICK if chosen.quick else ALL_ORACLES,
            primitives=chosen.primitives, share=chosen.share, say=partial(print, flush=True), note=note,
        )  # fmt: skip
    else:
        note = run_rounds(
            lambda seed, seconds, kept: [
                sys.executable, "-X", "faulthandler", "-m", "loopir.testing.fuzz", *argv, "--here", "--seed", str(seed),
                "--seconds", str(seconds), "--note", str(kept),
            ],
            chosen.seconds, chosen.seed, stuck=chosen.stuck, say=partial(print, flush=True),
            again=lambda seed: command(seed, chosen.share),
        )  # fmt: skip
    if chosen.note is None:
        print(summary(note))
    return min(note.failures, 100)


if __name__ == "__main__":
    sys.exit(main())
