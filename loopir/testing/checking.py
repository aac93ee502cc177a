"""`check`: a transformation against every oracle over random programs, in one line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed as seeded, settings, strategies as st
from hypothesis.errors import Flaky

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.printer import text
from loopir.schedule import Schedule
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate.steps import arguments_of
from loopir.testing.generate.strategies import arguments, funcs, sizes
from loopir.testing.oracles.oracles import ORACLES, Case, false_witness, judge
from loopir.testing.subprocess_rounds import Note

Transform = Callable[..., "Func | Schedule"]


class Wrong(AssertionError):
    """A transformation changed what a program means. `.oracle` says what noticed; the message has the program."""

    def __init__(self, oracle: str, why: str, call: str, before: Func, after: Func | None, at: dict[str, int]) -> None:
        self.oracle, self.why, self.call, self.before, self.after, self.sizes = oracle, why, call, before, after, at
        values = f", at {', '.join(f'{k}={v}' for k, v in at.items())}" if at else ""
        became = "" if after is None else f"became\n\n{text(after)}\n"
        super().__init__(f"{oracle}: {why}\n\n{call}{values}:\n\n{text(before)}\n{became}")

    def __reduce__(self) -> Any:
        """How it comes back from another process."""
        return Wrong, (self.oracle, self.why, self.call, self.before, self.after, self.sizes)


def check(
    transform: Transform | str | None = None,
    /,
    *,
    programs: st.SearchStrategy[Func] | None = None,
    examples: int = 200,
    seed: int = 0,
    oracles: Iterable[str] = tuple(ORACLES),
    patience: float = 8.0,
    **given_arguments: st.SearchStrategy[Any],
) -> Any:
    """Try `transform` on `examples` random programs; raise Wrong, with the smallest found, if it breaks one.

    `transform` takes a Func or a Schedule and gives another, or raises ScheduleError to refuse; or it is the name of a
    primitive. Which of the two it takes is read off the annotation of its first parameter, or off its name: `s` and
    `schedule` are Schedules. What its further parameters may be is found in the program, from their names (`loop`,
    `stage`, `buffer`, `factor` ...) and annotations, unless a strategy is given under the name.

        check("split")
        check(lambda s: s.split("i", 3).reorder("i_i", "i_o"))
        check(swap, factor=st.integers(1, 9))

    Without `transform`, a decorator: the function becomes a test without parameters, which pytest finds.

    Each program is put to `oracles` in order (all of ORACLES): the result is in the language; every read sees the write
    that it saw; outputs are equal over an exact ring, within bounds and with nothing read unwritten; lowered for a GPU
    there is no race in adversarial orders of threads; the CPU's kernel gives what the interpreter gives. An exception
    other than ScheduleError is wrong, and so is a witness of a refusal that is no pair of dependent accesses.
    If every program is refused, ValueError. `seed` picks the programs; the same seed gives the same ones. What is
    found is made small for about `patience` seconds.
    """
    if transform is None:
        return lambda f: _as_test(f, programs, examples, seed, tuple(oracles), patience, given_arguments)  # pyright: ignore
    f = PRIMITIVES[transform] if isinstance(transform, str) else transform
    _run(f, programs if programs is not None else funcs(), examples, seed, tuple(oracles), patience, given_arguments)
    return transform


def _as_test(
    f: Transform, programs: Any, examples: int, seed: int, oracles: Any, patience: float, given_arguments: Any
) -> Any:
    def test() -> None:
        check(f, programs=programs, examples=examples, seed=seed, oracles=oracles, patience=patience, **given_arguments)

    test.__name__, test.__doc__, test.__module__ = f.__name__, f.__doc__, f.__module__
    return test


def _run(
    f: Transform, programs: st.SearchStrategy[Func], examples: int, seed: int, oracles: tuple[str, ...],
    patience: float,
    given_arguments: dict[str, st.SearchStrategy[Any]],
) -> None:  # fmt: skip
    accepted: list[bool] = []
    refusals: list[str] = []

    def trial(data: st.DataObject) -> None:
        before = data.draw(programs)
        args, kwargs = data.draw(arguments_of(f, before, given_arguments))
        at = data.draw(sizes(before))
        arrays = data.draw(arguments(before, at))
        call = str(Step(getattr(f, "__name__", "transform"), args, tuple(kwargs.items())))
        after = transformed(f, before, args, kwargs, call, refusals)
        if after is not None:
            accepted.append(True)
            judge_case(Case(before, after, at, arrays), call, oracles)

    quietly(trial, seed, examples, patience)
    if not accepted:
        last = f", the last with: {refusals[-1]}" if refusals else ""
        raise ValueError(f"not one of {examples} programs was transformed; all were refused{last}")


QUIET = settings(
    deadline=None, database=None, report_multiple_bugs=False, phases=[Phase.generate, Phase.shrink], print_blob=False,
    suppress_health_check=tuple(HealthCheck),  # pyright: ignore[reportArgumentType]
)  # fmt: skip


def quietly(trial: Callable[[st.DataObject], None], seed: int, examples: int, patience: float = 8.0) -> None:
    """Run `trial` on drawn data; what it raises, made as small as `patience` seconds allow, is told by itself alone."""
    found: list[Wrong] = []
    until: list[float] = []

    @seeded(seed)
    @settings(QUIET, max_examples=examples)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        if until and monotonic() > until[0]:
            return
        try:
            trial(data)
        except Wrong as wrong:
            found.append(wrong)
            until[:] = until or [monotonic() + patience]
            raise

    try:
        run()
    except (Wrong, Flaky):
        best = min(found, key=lambda w: (len(str(w)), str(w)))
        best.__notes__ = []
        raise best from best.__cause__


def transformed(
    f: Transform, before: Func, args: tuple[Any, ...], kwargs: dict[str, Any], call: str, refusals: list[str]
) -> Func | None:
    """What `f` makes of `before`; None if it refuses. Any other exception is Wrong, and so is a false witness."""
    try:
        given: Any = Schedule(before) if takes_schedule(f) else before
        after = f(given, *args, **kwargs)
    except ScheduleError as error:
        refusals.append(str(error))
        if why := false_witness(before, error):
            raise Wrong("witness", why, call, before, None, {}) from None
        return None
    except Exception as error:
        raise Wrong("crash", f"{type(error).__name__}: {error}", call, before, None, {}) from error
    return after.func if isinstance(after, Schedule) else after


def takes_schedule(f: Transform) -> bool:
    """Whether the first parameter of `f` is a Schedule: so annotated, or called s or schedule."""
    first = next(iter(inspect.signature(f).parameters.values()))
    hint = first.annotation if first.annotation is not first.empty else first.name
    told = hint if isinstance(hint, str) else getattr(hint, "__name__", "")
    return told.rpartition(".")[2].strip("'\"") in ("Schedule", "s", "schedule")


def judge_case(case: Case, call: str, oracles: Iterable[str]) -> None:
    """Ask `oracles` about a case; Wrong if one is against it."""
    try:
        found = judge(case, oracles)
    except Exception as error:
        raise Wrong("crash", f"{type(error).__name__}: {error}", call, case.before, case.after, case.sizes) from error
    if found is not None:
        raise Wrong(*found, call, case.before, case.after, case.sizes)


def repro(before: Func, steps: Iterable[Step]) -> str:
    """A script that takes `steps` on `before`."""
    source = text(before)
    lines = "".join(f"s = s.{step}\n" for step in steps)
    return f'import loopir as lp\n\ns = lp.Schedule(lp.parse("""\n{source}"""))\n{lines}print(s)\n'


def run_in_process(
    one: Callable[[int], object], seconds: float, seed: int, note: Note, failed: Callable[[int, Wrong], object]
) -> int:
    """Run the rounds `one(seed)`, `one(seed + 1)` ... until `seconds` have passed; the number of failures.

    At least one is run. `note` is kept up to date, and a Wrong that a round raises is counted and given to `failed`.
    """
    end = monotonic() + seconds
    while True:
        note.round, note.case = seed, ""
        note.keep()
        try:
            one(seed)
        except Wrong as wrong:
            note.failures += 1
            failed(seed, wrong)
        if monotonic() >= end:
            break
        seed += 1
    note.done = True
    note.keep()
    return note.failures
