"""interpolate beside NumPy by its definition; refusals by message."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_close, inputs, run, sample

import loopir as lp

Array = np.ndarray[Any, Any]
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
SIZES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=3)


def linear(x: Array, new: int, corners: bool) -> Array:
    """Along the last axis, in float64."""
    old = x.shape[-1]
    i = np.arange(new)
    at = i * ((old - 1) / max(1, new - 1) if new > 1 else 0.0) if corners else (i + 0.5) * old / new - 0.5
    at = np.clip(at, 0, old - 1)
    low = np.minimum(np.floor(at).astype(int), old - 1)
    share = at - low
    return x[..., low] * (1 - share) + x[..., np.minimum(low + 1, old - 1)] * share


@settings(max_examples=30, deadline=None)
@given(SIZES, st.sampled_from(["int32", "float32", "float16"]))
def test_nearest(sizes: list[tuple[int, int]], dtype: str) -> None:
    x = sample(dtype, (1, 2, *(n for n, _ in sizes)))
    expected = x
    for d, (old, new) in enumerate(sizes):
        expected = expected.take(np.arange(new) * old // new, axis=d + 2)
    assert_close(run(lp.interpolate(*inputs(x), [n for _, n in sizes]), x), expected)


@settings(max_examples=30, deadline=None)
@given(SIZES, st.booleans())
def test_linear(sizes: list[tuple[int, int]], corners: bool) -> None:
    x = sample("float64", (1, 2, *(n for n, _ in sizes)))
    expected = x
    for d, (_, new) in enumerate(sizes):
        expected = np.moveaxis(linear(np.moveaxis(expected, d + 2, -1), new, corners), -1, d + 2)
    t = lp.interpolate(*inputs(x), [n for _, n in sizes], mode=LINEAR[len(sizes)], align_corners=corners)
    assert t.shape == expected.shape
    np.testing.assert_allclose(run(t, x), expected, rtol=0, atol=2e-14)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4))
def test_images_of_any_size_by_a_factor(size: int, factor: int) -> None:
    x = sample("float64", (1, 1, size))
    t = lp.placeholder((1, 1, lp.symbol("n")), "float64", name="x")
    assert_close(run(lp.interpolate(t, scale_factor=factor), x), x.repeat(factor, axis=2))
    found = run(lp.interpolate(t, scale_factor=factor, mode="linear"), x)
    np.testing.assert_allclose(found, linear(x, size * factor, False), rtol=0, atol=2e-14)


X = lp.placeholder((1, 1, 4), "float32", name="X")
N = lp.placeholder((1, 1, lp.symbol("n")), "float32", name="N")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: lp.interpolate(X), "give the size or the scale_factor, one of them"),
        (lambda: lp.interpolate(X, 8, mode="bilinear"), 'mode=\'bilinear\'; it is "nearest" or "linear" there'),
        (lambda: lp.interpolate(X, 8, align_corners=True), "align_corners is for linear modes"),
        (lambda: lp.interpolate(X, scale_factor=1.5), r"scale_factor=1\.5; it is a whole number from 1"),
        (lambda: lp.interpolate(N, 8), "known only at the call, give a scale_factor"),
        (
            lambda: lp.interpolate(N, scale_factor=2, mode="linear", align_corners=True),
            "align_corners takes sizes",
        ),
        (lambda: lp.interpolate(X[0, 0], 8), "its dimensions are batch, channels and 1 to 3 of space"),
    ],
)
def test_refusals(wrong: Any, told: str) -> None:
    with pytest.raises(lp.ExprError, match=told):
        wrong()
