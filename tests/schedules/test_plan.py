"""schedules.plan: what it gives means what the program means, keeps to what was asked, and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from planned_programs import SHAPE, dags

import loopir as lp
import schedules

RNG = np.random.default_rng(0)


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


def test_a_softmax_is_one_kernel_and_says_why() -> None:
    x = lp.placeholder((8192, 1024), "float32", name="x")
    s = lp.Schedule(lp.softmax(x))
    p = schedules.plan(s, "cuda", arch="sm_90a")
    assert [(g.stages, g.how, g.kernels) for g in p.groups] == [(("max", "sum", "out"), "rows", 1)]
    assert str(p).startswith(f"{p.seconds * 1e6:.1f} us predicted on cuda sm_90a, 1 kernel")
    assert "max and out are in one group" in p.why("max", "out")
    assert p.why("max").startswith("max + sum + out")
    assert p.seconds == pytest.approx(lp.predict(p.apply(), "cuda").seconds)


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


def test_a_rule_of_ones_own_is_tried_priced_and_told() -> None:
    s = lp.Schedule((lp.placeholder((4096, 4096), "float32", name="x") * 2.0).named("y"))

    def quick(s: lp.Schedule, stage: str) -> lp.Schedule:
        return schedules.elementwise(s, stage, threads=64)

    def wrong(s: lp.Schedule, stage: str) -> lp.Schedule:
        raise KeyError("my table")

    def other(s: lp.Schedule, stage: str) -> lp.Schedule:
        return lp.Schedule(s.func).unroll("j")

    def ends(s: lp.Schedule, stage: str) -> lp.Schedule:
        raise SystemExit("my script")

    rules = [schedules.Rule(f.__name__, lambda v: v.only("elementwise"), f) for f in (wrong, ends, other, quick)]
    g = schedules.plan(s, "cuda", arch="sm_90a", rules=rules).group("y")
    assert g.how == "quick"
    assert dict(g.refused) == {
        "wrong": "the rule has an error of its own and says nothing of these stages (KeyError: 'my table')",
        "ends": "the rule has an error of its own and says nothing of these stages (SystemExit: my script)",
        "other": "ScheduleError: what it gives does not come from the Schedule that it was given",
    }


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
