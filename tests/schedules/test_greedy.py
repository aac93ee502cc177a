"""Greedy: what it groups, and where it stops, hangs on the program alone, and what it says is what it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import loopir as lp
import schedules
from schedules.greedy import Greedy, vetoed
from schedules.planner import Planner
from schedules.rules import NOTHING_TO_WIN, RULES, Rule, View, least_loops


def program() -> lp.Schedule:
    """Four stages along the same rows."""
    x: Any = lp.placeholder((4096, 4096), "float32", name="x")
    for n in range(2):
        x = (x - lp.max(x, axis=1, keepdims=True)).named(f"x{n}")
    return lp.Schedule(x)


def test_a_group_is_vetoed_if_it_has_two_of_those_that_stay_apart() -> None:
    apart = [(frozenset((0,)), frozenset((2, 3)))]
    assert vetoed(frozenset((0, 1, 3)), apart)
    assert not vetoed(frozenset((1, 2, 3)), apart)


@pytest.mark.parametrize("work", [0, 20])
def test_where_the_work_is_used_up_the_best_plan_so_far_is_taken_and_the_log_says_so(work: int) -> None:
    s = program()
    whole, stopped = schedules.plan(s, "cuda", arch="sm_90a"), schedules.plan(s, "cuda", arch="sm_90a", work=work)
    assert not any(d.kind == "work" for d in whole.decisions)
    last = stopped.decisions[-1]
    assert (last.kind, last.accepted) == ("work", False)
    assert f"the work of planning, {work} lines of nests" in str(last)
    assert [str(d) for d in stopped.decisions] == [
        str(d) for d in schedules.plan(s, "cuda", arch="sm_90a", work=work).decisions
    ]
    assert len(stopped.groups) > len(whole.groups) == 1
    assert lp.lower(stopped.apply(), "cuda")


def test_groups_that_were_priced_before_cost_no_work() -> None:
    planner = Planner(program(), "cuda", "sm_90a", {})
    first = planner.plan()
    spent = planner.spent
    planner.work = 0
    assert planner.plan().groups == first.groups
    assert planner.spent == spent > 0


def test_what_several_rules_make_alike_is_work_once() -> None:
    plain = next(r for r in RULES if (r.name, r.target) == ("plain", "cuda"))
    planner, group = Planner(program(), "cuda", "sm_90a", {}), frozenset(range(4))
    planner.rules = [replace(plain, name=name, last_resort=False) for name in ("one", "another")]
    found = planner.price(group)
    assert [name for name, _ in found.candidates] == ["one", "another"]
    assert planner.spent == lp.text(planner.plan(pins=[planner.program.stages]).apply().func).count("\n")


def test_what_was_tried_on_the_program_as_one_group_is_not_tried_again() -> None:
    planner = Planner(program(), "cuda", "sm_90a", {})
    planner.whole_tried = frozenset(("fused", "rows"))
    p = planner.plan()
    assert all(g.how not in planner.whole_tried for g in p.groups if len(g.stages) == len(planner.nests))


def test_greedy_is_as_good_as_exact_where_a_nest_has_two_groups_to_go_to() -> None:
    x, y = (lp.placeholder((512, 512), name=name) for name in "xy")
    u = (x * x.sum(axis=1, keepdims=True)).named("u")
    z = (lp.transpose(y, (1, 0)) + y).named("z")
    v, w = (lp.transpose(x, (1, 0)) + u).named("v"), (lp.transpose(u, (1, 0)) + u).named("w")
    planner = Planner(lp.Schedule([z, v, w]), "cuda", "sm_90a", {})
    assert planner.plan().seconds <= 1.01 * planner.plan(effort="exact").seconds


def test_a_nest_moves_to_the_group_where_it_saves_most() -> None:
    """Two nests that share nothing were grouped; one of them reads what a third reads."""
    x, y = (lp.placeholder((4096, 4096), name=name) for name in "xy")
    s = lp.Schedule([(x * 2.0).named("a"), lp.max(x, axis=1), (y + 1.0).named("c")])
    planner = Planner(s, "cuda", "sm_90a", {})
    start = [planner.ids((stage,)) for stage in ("a", "max", "c")]
    greedy = Greedy(planner, [], [], merges=3)
    greedy.groups = {g: planner.price(g) for g in (planner.ids(("a", "c")), planner.ids(("max",)))}
    before = sum(g.seconds for g in greedy.groups.values())
    greedy._move_nests(start)  # pyright: ignore[reportPrivateUsage]
    assert [(d.kind, d.a, d.b) for d in greedy.log] == [("move", ("a",), ("max",))]
    assert set(greedy.groups) == {planner.ids(("a", "max")), planner.ids(("c",))}
    assert sum(g.seconds for g in greedy.groups.values()) < before
    greedy = Greedy(planner, [(start[0], start[1])], [], merges=3)
    greedy.groups = {g: planner.price(g) for g in (planner.ids(("a", "c")), planner.ids(("max",)))}
    greedy._move_nests(start)  # pyright: ignore[reportPrivateUsage]
    assert not any({"a", "max"} <= {*planner.stages(g)} for g in greedy.groups)


def products(fold: bool) -> lp.Schedule:
    """A product of what is made of another one, by folds of its rows or of each element."""
    x, a, b = (lp.placeholder((256, 256), "float32", name=name) for name in "xab")
    made: Any = (x @ a).named("first")
    return lp.Schedule(((lp.softmax(made) if fold else lp.exp(made)) @ b).named("second"))


def test_products_on_a_cpu_are_one_loop_where_a_fold_is_between_them_alone() -> None:
    assert least_loops(View(products(fold=True), "llvm")) == 1
    assert least_loops(View(products(fold=False), "llvm")) == NOTHING_TO_WIN
    x, a, b, w = (lp.placeholder((256, 256), "float32", name=name) for name in "xabw")
    after = lp.Schedule((lp.softmax(x @ a) @ b) @ w)  # the last one runs by itself in any case
    assert least_loops(View(after, "llvm")) == NOTHING_TO_WIN


def test_a_rule_of_ones_own_is_asked_about_two_products_that_ours_leave_apart() -> None:
    seen: list[set[str]] = []

    def matches(view: View) -> None:
        seen.append(set(view.traits))

    p = schedules.plan(products(fold=False), "llvm", rules=[Rule("own", matches, lambda s, match: s, "llvm")])
    pairs = [d for d in p.decisions if d.kind != "whole" and {"first", "second"} <= {*d.a, *d.b}]
    assert pairs
    assert all(d.reason == "no rule gives fewer kernels" for d in pairs)
    assert any({"first", "second"} <= x for x in seen)


def test_merging_saves_no_kernel_that_a_product_needs_in_any_group() -> None:
    """One in parts, whose operand is stored first, has as many with a fold after it as the two have apart."""
    x, w = (lp.placeholder((256, 256), "float32", name=name) for name in "xw")
    p = Planner(lp.Schedule(lp.sum(x @ w, axis=1)), "cuda", "sm_90a", {})
    product, fold = (p.ids((x,)) for x in ("matmul", "sum"))
    groups = {product: replace(p.price(product), kernels=3), fold: p.price(fold)}
    greedy = Greedy(p, (), [], 1, groups=groups)
    greedy._merge_pairs(("producer",))  # pyright: ignore[reportPrivateUsage]
    assert [d.reason for d in greedy.log] == ["no rule gives fewer kernels"]


def test_a_convolution_starts_with_its_borders_and_with_what_takes_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that makes one nest of the three is asked alone; with the reader stored apart they are priced apart."""
    x, w = (lp.placeholder(n, "bfloat16", name=name) for n, name in (((1, 16, 8, 8), "x"), ((16, 16, 3, 3), "w")))
    s = lp.Schedule(lp.relu(lp.conv2d(x, w, padding=1)))

    def together(t: lp.Schedule, stages: tuple[str, ...]) -> lp.Schedule:
        border, conv, out = stages
        return t.compute_inline(border).compute_at(conv, t.loops(out)[-1]).bind(t.loops(out)[0], "blockIdx.x")

    def apart(t: lp.Schedule, stages: tuple[str, ...]) -> lp.Schedule:
        return t.compute_inline(stages[0]).bind(t.loops(stages[-1])[0], "blockIdx.x")

    plain = [r for r in RULES if r.last_resort]
    for schedule, count in ((together, 1), (apart, 3)):
        three = Rule("three", lambda view: view.schedule.stages if len(view.traits) == 3 else None, schedule)
        monkeypatch.setattr("schedules.planner.RULES", [three, *plain])
        p = Planner(s, "cuda", "sm_90a", {})
        greedy = Greedy(p, (), [], len(p.nests))
        greedy.begin(p.singles(frozenset()))
        assert len(greedy.groups) == count
        assert [d.a for d in greedy.log] == ([p.stages(frozenset((0, 1)))] if count == 1 else [])


def test_a_chain_of_products_takes_along_what_is_made_of_its_folds() -> None:
    """In a program of many stages, too, which is not tried as one group."""
    x, w = (lp.placeholder(n, "bfloat16", name=name) for n, name in (((4, 128, 64), "x"), ((64, 64), "w")))
    y = (x @ w).named("y")
    k = lp.placeholder((4, 128, 64), "bfloat16", name="k")
    scores = ((y @ k.transpose(0, 2, 1)).astype("float32") * 0.125).named("scores")
    most = lp.max(scores, axis=-1, keepdims=True)
    powers = lp.exp(scores - most).named("powers")
    total = lp.sum(powers, axis=-1, keepdims=True)
    out = ((powers * (1.0 / total)).astype("bfloat16") @ y).named("out")
    p = Planner(lp.Schedule((lp.relu(out @ w), (most + lp.log(total)).named("logarithm"))), "cuda", "sm_90a", {})
    greedy = Greedy(p, (), [], len(p.nests))
    greedy._product_chains(p.singles(frozenset()))  # pyright: ignore[reportPrivateUsage]
    assert any({"scores", "powers", "logarithm"} <= {*p.stages(g)} and found.kernels == 1
               for g, found in greedy.groups.items())  # fmt: skip
