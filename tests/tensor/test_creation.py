"""Ranges, constants and one-hot rows as NumPy's; refusals by message."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, assert_close, inputs, run, sample

import loopir as lp

WHOLE = st.integers(-9, 9)
QUARTERS = st.integers(-40, 40).map(lambda n: n / 4)


@settings(max_examples=40, deadline=None)
@given(WHOLE, WHOLE, WHOLE.filter(bool), st.sampled_from([None, "int32", "float32", "uint8"]))
def test_arange_of_integers(start: int, stop: int, step: int, dtype: str | None) -> None:
    expected = np.arange(start, stop, step)
    t = lp.arange(start, stop, step, dtype)
    assert t.shape == expected.shape
    assert_close(run(t), expected.astype(dtype or np.int64))


@settings(max_examples=40, deadline=None)
@given(QUARTERS, QUARTERS, QUARTERS.filter(bool), st.sampled_from(["float64", "float32", "float16"]))
def test_arange_of_floats(start: float, stop: float, step: float, dtype: str) -> None:
    assert_close(run(lp.arange(start, stop, step, dtype)), np.arange(start, stop, step).astype(dtype))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9), st.integers(-4, 4), st.integers(-3, 3).filter(bool))
def test_arange_of_a_size(n: int, start: int, step: int) -> None:
    size = lp.symbol("n", min=0)
    x = lp.placeholder((size,), "int64", name="x")
    ends = (start, size, step) if step > 0 else (size, start, step)
    first, last = (start, n) if step > 0 else (n, start)
    made, _ = run([lp.arange(*ends).named("made"), x + 0], np.zeros(n, np.int64))
    assert made.tolist() == list(range(first, last, step))


@pytest.mark.parametrize("value", [3, 2.5, True, np.float32(1.5), np.int8(-3)])
@pytest.mark.parametrize("dtype", [None, "float32", "int32"])
def test_full(value: Any, dtype: str | None) -> None:
    if dtype == "int32" and value == 2.5:
        assert run(lp.full((2, 3), value, dtype)).tolist() == [[2] * 3] * 2
        return
    assert_close(run(lp.full((2, 3), value, dtype)), np.full((2, 3), value, dtype))


def test_full_of_a_tensor_and_in_an_expression() -> None:
    x = sample("int32", (3,))
    (t,) = inputs(x)
    assert_close(run(lp.full((2, 3), t), x), np.full((2, 3), x))
    assert_close(run(t + lp.full(3, 7, "int32") * lp.arange(3, dtype="int32"), x), x + 7 * np.arange(3, dtype=np.int32))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-2, 6), min_size=1, max_size=5), st.integers(1, 6))
def test_one_hot(classes: list[int], count: int) -> None:
    x = np.array(classes, np.int32)
    expected = (x[:, None] == np.arange(count)).astype(np.int64)
    assert_close(run(lp.one_hot(*inputs(x), count), x), expected)
    assert_close(run(lp.one_hot(*inputs(x), count, "float32"), x), expected.astype(np.float32))


F = lp.placeholder((3,), "float32", name="F")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: lp.arange(0, 5, 0), "a step is a number that is known, and not 0"),
        (lambda: lp.arange("5"), "its ends and its step are numbers or sizes"),
        (lambda: lp.arange(0.0, float("inf")), "finite numbers that are known"),
        (lambda: lp.arange(0.5, lp.symbol("n")), "finite numbers that are known"),
        (lambda: lp.full((-1,), 0), "-1 is no size"),
        (lambda: lp.full((2,), float("nan"), "int32"), "full of nan as int32, which has no such number"),
        (lambda: lp.one_hot(F, 3), "one_hot of F float32.*classes are integers"),
        (lambda: lp.one_hot(F.astype("int32"), 0), "there is at least one"),
    ],
)
def test_refusals(wrong: Any, told: str) -> None:
    with pytest.raises(lp.ExprError, match=told):
        wrong()


def test_constants_in_the_shape_of_another() -> None:
    a = sample("int16", (2, 3))
    for ours, theirs in ((lp.zeros_like, np.zeros_like), (lp.ones_like, np.ones_like)):
        assert_as_numpy(lambda t, f=ours: f(t) + t, lambda x, f=theirs: f(x) + x, a)
    assert_as_numpy(lambda t: lp.full_like(t, 7) * t, lambda x: np.full_like(x, 7) * x, a)
    assert_as_numpy(lambda t: lp.zeros((2, 3)) + lp.ones((2, 3)) * t, lambda x: np.ones((2, 3)) * x, a)
    for rows, columns, k in ((3, None, 0), (2, 4, 1), (4, 2, -2), (1, 1, 5)):
        made = run(lp.eye(rows, columns, k) + 0.0)
        np.testing.assert_array_equal(made, np.eye(rows, columns, k))
