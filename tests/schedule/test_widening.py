"""Folds without a start whose iterations become more: refused where they touch no element, or one at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.analysis.presburger.solver import effort
from loopir.arith.simplify import Context
from loopir.errors import LoopirError, ScheduleError
from loopir.ir.grammar import Reduce
from loopir.ir.traverse.walk import leaf_paths
from loopir.schedule.legality.widening import may_touch_more, require_apart_at_once, require_inside_shapes

FOLD = """
def f(n: "size", A: "float32[8, n]", S: "inout float32[8]"):
    for i in {outer}:
        for k in range({steps}):
            {guard}S[{at}] = sum(A[i, k], over=k)
"""


def fold(*, at: str = "i", outer: str = "range(8)", steps: str = "n", guard: str = "") -> lp.Func:
    test = f"if {guard}:\n                " if guard else ""
    return lp.parse(FOLD.format(at=at, outer=outer, steps=steps, guard=test))


@pytest.mark.parametrize(
    ("steps", "guard", "more"),
    [
        ("n", "", True),  # of no step it leaves its element alone
        ("4", "", False),
        ("n + 1", "", False),
        ("4", "i < 3", False),  # a guard that speaks of no loop that is folded over stays
        ("4", "k < 3", True),
        ("4", "i < 3 and k < i", True),
        ("0", "", True),
    ],
)
def test_a_fold_leaves_elements_alone_where_it_has_no_step(steps: str, guard: str, more: bool) -> None:
    func = fold(steps=steps, guard=guard)
    (place,) = leaf_paths(func.body)
    assert isinstance(place.stmt, Reduce)
    assert may_touch_more(place, place.around, Context.of(func)) is more


@settings(max_examples=15)
@given(
    st.integers(0, 3), st.integers(0, 4), st.sampled_from(["k < {}", "k <= i + {}", "k + {} < n"]), st.integers(0, 3)
)
def test_what_leaves_none_alone_touches_all_that_its_other_loops_give(n: int, steps: int, guard: str, c: int) -> None:
    """By the elements that the statement touches, counted."""
    func = fold(steps=str(steps), guard=guard.format(c))
    (place,) = leaf_paths(func.body)
    tests = {"k < {}": lambda i, k: k < c, "k <= i + {}": lambda i, k: k <= i + c, "k + {} < n": lambda i, k: k + c < n}
    touched = {i for i in range(8) for k in range(steps) if tests[guard](i, k)}
    if not may_touch_more(place, place.around, Context.of(func)):
        assert touched == set(range(8))


def test_an_element_outside_is_refused_with_the_iteration() -> None:
    now = fold(at="i + 4", guard="k < 2 and i < 4")
    wide = fold(at="i + 4", guard="i < 4")
    with effort():
        require_inside_shapes(now, wide, "S", {}, "S would be touched")
        with pytest.raises(ScheduleError, match=r"S would be touched where it is not touched now: S.* at") as told:
            require_inside_shapes(now, fold(at="i + 4"), "S", {}, "S would be touched")
    assert "conditions that speak of no reduced loop and keep S inside its shape" in str(told.value)


@pytest.mark.parametrize(
    ("at", "outer", "clash"),
    [
        ("i", "parallel(8)", False),
        ("i", 'bind("threadIdx.x", 8)', False),
        ("i // 2", "range(8)", False),  # one after the other
        ("i // 2", "parallel(8)", True),
        ("i % 4", 'bind("blockIdx.x", 8)', True),
        ("0", 'bind("threadIdx.x", 8)', True),
    ],
)
def test_one_element_at_once_is_refused(at: str, outer: str, clash: bool) -> None:
    func = fold(at=at, outer=outer)
    with effort():
        if not clash:
            require_apart_at_once(func, func, "S", {}, "S would be folded")
            return
        with pytest.raises(ScheduleError, match="S would be folded in iterations of 'i' that run at once") as told:
            require_apart_at_once(func, func, "S", {}, "S would be folded")
    assert "conditions that speak of no reduced loop" in str(told.value)


@settings(max_examples=10)
@given(
    st.sampled_from(["k < 2", "i < 4", "k < i", "i + 2 * k < 9", ""]),
    st.sampled_from(["range(8)", "parallel(8)"]),
    st.sampled_from(["i", "7 - i"]),
    st.sampled_from(["4", "n"]),
    st.integers(0, 3),
)
def test_a_copy_of_what_is_folded_is_refused_or_means_the_same(
    guard: str, outer: str, at: str, steps: str, n: int
) -> None:
    s = lp.Schedule(fold(at=at, outer=outer, steps=steps, guard=guard))
    try:
        t = s.cache_write("S", "local", at="i")
    except LoopirError:
        return
    assert_same(s.func, t.func, {"n": n if steps == "n" else 4})
