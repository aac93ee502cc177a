"""Folds along rows by vectors of partial results, and of all that there is by parts: right at any length."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import same_in_the_ring

import loopir as lp
import schedules


def row_sums(m: Any) -> lp.Schedule:
    x = lp.placeholder((5, m), "float32", name="x")
    c = lp.reduce_axis(m, name="c")
    return lp.Schedule(lp.compute((5,), lambda i: lp.sum(x[i, c], axis=c), name="S"))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("length", [1, 3, 4, 7, 16, 33, 64])
def test_rows_of_any_length_are_folded_by_vectors(length: int, symbolic: bool) -> None:
    s = row_sums(lp.symbol("m") if symbolic else length)
    t = schedules.folded(s, "S", lanes=4)
    x = np.arange(5 * length, dtype=np.float32).reshape(5, length)
    same_in_the_ring(s, t, {"x": x}, {"m": length} if symbolic else {})
    np.testing.assert_array_equal(t.build("llvm")(x), x.sum(axis=1))


def test_a_fold_has_as_many_vectors_as_told_and_no_guard_where_they_fit() -> None:
    t = schedules.folded(row_sums(64), "S", lanes=4, vectors=2)
    assert "S_rf[c_i] = sum(x[i, c_o * 8 + c_i]" in lp.text(t.func)
    assert " if " not in lp.text(t.func)


def test_folds_take_vectors_that_machines_have_masks_for() -> None:
    """Three vectors would be masked, and folded at the end, element by element."""
    t = schedules.folded(row_sums(14), "S", lanes=4)
    assert 'alloc("float32[8]", scope="local") as S_rf' in lp.text(t.func)


@pytest.mark.parametrize("length", [7, 8, 21])
@pytest.mark.parametrize(("step", "lanes"), [(1, 8), (4, 8), (9, 4)])
def test_what_is_read_by_steps_has_as_many_partial_results_as_pay(step: int, lanes: int, length: int) -> None:
    x = lp.placeholder((5, length, step), "float32", name="x")
    c = lp.reduce_axis(length, name="c")
    s = lp.Schedule(lp.compute((5,), lambda i: lp.sum(x[i, c, 0], axis=c), name="S"))
    t = schedules.folded(s, "S", lanes=8)
    given = np.arange(5 * length * step, dtype=np.float32).reshape(5, length, step)
    same_in_the_ring(s, t, {"x": given}, {})
    np.testing.assert_array_equal(t.build("llvm")(given), given[:, :, 0].sum(axis=1))
    assert (t.func == s.func) == (length < lanes)


def test_short_folds_of_varying_length_are_one_by_one() -> None:
    text = (
        'def f(L: "float64[3, {0}, {0}]", x: "inout float64[3, {0}]"):\n    for b in range(3):\n'
        "        for i in range({0}):\n            for j in range(i):\n"
        "                x[b, i] -= L[b, i, j] * x[b, j]\n"
    )
    for n, partial in ((16, False), (200, True)):
        t = schedules.auto(lp.Schedule(lp.parse(text.format(n))), "llvm")
        assert any("_rf" in x for x in t.buffers) == partial


@settings(max_examples=3, deadline=None)
@given(st.sampled_from(["int8", "uint8", "int16"]), st.integers(1, 40000), st.booleans(), st.booleans())
def test_sums_of_narrow_integers_hold_the_extremes(dtype: str, length: int, count: bool, largest: bool) -> None:
    """Lanes add up in the narrowest integers that hold what they do; every term is as large as it can be."""
    x = lp.placeholder((length,), dtype, name="x")
    extreme = np.iinfo(dtype).max if largest else np.iinfo(dtype).min
    full = np.full(length, extreme, dtype)
    s = lp.Schedule(lp.sum(lp.where(x == int(extreme), 1, 0) if count else x).named("y"))
    made = schedules.folded(s, s.stages[0])
    assert made.build("llvm")(full) == (length if count else int(extreme) * length)


def test_a_count_of_bytes_is_in_bytes() -> None:
    x = lp.placeholder((4000,), "uint8", name="x")
    s = lp.Schedule(lp.sum(lp.where(x == 10, 1, 0)).named("y"))
    made = schedules.folded(s, s.stages[0])
    assert 'alloc("uint8[' in lp.text(made.func)
