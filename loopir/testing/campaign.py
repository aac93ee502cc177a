"""`python -m loopir.testing.campaign --seconds N --jobs J --seed S --out DIR`: steps judged, in parts to be added up.

Each of J processes takes rounds for one primitive after the other (`loopir.testing.legality`): for the one that the
least steps were accepted of, for the one that the least time was spent on, and so on; and rounds of long schedules: 10
to 25 steps, judged by brute force, lowered, and built for the CPU, whose kernel has to give what the interpreter gives.
Accepted steps are judged on the CPU, too, one in SHARE. A process that is at one step, or at one lowering, for more
than `--limit` seconds is ended: a hang, counted as slow for its primitive, and its program is kept. So is one that
dies, as a crash. What took only the judges so long is counted as given up.

Counts are written to DIR/part-K.json, of which K is the first that is free, unless `--part` says it: the same command
goes on where it was ended, as parts of different numbers, or seeds, draw different programs. `--report DIR` adds up all
parts there. Printed is a line for each primitive: steps tried, accepted, illegal, crashed, slow, legal but refused; and
the totals; with `--cases` what should not be, too.
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
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import monotonic, process_time, sleep
from typing import Any

from hypothesis import given, settings, strategies as st

from loopir.errors import LoopirError, LowerError, ScheduleError, TargetError
from loopir.ir.grammar import Func
from loopir.ir.printer import text
from loopir.lower.pipeline import lower
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step, script
from loopir.schedule.schedule import Schedule
from loopir.testing.checking import QUIET
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.chains import chained_folds, partial_folds
from loopir.testing.generate.clusters import clustered
from loopir.testing.generate.draws import between
from loopir.testing.generate.empties import with_empties
from loopir.testing.generate.families import FROM_MEMORY, documented, forms
from loopir.testing.generate.instructed import instructed
from loopir.testing.generate.odd_names import with_odd_names
from loopir.testing.generate.repeated import repeated
from loopir.testing.generate.starts import started
from loopir.testing.generate.steps import Crash, arguments_of
from loopir.testing.generate.strategies import arrays_for, funcs
from loopir.testing.generate.varied import longest, varied
from loopir.testing.generate.warpgroup_turns import warpgroups
from loopir.testing.legality import AFFINE, ALGEBRAIC, JUDGED, judge_taken, programs, take
from loopir.testing.oracles.brute_force import first_violation, small_sizes
from loopir.testing.oracles.last_writers import asks_memory
from loopir.testing.oracles.oracles import Case, llvm

CPU_SAMPLE = 16
"""One accepted step in so many is judged on the CPU, too."""
JUDGING = 20.0
"""Seconds after which brute force is given up."""
MAX_CASE_LENGTH = 12_000
"""A program of more characters has had its steps."""
LONG_SCHEDULES = "long schedules"
ACCEPTED, REFUSED = (f"steps {what} in long schedules" for what in ("accepted", "refused"))
LONG_SHARE = 0.05
"""Time for these counts so much, beside that for a primitive."""
WAITING = 10.0
"""Seconds on the clock that count as one of work, where others use the processor or nothing is done."""
ROUND = 40
"""Programs in a round."""
PATIENCE = 20
"""So many refusals count as one accepted step where the next turn is for who has least."""
ENTROPY_BYTES = 1 << 13
"""What one program, and all that is done with it, is drawn from: ten times what they take. Hypothesis by itself would
make half of its examples from others before them, of which most have been counted."""
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

    def served(self, name: str) -> float:
        """How much a primitive has had of what it may ask for, so that one that takes nothing does not get all."""
        return self.taken_of(name) + self.verdicts.get(name, Counter[str]()).total() / PATIENCE

    def json(self) -> str:
        return json.dumps({"verdicts": self.verdicts, "others": self.others, "cases": self.cases}, indent=1)

    @staticmethod
    def parsed(source: str) -> Counts:
        known = json.loads(source)
        verdicts = {name: Counter[str](found) for name, found in known["verdicts"].items()}
        return Counts(verdicts, Counter[str](known["others"]), known["cases"])

    @property
    def legality(self) -> str:
        """A line for each primitive: what was tried, and what came of it that should, and that should not."""
        head = ("primitive", "tried", "accepted", "illegal", "crashed", "slow", "legal but refused", "%")
        rows = [(name, self.verdicts.get(name, Counter[str]())) for name in sorted({*JUDGED, *self.verdicts})]
        lines = [head, ("---",) * len(head), *(_legality(*row) for row in rows)]
        lines.append(_legality("all", sum(self.verdicts.values(), Counter[str]())))
        return "\n".join(f"| {' | '.join(row)} |" for row in lines)

    @property
    def report(self) -> str:
        """The table of legality, and all else that was counted."""
        fewest = min(self.accepted(name) for name in JUDGED)
        told = f"{self.tried} steps tried, {self.taken} accepted, of each primitive {fewest} or more"
        others = "; ".join(f"{name}: {count}" for name, count in sorted(self.others.items()))
        return f"{self.legality}\n\n{others}\n{told}; {self.failures} failures"

    @property
    def taken(self) -> int:
        """How many steps were accepted, in long schedules, too."""
        return sum(map(self.taken_of, self.verdicts)) + self.others[ACCEPTED]

    @property
    def tried(self) -> int:
        return sum(found.total() for found in self.verdicts.values()) + self.others[ACCEPTED] + self.others[REFUSED]

    @property
    def failures(self) -> int:
        bad = sum(found[x] for found in self.verdicts.values() for x in ("accepted, illegal", "crash", "slow"))
        return bad + sum(self.others[name] for name in ("hang", "died", "wrong on the CPU", "illegal", "crash"))


def _legality(name: str, n: Counter[str]) -> tuple[str, ...]:
    taken, lost = n["accepted"] + n["accepted, illegal"], n["refused, legal"]
    numbers = (n.total(), taken, n["accepted, illegal"], n["crash"], n["slow"], lost)
    return name, *map(str, numbers), f"{100 * lost / max(1, taken + lost):.2f}"


class Worker:
    """Takes rounds until it is told to stop, and logs every verdict at once, so that its end loses none."""

    def __init__(self, log: Path, clock: Any, part: int, number: int, seed: int) -> None:
        self.log, self.clock = log, clock
        self.counts = Counts().read(log.read_text().splitlines()) if log.exists() else Counts()
        self.first = seed + SEEDS * (1000 * part + number)
        self.seen: set[str] = set()
        """Steps that were tried, with their programs: none counts twice."""

    def go_on(self, end: float, names: list[str]) -> None:
        order = Random(self.first)
        spent = dict.fromkeys([*names, LONG_SCHEDULES], 0.0)
        for name in spent:
            spent[name] = order.random()  # so that processes start with different ones
        while monotonic() < end:
            number = self.counts.others["rounds"]
            rare = number % 2 and min(names, key=self.counts.served)
            turn = rare or min(spent, key=lambda n: spent[n])
            start, seed = monotonic(), self.first + number
            self.count("rounds")
            self.round(turn, seed)
            spent[turn] += (monotonic() - start) * (LONG_SHARE if turn == LONG_SCHEDULES else 1.0)

    def round(self, name: str, seed: int) -> None:
        """One round of programs for `name`."""
        one = partial(self.long, seed) if name == LONG_SCHEDULES else partial(self.step, name)

        def run(data: st.DataObject) -> None:
            self.at("draw")
            try:
                one(data)
            except Crash as crash:
                self.count("crash")
                self.case("crash", f"{crash.before}\n{crash.step}\n{traceback.format_exc()}")

        test = settings(QUIET)(given(st.data())(run))
        trial = test.hypothesis.fuzz_one_input  # pyright: ignore[reportFunctionMemberAccess]
        draws = Random(seed)
        for _ in range(12 if name == LONG_SCHEDULES else ROUND):
            trial(draws.randbytes(ENTROPY_BYTES))

    def step(self, name: str, data: st.DataObject) -> None:
        """One step of a primitive on one program."""
        func = data.draw(small_program(name))
        func = data.draw(with_empties(func)) if not data.draw(between(0, 3)) else func
        func = data.draw(with_odd_names(func)) if not data.draw(between(0, 7)) else func
        args, kwargs = data.draw(arguments_of(PRIMITIVES[name], func))
        step = Step(name, args, tuple(kwargs.items()))
        on_cpu = not data.draw(between(0, CPU_SAMPLE - 1))
        sizes, arrays = data.draw(arrays_for(func)) if on_cpu else ({}, {})
        called = f"{text(func)}\n{step}"
        if called in self.seen:
            return
        self.seen.add(called)
        self.at("step", called, name)
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
        func = data.draw(small_program(data.draw(st.sampled_from(JUDGED))))
        func = data.draw(with_empties(func)) if not data.draw(between(0, 1)) else func
        s, wanted, refusals = Schedule(func), data.draw(between(10, 25)), 0
        for _ in range(3 * wanted):
            if len(s.trace) == wanted or len(text(s.func)) > MAX_CASE_LENGTH:
                break
            name = data.draw(st.sampled_from(JUDGED))
            listed = candidate_steps(s.func, name) if name in TABLE else []
            if listed:
                step = data.draw(st.sampled_from(listed))
            else:
                args, kwargs = data.draw(arguments_of(PRIMITIVES[name], s.func))
                step = Step(name, args, tuple(kwargs.items()))
            self.at("step", f"{text(func)}\n{script([*s.trace, step])}", name)
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
        self.count(LONG_SCHEDULES)
        self.count("long schedules of 10 steps or more", int(len(s.trace) >= 10))
        sizes, arrays = data.draw(arrays_for(func))
        self.at("judge", f"{text(func)}\n{script(s.trace)}")
        flows = not any(step.name in ALGEBRAIC for step in s.trace)
        if why := first_violation(func, s.func, small_sizes(func), flows=flows):
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
        except LoopirError as error:
            self.count("not lowered")
            self.case("not lowered", f"{text(case.before)}\n{steps}\n{error}")
            return
        except Exception:
            self.count("crash")
            self.case("crash in lowering", f"{text(case.before)}\n{steps}\n{traceback.format_exc()}")
            return
        self.at("judge", f"{text(case.before)}\n{steps}\non the CPU")
        try:
            why = llvm(case)
        except LoopirError as error:
            self.count("not built")
            self.case("not built", f"{text(case.before)}\n{steps}\n{error}")
            return
        except Exception:
            self.count("crash")
            self.case("crash on the CPU", f"{text(case.before)}\n{steps}\n{traceback.format_exc()}")
            return
        self.count("run on the CPU")
        if why:
            self.count("wrong on the CPU")
            self.case("wrong on the CPU", f"{text(case.before)}\n{steps}\n{why}")

    def at(self, phase: str, what: str = "", primitive: str = "") -> None:
        """What is done from now on, for the process that waits, and a step of which primitive it is."""
        if what:
            self.log.with_suffix(".at").write_text(what)
        number = JUDGED.index(primitive) if primitive else -1
        self.clock[:] = monotonic(), PHASES.index(phase), process_time(), number

    def count(self, name: str, by: int = 1) -> None:
        self.counts.others[name] += by
        self.write("count", name, by)

    def case(self, name: str, what: str) -> None:
        self.write("case", name, what)

    def write(self, kind: str, name: str, what: str | int) -> None:
        with self.log.open("a") as f:
            f.write(json.dumps([kind, name, what]) + "\n")


def small_program(theme: str) -> st.SearchStrategy[Func]:
    """A program for `theme` that some small size meets, and that is short enough to be judged."""
    return _unfiltered_program(theme).filter(lambda func: bool(small_sizes(func)) and longest(func) <= MOST_JUDGED)


@st.composite
def _unfiltered_program(draw: st.DrawFn, theme: str) -> Func:
    """A program for `theme`: as `programs` draws them, such as its docstring shows, with half floats, with bounds from
    memory, or with anything; for themes that have a form of their own, mostly of that.
    """
    kind = draw(between(0, 11))
    if kind == 11:
        return draw(forms(FROM_MEMORY))
    if kind == 10:
        return draw(forms(AFFINE, types=("float16", "bfloat16", "float64", "int8")))
    if kind == 9:
        return draw(funcs())
    if theme in FOLDS and kind < FOLDS[theme]:
        return draw(chained_folds())
    if theme in FORMS and kind < 6:
        return draw(forms(FORMS[theme]))
    if theme in OWN_FORMS and kind < 8:
        return draw(OWN_FORMS[theme]())
    if kind < (7 if theme in SELDOM else 3):
        return draw(varied(draw(documented([theme], memory=False))))
    return draw(programs(theme))


SELDOM = (
    "alternate", "clone", "compute_at", "compute_root", "double_buffer", "fuse_dims", "fuse_loops", "hoist", "merge",
    "multicast", "pad", "pipeline", "prefetch", "privatize", "retime", "reuse", "reverse_compute_at",
    "reverse_compute_inline", "rfactor", "scan_blocks", "specialize_warps", "stream_k", "trim",
)  # fmt: skip
"""Primitives that take programs of a kind that others are seldom of."""
OWN_FORMS: dict[str, Callable[[], st.SearchStrategy[Func]]] = {
    "alternate": warpgroups, "compute_once": repeated, "merge_reduction": started, "multicast": clustered,
    "tensorize": instructed, "use_partials": partial_folds,
}  # fmt: skip
"""Primitives for programs of a form that no other one makes."""
FOLDS = {"factor_out": 2, "rolling_update": 6}
"""Primitives for sums after others, and how many twelfths of their programs are chains of these."""
FORMS = {
    "factor_out": ("factored",),
    "reverse_compute_at": ("stencils", "dead", "pointwise", "leaving", "eights", "tails", "copied", "sheared"),
    "reverse_compute_inline": ("pointwise", "copied", "tails", "sheared"),
}
"""Primitives that some families of programs are mostly for."""
MOST_JUDGED = 10_000
"""A statement that runs more often takes longer to judge than a process has for it."""
PHASES = ("draw", "step", "judge")
VERDICT_OF = {"hang": "slow", "died": "crash"}
"""What a process that is ended in a step, or ends, is for the primitive."""


def work(log: Path, clock: Any, part: int, number: int, seed: int, seconds: float, names: list[str]) -> None:
    """What a process does."""
    trace = log.with_suffix(".trace").open("w")
    faulthandler.enable(trace)
    Worker(log, clock, part, number, seed).go_on(monotonic() + seconds, names)


@dataclass
class WorkerProcess:
    """A process that works, and what is known of it."""

    start: Callable[[Any, float], Any]
    log: Path
    clock: Any
    process: Any
    ended: bool = False
    """Whether it was ended for good, and counted."""

    def write(self, kind: str, name: str, what: str | int) -> None:
        with self.log.open("a") as f:
            f.write(json.dumps([kind, name, what]) + "\n")

    @property
    def primitive(self) -> str | None:
        """Whose step it is at, if it is at one."""
        return JUDGED[int(self.clock[3])] if PHASES[int(self.clock[1])] == "step" and self.clock[3] >= 0 else None

    def worked(self) -> float:
        """Seconds that its processor has worked on what it is at."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():
            return monotonic() - self.clock[0]
        spent = stat.read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK") - self.clock[2]

    def over(self, limit: float) -> str | None:
        """What is to be counted where it does not go on; None if it does."""
        if self.ended:
            return None
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
    held: list[WorkerProcess] = []
    for number in range(jobs):
        log = out / f"part-{part}-{number}.log"
        log.unlink(missing_ok=True)

        def start(clock: Any, left: float, log: Path = log, number: int = number) -> Any:
            p = context.Process(target=work, args=(log, clock, part, number, seed, left, chosen), daemon=True)
            p.start()
            return p

        clock = context.Array("d", 4, lock=False)
        held.append(WorkerProcess(start, log, clock, start(clock, seconds)))
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


def _look_after(h: WorkerProcess, end: float, limit: float) -> None:
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
    if h.primitive is not None and why in VERDICT_OF:
        h.write("verdict", h.primitive, VERDICT_OF[why])
    else:
        h.write("count", why, 1)
    kept = [p.read_text() for p in (at, h.log.with_suffix(".trace")) if p.exists()]
    h.write("case", why, "\n".join(kept))
    h.clock[0] = 0.0
    h.ended = end - monotonic() <= 1.0
    if not h.ended:
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


def free_part(folder: Path) -> int:
    """The number of the first part that is not in `folder`."""
    taken = {p.stem.split("-")[1] for p in folder.glob("part-*")}
    return next(n for n in count(1) if str(n) not in taken)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir.testing.campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--part", type=int, help="which part this is; else the first that DIR has not got")
    parser.add_argument("--seed", type=int, default=0, help="the first round of all parts")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds that one step may take")
    parser.add_argument("--primitives", nargs="*", default=[], help="these only")
    parser.add_argument("--out", type=Path, help="a folder for the counts")
    parser.add_argument("--cases", action="store_true", help="print what should not be, too")
    parser.add_argument("--report", type=Path, help="add up the parts in this folder instead, and print them")
    chosen: Any = parser.parse_args(argv)
    if chosen.report is None and chosen.out is None:
        parser.error("say where counts are to be written: --out DIR")
    if chosen.report is not None:
        total = merged(chosen.report)
    else:
        part = free_part(chosen.out) if chosen.part is None else chosen.part
        total = campaign(
            chosen.seconds, chosen.jobs, part, chosen.out,
            seed=chosen.seed, limit=chosen.limit, names=chosen.primitives,
        )  # fmt: skip
    print(total.report)
    if chosen.cases:
        print("\n".join(total.cases))
    return min(100, total.failures)


if __name__ == "__main__":
    sys.exit(main())
