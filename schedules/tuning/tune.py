"""The tuner: candidates are checked, raced beside the formula's choice, and the one that is surely faster is taken.

A run has four parts. Plans and single knobs are built and checked, one after the other, each in a process that it may
crash; those that are right are raced in a few rounds; values that won are combined, and with effort "full" their
neighbours tried; and the best few are raced until it is sure which is the fastest, or the time is up. At last the
winner is raced once more with the formula's choice, in rounds that had no part in choosing it: it is taken if it is
faster then, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from time import monotonic, time
from typing import Any, Literal

import loopir as lp

from ..common.nest_queries import extent
from ..rules import Rule
from .arrays import tolerance
from .candidates import FIRST, Candidate, NoCandidate, Space
from .database import Database, open_database
from .lookup import find_tuned
from .measure import Answer, ask_worker
from .progress import Progress
from .races import WORTH, Times, percentile, surely_faster_than_first, surely_slower
from .records import Record, Subject, apply_record, canonical, machine_name, subject_of
from .residual import Residual

Effort = Literal["none", "quick", "full"]
BUDGETS = {"quick": 10.0, "full": 120.0}
"""Seconds that a run takes, by default."""
CHECKED, COMBINED = 0.5, 0.7
"""What part of the time has passed when no more single values are checked, and no more combinations."""
CONFIRMED = 0.15
"""What part of the time is left for the race of the winner with the formula's choice."""
WAITED = 5.0
"""Seconds that a candidate may take besides twenty times those of the formula's choice."""
FIRST_LIMIT = 120.0
"""Seconds that the first candidate may take, of which no time is known."""
REFERENCE_SECONDS = {"quick": 0.7, "full": 20.0}
"""Predicted seconds of the program as it is written up to which results are compared with its own."""
BLOCK_SECONDS = {"quick": 0.003, "full": 0.01}
"""Seconds of one block of calls."""
JOB_SECONDS = 1.0
"""That a race is asked for at a time."""
FINALISTS, SIEVED, SIEVE = 5, 12, 2.5
"""Candidates of the last race and of the first, and how many times slower than the fastest their one call may be."""
MOST_ROUNDS = 60
"""Of a race between candidates."""
SEEDS = 3
"""Values of single knobs that are combined at most, and from whose combination neighbours are tried."""
GAIN = 0.98
"""What part of the time of the formula's choice a value takes, at most, that is combined with others."""
CALLS = 500
"""Calls that a p99 is of."""
UNCOMPARED = "the time was up before any other candidate was compared with it; give a larger budget_s"


@dataclass
class Entry:
    """A candidate that was checked, and its times."""

    candidate: Candidate
    check: float = 0.0
    """Seconds of its first call that was timed, beside other work: a hint."""
    times: Times = field(default_factory=Times)


@dataclass(frozen=True)
class Tuned:
    """What a run of the tuner gives: `schedule` is ready to build."""

    schedule: lp.Schedule
    name: str
    """The recipe and the knobs that were taken."""
    source: str
    """"measured", "database", or "formula"."""
    seconds: float
    first_seconds: float
    """Of the formula's choice, in the same blocks; 0 where nothing was measured."""
    checked: str
    """What results were compared with."""
    rows: tuple[tuple[str, str, float, str], ...] = ()
    """By candidate: its name, how it went, its time by that of the formula's choice, and what was said."""
    spent: float = 0.0
    interrupted: bool = False
    cut: bool = False
    """Whether the time was up with candidates left."""
    p50: float = 0.0
    p99: float = 0.0
    record: Record | None = None

    @property
    def gain(self) -> float:
        """How many times faster than the formula's choice it is."""
        return self.first_seconds / self.seconds if self.seconds else 1.0

    @property
    def measured(self) -> int:
        """Candidates that were run."""
        return sum(outcome != "failed" for _, outcome, _, _ in self.rows)

    def __str__(self) -> str:
        head = f"{self.name}, from the {self.source}" if self.source != "measured" else f"{self.name}, as measured"
        if self.source == "measured" and not self.measured:
            head = f"{self.name}; {UNCOMPARED if self.cut else 'there is no other candidate that is right'}"
        if self.seconds:
            head += f": {self.seconds * 1e6:.1f} us, {self.gain:.2f} x the formula's choice"
        if self.p99:
            head += f"; p50 {self.p50 * 1e6:.1f} us, p99 {self.p99 * 1e6:.1f} us"
        lines = [head]
        if self.rows:
            lines.append(f"  {self.measured} candidates measured in {self.spent:.1f} s, {self.checked}")
        for name, outcome, ratio, said in self.rows:
            lines.append(f"  {ratio:6.3f}  {name}" if outcome == "ok" else f"  {outcome}: {name}: {said}")
        return "\n".join(lines)


def tune(
    s: lp.Schedule,
    target: str = "auto",
    effort: Effort = "quick",
    *,
    arch: str | None = None,
    sizes: Mapping[str, int] | None = None,
    budget_s: float | None = None,
    executor: Executor | None = None,
    database: Database | str | Path | None = None,
    rules: Sequence[Rule] = (),
    threads: int | None = None,
    p99: float | None = None,
    progress: bool | None = None,
) -> Tuned:
    """The fastest schedule of `s` that is found by measuring, for `target` "cuda", "llvm" or "auto".

    `effort` is "none" (what the database has, else the formula's choice), "quick" (10 s) or "full" (120 s); `budget_s`
    is another number of seconds. Measured at `sizes`; one that is not given is 1024. What was found goes to `database`,
    a folder (default: `default_database()`); a program that is there, from as much effort, is not measured again.
    `rules` are tried beside those of the table. `executor`, any of `concurrent.futures`, runs the measurements, in
    processes of their own. `p99` is a bound in seconds: what takes longer in more than one of 100 calls is not taken,
    and ValueError is raised if that is so of all. Ctrl-C ends the run; what was found till then is used. `progress`
    shows what is done (default: in a terminal).
    """
    if effort not in ("none", *BUDGETS):
        raise ValueError(f'effort is "none", "quick" or "full", not {effort!r}')
    if not isinstance(s, lp.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"tune takes a Schedule, as lp.Schedule(A @ B), and is given a {type(s).__name__}")
    _require_options(budget_s, executor, rules, threads, p99)
    target = lp.resolve_target(target)
    if target == "interpret":
        raise lp.TargetError("the interpreter says what a nest means, not how fast it is; tune for llvm or cuda")
    opened = open_database(database)
    found = find_tuned(s, target, arch, opened, sizes, effort)
    if found is not None and (p99 is None or 0.0 < found[1].p99 <= p99):
        made, record = found
        return Tuned(made, record.label, "database", record.seconds, record.first_seconds, "", record=record,
                     p50=record.p50, p99=record.p99)  # fmt: skip
    run = TuningRun(s, target, arch, sizes or {}, rules, threads, opened, effort)
    if effort == "none":
        first = apply_candidate(s, run.first())
        return Tuned(first, FIRST, "formula", 0.0, 0.0, "")
    budget = BUDGETS[effort] if budget_s is None else budget_s
    with Progress(progress, s.func.name, budget) as shown:
        return run.measured(budget, executor, p99, shown)


def _require_options(budget_s: Any, executor: Any, rules: Any, threads: int | None, p99: Any) -> None:
    """Refuse options that no run could use, before anything is measured."""
    for name, seconds in (("budget_s", budget_s), ("p99", p99)):
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
            raise ValueError(f"{name}={seconds!r} is no number of seconds above 0")
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor={executor!r} has no submit(); give one of concurrent.futures, or none")
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"rules={rules!r} holds what is no rule; make one with @schedules.rule")
    lp.thread_count(threads)


def apply_candidate(s: lp.Schedule, found: Candidate) -> lp.Schedule:
    """`s` after the steps of a candidate."""
    return s.schedule_nests((s.stages, found.trace)) if found.trace else s


class TuningRun:
    """One run of the tuner for one program."""

    def __init__(
        self,
        s: lp.Schedule,
        target: str,
        arch: str | None,
        sizes: Mapping[str, int],
        rules: Sequence[Rule],
        threads: int | None,
        database: Database,
        effort: str,
    ) -> None:
        self.s, self.target, self.arch, self.database, self.effort = s, target, arch, database, effort
        self.program, self.threads = canonical(s), threads
        self.subject: Subject = subject_of(s, target, machine_name(target, arch), sizes)
        self.space = Space(self.program, target, arch, dict(self.subject.sizes), rules)
        self.entries: list[Entry] = []
        self.rows: dict[str, tuple[str, str, float, str]] = {}
        self.job: dict[str, Any] = {}
        self.limit = FIRST_LIMIT
        self.checked = "each result compared with that of the program as it is written"
        known = database.records(self.subject) if database.segments() or database.memory else []
        self.failed = {r.label: r for r in known if r.kind == "candidate" and r.outcome not in ("ok", "failed")}
        self.residual: Residual | None = None
        self.cut = False

    def first(self) -> Candidate:
        """The formula's choice; else the program as it is written."""
        found = self.space.made(FIRST, {})
        if isinstance(found, Candidate):
            return found
        self.space.tried.clear()
        written = self.space.made("as written", {}) if self.target == "llvm" else found
        if not isinstance(written, Candidate):
            raise lp.ScheduleError(f"nothing schedules {self.s.func.name} for {self.target}: {found and found.said}")
        return written

    # ------------------------------------------------------------ the parts of a run

    def measured(self, budget: float, executor: Executor | None, p99: float | None, shown: Progress) -> Tuned:
        start = monotonic()
        self.end, self.shown, self.budget = start + budget, shown, budget
        first = self.first()
        self._describe(first)
        self.residual = Residual.of(self.database.records(), self.subject.machine)
        own = executor is None
        self.executor: Executor = ThreadPoolExecutor(1) if executor is None else executor
        interrupted = False
        try:
            shown.show("the formula's choice")
            self._check([first])
            if not self.entries:
                said = self.rows[first.label]
                raise lp.LoopirError(f"the formula's choice cannot be measured: {said[1]}: {said[3]}")
            self._search(start)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if own:
                self.executor.shutdown(wait=False, cancel_futures=True)
        if not self.entries:
            return Tuned(apply_candidate(self.s, first), FIRST, "formula", 0.0, 0.0, "", interrupted=interrupted)
        try:
            return self._chosen(start, interrupted, p99)
        except KeyboardInterrupt:
            return self._chosen(start, True, None)

    def _describe(self, first: Candidate) -> None:
        """What every question says of the program."""
        written = lp.text(self.program.func)
        terms = max((_term_count(self.program, x, dict(self.subject.sizes)) for x in self.program.stages), default=1.0)
        reference = written
        if self.target == "llvm":
            seconds = lp.predict(self.program, self.target, sizes=dict(self.subject.sizes)).seconds
            if seconds > REFERENCE_SECONDS[self.effort]:
                reference = first.text
                self.checked = (
                    f"each result compared with the formula's, as the program by itself takes {seconds:.1f} s"
                )
        elif self.target == "cuda":
            reference = first.text
            self.checked = "each result compared with the formula's"
        self.job = {
            "program": self.subject.key, "reference": reference, "sizes": [n for _, n in self.subject.sizes],
            "target": self.target, "arch": self.arch, "threads": self.threads, "machine": self.subject.machine,
            "tolerance": tolerance(self.program, terms), "block": BLOCK_SECONDS[self.effort],
        }  # fmt: skip

    def _search(self, start: float) -> None:
        """Check plans and knobs, race them, combine what won, and race the best."""
        singles = self._singles()
        until = start + CHECKED * self.budget
        self._check(self._ordered(singles), until)
        self._race(self._promising(), 3, start + (CHECKED + 0.08) * self.budget)
        self._check(self._combinations(), start + COMBINED * self.budget)
        while self.effort == "full" and monotonic() < start + COMBINED * self.budget:
            before = self._best().candidate.label
            self._check(self._around(self._best().candidate), start + COMBINED * self.budget)
            self._race(self._promising(), 3, start + COMBINED * self.budget)
            if self._best().candidate.label == before:
                break
        self._race(self._promising(), 3, start + (COMBINED + 0.05) * self.budget)
        self._race_until_sure(start + (1.0 - CONFIRMED) * self.budget)

    def _singles(self) -> Iterable[Candidate | NoCandidate | None]:
        """Plans, then each knob of the formula's choice by itself, then those of the other plans."""
        plans = list(self.space.plans())
        yield from plans
        bases = ["fused"] if self.target == "llvm" else [FIRST]
        bases += [x.name for x in plans if x.name not in ("fused", FIRST, "as written", "each nest by itself")]
        for name in bases:
            for values in self.space.neighbours(name, {}):
                yield self.space.made(name, values)

    def _ordered(self, found: Iterable[Candidate | NoCandidate | None]) -> Iterable[Candidate]:
        """The candidates among `found`, a few at a time in the order in which the residual expects them."""
        few: list[Candidate] = []
        for x in found:
            if isinstance(x, NoCandidate):
                self._say(x.label, x.outcome, x.said, x)
            elif x is not None and not self._is_known_to_fail(x):
                few.append(x)
            if self.residual is None or len(few) >= FINALISTS:
                yield from sorted(few, key=self._expected)
                few.clear()
        yield from sorted(few, key=self._expected)

    def _expected(self, x: Candidate) -> float:
        return (
            x.seconds
            if self.residual is None
            else self.residual.seconds(x.seconds, x.bytes, x.knobs, x.name, self.space.first_seconds)
        )

    def _is_known_to_fail(self, x: Candidate) -> bool:
        old = self.failed.get(x.label)
        if old is not None:
            self._row(x.label, old.outcome, f"{old.said} (as recorded; it is not tried again)")
        return old is not None

    def _combinations(self) -> Iterable[Candidate]:
        """Values of single knobs that won, together: all of them, and the best ones."""
        won = [e for e in self.entries if len(e.candidate.knobs) == 1 and e.times.ratio <= GAIN]
        best: dict[str, Entry] = {}
        for e in sorted(won, key=lambda e: e.times.ratio):
            best.setdefault(e.candidate.knobs[0][0], e)
        chosen = list(best.values())
        for count in sorted({2, 3, len(chosen)}):
            if 2 <= count <= len(chosen) and len({e.candidate.name for e in chosen[:count]}) == 1:
                values = {k: v for e in chosen[:count] for k, v in e.candidate.values.items()}
                yield from self._ordered([self.space.made(chosen[0].candidate.name, values)])

    def _around(self, x: Candidate) -> Iterable[Candidate]:
        """The neighbours of a candidate."""
        name = "fused" if x.name == FIRST and self.target == "llvm" else x.name
        yield from self._ordered(self.space.made(name, v) for v in self.space.neighbours(name, x.values))

    # ------------------------------------------------------------ asking

    def _ask(self, what: str, nests: Sequence[str], rounds: int, limit: float) -> Answer:
        """The answer of one worker; what the executor loses is asked once more."""
        job = {**self.job, "what": what, "nests": list(nests), "rounds": rounds}
        for attempt in range(2):
            try:
                return self._result(self.executor.submit(ask_worker, job, limit), limit)
            except (BrokenProcessPool, RuntimeError, OSError) as error:
                if attempt:
                    return {"outcome": "crashed", "said": f"the executor lost it: {type(error).__name__}: {error}"}
        raise AssertionError

    @staticmethod
    def _result(future: Future[Answer], limit: float) -> Answer:
        try:
            return future.result(timeout=2 * limit + FIRST_LIMIT)
        except TimeoutError:
            future.cancel()
            return {"outcome": "hung", "said": f"the executor gave nothing in {2 * limit + FIRST_LIMIT:.0f} s"}

    def _check(self, candidates: Iterable[Candidate], until: float = float("inf")) -> None:
        """Have each candidate built, run and compared, several at a time if the executor has several workers."""
        waiting: dict[Future[Answer], Candidate] = {}
        width = getattr(self.executor, "_max_workers", 4) + 1
        for x in candidates:
            job = {**self.job, "what": "check", "nests": [x.text], "rounds": 1}
            self.shown.show(f"checking {x.label}")
            waiting[self.executor.submit(ask_worker, job, self.limit)] = x
            while len(waiting) >= width:
                self._collect(waiting)
            if monotonic() > until:
                self.cut = True
                break
        while waiting:
            self._collect(waiting)

    def _collect(self, waiting: dict[Future[Answer], Candidate]) -> None:
        done, _ = wait(waiting, timeout=0.5, return_when="FIRST_COMPLETED")
        for future in done:
            x = waiting.pop(future)
            try:
                found = self._result(future, self.limit)
            except (BrokenProcessPool, RuntimeError, OSError):  # the executor lost its worker
                found = self._ask("check", [x.text], 1, self.limit)
            if found["outcome"] != "ok":
                self._say(x.label, found["outcome"], found["said"], x)
                continue
            entry = Entry(x, float(found["times"][0]))
            if not self.entries:
                self.limit = WAITED + 20 * entry.check + 2 * float(found["spent"])
            self.entries.append(entry)
            self.shown.measured += 1

    def _race(self, entries: Sequence[Entry], rounds: int, until: float) -> None:
        """Race entries with the formula's choice, in as many jobs as take about a second each."""
        first, others = self.entries[0], [e for e in entries if e is not self.entries[0]]
        each = max(1e-4, sum(2 * max(e.check, self.job["block"]) + 2e-3 for e in (first, *others)))
        while others and rounds > 0 and monotonic() < until:
            count = max(1, min(rounds, int(JOB_SECONDS / each)))
            texts = [e.candidate.text for e in (first, *others)]
            found = self._ask("race", texts, count, self.limit + 4 * count * each)
            if found["outcome"] != "ok":
                others = self._without_culprit(found, others)
                continue
            beside = found["times"][0]
            first.times.add(beside, beside)
            for e, times in zip(others, found["times"][1:], strict=True):
                e.times.add(times, beside)
            rounds -= count
            self.shown.best = self._said_best()

    def _without_culprit(self, found: Answer, others: Sequence[Entry]) -> list[Entry]:
        """The entries without the one that ended a race: that which was named, or which does so by itself."""
        at = found.get("at", 0) - 1
        culprits: list[Entry] = [others[at]] if at >= 0 else []
        for e in others if not culprits and len(others) > 1 else ():
            alone = self._ask("check", [e.candidate.text], 1, self.limit)
            if alone["outcome"] != "ok":
                culprits, found = [e], alone
                break
        for e in culprits or others:
            self.entries.remove(e)
            self._say(e.candidate.label, found["outcome"], found["said"], e.candidate)
        return [e for e in others if e in self.entries]

    def _race_until_sure(self, until: float) -> None:
        """Race the best few until one is surely the fastest, or there is no more time or doubt."""
        left = [e for e in self._promising()[:FINALISTS] if e is not self.entries[0]]
        while left and monotonic() < until and len(left[0].times.ratios) < MOST_ROUNDS:
            self.shown.show(f"racing {len(left) + 1} of them")
            self._race(left, 4, until)
            left = [e for e in left if e in self.entries]
            best = min(left, key=lambda e: e.times.ratio, default=None)
            if best is None:
                return
            left = [e for e in left if not surely_slower(e.times, best.times)]
            if surely_slower(best.times, self.entries[0].times):
                return
            if len(left) == 1 and surely_faster_than_first(left[0].times):
                return

    # ------------------------------------------------------------ what is known

    def _promising(self) -> list[Entry]:
        """The formula's choice, and the entries that may be faster, the best first."""
        first, *others = self.entries
        most = SIEVE * min(e.check for e in self.entries)
        fresh = [e for e in others if not e.times.ratios and e.check <= most]
        raced = [e for e in others if e.times.ratios and not surely_slower(e.times, self._best().times)]
        by_check = sorted(fresh, key=lambda e: e.check)
        by_ratio = sorted(raced, key=lambda e: e.times.ratio)
        return [first, *by_check[:SIEVED], *by_ratio[:FINALISTS]] if fresh else [first, *by_ratio[:FINALISTS]]

    def _best(self) -> Entry:
        return min(self.entries, key=lambda e: e.times.ratio if e.times.ratios else 1.0)

    def _said_best(self) -> str:
        best = self._best()
        return f"{best.candidate.label} {best.times.ratio:.3f}" if best is not self.entries[0] else ""

    def _row(self, label: str, outcome: str, said: str) -> None:
        self.rows[label] = label, outcome, 0.0, said

    def _say(self, label: str, outcome: str, said: str, x: Candidate | NoCandidate) -> None:
        """A candidate that gives nothing: on record, so that it is not tried again."""
        self._row(label, outcome, said)
        self.shown.failed += 1
        if outcome != "failed":
            trace, price, size = (x.trace, x.seconds, x.bytes) if isinstance(x, Candidate) else ((), 0.0, 0.0)
            self.database.add(Record(self.subject, "candidate", x.name, x.knobs, trace, outcome, said, predicted=price,
                                     bytes=size, effort=self.effort, when=time()))  # fmt: skip

    # ------------------------------------------------------------ the choice

    def _chosen(self, start: float, interrupted: bool, p99: float | None) -> Tuned:
        """The fastest that is surely faster than the formula's choice, also in rounds that did not choose it."""
        first = self.entries[0]
        ranked = sorted(self.entries, key=lambda e: e.times.ratio if e.times.ratios else 1.0)
        best, fresh = first, Times()
        for e in ranked:
            if e is first or not surely_faster_than_first(e.times):
                break
            fresh = self._confirmed(e, interrupted)
            if surely_faster_than_first(fresh) and (again := self._confirmed(e, interrupted)).ratio <= WORTH:
                best = e
                fresh = Times(fresh.seconds + again.seconds, fresh.ratios + again.ratios)
                break
        calls: dict[str, list[float]] = {}
        if p99 is not None:
            best, calls = self._within(p99, [best, *(e for e in ranked if e is not best)])
        record = self._recorded(best, fresh if best is not first else first.times, calls, interrupted)
        rows = [(e.candidate.label, "ok", e.times.ratio, "") for e in ranked if e.times.ratios]
        schedule = apply_record(self.s, record)
        return Tuned(schedule, best.candidate.label, "measured", record.seconds, record.first_seconds, self.checked,
                     (*rows, *self.rows.values()), monotonic() - start, interrupted, self.cut, record.p50,
                     record.p99, record)  # fmt: skip

    def _confirmed(self, e: Entry, interrupted: bool) -> Times:
        """Times of a candidate beside the formula's choice in rounds, and a process, of their own: in another one, the
        pages of memory and the places of the code are others."""
        if interrupted:
            return e.times
        self.shown.show(f"confirming {e.candidate.label}")
        alone = Entry(e.candidate, e.check)
        own = ThreadPoolExecutor(1) if isinstance(self.executor, ThreadPoolExecutor) else None
        self.executor = own or self.executor
        until = max(monotonic() + CONFIRMED * self.budget / 2, self.end)
        while len(alone.times.ratios) < MOST_ROUNDS // 2 and monotonic() < until:
            known = len(alone.times.ratios)
            self._race([alone], 6, until)
            if len(alone.times.ratios) == known or surely_faster_than_first(alone.times):
                break
        if own is not None:
            own.shutdown(wait=False)
        return alone.times

    def _within(self, p99: float, ranked: Sequence[Entry]) -> tuple[Entry, dict[str, list[float]]]:
        """The first of `ranked` whose p99 keeps the bound; ValueError if there is none."""
        least = float("inf")
        self.executor = ThreadPoolExecutor(1) if isinstance(self.executor, ThreadPoolExecutor) else self.executor
        for e in ranked[: 2 * FINALISTS]:
            found = self._ask("calls", [e.candidate.text], CALLS, self.limit + 4 * CALLS * (e.check + 2e-3))
            if found["outcome"] == "ok":
                times = found["times"]
                least = min(least, percentile(times, 0.99))
                if percentile(times, 0.99) <= p99:
                    return e, {e.candidate.label: times}
        raise ValueError(f"no candidate keeps a p99 of {p99 * 1e6:.1f} us; the least is {least * 1e6:.1f} us")

    def _recorded(self, best: Entry, fresh: Times, calls: Mapping[str, list[float]], interrupted: bool) -> Record:
        """Write down every candidate that was timed, and the choice, which is given."""
        first = self.entries[0]
        at = first.times.median or first.check
        for e in self.entries:
            if e.times.ratios:
                self.database.add(self._record(e, "candidate", e.times.ratio * at, at, len(e.times.ratios)))
        seconds = fresh.ratio * at if fresh.ratios else at
        times = calls.get(best.candidate.label, ())
        found = self._record(best, "winner", seconds, at, len(fresh.ratios))
        compared = any(e.times.ratios for e in self.entries)
        effort = "none" if interrupted or (self.cut and not compared) else self.effort
        found = replace(found, effort=effort, p50=percentile(times, 0.5), p99=percentile(times, 0.99))
        self.database.add(found)
        return found

    def _record(self, e: Entry, kind: str, seconds: float, first: float, samples: int) -> Record:
        x = e.candidate
        return Record(self.subject, kind, x.name, x.knobs, x.trace, "ok", "", seconds, first, x.seconds, x.bytes,
                      samples, self.effort, when=time())  # fmt: skip


def _term_count(s: lp.Schedule, stage: str, sizes: Mapping[str, int]) -> float:
    """How many terms `stage` folds into an element."""
    return float(prod(extent(s, x) or max(sizes.values(), default=1024) for x in s.reduced(stage)))
