"""Functions that each row evaluates alike are evaluated once into a table, and mean the same."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.common.hoisted_tables import hoisted_tables
from schedules.common.nest_queries import evaluates_functions
from schedules.llvm.auto_cpu import cpu

FUNCTIONS = (lp.exp, lp.cos, lp.tanh)


def program(shape: list[int], factors: list[list[int]], fold: int | None, *, nested: bool) -> lp.Schedule:
    """A product of an array and of functions of vectors along some of its dimensions, folded along one of them."""
    value = lp.placeholder(shape, "float32", name="x")
    for n, dims in enumerate(factors):
        inner = value * 0.0 if not dims else 1.0
        for d in dims:
            along = lp.placeholder((shape[d],), "float32", name=f"v{n}_{d}")
            part = lp.reshape(along, [shape[d] if e == d else 1 for e in range(len(shape))])
            inner = (lp.sin(part) if nested else part) * inner
        value = value * FUNCTIONS[n](inner)
    return lp.Schedule((value if fold is None else lp.sum(value, axis=fold)).named("y"))


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_tables_mean_the_same(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
    dims = st.lists(st.integers(0, len(shape) - 1), max_size=len(shape), unique=True)
    factors = data.draw(st.lists(dims, min_size=1, max_size=3))
    fold = data.draw(st.none() | st.integers(0, len(shape) - 1))
    s = program(shape, factors, fold, nested=data.draw(st.booleans()))
    made = s
    for stage in s.stages:
        made = hoisted_tables(made, stage)
    assert_equivalent(s, made)
    assert_equivalent(s, cpu(s, 4))


def test_a_window_is_made_once() -> None:
    n, m = lp.symbol("n"), lp.symbol("m")
    x, w = lp.placeholder((n, m), "float32", name="x"), lp.placeholder((m,), "float32", name="w")
    for value in (x * lp.exp(w), lp.sum(x * lp.exp(w), axis=1), (x - lp.mean(x, axis=1, keepdims=True)) * lp.exp(w)):
        made = cpu(lp.Schedule(value.named("y")), 4)
        evaluating = [stage for stage in made.stages if evaluates_functions(made, stage)]
        assert evaluating
        assert all("x[" not in lp.text(made.loop(made.loops(stage)[0])) for stage in evaluating)


def test_a_row_that_is_folded_stays_in_one_loop() -> None:
    x, w = lp.placeholder((64, 48), "float32", name="x"), lp.placeholder((48,), "float32", name="w")
    made = cpu(lp.Schedule(((x - lp.mean(x, axis=1, keepdims=True)) * lp.exp(w)).named("y")), 4)
    assert len({made.loops(stage)[0] for stage in made.stages if "y_h" not in stage}) == 1


def test_what_depends_on_the_rows_stays() -> None:
    x, w = lp.placeholder((8, 16), "float32", name="x"), lp.placeholder((8,), "float32", name="w")
    for value in (lp.exp(x), x * lp.exp(w)[:, None]):  # what stays along a row leaves the loop as it is
        s = lp.Schedule(value.named("y"))
        assert hoisted_tables(s, "y").func is s.func
