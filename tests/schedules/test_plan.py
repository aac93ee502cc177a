"""schedules.plan: what it gives means what the program means, keeps to what was asked, and says why."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing.generate.draws import between, choose
from schedules.greedy import NEAR_BOUND
from schedules.plan import Group
from schedules.planner import Planner, least_seconds

RNG = np.random.default_rng(0)
SHAPE = (12, 16)


@st.composite
def dags(draw: st.DrawFn, most: int = 4) -> lp.Schedule:
    """A program of several stored values over a few inputs, and one to three of them as outputs."""
    values = [lp.placeholder(SHAPE, "float32", name=f"x{n}") for n in range(draw(between(1, 2)))]
    for n in range(draw(between(1, most))):
        a, b = choose(draw, values), choose(draw, values)
        made: Any = choose(draw, [
            lambda a=a, b=b: a + b * 2.0, lambda a=a, b=b: a * b.sum(axis=1, keepdims=True),
            lambda a=a, b=b: a - lp.max(b, axis=0), lambda a=a, b=b: a @ lp.transpose(b, (1, 0)) @ b,
            lambda a=a, b=b: lp.reshape(lp.transpose(a, (1, 0)), SHAPE) + b, lambda a=a, b=b: lp.maximum(a, 0.0),
        ])()  # fmt: skip
        values.append(made.named(f"v{n}"))
    outputs = [v for v in values[-draw(between(1, 3)) :] if not v.name.startswith("x")]
    return lp.Schedule(outputs)


def ring(func: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    return lp.interpret(func, {k: v.copy() for k, v in arrays.items()}, {}, domain="ring")


def inputs(s: lp.Schedule) -> dict[str, Any]:
    return {a.buffer.name: RNG.integers(-4, 4, SHAPE).astype("float32") for a in s.func.args if a.access == "in"}


def same(s: lp.Schedule, made: lp.Schedule) -> None:
    arrays = inputs(s)
    want, got = ring(s.func, arrays), ring(made.func, arrays)
    assert want.keys() == got.keys()
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(dags(), st.sampled_from(["cuda", "llvm"]))
def test_a_plan_means_what_the_program_means(s: lp.Schedule, target: str) -> None:
    p = schedules.plan(s, target, arch="sm_90a" if target == "cuda" else None)
    made = p.apply()
    same(s, made)
    assert lp.lower(made, target)
    assert schedules.load(s, p.json()).apply() == made


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(dags(most=3))
def test_greedy_is_nearly_as_good_as_the_best_of_all(s: lp.Schedule) -> None:
    if len(lp.nests(s.func)) > 6:
        return
    greedy = schedules.plan(s, "cuda", arch="sm_90a")
    exact = schedules.plan(s, "cuda", arch="sm_90a", effort="exact")
    launch = min(g.seconds for g in greedy.groups)  # arrays are tiny here: greedy may be one launch behind
    assert exact.seconds * 0.999 <= greedy.seconds <= 1.1 * exact.seconds + launch


@cache
def norm() -> lp.Schedule:
    x = lp.placeholder((512, 512), "float32", name="x")
    return lp.Schedule([lp.softmax(x), (x * 2.0).named("z")])


@cache
def unmerged() -> schedules.Plan:
    """The plan of `norm` that leaves every nest a group by itself."""
    return schedules.plan(norm(), "cuda", arch="sm_90a", fuel=0)


def test_pins_and_vetoes_are_kept() -> None:
    s = norm()
    p = schedules.plan(s, "cuda", arch="sm_90a", vetoes=[("max", "sum")])
    assert p.group("max") is not p.group("sum")
    assert "veto" in p.why("max", "sum")
    p = schedules.plan(s, "cuda", arch="sm_90a", pins=[("max", "z")])
    assert {"max", "z"} <= set(p.group("z").stages)
    with pytest.raises(lp.ScheduleError, match="max, z are pinned together, and two of them vetoed"):
        schedules.plan(s, "cuda", arch="sm_90a", pins=[("max", "z")], vetoes=[("z", "max")])
    with pytest.raises(lp.ScheduleError, match="max, out cannot be one group: a stage runs between them"):
        schedules.plan(s, "cuda", arch="sm_90a", pins=[("max", "out")])
    with pytest.raises(lp.ScheduleError, match="there is no stage 'y'; there are max, sum"):
        schedules.plan(s, "cuda", arch="sm_90a", pins=[("max", "y")])


def test_a_softmax_is_one_kernel_and_says_why() -> None:
    x = lp.placeholder((8192, 1024), "float32", name="x")
    s = lp.Schedule(lp.softmax(x))
    p = schedules.plan(s, "cuda", arch="sm_90a")
    assert [(g.stages, g.how, g.kernels) for g in p.groups] == [(("max", "sum", "out"), "rows", 1)]
    assert str(p).startswith(f"{p.seconds * 1e6:.1f} us predicted on cuda sm_90a, 1 kernel")
    assert "max and out are in one group" in p.why("max", "out")
    assert p.why("max").startswith("max + sum + out")
    assert p.seconds == pytest.approx(lp.predict(p.apply(), "cuda").seconds)


def test_fuel_stops_merging() -> None:
    x = lp.placeholder((8192, 1024), "float32", name="x")
    s = lp.Schedule(lp.softmax(x))
    plans = [schedules.plan(s, "cuda", arch="sm_90a", fuel=n) for n in range(3)]
    assert [len(p.groups) for p in plans] == [3, 2, 1]
    assert plans[0].diff(plans[2]).splitlines()[0].endswith("us")
    assert plans[2].diff(plans[2]) == ""


def test_plans_are_edited() -> None:
    p = schedules.plan(norm(), "cuda", arch="sm_90a")
    q = p.edit(split=[["z"]])
    assert q.group("z").stages == ("z",)
    same_again = q.edit(how={"z": "plain"})
    assert same_again.group("z").how == "plain"
    with pytest.raises(lp.ScheduleError, match="there is no rule 'fast' for cuda; there are elementwise"):
        q.edit(how={"z": "fast"})
    with pytest.raises(lp.ScheduleError, match="cannot be one group"):
        unmerged().edit(fuse=[["max", "out"]])


def test_a_budget_is_kept_or_refused() -> None:
    a = lp.placeholder((512, 512), "float32", name="a")
    t = (a - lp.max(a, axis=0)).named("t")
    s = lp.Schedule(t - lp.max(t, axis=1, keepdims=True))
    p = schedules.plan(s, "cuda", arch="sm_90a")
    assert p.peak_bytes >= 512 * 4
    assert schedules.plan(s, "cuda", arch="sm_90a", budget=p.peak_bytes).peak_bytes <= p.peak_bytes
    with pytest.raises(ValueError, match=r"no plan keeps within 0\.0 MB between kernels; 0\.\d MB is the least found"):
        schedules.plan(s, "cuda", arch="sm_90a", budget=16)


def test_what_is_not_touched_of_an_argument_takes_no_time() -> None:
    """A slice, or gathered rows, of a table that is too large to be read in the time that these take."""
    machine, ids = lp.machine("sm_90a"), lp.placeholder((1 << 14,), "int32", name="ids")
    table, rows = (lp.placeholder((n, 64), name="x") for n in (1 << 22, 1 << 14))
    sliced, gathered, plain, every = (
        least_seconds(lp.Schedule((t * 2.0).named("y")), machine) for t in (table[: 1 << 14], table[ids], rows, table)
    )
    assert plain == sliced < gathered < plain + 1e-7  # the numbers of the rows are read, too
    assert every == pytest.approx(machine.memory_seconds(1 << 30, 1 << 30) + machine.launch + machine.latency)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(dags(most=2))
def test_no_group_takes_less_than_the_least_seconds_of_its_program(s: lp.Schedule) -> None:
    """Of what is planned, each group by itself and all of it as one."""
    planner = Planner(s, "cuda", "sm_90a", {})
    for ids in (*planner.singles(frozenset()), frozenset(range(len(planner.nests)))):
        found = planner.found(ids)
        planner.price(ids)
        made = [g for g in found.tried.values() if isinstance(g, Group)]
        assert all(g.seconds >= found.bound / NEAR_BOUND * (1 - 1e-9) for g in made)


def test_alike_layers_are_looked_at_once() -> None:
    """Six layers need few more groups to be scheduled than three, where they meet."""
    counts = []
    for layers in (3, 6):
        x = lp.placeholder((512, 512), "float32", name="x")
        for n in range(layers):
            x = lp.softmax(x).named(f"s{n}")
        counts.append(schedules.plan(lp.Schedule(x), "cuda", arch="sm_90a", fuel=2 * layers).evaluated)
    assert counts[1] <= counts[0] + 5


def test_a_chain_of_rows_is_merged_by_halves() -> None:
    """A chain of twice as many stages along rows takes one group more to be scheduled, not one for each link."""
    counts = []
    for stages in (4, 8):
        x = lp.placeholder((512, 512), "float32", name="x")
        for n in range(stages):
            x = (x - lp.max(x, axis=1, keepdims=True)).named(f"s{n}")
        p = schedules.plan(lp.Schedule(x), "cuda", arch="sm_90a")
        assert len(p.groups) == 1
        counts.append(p.evaluated)
    assert counts[1] <= counts[0] + 1


def test_planning_makes_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one imports sympy, which takes longer than planning; functions of real numbers are told without."""

    def formula(s: lp.Schedule) -> None:
        raise AssertionError("a formula of the cost is asked for")

    monkeypatch.setattr(lp.Schedule, "cost", property(formula))
    x = lp.placeholder((1 << 16,), "bfloat16", name="x")
    assert schedules.auto(lp.Schedule(lp.exp(x)), "cuda", arch="sm_90a").loops() != ()
    h = lp.placeholder((64, 64), "bfloat16", name="h")
    assert schedules.plan(lp.Schedule(lp.exp(h @ h)), "cuda", arch="sm_90a").kernels > 0
    assert schedules.plan(lp.Schedule([lp.softmax(h), lp.exp(h)]), "cuda", arch="sm_90a").kernels > 0


def test_what_several_rules_give_is_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    price = lp.predict

    def counted(s: lp.Schedule, *args: Any, **kwargs: Any) -> Any:
        texts.append(lp.text(s.func))
        return price(s, *args, **kwargs)

    monkeypatch.setattr(lp, "predict", counted)
    x = lp.placeholder((512, 512), "float32", name="x")
    schedules.plan(lp.Schedule([lp.softmax(x), lp.max(x, axis=1)]), "cuda", arch="sm_90a")
    again = Counter(texts) - Counter(set(texts))
    assert len(set(texts)) > 1
    assert again.total() <= 2  # those that a recipe took among others by their price: of all stages, and of the folds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is no JSON"),
        ("[]", "this is no plan of version 2"),
        ('{"loopir plan": 1}', "this is no plan of version 2"),
        ('{"loopir plan": 2, "program": "def f(): ..."}', "of another program"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedules.load(norm(), text)


def test_a_forged_plan_is_proved_again() -> None:
    s, p = norm(), unmerged()
    for change, error, message in (
        ({"trace": [["parallel", ["j"], []]], "stages": ["max"]}, lp.ScheduleError, "not independent"),
        ({"trace": [["__import__", ["os"], []]], "stages": ["max"]}, lp.ScheduleError, "there is no primitive"),
        ({"trace": "rm", "stages": ["max"]}, TypeError, "groups is"),
        ({"stages": ["z"]}, ValueError, "each once"),
        ({"stages": 3}, ValueError, "damaged"),
        ({"kernels": {}}, ValueError, "damaged"),
    ):
        read = json.loads(p.json())
        (first,) = (g for g in read["groups"] if g["stages"] == ["max"])
        first |= change
        with pytest.raises(error, match=message):
            schedules.load(s, json.dumps(read))


def test_a_rule_of_ones_own_is_tried_priced_and_told() -> None:
    s = lp.Schedule((lp.placeholder((4096, 4096), "float32", name="x") * 2.0).named("y"))

    def quick(s: lp.Schedule, stage: str) -> lp.Schedule:
        return schedules.elementwise(s, stage, threads=64)

    def wrong(s: lp.Schedule, stage: str) -> lp.Schedule:
        raise KeyError("my table")

    def other(s: lp.Schedule, stage: str) -> lp.Schedule:
        return lp.Schedule(s.func).unroll("j")

    rules = [schedules.Rule(f.__name__, lambda v: v.only("elementwise"), f) for f in (wrong, other, quick)]
    g = schedules.plan(s, "cuda", arch="sm_90a", rules=rules).group("y")
    assert g.how == "quick"
    assert dict(g.refused) == {
        "wrong": "the rule has an error of its own and says nothing of these stages (KeyError: 'my table')",
        "other": "ScheduleError: what it gives does not come from the Schedule that it was given",
    }


def test_effort_and_programs_are_checked() -> None:
    with pytest.raises(ValueError, match='effort is "greedy" or "exact"'):
        schedules.plan(norm(), "cuda", arch="sm_90a", effort="most")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="plan takes a Schedule"):
        schedules.plan(3, "cuda")  # type: ignore[arg-type]
    with pytest.raises(lp.TargetError, match="there is no architecture 'hopper'"):
        Planner(norm(), "cuda", "hopper", {})


def test_auto_takes_the_plan_where_it_saves_enough() -> None:
    """Three folds along the rows of 256 MB were four launches."""
    x = lp.placeholder((8192, 8192), "float32", name="x")
    s = lp.Schedule([lp.mean(x, axis=1), lp.max(x, axis=1), lp.sum(x * x, axis=1)])
    made, before = schedules.auto(s, "cuda", arch="sm_90a"), schedules.gpu(s, arch="sm_90a")
    assert lp.predict(made, "cuda").kernels == 1
    assert lp.predict(made, "cuda").seconds < 0.5 * lp.predict(before, "cuda").seconds


def test_optimizer_steps_of_several_tensors_are_one_launch() -> None:
    outputs: list[Any] = []
    for n in range(3):
        p, g, m = (lp.placeholder((1 << 18,), "float32", name=f"{x}{n}") for x in "pgm")
        moved = (m * 0.9 + g * 0.1).named(f"m_{n}")
        outputs += [moved, (p - moved * 0.001).named(f"p_{n}")]
    assert schedules.plan(lp.Schedule(outputs), "cuda", arch="sm_90a").kernels == 1


def test_a_product_takes_what_rounds_it_along_without_being_looked_at_alone() -> None:
    a, b = (lp.placeholder((1024, 1024), "bfloat16", name=x) for x in "ab")
    p = schedules.plan(lp.Schedule(lp.relu(a @ b)), "cuda", arch="sm_90a")
    assert p.kernels == 1
    assert p.evaluated == 1
    assert p.decisions[0].reason == "fused; apart, it is at least that"


def test_auto_gives_what_is_written_where_recipes_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*args: object, **options: object) -> lp.Schedule:
        raise IndexError("a recipe's own fault")

    for name in ("gpu", "cpu", "Planner"):
        monkeypatch.setattr(sys.modules[schedules.auto.__module__], name, raises)
    s = norm()
    for target in ("cuda", "llvm"):
        with pytest.warns(RuntimeWarning, match="a recipe failed, and is left out: IndexError: a recipe's own fault"):
            assert schedules.auto(s, target) == s


def test_a_diagonal_is_read_where_a_matrix_needs_it() -> None:
    """Distances of points by their products: the diagonal of these is no launch of its own."""
    x = lp.placeholder((48, 16), "float32", name="x")
    g = x @ x.T
    d = lp.compute((48,), lambda i: g[i, i], name="d")
    s = lp.Schedule(lp.compute((48, 48), lambda i, j: d[i] + d[j] - 2.0 * g[i, j], name="out"))
    found = schedules.plan(s, "cuda", arch="sm_90a")
    assert found.group("d") is found.group("out")
    assert found.group("out").kernels == 1
    made = found.apply()
    given = np.arange(48 * 16, dtype=np.float32).reshape(48, 16) % 5
    with lp.scheduling_for(lp.machine("sm_90a")):
        (lowered,) = lp.lower(made, "cuda")
    (got,), (want,) = (lp.interpret(f, [given]).values() for f in (lowered, s.func))
    np.testing.assert_array_equal(got, want)
