"""scatter_add and scatter_reduce are NumPy's ufunc.at, at indices that are equal, and shorter than what they go to."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules

UFUNCS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@settings(max_examples=12, deadline=None)
@given(st.data(), st.sampled_from(sorted(UFUNCS)), st.integers(0, 1), st.integers(1, 3))
def test_updates_are_folded_in(data: st.DataObject, how: str, axis: int, rows: int) -> None:
    shape = (3, 4)
    sizes = (rows, 2)
    index = np.array(data.draw(st.lists(st.integers(0, shape[axis] - 1), min_size=rows * 2, max_size=rows * 2)))
    x, new = np.arange(12, dtype=np.int32).reshape(shape), np.arange(1, rows * 2 + 1, dtype=np.int32).reshape(sizes)
    index = index.reshape(sizes).astype(np.int64)
    tensors = [lp.placeholder(a.shape, a.dtype.name, name=n) for a, n in ((x, "x"), (index, "i"), (new, "u"))]
    made = lp.scatter_reduce(tensors[0], axis, tensors[1], tensors[2], how).named("y")
    expected = x.copy()
    places = [*np.indices(sizes)]
    places[axis] = index
    UFUNCS[how].at(expected, tuple(places), new)
    np.testing.assert_array_equal(lp.interpret(lp.to_func([made]), {"x": x, "i": index, "u": new})["y"], expected)


def test_scatter_add_adds_and_bad_ones_are_refused() -> None:
    x, u = (lp.placeholder((4,), "float32", name=n) for n in "xu")
    i = lp.placeholder((4,), "int64", name="i")
    kernel = lp.Schedule(lp.scatter_add(x, 0, i, u).named("y")).build("llvm")
    one = np.ones(4, np.float32)
    assert kernel(one, one, np.array([1, 1, 3, 1])).tolist() == [1, 4, 1, 2]
    with pytest.raises(lp.ExprError, match="an index is an integer for each element"):
        lp.scatter_add(x, 0, u, u)
    with pytest.raises(lp.ExprError, match="it is one of sum, prod, amax, amin"):
        lp.scatter_reduce(x, 0, i, u, "mean")


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(["float16", "int8", "float64"]), st.sampled_from(sorted(UFUNCS)), st.lists(st.integers(-3, 6)))
def test_indices_outside_go_nowhere(dtype: str, how: str, found: list[int]) -> None:
    index = np.array([*found, 0, 0], np.int64)
    x, new = np.ones(4, dtype), np.full(len(index), 2, dtype)
    inside = index[(index >= 0) & (index < 4)]
    tensors = [lp.placeholder(a.shape, a.dtype.name, name=n) for a, n in ((x, "x"), (index, "i"), (new, "u"))]
    s = lp.Schedule(lp.scatter_reduce(tensors[0], 0, tensors[1], tensors[2], how).named("y"))
    expected = x.copy()
    UFUNCS[how].at(expected, inside, new[: len(inside)])
    np.testing.assert_array_equal(s.build("interpret")(x, index, new), expected)


def test_each_update_is_looked_at_once() -> None:
    """Not for each element of the result: gradients of embeddings have millions of these."""
    x, u = lp.placeholder((5000, 64), name="x"), lp.placeholder((300, 64), name="u")
    s = lp.Schedule(lp.scatter_add(x, 0, lp.placeholder((300, 64), "int64", name="i"), u))
    assert sum(float(n) for n in s.cost.by_statement.values()) <= 5000 * 64 * 2 + 300 * 64
    made = schedules.auto(s, "cuda", arch="sm_90a")
    assert "atomic=True" in str(made)
    assert made.report().seconds < 1e-5
