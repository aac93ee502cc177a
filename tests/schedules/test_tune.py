"""The tuner: the fastest right candidate is taken, what fails is named, and a second run measures nothing."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loopir.schedules.common.knobs import Knob
from loopir.schedules.rules import RULES, Rule
from loopir.schedules.tuning import candidates
from loopir.schedules.tuning.candidates import Candidate, NoCandidate, Space
from loopir.schedules.tuning.database import Database
from loopir.schedules.tuning.lookup import find_tuned
from loopir.schedules.tuning.records import canonical

import loopir as lp
from loopir import schedules
from loopir.ir.grammar import Func
from loopir.schedule.core.primitive import PRIMITIVES

PART = Knob("part of the test", "iterations of the inner loop", lambda formula: (4, 8, 16, 32, 5))


class Pretended(Executor):
    """Answers at once, with times that `seconds` gives for the text of a nest, or an outcome; nothing is run."""

    _max_workers = 1

    def __init__(self, seconds: Callable[[str], float | str]) -> None:
        self.seconds, self.jobs = seconds, list[Mapping[str, Any]]()
        self.draw = random.Random(0)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        (job, _), future = args, Future[Any]()
        self.jobs.append(job)
        future.set_result(self.answer(job))
        return future

    def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        known = [self.seconds(x) for x in job["nests"]]
        for n, x in enumerate(known):
            if isinstance(x, str):
                return {"outcome": x, "said": "as was pretended", "at": n}
        times = [[self.draw.uniform(0.99, 1.01) * float(x) for _ in range(job["rounds"])] for x in known]
        return {"outcome": "ok", "times": times if job["what"] == "race" else times[0], "spent": 0.0}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes on by 1 ms when it is looked at: how far a run comes is not the machine's doing."""
    looks = count()
    monkeypatch.setattr("loopir.schedules.tuning.tune.monotonic", lambda: next(looks) * 1e-3)


def program(size: int = 96) -> lp.Schedule:
    x = lp.placeholder((size, size), "float32", name="x")
    return lp.Schedule(lp.compute((size, size), lambda i, j: x[i, j] * 2.0 + 1.0, name="y"))


def in_parts(s: lp.Schedule, match: Any) -> lp.Schedule:
    return s.split(s.loops(s.stages[0])[0], PART(4, at=s.stages[0]))


PARTS = Rule("in parts", lambda view: True, in_parts, "llvm")


def pretended(text: str) -> float:
    """Parts of 16 rows are the fastest, then those of 8; the formula's choice takes 1 ms."""
    return 0.6e-3 if "range(16)" in text else 0.8e-3 if "range(8)" in text else 1e-3


def test_the_fastest_is_taken_and_found_again(tmp_path: Path) -> None:
    s, executor = program(), Pretended(pretended)
    found = schedules.tune(s, "llvm", rules=[PARTS], executor=executor, database=tmp_path, progress=False)
    assert found.source == "measured"
    assert found.name == "in parts, part of the test(y) = 16"
    assert found.gain == pytest.approx(1.67, rel=0.05)
    assert "range(16)" in lp.text(found.schedule.func)
    assert "in parts, part of the test(y) = 8" in str(found)
    asked = len(executor.jobs)
    again = schedules.tune(program(), "llvm", rules=[PARTS], executor=executor, database=tmp_path)
    assert (again.source, len(executor.jobs), again.measured) == ("database", asked, 0)
    assert lp.text(again.schedule.func) == lp.text(found.schedule.func)
    assert schedules.tune(s, "llvm", "none", database=tmp_path).source == "database"
    assert schedules.tune(program(95), "llvm", "none", database=tmp_path).source == "formula"
    x = np.ones((96, 96), np.float32)
    assert (again.schedule.build("llvm")(x) == 3.0).all()


def test_auto_reads_what_a_project_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schedules.tune(program(), "llvm", rules=[PARTS], executor=Pretended(pretended), database=tmp_path / "loopir_tuning")
    formula = lp.text(schedules.auto(program(), "llvm").func)
    monkeypatch.setenv("LOOPIR_TUNING_DIR", str(tmp_path / "none"))
    assert lp.text(schedules.auto(program(), "llvm").func) == formula
    monkeypatch.chdir(tmp_path)
    assert "range(16)" in lp.text(schedules.auto(program(), "llvm").func)
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "7")  # another machine
    assert lp.text(schedules.auto(program(), "llvm").func) == lp.text(schedules.auto(program(), "llvm").func) != ""
    assert find_tuned(program(), "llvm", database=tmp_path / "loopir_tuning") is None


def test_the_formula_stays_where_nothing_is_surely_faster(tmp_path: Path) -> None:
    found = schedules.tune(program(), "llvm", executor=Pretended(lambda text: 1e-3), database=tmp_path, progress=False)
    assert (found.name, found.gain) == ("auto", pytest.approx(1.0, abs=0.02))


@pytest.mark.parametrize("outcome", ["wrong", "crashed", "hung", "out of memory"])
def test_what_fails_is_named_and_not_tried_again(tmp_path: Path, outcome: str) -> None:
    def seconds(text: str) -> float | str:
        return outcome if "range(16)" in text else pretended(text)

    found = schedules.tune(program(), "llvm", rules=[PARTS], executor=Pretended(seconds), database=tmp_path)
    assert found.name == "in parts, part of the test(y) = 8"
    assert f"{outcome}: in parts, part of the test(y) = 16: as was pretended" in str(found)
    executor = Pretended(seconds)
    full = schedules.tune(program(), "llvm", "full", rules=[PARTS], executor=executor, database=tmp_path, budget_s=3.0)
    assert "it is not tried again" in str(full)
    assert not any("range(16)" in x and "split" not in x for job in executor.jobs for x in job["nests"])


def test_what_fails_in_a_race_costs_itself_alone(tmp_path: Path) -> None:
    class Late(Pretended):
        def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
            at = next((n for n, x in enumerate(job["nests"]) if "range(16)" in x), 0)
            found = {"outcome": "wrong", "said": "late", "at": at}
            return found if at and job["what"] == "race" else super().answer(job)

    found = schedules.tune(program(), "llvm", rules=[PARTS], executor=Late(pretended), database=tmp_path)
    assert found.name == "in parts, part of the test(y) = 8"
    assert "wrong: in parts, part of the test(y) = 16: late" in str(found)


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    class Interrupted(Pretended):
        def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
            if sum(j["what"] == "race" for j in self.jobs) > 3:
                raise KeyboardInterrupt
            return super().answer(job)

    found = schedules.tune(program(), "llvm", rules=[PARTS], executor=Interrupted(pretended), database=tmp_path)
    assert found.interrupted
    assert found.name == "in parts, part of the test(y) = 16"
    assert Database(tmp_path).winner(found.record.subject) is not None  # type: ignore[union-attr]
    assert Database(tmp_path).winner(found.record.subject, "quick") is None  # type: ignore[union-attr]


def test_an_executor_that_loses_a_job_is_asked_again(tmp_path: Path) -> None:
    class Losing(Pretended):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future = super().submit(fn, *args, **kwargs)
            if len(self.jobs) % 3 == 1:
                future = Future()
                future.set_exception(RuntimeError("the worker was killed"))
            return future

    found = schedules.tune(program(), "llvm", rules=[PARTS], executor=Losing(pretended), database=tmp_path)
    assert found.name == "in parts, part of the test(y) = 16"


def test_a_bound_on_p99_rejects(tmp_path: Path) -> None:
    class Uneven(Pretended):
        def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
            found = super().answer(job)
            if job["what"] == "calls" and "range(16)" in job["nests"][0]:
                found["times"][::50] = [5e-3] * len(found["times"][::50])
            return found

    found = schedules.tune(program(), "llvm", rules=[PARTS], executor=Uneven(pretended), database=tmp_path, p99=2e-3)
    assert found.name == "in parts, part of the test(y) = 8"
    assert 0.7e-3 < found.p50 < found.p99 < 0.9e-3
    with pytest.raises(ValueError, match=r"no candidate keeps a p99 of 1\.0 us; the least is"):
        schedules.tune(program(), "llvm", rules=[PARTS], executor=Uneven(pretended), database=tmp_path, p99=1e-6)


def test_what_cannot_be_asked_is_said() -> None:
    with pytest.raises(ValueError, match=r'effort is "none", "quick" or "full"'):
        schedules.tune(program(), "llvm", "slow")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tune takes a Schedule"):
        schedules.tune(program().func, "llvm")  # type: ignore[arg-type]
    with pytest.raises(lp.TargetError, match="the interpreter says what a nest means"):
        schedules.tune(program(), "interpret")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget_s": -1}, "budget_s=-1 is no number of seconds above 0"),
        ({"budget_s": "long"}, "budget_s='long' is no number"),
        ({"p99": 0}, "p99=0 is no number of seconds"),
        ({"executor": 3}, r"executor=3 has no submit\(\)"),
        ({"rules": [in_parts]}, "make one with @schedules.rule"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_options_that_no_run_could_use_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        schedules.tune(program(), "llvm", **options)


def test_a_run_that_compared_nothing_says_so_and_does_not_count(tmp_path: Path) -> None:
    asked = Pretended(pretended)
    found = schedules.tune(program(), "llvm", rules=[PARTS], executor=asked, database=tmp_path, budget_s=1e-9)
    assert found.name == "auto"
    assert "the time was up before any other candidate was compared" in str(found)
    again = schedules.tune(program(), "llvm", rules=[PARTS], executor=asked, database=tmp_path)
    assert again.source == "measured"
    assert again.gain > 1.5


# ---------------------------------------------------------------- recipes that are wrong, or do not end


@pytest.fixture
def leaving_one_out() -> Iterator[None]:
    """A step that is wrong, for a while: the last row is left out."""

    @lp.primitive
    def tuner_leaves_one_out(func: Func) -> Func:
        return lp.parse(lp.text(func).replace("range(96)", "range(95)", 1))

    yield
    del PRIMITIVES[tuner_leaves_one_out.__name__]
    delattr(lp.Schedule, tuner_leaves_one_out.__name__)


def endless(s: lp.Schedule, match: Any) -> lp.Schedule:
    while True:
        s.stages  # noqa: B018


def test_recipes_that_raise_or_do_not_end_are_no_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [Rule("broken", lambda v: 1 / 0, in_parts, "llvm"),
             Rule("elsewhere", lambda v: True, lambda s, m: program(), "llvm"), PARTS]  # fmt: skip
    found = list(Space(canonical(program()), "llvm", None, {}, rules).plans())
    said = {x.name: (x.outcome, x.said) for x in found if isinstance(x, NoCandidate)}
    assert said["broken"][1].startswith("ZeroDivisionError")
    assert "does not come from the Schedule" in said["elsewhere"][1]
    assert [x.name for x in found if isinstance(x, Candidate)][:2] == ["auto", "in parts"]
    monkeypatch.setattr(candidates, "RECIPE_SECONDS", 0.2)
    hung = Space(canonical(program()), "llvm", None, {}, [Rule("endless", lambda v: True, endless, "llvm")]).plans()
    assert ("endless", "hung", "it did not end in 0 s of scheduling") in [
        (x.name, x.outcome, x.said) for x in hung if isinstance(x, NoCandidate)
    ]


def test_rules_of_the_table_that_are_a_users_are_tried() -> None:
    before = len(RULES)
    schedules.rule(matches=lambda v: True, target="llvm", name="my own")(in_parts)
    try:
        assert "my own" in Space(canonical(program()), "llvm", None, {}).recipes
    finally:
        del RULES[before:]


@pytest.mark.usefixtures("leaving_one_out")
def test_a_wrong_recipe_is_caught_by_its_result(tmp_path: Path) -> None:
    """With real processes: results are compared before times count."""
    wrong = Rule("leaves one out", lambda v: True, lambda s, m: s.tuner_leaves_one_out(), "llvm")  # type: ignore[attr-defined]
    found = schedules.tune(program(), "llvm", rules=[wrong, PARTS], database=tmp_path, budget_s=2.5, threads=1)
    assert "wrong: leaves one out: 96 elements of" in str(found)
    assert found.name != "leaves one out"
    assert os.listdir(tmp_path)
    x = np.ones((96, 96), np.float32)
    assert (found.schedule.build("llvm")(x) == 3.0).all()


def test_a_rule_that_forgets_to_return_is_told_so() -> None:
    x = lp.placeholder((8, 8), "float32", name="x")
    s = lp.Schedule((x * 2.0).named("y"))
    forgetful = Rule("forgetful", lambda view: view, lambda s, match: s.parallel("i") and None, "llvm")  # type: ignore[arg-type,return-value]
    with pytest.raises(
        TypeError, match="the rule 'forgetful' gives None where a Schedule is wanted; a step gives a new"
    ):
        forgetful(s, None)
