"""What auto takes: a schedule by formulas where that is predicted to be worth it, and the program as written else."""

import sys
from dataclasses import replace
from typing import Any

import pytest
from named_programs import PROGRAMS
from planned_programs import norm

import loopir as lp
import schedules
from schedules import rules


def test_a_schedule_predicted_to_be_slower_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what was made is predicted to take far longer than the program as written, that stays."""
    s = lp.Schedule(lp.placeholder((4096,), "float32", name="x") * 2.0)
    made = schedules.auto(s, "llvm")
    assert made.trace
    price = lp.predict

    def priced(t: lp.Schedule, *args: Any, **kwargs: Any) -> Any:
        found = price(t, *args, **kwargs)
        return replace(found, seconds=found.seconds * (100.0 if t.trace else 1.0))

    monkeypatch.setattr(lp, "predict", priced)
    assert schedules.auto(s, "llvm") is s
    every = lp.Schedule(lp.placeholder((lp.symbol("n"),), "float32", name="x") * 2.0)
    assert schedules.auto(every, "llvm").trace  # at 1024, which is taken where no size is given, it may be slower


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_auto_is_predicted_no_slower_than_as_written(name: str) -> None:
    s = PROGRAMS[name].schedule(*PROGRAMS[name].fits)
    written, made = (lp.predict(x, "llvm", threads=1).seconds for x in (s, schedules.auto(s, "llvm")))
    assert made <= 1.5 * written


def test_auto_takes_the_plan_where_it_saves_enough() -> None:
    """Three folds along the rows of 256 MB were four launches."""
    x = lp.placeholder((8192, 8192), "float32", name="x")
    s = lp.Schedule([lp.mean(x, axis=1), lp.max(x, axis=1), lp.sum(x * x, axis=1)])
    made, before = schedules.auto(s, "cuda", arch="sm_90a"), schedules.gpu(s, arch="sm_90a")
    assert lp.predict(made, "cuda").kernels == 1
    assert lp.predict(made, "cuda").seconds < 0.5 * lp.predict(before, "cuda").seconds


def test_auto_gives_what_is_written_where_recipes_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*args: object, **options: object) -> lp.Schedule:
        raise IndexError("a recipe's own fault")

    for name in ("gpu", "cpu", "Planner"):
        monkeypatch.setattr(sys.modules[schedules.auto.__module__], name, raises)
    s = norm()
    for target in ("cuda", "llvm"):
        with pytest.warns(RuntimeWarning, match="a recipe failed, and is left out: IndexError: a recipe's own fault"):
            assert schedules.auto(s, target) == s


@pytest.mark.parametrize("n", [4096, lp.symbol("n")])
@pytest.mark.parametrize("target", ["cuda", "llvm"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_rules_that_users_have_added_are_tried(
    n: Any, target: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of programs of any size: of those, too, that are not planned without such rules."""
    asked = list[str]()
    monkeypatch.setattr(rules, "RULES", every := [*rules.RULES])
    monkeypatch.setattr("schedules.planner.RULES", every)

    @schedules.rule(matches=lambda view: view.only("fold along", "elementwise"), target=target)
    def as_it_is(s: lp.Schedule, stage: str) -> lp.Schedule:
        asked.append(stage)
        return s

    x = lp.placeholder((n, 64), "float32", name="x")
    stages = [
        lp.sum(x, axis=1).named("total"),
        lp.max(x, axis=1).named("most"),
        (x + 1.0).named("y"),
        lp.min(x, axis=1),
    ]
    assert schedules.auto(lp.Schedule(stages[:count]), target).trace
    assert asked


def test_what_auto_is_given_is_checked() -> None:
    s = norm()
    assert schedules.auto(s, "interpret") is s
    with pytest.raises(TypeError, match=r"auto takes a Schedule, as lp.Schedule\(A @ B\), and is given a Func"):
        schedules.auto(s.func, "llvm")  # type: ignore[arg-type]
    with pytest.raises(lp.TargetError, match="there is no architecture 'hopper'"):
        schedules.auto(s, "cuda", arch="hopper")
