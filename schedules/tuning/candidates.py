"""What a tuner may try for a program: plans, then the knobs that their recipes asked, in the order of their price.

There is no open space: a candidate is a recipe of the table, with values that its knobs have for this machine. What a
recipe raises, or that it does not end, makes it no candidate, and is said.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import loopir as lp

from ..auto import choose_by_formula
from ..common.knobs import Choices, choosing
from ..forms import in_faster_form
from ..llvm.auto_cpu import cpu
from ..plan import Trace, flat
from ..planner import Planner
from ..rules import RULES, Rule, View
from .records import label_of

RECIPE_SECONDS = 20.0
"""In which a recipe has to have scheduled a program."""
HOPELESS = 3.0
"""How many times slower than the formula's choice a candidate that is not run is predicted to be."""
FIRST = "auto"

Recipe = Callable[[lp.Schedule], lp.Schedule]
Knobs = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A schedule of the program in canonical names: the recipe, the values of knobs that are not the formula's, its
    steps, its text, and what is predicted of it."""

    name: str
    knobs: tuple[tuple[str, Any, Any], ...]
    """"knob(stage)", the value, and the formula's."""
    trace: Trace
    text: str
    seconds: float
    bytes: float

    @property
    def label(self) -> str:
        """What it is called where it is listed."""
        return label_of(self.name, self.knobs)

    @property
    def values(self) -> dict[str, Any]:
        return {key: value for key, value, _ in self.knobs}


@dataclass(frozen=True)
class NoCandidate:
    """A recipe that gave nothing: what it would have been, how it ended ("failed" or "hung"), and what it said."""

    name: str
    knobs: tuple[tuple[str, Any, Any], ...]
    outcome: str
    said: str

    label = Candidate.label


class Space:
    """The candidates for the program `s`, which has canonical names, and what is known of its knobs."""

    def __init__(
        self, s: lp.Schedule, target: str, arch: str | None, sizes: Mapping[str, int], rules: Sequence[Rule] = ()
    ) -> None:
        self.program, self.target, self.arch, self.sizes = s, target, arch, dict(sizes)
        self.machine = lp.machine(arch if arch is not None else lp.local_machine() or "portable")
        self.recipes: dict[str, Recipe] = {FIRST: self._formula}
        if target == "llvm":
            self.recipes["fused"] = cpu
        own = [r for r in (*rules, *RULES) if r.target == target and not r.ours]
        self.recipes |= {r.name: self._by_rule(r) for r in own}
        if len(lp.nests(s.func)) > 1 and not s.trace:
            self.recipes["planned"] = lambda s: in_faster_form(Planner(s, target, arch, sizes)).plan().apply()
            self.recipes["each nest by itself"] = lambda s: Planner(s, target, arch, sizes).plan(fuel=0).apply()
        if target == "llvm":
            self.recipes["as written"] = lambda s: s
        self.tried: dict[str, str] = {}
        """By text what a candidate is called."""
        self.first_seconds = float("inf")

    def _formula(self, s: lp.Schedule) -> lp.Schedule:
        return choose_by_formula(s, self.target, self.arch)

    def _by_rule(self, rule: Rule) -> Recipe:
        def made(s: lp.Schedule) -> lp.Schedule:
            match = rule.matches(View(s, self.target))
            if match is None:
                raise lp.ScheduleError("it does not match this program")
            return rule(s, match)

        return made

    def plans(self) -> Iterator[Candidate | NoCandidate]:
        """One candidate for each recipe, the formula's first; what gives the same schedule as another is left out."""
        for name in self.recipes:
            found = self.made(name, {})
            if found is not None:
                yield found

    def made(self, name: str, values: Knobs) -> Candidate | NoCandidate | None:
        """What the recipe makes with these values; None where that was tried, or is predicted to be hopeless."""
        choices = Choices(values)
        try:
            s, choices = _in_time(lambda: self._scheduled(name, values))
            steps = s.steps_since(self.program)
            if steps is None:
                raise ValueError("what it gives does not come from the Schedule that it was given")
            text = lp.text(s.func)
            if text in self.tried:
                return None
            with lp.scheduling_for(self.machine):
                price = lp.predict(s, self.target, sizes=self.sizes)
        except TimeoutError as error:
            return NoCandidate(name, _changed(values, choices), "hung", str(error))
        except (Exception, SystemExit) as error:  # whatever a recipe raises, it is no candidate
            said = (str(error).splitlines() or [""])[0]
            return NoCandidate(name, _changed(values, choices), "failed", f"{type(error).__name__}: {said}")
        found = Candidate(name, _changed(values, choices), flat(steps), text, price.seconds, price.bytes)
        self.tried[text] = found.label
        if name == FIRST and not values:
            self.first_seconds = price.seconds
        return None if price.seconds > HOPELESS * self.first_seconds else found

    def _scheduled(self, name: str, values: Knobs) -> tuple[lp.Schedule, Choices]:
        with lp.scheduling_for(self.machine), choosing(values) as choices:
            return self.recipes[name](self.program), choices

    def neighbours(self, name: str, values: Knobs) -> list[dict[str, Any]]:
        """Values of knobs that differ in one from `values`, in the order of their price."""
        try:
            _, choices = _in_time(lambda: self._scheduled(name, values))
        except (Exception, SystemExit):  # a recipe that gives nothing, which was said when it was tried
            return []
        found: list[tuple[float, int, dict[str, Any]]] = []
        for key, query in choices.queries.items():
            for value in query.values:
                if value != values.get(key, query.formula):
                    cost = query.knob.cost(value, values.get(key, query.formula))
                    found.append((cost, len(found), {**values, key: value}))
        return [v for _, _, v in sorted(found, key=lambda x: x[:2])]


def _changed(values: Knobs, choices: Choices) -> tuple[tuple[str, Any, Any], ...]:
    """The values that are not the formula's, where they were asked for."""
    known = choices.queries
    return tuple((k, v, known[k].formula if k in known else None) for k, v in values.items())


# ---------------------------------------------------------------- recipes that do not end


def _in_time(work: Callable[[], tuple[lp.Schedule, Choices]]) -> tuple[lp.Schedule, Choices]:
    """What `work` gives; TimeoutError if it does not end in time: it is interrupted at its next line of Python."""
    given: list[tuple[lp.Schedule, Choices]] = []
    raised: list[BaseException] = []

    def call() -> None:
        try:
            given.append(work())
        except BaseException as error:
            raised.append(error)

    context = copy_context()
    thread = threading.Thread(target=lambda: context.run(call), name="loopir recipe", daemon=True)
    thread.start()
    thread.join(RECIPE_SECONDS)
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Ended))
        raise TimeoutError(f"it did not end in {RECIPE_SECONDS:.0f} s of scheduling")
    if raised:
        raise raised[0]
    return given[0]


class _Ended(BaseException):
    """Ends a recipe that takes too long."""
