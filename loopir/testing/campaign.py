"""`python -m loopir.testing.campaign --seconds N --jobs J --part K --out DIR`: steps judged, in parts to be added up.

Each of J processes takes rounds for one primitive after the other (`loopir.testing.legality`): for the one that the
least steps were accepted of, for the one that the least time was spent on, and so on; and rounds of long schedules: 10
to 25 steps, judged by brute force, lowered, and built for the CPU, whose kernel has to give what the interpreter gives.
Accepted steps are judged on the CPU, too, one in SHARE. A process that is at one step, or at one lowering, for more
than `--limit` seconds is ended: a hang, counted, and its program is kept. So is one that dies. What took only the
judges so long is counted as given up.

Counts are written to DIR/part-K.json. `--merge DIR` adds up all parts there and prints the tables; parts of different
numbers, or seeds, draw different programs.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import monotonic, process_time, sleep
from typing import Any

from hypothesis import given, seed as seeded, settings, strategies as st

from loopir.errors import LoopirError, LowerError, ScheduleError, TargetError
from loopir.ir.grammar import Func
from loopir.ir.printer import text
from loopir.lower.pipeline import lower
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step, script
from loopir.schedule.schedule import Schedule
from loopir.testing.checking import QUIET
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.draws import between
from loopir.testing.generate.empties import with_empties
from loopir.testing.generate.families import FROM_MEMORY, documented, forms
from loopir.testing.generate.steps import Crash, arguments_of
from loopir.testing.generate.strategies import arrays_for, funcs
from loopir.testing.legality import AFFINE, JUDGED, Table, judge_taken, programs, take
from loopir.testing.oracles.brute_force import first_violation, small_sizes
from loopir.testing.oracles.last_writers import asks_memory
from loopir.testing.oracles.oracles import Case, llvm

SHARE = 16
"""One accepted step in so many is judged on the CPU, too."""
JUDGING = 20.0
"""Seconds after which brute force is given up."""
LONGEST = 12_000
"""A program of more characters has had its steps."""
LONG = "long schedules"
ACCEPTED, REFUSED = (f"steps {what} in long schedules" for what in ("accepted", "refused"))
LONG_SHARE = 0.2
"""Time for these counts so much, beside that for a primitive."""
WAITING = 10.0
"""Seconds on the clock that count as one of work, where others use the processor or nothing is done."""
ROUND = 40
"""Programs in a round."""
SEEDS = 1_000_000
"""Rounds that a part may take of each process."""


@dataclass
class Counts:
    """What was counted: verdicts by primitive, and other things by name; the cases that should not be."""

    verdicts: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    others: Counter[str] = field(default_factory=Counter[str])
    cases: list[str] = field(default_factory=list[str])

    def add(self, other: Counts) -> None:
        for name, found in other.verdicts.items():
            self.verdicts.setdefault(name, Counter()).update(found)
        self.others.update(other.others)
        self.cases += other.cases

    def read(self, lines: Iterable[str]) -> Counts:
        """Add what a process has logged."""
        for line in lines:
            kind, name, what = json.loads(line)
            if kind == "verdict":
                self.verdicts.setdefault(name, Counter())[what] += 1
            elif kind == "count":
                self.others[name] += what
            else:
                self.cases.append(f"{'=' * 20} {name}\n{what}")
        return self

    def accepted(self, name: str) -> int:
        return self.verdicts.get(name, Counter[str]())["accepted"]

    def taken_of(self, name: str) -> int:
        """How many steps of a primitive were accepted, whatever the judges say."""
        return self.accepted(name) + self.verdicts.get(name, Counter[str]())["accepted, illegal"]

    def json(self) -> str:
        return json.dumps({"verdicts": self.verdicts, "others": self.others, "cases": self.cases}, indent=1)

    @staticmethod
    def parsed(source: str) -> Counts:
        known = json.loads(source)
        verdicts = {name: Counter[str](found) for name, found in known["verdicts"].items()}
        return Counts(verdicts, Counter[str](known["others"]), known["cases"])

    def __str__(self) -> str:
        others = "".join(f"{name}: {count}\n" for name, count in sorted(self.others.items()))
        return f"{Table(self.verdicts)}\n\n{others}\n{self.tried} steps tried, {self.taken} accepted"

    @property
    def taken(self) -> int:
        """How many steps were accepted, in long schedules, too."""
        return sum(map(self.taken_of, self.verdicts)) + self.others[ACCEPTED]

    @property
    def tried(self) -> int:
        return sum(found.total() for found in self.verdicts.values()) + self.others[ACCEPTED] + self.others[REFUSED]

    @property
    def failures(self) -> int:
        bad = sum(found["accepted, illegal"] + found["crash"] for found in self.verdicts.values())
        return bad + sum(self.others[name] for name in ("hang", "died", "wrong on the CPU", "illegal", "crash"))


class Worker:
    """Takes rounds until it is told to stop, and logs every verdict at once, so that its end loses none."""

    def __init__(self, log: Path, clock: Any, part: int, number: int, seed: int) -> None:
        self.log, self.clock = log, clock
        self.counts = Counts().read(log.read_text().splitlines()) if log.exists() else Counts()
        self.first = seed + SEEDS * (1000 * part + number)

    def go_on(self, end: float, names: list[str]) -> None:
        order = Random(self.first)
        spent = dict.fromkeys([*names, LONG], 0.0)
        for name in spent:
            spent[name] = order.random()  # so that processes start with different ones
        while monotonic() < end:
            number = self.counts.others["rounds"]
            rare = number % 2 and min(names, key=self.counts.taken_of)
            turn = rare or min(spent, key=lambda n: spent[n])
            start, seed = monotonic(), self.first + number
            self.count("rounds")
            self.round(turn, seed)
            spent[turn] += (monotonic() - start) * (LONG_SHARE if turn == LONG else 1.0)

    def round(self, name: str, seed: int) -> None:
        """One round of programs for `name`."""
        one = partial(self.long, seed) if name == LONG else partial(self.step, name)

        def run(data: st.DataObject) -> None:
            self.at("draw")
            try:
                one(data)
            except Crash as crash:
                self.count("crash")
                self.case("crash", f"{crash.before}\n{crash.step}\n{traceback.format_exc()}")

        seeded(seed)(settings(QUIET, max_examples=12 if name == LONG else ROUND)(given(st.data())(run)))()

    def step(self, name: str, data: st.DataObject) -> None:
        """One step of a primitive on one program."""
        func = data.draw(near(name))
        func = data.draw(with_empties(func)) if not data.draw(between(0, 3)) else func
        args, kwargs = data.draw(arguments_of(PRIMITIVES[name], func))
        step = Step(name, args, tuple(kwargs.items()))
        on_cpu = not data.draw(between(0, SHARE - 1))
        sizes, arrays = data.draw(arrays_for(func)) if on_cpu else ({}, {})
        self.at("step", f"{text(func)}\n{step}")
        taken = take(func, step)
        self.at("judge")
        if isinstance(taken, ScheduleError) and asks_memory(func):  # what is legal depends on what is in it
            self.write("verdict", name, "no rewrite")
            return
        found, told = judge_taken(func, step, taken)
        if found in ("accepted, illegal", "refused, legal", "crash"):
            self.case(f"{found}: {name}", f"{text(func)}\n{step}\n{told}")
        if found == "accepted" and isinstance(taken, Func) and on_cpu:
            self.on_cpu(Case(func, taken, sizes, arrays), str(step))
        self.counts.verdicts.setdefault(name, Counter())[found] += 1
        self.write("verdict", name, found)

    def long(self, seed: int, data: st.DataObject) -> None:
        """A schedule of up to 25 steps, and what it comes to."""
        func = data.draw(near(data.draw(st.sampled_from(JUDGED))))
        func = data.draw(with_empties(func)) if not data.draw(between(0, 1)) else func
        s, wanted, refusals = Schedule(func), data.draw(between(10, 25)), 0
        for _ in range(3 * wanted):
            if len(s.trace) == wanted or len(text(s.func)) > LONGEST:
                break
            name = data.draw(st.sampled_from(JUDGED))
            listed = candidate_steps(s.func, name) if name in TABLE else []
            if listed:
                step = data.draw(st.sampled_from(listed))
            else:
                args, kwargs = data.draw(arguments_of(PRIMITIVES[name], s.func))
                step = Step(name, args, tuple(kwargs.items()))
            self.at("step", f"{text(func)}\n{script([*s.trace, step])}")
            taken = take(s.func, step)
            if isinstance(taken, str):
                self.count("crash")
                self.case("crash", f"{text(func)}\n{script([*s.trace, step])}\n{taken}")
            elif isinstance(taken, ScheduleError):
                refusals += 1
            else:
                s = s.apply(step)
        self.count(REFUSED, refusals)
        self.count(ACCEPTED, len(s.trace))
        self.count(LONG)
        self.count("long schedules of 10 steps or more", int(len(s.trace) >= 10))
        sizes, arrays = data.draw(arrays_for(func))
        self.at("judge", f"{text(func)}\n{script(s.trace)}")
        if why := first_violation(func, s.func, small_sizes(func)):
            self.count("illegal")
            self.case("illegal", f"seed {seed}\n{text(func)}\n{script(s.trace)}\n{why}")
        self.on_cpu(Case(func, s.func, sizes, arrays), script(s.trace))

    def on_cpu(self, case: Case, steps: str) -> None:
        """Lower `case` for both targets, build it for the CPU, and hold its results to the interpreter's."""
        self.at("step", f"{text(case.before)}\n{steps}\nlowered")
        try:
            with suppress(LowerError, TargetError):
                lower(case.after, "cuda")
            lower(case.after, "llvm")
        except LoopirError:
            self.count("not lowered")
            return
        except Exception:
            self.count("crash")
            self.case("crash in lowering", f"{text(case.before)}\n{steps}\n{traceback.format_exc()}")
            return
        self.at("judge", f"{text(case.before)}\n{steps}\non the CPU")
        try:
            why = llvm(case)
        except LoopirError:
            self.count("not built")
            return
        except Exception:
            self.count("crash")
            self.case("crash on the CPU", f"{text(case.before)}\n{steps}\n{traceback.format_exc()}")
            return
        self.count("run on the CPU")
        if why:
            self.count("wrong on the CPU")
            self.case("wrong on the CPU", f"{text(case.before)}\n{steps}\n{why}")

    def at(self, phase: str, what: str = "") -> None:
        """What is done from now on, for the process that waits."""
        if what:
            self.log.with_suffix(".at").write_text(what)
        self.clock[0], self.clock[1], self.clock[2] = monotonic(), PHASES.index(phase), process_time()

    def count(self, name: str, by: int = 1) -> None:
        self.counts.others[name] += by
        self.write("count", name, by)

    def case(self, name: str, what: str) -> None:
        self.write("case", name, what)

    def write(self, kind: str, name: str, what: str | int) -> None:
        with self.log.open("a") as f:
            f.write(json.dumps([kind, name, what]) + "\n")


@st.composite
def near(draw: st.DrawFn, theme: str) -> Func:
    """A program for `theme`: as `programs` draws them, with half floats, with bounds from memory, or with anything."""
    kind = draw(between(0, 11))
    if theme in SELDOM and kind < 6:
        return draw(documented([theme], memory=False))
    if kind == 11:
        return draw(forms(FROM_MEMORY))
    if kind == 10:
        return draw(forms(AFFINE, types=("float16", "bfloat16", "float64", "int8")))
    return draw(funcs()) if kind == 9 else draw(programs(theme))


SELDOM = ("multicast", "prefetch", "privatize", "reuse", "stream_k", "tensorize")
"""Primitives that take programs of a kind that others are seldom of."""
PHASES = ("draw", "step", "judge")


def work(log: Path, clock: Any, part: int, number: int, seed: int, seconds: float, names: list[str]) -> None:
    """What a process does."""
    trace = log.with_suffix(".trace").open("w")
    faulthandler.enable(trace)
    Worker(log, clock, part, number, seed).go_on(monotonic() + seconds, names)


@dataclass
class Held:
    """A process that works, and what is known of it."""

    start: Callable[[Any, float], Any]
    log: Path
    clock: Any
    process: Any

    def write(self, kind: str, name: str, what: str | int) -> None:
        with self.log.open("a") as f:
            f.write(json.dumps([kind, name, what]) + "\n")

    def worked(self) -> float:
        """Seconds that its processor has worked on what it is at."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():
            return monotonic() - self.clock[0]
        spent = stat.read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK") - self.clock[2]

    def over(self, limit: float) -> str | None:
        """What is to be counted where it does not go on; None if it does."""
        if not self.process.is_alive():
            return "died" if self.process.exitcode else None
        if not self.clock[0]:
            return None
        phase, took = PHASES[int(self.clock[1])], max((monotonic() - self.clock[0]) / WAITING, self.worked())
        if phase == "judge":
            return "given up by a judge" if took > JUDGING else None
        if took <= limit:
            return None
        return "hang" if phase == "step" else "hang while drawing"


def campaign(
    seconds: float, jobs: int, part: int, out: Path, *, seed: int = 0, limit: float = 10.0, names: Iterable[str] = ()
) -> Counts:
    """Let `jobs` processes work for `seconds`, end those that hang, and write what all have counted."""
    end, context = monotonic() + seconds, get_context("spawn")
    out.mkdir(parents=True, exist_ok=True)
    chosen = sorted(names or JUDGED)
    held: list[Held] = []
    for number in range(jobs):
        log = out / f"part-{part}-{number}.log"
        log.unlink(missing_ok=True)

        def start(clock: Any, left: float, log: Path = log, number: int = number) -> Any:
            p = context.Process(target=work, args=(log, clock, part, number, seed, left, chosen), daemon=True)
            p.start()
            return p

        clock = context.Array("d", 3, lock=False)
        held.append(Held(start, log, clock, start(clock, seconds)))
    try:
        while any(h.process.is_alive() for h in held) and monotonic() < end + 2 * limit:
            sleep(0.2)
            for h in held:
                _look_after(h, end, limit)
    finally:
        for h in held:
            if h.process.is_alive():
                h.process.kill()
            h.process.join()
    total = Counts()
    for h in held:
        total.read(_whole_lines(h.log))
        h.log.unlink(missing_ok=True)
        for kind in (".at", ".trace"):
            h.log.with_suffix(kind).unlink(missing_ok=True)
    (out / f"part-{part}.json").write_text(total.json())
    return total


def _look_after(h: Held, end: float, limit: float) -> None:
    """End a process that hangs, and start it again."""
    why = h.over(limit)
    if why is None:
        return
    if h.process.is_alive():
        if why.startswith("hang"):  # where it hangs: faulthandler writes that to its log
            os.kill(h.process.pid, signal.SIGABRT)
            h.process.join(1.0)
        h.process.kill()
    h.process.join()
    at = h.log.with_suffix(".at")
    h.write("count", why, 1)
    kept = [p.read_text() for p in (at, h.log.with_suffix(".trace")) if p.exists()]
    h.write("case", why, "\n".join(kept))
    h.clock[0] = 0.0
    if end - monotonic() > 1.0:
        h.process = h.start(h.clock, end - monotonic())


def _whole_lines(log: Path) -> Iterator[str]:
    """Lines that were written to their end."""
    for line in log.read_text().split("\n")[:-1] if log.exists() else ():
        try:
            json.loads(line)
        except ValueError:
            continue
        yield line


def merged(folder: Path) -> Counts:
    """All parts in `folder` together, and what parts that were not let end had logged."""
    total = Counts()
    for log in sorted(folder.glob("part-*.log")):
        total.read(_whole_lines(log))
    for part in sorted(folder.glob("part-*.json")):
        total.add(Counts.parsed(part.read_text()))
    return total


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--part", type=int, default=0, help="which part this is: each draws its own programs")
    parser.add_argument("--seed", type=int, default=0, help="the first round of all parts")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds that one step may take")
    parser.add_argument("--primitives", nargs="*", default=[], help="these only")
    parser.add_argument("--out", type=Path, help="a folder for the counts")
    parser.add_argument("--merge", type=Path, help="add up the parts in this folder instead")
    chosen: Any = parser.parse_args(argv)
    if chosen.merge is None and chosen.out is None:
        parser.error("say where counts are to be written: --out DIR")
    if chosen.merge is not None:
        total = merged(chosen.merge)
    else:
        total = campaign(
            chosen.seconds, chosen.jobs, chosen.part, chosen.out,
            seed=chosen.seed, limit=chosen.limit, names=chosen.primitives,
        )  # fmt: skip
    print(total)
    return min(100, total.failures)


if __name__ == "__main__":
    sys.exit(main())
