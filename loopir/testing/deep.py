"""`python -m loopir.testing.deep --seconds N --seed S`: long schedules of random programs, and lowering, in time.

A case is a program under 10 to 25 random steps that are accepted, lowered for both targets. Each step and each lowering
has LIMIT seconds. Rounds run in a process of their own, which says before each call what it is about to do; what
takes longer is printed as a script that shows it, and a process that hangs is ended. The exit status is the number of
failures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import process_time
from typing import TypeVar

from hypothesis import strategies as st

from loopir.build import lower
from loopir.errors import LoopirError, LowerError, ScheduleError, TargetError
from loopir.ir.grammar import Func
from loopir.schedule import Schedule
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.checking import Wrong, quietly, repro, run_in_process
from loopir.testing.generate.draws import between
from loopir.testing.generate.steps import steps
from loopir.testing.generate.strategies import funcs
from loopir.testing.subprocess_rounds import Note, run_rounds

T = TypeVar("T")
LIMIT = 10.0
"""Seconds of the processor that a step or a lowering may take."""
HUNG = 12 * LIMIT
"""Seconds after which a process that has begun nothing new is ended: other work may keep it waiting."""
LEAST, MOST = 10, 25
"""How many accepted steps a schedule is to have."""
TARGETS = ("llvm", "cuda")
EASY = ("split", "tile", "reorder", "fuse", "skew", "peel", "compute_at", "cache_read", "unroll_and_jam", "fuse_loops")
"""Steps that nests get deep by, which are tried as often as all others together."""


def trial(data: st.DataObject, note: Note, primitives: list[str]) -> None:
    """One program under a long schedule, lowered for each target."""
    s = Schedule(data.draw(funcs()))
    wanted = data.draw(between(LEAST, MOST))
    for _ in range(6 * wanted):
        if len(s.trace) == wanted:
            break
        step = data.draw(steps(s.func, primitives))
        _begin(note, s, f"s.{step}")
        with suppress(ScheduleError):
            s = _done(note, s, partial(s.apply, step))
    note.tally["cases"] += 1
    note.tally["steps"] += len(s.trace)
    note.tally["of 10 steps and more"] += len(s.trace) >= LEAST
    for target in TARGETS:
        _begin(note, s, f"lp.lower(s, {target!r})")
        with suppress(LowerError, TargetError):
            _done(note, s, partial(lower, s, target))
            note.tally[f"lowered for {target}"] += 1


def _done(note: Note, s: Schedule, call: Callable[[], T]) -> T:
    begun = process_time()
    try:
        return call()
    except LoopirError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}\n\n{note.case}"
        raise Wrong("crash", why, note.case, _first(s), None, {}) from error
    finally:
        took = process_time() - begun
        if took > LIMIT:
            note.failures += 1
            print(f"{'=' * 30} round {note.round}\n{took:.1f} s\n{note.case}", flush=True)


def _begin(note: Note, s: Schedule, call: str) -> None:
    """Say what is about to be done, for whoever waits for it."""
    note.case = f"{repro(_first(s), s.trace)}\n{call}"
    note.keep()


def _first(s: Schedule) -> Func:
    while s.trace:
        s = s.undo()
    return s.func


def deep(
    seconds: float, seed: int = 0, *, examples: int = 10, note: Note | None = None,
    say: Callable[[str], object] = print,
) -> int:  # fmt: skip
    """Rounds of `examples` cases from `seed` on, until `seconds` have gone by; gives the number of crashes."""
    names = sorted(PRIMITIVES)
    weighted = [*names, *EASY * (len(names) // len(EASY))]
    kept = note or Note(seed)
    return run_in_process(
        lambda n: quietly(lambda data: trial(data, kept, weighted), n, examples, 0.0), seconds, seed, kept,
        lambda n, wrong: say(f"{'=' * 30} round {n}\n{wrong}"),
    )  # fmt: skip


def summary(note: Note) -> str:
    return f"{', '.join(f'{n} {name}' for name, n in note.tally.items())}; {note.failures} failures"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.deep", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (0: one round)")
    parser.add_argument("--seed", type=int, default=0, help="the first round")
    parser.add_argument("--examples", type=int, default=10, help="cases in a round")
    parser.add_argument("--here", action="store_true", help="no process apart, and no limit")
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)
    argv = sys.argv[1:] if argv is None else argv
    chosen = parser.parse_args(argv)
    if chosen.here:
        note = Note(chosen.seed, path=chosen.note)
        say = partial(print, flush=True)
        deep(chosen.seconds, chosen.seed, examples=chosen.examples, note=note, say=say)
    else:
        note = run_rounds(
            lambda seed, seconds, kept: [
                sys.executable, "-X", "faulthandler", "-m", "loopir.testing.deep", *argv, "--here", "--seed", str(seed),
                "--seconds", str(seconds), "--note", str(kept),
            ],
            chosen.seconds, chosen.seed, stuck=HUNG, say=partial(print, flush=True),
            again=lambda seed: f"python -m loopir.testing.deep --seconds 0 --seed {seed}",
        )  # fmt: skip
    if chosen.note is None:
        print(summary(note))
    return min(note.failures, 100)


if __name__ == "__main__":
    sys.exit(main())
