"""Indices as a person writes them: gathers, clamps, and sizes written in two ways."""

# ruff: noqa: B023

import numpy as np
import pytest
from running import assert_as_numpy, inputs, run, sample
from test_views import X

import loopir as lp

INDEX = {
    "one": lambda t, i: t[i],
    "inside": lambda t, i: t[:, i],
    "two dimensions": lambda t, i, j: t[:, :, i[:, None] + j],
    "together": lambda t, i, j: t[i, j],
    "broadcast": lambda t, i, j: t[i[:, None], j],
    "apart": lambda t, i, j: t[i, :, j],
    "with an integer": lambda t, i: t[0, :, i],
    "next to an integer": lambda t, i: t[:, i, 2],
    "with a slice": lambda t, i: t[1:, i[::-1], ::2],
    "with new axes": lambda t, i: t[None, i, None],
}


@pytest.mark.parametrize("name", INDEX)
def test_gathers(name: str) -> None:
    f = INDEX[name]
    indices = [np.array([2, 0, -1], np.int64), np.array([1, -2, 0], np.int32)]
    assert_as_numpy(f, f, X, *indices[: f.__code__.co_argcount - 1])


def test_take_and_clamping() -> None:
    i = np.array([3, 0, 2], np.uint8)
    for axis in (1, -2):
        assert_as_numpy(lambda t, k: lp.take(t, k, axis=axis), lambda t, k: np.take(t, k, axis=axis), X, i)
    assert_as_numpy(lambda t, k: lp.take(t, k), lambda t, k: np.take(t, k), X, np.array([-3, 2], np.int8))
    far = np.array([-9, 9], np.int32)
    t, k = inputs(X, far)
    np.testing.assert_array_equal(run(lp.take(t, k, 0), X, far), X[[0, 2]])
    inner = lp.compute((2, 5), lambda a, b: t[k[a], 3 - k[a] * 0, b])
    np.testing.assert_array_equal(run(inner, X, far), X[[0, 2], 3])


def test_the_larger_of_two_indices_is_an_index() -> None:
    (t,) = inputs(X)
    above = lp.compute(X.shape, lambda a, b, c: t[lp.maximum(a - 1, 0), lp.minimum(X.shape[1] - 1, b + 1), c])
    expected = X[[0, *range(X.shape[0] - 1)]][:, [*range(1, X.shape[1]), X.shape[1] - 1]]
    np.testing.assert_array_equal(run(above, X), expected)
    assert "opaque" not in str(lp.Schedule(above))


def test_symbolic_sizes_that_are_written_in_two_ways_are_equal() -> None:
    n = lp.symbol("n")
    a, b = lp.placeholder((n + 1, 2), name="a"), lp.placeholder((1 + n, 3), name="b")
    x, y = sample("float32", (4, 2)), sample("float32", (4, 3))
    size = lp.placeholder((n,), name="n_")
    joined = lp.concatenate([a, b], axis=1) + size.sum()
    np.testing.assert_array_equal(run(joined, x, y, np.zeros(3, np.float32)), np.concatenate([x, y], 1))
    np.testing.assert_array_equal(run(a.T @ b + size.sum(), x, y, np.zeros(3, np.float32)), x.T @ y)


def test_places_counted_by_a_loop_are_that_loop() -> None:
    """A schedule sees them then: of a row, what is looked up is made where its sums are."""
    n = lp.symbol("n")
    x, at = lp.placeholder((n, 5), name="x"), lp.placeholder((n,), "int64", name="at")
    picked = lp.take_along_axis(x, at[:, None], 1)[:, 0] + x[lp.arange(n), 1] + x[-1 - lp.arange(n), 2]
    assert "x[i, " in str(lp.Schedule(picked))
    assert "x[i, 1]" in str(lp.Schedule(picked))
    numbers, places = sample("float32", (4, 5)), np.array([1, -1, 0, 4], np.int64)
    expected = numbers[np.arange(4), places] + numbers[:, 1] + numbers[::-1, 2]
    np.testing.assert_array_equal(run(picked, numbers, places), expected)
