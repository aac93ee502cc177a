"""squeeze, expand_dims, flip, tril, triu and split as NumPy's; refusals by message."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, run, sample

import loopir as lp

SHAPES = st.lists(st.integers(1, 3), min_size=2, max_size=4).map(tuple)


def some(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return sample("int32", shape)


@settings(max_examples=40, deadline=None)
@given(st.data(), SHAPES)
def test_dimensions_of_one(data: st.DataObject, shape: tuple[int, ...]) -> None:
    ones = [d for d, n in enumerate(shape) if n == 1]
    axis = data.draw(st.none() | st.sets(st.sampled_from(ones)).map(tuple) if ones else st.none())
    assert_as_numpy(lambda t: lp.squeeze(t, axis) + 0, lambda a: np.squeeze(a, axis), some(shape))
    new = data.draw(st.sets(st.integers(0, len(shape) + 1), min_size=2, max_size=2)) if data.draw(st.booleans()) else -1
    place = tuple(new) if isinstance(new, set) else new
    assert_as_numpy(lambda t: lp.expand_dims(t, place), lambda a: np.expand_dims(a, place), some(shape))


@settings(max_examples=40, deadline=None)
@given(st.data(), SHAPES, st.integers(-4, 4))
def test_flips_and_triangles(data: st.DataObject, shape: tuple[int, ...], k: int) -> None:
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1) | st.just((0, -1)))
    assert_as_numpy(lambda t: lp.flip(t, axis), lambda a: np.flip(a, axis), some(shape))
    assert_as_numpy(lambda t: lp.tril(t, k), lambda a: np.tril(a, k), some(shape))
    assert_as_numpy(lambda t: lp.triu(t, k), lambda a: np.triu(a, k), some(shape))


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 1, -1]))
def test_split(data: st.DataObject, parts: int, width: int, axis: int) -> None:
    x = some((parts * width, parts * width))
    where = data.draw(st.just(parts) | st.lists(st.integers(0, 6), max_size=3).map(sorted))
    t = lp.placeholder(x.shape, "int32", name="x")
    expected = np.split(x, where, axis)
    found = lp.split(t, where, axis)
    assert [f.shape for f in found] == [e.shape for e in expected]
    for ours, theirs in zip(found, expected, strict=True):
        if theirs.size:
            np.testing.assert_array_equal(run(ours + 0, x), theirs)


def test_split_of_a_size_that_is_a_multiple() -> None:
    n = lp.symbol("n", multiple_of=4)
    x = lp.placeholder((n,), "int32", name="x")
    a, b = lp.split(x, 2)
    given_ = np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(run(a - b, given_), given_[:4] - given_[4:])
    with pytest.raises(lp.ExprError, match="into 3 parts along axis 0: the parts are not of one size"):
        lp.split(x, 3)


X = lp.placeholder((2, 1, 3), "float32", name="X")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: lp.squeeze(X, 0), "axis 0 of X .* whose size is not 1; only such an axis goes"),
        (lambda: lp.squeeze(X, 5), "squeeze along axis 5 of X .* an axis is from -3 to 2"),
        (lambda: lp.expand_dims(X, (0, 0)), "an axis is named twice"),
        (lambda: lp.flip(X, "0"), "flip along axis '0' of X .* an axis is an integer"),
        (lambda: lp.tril(X[0, 0]), "tril of .* a matrix has two dimensions"),
        (lambda: lp.triu(X, 0.5), "the diagonal k is an integer"),
        (lambda: lp.split(X, 2, axis=2), "the parts are not of one size"),
    ],
)
def test_refusals(wrong: Any, told: str) -> None:
    with pytest.raises(lp.ExprError, match=told):
        wrong()


@settings(max_examples=25, deadline=None)
@given(st.data(), SHAPES, st.integers(-5, 5))
def test_axes_trade_places_and_elements_repeat(data: st.DataObject, shape: tuple[int, ...], by: int) -> None:
    axis = st.integers(-len(shape), len(shape) - 1)
    a, b = data.draw(axis), data.draw(axis)
    assert_as_numpy(lambda t: t.swapaxes(a, b) + 0, lambda x: np.swapaxes(x, a, b), some(shape))
    assert_as_numpy(lambda t: lp.moveaxis(t, a, b) + 0, lambda x: np.moveaxis(x, a, b), some(shape))
    assert_as_numpy(lambda t: t.ravel() + 0, np.ravel, some(shape))
    where = data.draw(st.none() | axis)
    assert_as_numpy(lambda t: lp.roll(t, by, where) + 0, lambda x: np.roll(x, by, where), some(shape))
    assert_as_numpy(lambda t: t.repeat(abs(by), where) + 0, lambda x: np.repeat(x, abs(by), where), some(shape))
    reps = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=len(shape) + 1).map(tuple))
    assert_as_numpy(lambda t: lp.tile(t, reps) + 0, lambda x: np.tile(x, reps), some(shape))
    assert_as_numpy(lambda t: t.diagonal(by) + 0, lambda x: np.diagonal(x, by), some(shape))
    assert_as_numpy(lambda t: t.trace(by), lambda x: np.trace(x, by), some(shape))


def test_axes_that_are_not_there_are_refused() -> None:
    x = lp.placeholder((lp.symbol("n"), 3), "float32", name="x")
    for wrong, what in (
        (lambda: x.swapaxes(0, 2), "swapaxes along axis 2"),
        (lambda: lp.moveaxis(x, (0, 1), 0), "as many places as dimensions"),
        (lambda: x.diagonal(0, 1, 1), "two different ones have one"),
        (lambda: lp.roll(x, 2, 0), "a size that is at least 2 is"),
        (lambda: x.repeat(-1), "a number from 0 on"),
        (lambda: lp.tile(x, (2, -1)), "numbers from 0 on"),
    ):
        with pytest.raises(lp.ExprError, match=what):
            wrong()


@settings(max_examples=40, deadline=None)
@given(st.data(), SHAPES, st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]))
def test_pad(data: st.DataObject, shape: tuple[int, ...], mode: Any) -> None:
    most = [2 if mode in ("constant", "edge") else n - (mode == "reflect") for n in shape]
    widths = [(data.draw(st.integers(0, m)), data.draw(st.integers(0, m))) for m in most]
    assert_as_numpy(lambda t: lp.pad(t, widths, mode=mode), lambda a: np.pad(a, widths, mode=mode), some(shape))
    every = data.draw(st.sampled_from([1, (1,), (1, 2), [(1, 2)]]))
    assert_as_numpy(lambda t: lp.pad(t, every), lambda a: np.pad(a, every), some(shape))


@settings(max_examples=10, deadline=None)
@given(st.integers(3, 5), st.integers(-3, 3), st.sampled_from(["edge", "reflect", "symmetric", "wrap"]))
def test_sizes_of_the_call_are_rolled_and_padded_as_far_as_they_are_known_to_reach(n: int, by: int, mode: Any) -> None:
    x = lp.placeholder((2, lp.symbol("n", min=3)), "int32", name="x")
    a = some((2, n))
    widths = [(0, 0), (max(-by, 0) % 3, max(by, 0) % 3)]
    rolled, padded = lp.roll(x, by, 1) + 0, lp.pad(x, widths, mode=mode)
    got = lp.interpret(lp.to_func([rolled.named("r"), padded.named("p")]), {"x": a})
    np.testing.assert_array_equal(got["r"], np.roll(a, by, 1))
    np.testing.assert_array_equal(got["p"], np.pad(a, widths, mode=mode))
