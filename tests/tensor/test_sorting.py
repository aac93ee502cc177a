"""sort, argsort and topk are NumPy's stable ones, on rows with equal elements and NaN."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.lower.pipeline import lower
from loopir.tensor import sorting
from schedules.cuda.steps_in_blocks import own_intermediates, steps_in_blocks

NUMBERS = st.lists(st.sampled_from([0.0, -1.5, 2.0, 7.0, float("inf"), float("nan")]), min_size=2, max_size=6)


def run(*results: Any, **arrays: Any) -> Any:
    return lp.interpret(lp.to_func(list(results)), arrays)


@settings(max_examples=12, deadline=None)
@given(
    NUMBERS, st.booleans(), st.sampled_from([0, 8]), st.sampled_from(["float32", "float16", "int8", "bool"]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_rows_are_sorted_as_numpy_sorts_them(
    row: list[float], network: bool, stages: int, dtype: str, descending: bool, columns: bool
) -> None:
    numbers = np.array([row, row[::-1]])
    a = (numbers if dtype.startswith("f") else np.nan_to_num(numbers, posinf=127, neginf=-128)).astype(dtype)
    a = a.T.copy() if columns else a
    axis = 0 if columns else 1
    x = lp.placeholder(a.shape, dtype, name="x")
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(sorting, "NETWORK_SIZE", 2 if network else 1000)
        s, i = lp.sort(x, axis, descending), lp.argsort(x, axis, descending)
        changed.setattr(sorting, "NETWORK_SIZE", 1)
        changed.setattr(sorting, "ROUNDS_OF_A_PASS", 0)
        changed.setattr(sorting, "MOST_SELECTED", stages)
        values, places = lp.topk(x, 2, axis, largest=descending)
    got = run(s.named("s"), i.named("i"), values.named("v"), places.named("p"), x=a)
    wide = a.astype(np.float64)
    keys = np.where(np.isnan(wide), np.inf, wide), np.isnan(wide)  # NaN above infinity, and equal to NaN
    ranks = np.unique(np.stack([keys[1], keys[0]]).reshape(2, -1), axis=1, return_inverse=True)[1].reshape(a.shape)
    order = np.argsort(-ranks if descending else ranks, axis=axis, kind="stable")
    np.testing.assert_array_equal(got["i"], order)
    assert got["s"].tobytes() == np.take_along_axis(a, order, axis).tobytes()
    first = order.take([0, 1], axis)
    np.testing.assert_array_equal(got["p"], first)
    assert got["v"].tobytes() == np.take_along_axis(a, first, axis).tobytes()


def test_a_network_on_vectors_sorts_rows_of_any_length() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (5, 100)).astype(np.float32)
    a[a == 3], a[a == 5], a[a == 7] = np.nan, np.inf, -0.0
    x = lp.placeholder((lp.symbol("n"), 100), "float32", name="x")
    s = schedules.auto(lp.Schedule([lp.argsort(x), lp.topk(x, 7)[0]]), "llvm")
    order, largest = s.build("llvm")(a)
    np.testing.assert_array_equal(order, np.argsort(a, axis=1, kind="stable"))
    np.testing.assert_array_equal(largest, np.sort(a)[:, ::-1][:, :7])
    assert any(s.loop(x).kind == "vectorize" for x in s.loops("key_2"))


def test_topk_gives_values_and_places() -> None:
    a = np.array([[3, 1, 3, 2]], np.int32)
    x = lp.placeholder(a.shape, "int32", name="x")
    values, at = lp.topk(x, 3)
    got = run(values.named("v"), at.named("i"), x=a)
    assert got["v"].tolist() == [[3, 3, 2]]
    assert got["i"].tolist() == [[0, 2, 3]]
    smallest = run(lp.topk(x, 2, largest=False)[0].named("v"), x=a)
    assert smallest["v"].tolist() == [[1, 2]]


def test_few_elements_of_a_long_row_are_selected_one_by_one() -> None:
    a = np.array([[2, 2, -128, 127, 5]], np.int8)
    x = lp.placeholder((1, lp.symbol("n")), "int8", name="x")
    values, places = lp.topk(x, 4, largest=False)
    s = lp.Schedule([values, places])
    assert sum(x.startswith("first") for x in s.stages) == 4
    got = s.build("interpret")(a)
    assert [g.tolist() for g in got] == [[[-128, 2, 2, 5]], [[2, 0, 1, 4]]]


@pytest.mark.parametrize("largest", [True, False])
def test_more_elements_than_a_few_are_selected_in_one_nest(largest: bool) -> None:
    """Equal ones and NaN among them; on a GPU rows are blocks, without races."""
    a = np.random.default_rng(0).integers(-9, 9, (2, 75)).astype(np.float32)
    a[a == 3], a[a == 5], a[a == -5] = np.nan, np.inf, -np.inf
    s = lp.Schedule(list(lp.topk(lp.placeholder(a.shape, "float32", name="x"), 12, largest=largest)))
    keys = np.where(np.isnan(a), np.inf, a), np.isnan(a)
    expected = np.lexsort([-keys[1].astype(int), -keys[0]] if largest else [keys[1], keys[0]])[:, :12]
    made = steps_in_blocks(own_intermediates(s, "key_1"), "key_1", threads=64)
    assert "threadIdx.x" in [made.loop(x).kind for x in made.loops("k_1")]
    for f in (s.func, lower(made.func, "cuda")):
        got = lp.interpret(f, {"x": a})
        np.testing.assert_array_equal(got["out_1"], expected)
        assert got["out"].tobytes() == np.take_along_axis(a, expected, 1).tobytes()


def test_what_cannot_be_sorted_is_refused() -> None:
    with pytest.raises(lp.ExprError, match="k=5; it is from 0 to the size along the axis, 4"):
        lp.topk(lp.placeholder((4,), "float32", name="x"), 5)
    with pytest.raises(lp.ExprError, match="which has no dimension to sort along"):
        lp.sort(lp.placeholder((), "float32", name="x"))
