"""Reductions as NumPy's: axes, types, ties and NaN, accumulators, products, and monoids of one's own."""

# ruff: noqa: B023  (functions made in loops are called at once)

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, assert_close, inputs, run, sample

import loopir as lp

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TYPES = [
    *(np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)), np.dtype(np.float16),
    np.dtype(np.float32), np.dtype(np.float64), np.dtype(bool),
]  # fmt: skip
NAMES = ("sum", "prod", "max", "min", "any", "all", "mean", "argmax", "argmin")
AXES = (None, 0, 1, -1, (0, 2), (2, 1), (), (-3, 1, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_types_and_axes(name: str, keepdims: bool) -> None:
    """Sums of quarters are exact in any order."""
    for n, t in enumerate(TYPES):
        x = sample(t, (3, 2, 4), n)
        axis = AXES[(n + 3 * keepdims) % len(AXES)]
        if "arg" in name and isinstance(axis, tuple):
            axis = axis[0] if axis else None
        assert_as_numpy(
            lambda t: getattr(lp, name)(t, axis=axis, keepdims=keepdims),
            lambda t: getattr(np, name)(t, axis=axis, keepdims=keepdims),
            np.abs(x) if name == "prod" and t.kind == "f" else x,
            ulps=1,
        )


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_every_axis(name: str, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 3), max_size=4))
    several = st.sets(st.integers(0, len(shape) - 1)).map(tuple) if shape else st.just(())
    axis = data.draw(st.none() | (several if "arg" not in name or not shape else st.integers(-len(shape), -1)))
    if "arg" in name and axis == ():
        axis = None
    keep = data.draw(st.booleans())
    x = sample("int16", shape, data.draw(st.integers(0, 9)))
    assert_as_numpy(
        lambda t: getattr(t, name)(axis=axis, keepdims=keep), lambda t: getattr(t, name)(axis=axis, keepdims=keep), x
    )


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, bool])
def test_ties_and_nan(name: str, dtype: Any) -> None:
    rows = [[1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0]]
    x = np.array(rows, dtype)
    if dtype is np.float32:
        odd = [[1, np.nan, np.nan], [np.nan, np.inf, 1], [-np.inf] * 3, [np.inf] * 3, [np.inf, np.nan, -np.inf]]
        x = np.append(x, np.array(odd, np.float32), axis=0)
    assert_as_numpy(lambda t: getattr(lp, name)(t, axis=1), lambda t: getattr(np, name)(t, axis=1), x)
    (t,) = inputs(x)
    k = lp.reduce_axis(3)
    inner = lp.compute((len(x),), lambda i: getattr(lp, name)(t[i, k], axis=k))
    np.testing.assert_array_equal(run(inner, x), getattr(np, name)(x, axis=1))


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_short_floats_are_summed_in_float32(dtype: np.dtype[Any]) -> None:
    x = np.ones(3000, dtype)
    (t,) = inputs(x)
    assert_close(run(t.sum(), x), np.array(3000).astype(dtype))
    assert_close(run(t.mean(), x), np.array(1).astype(dtype))
    stuck = run(t.sum(accum_dtype=dtype), x)
    assert float(stuck) == (2048 if dtype == np.float16 else 256)
    y = np.ones((1, 3000), dtype)
    assert_close(run(lp.matmul(*inputs(y, x)), y, x), np.array([3000]).astype(dtype))
    assert float(run(lp.matmul(*inputs(y, x), accum_dtype=dtype), y, x)[0]) == float(stuck)


def test_sums_of_small_integers_do_not_wrap_and_of_large_ones_do() -> None:
    x = np.full(4, 100, np.int8)
    assert run(inputs(x)[0].sum(), x) == 400
    assert run(inputs(x)[0].sum(accum_dtype="int8"), x) == np.int8(-112)
    assert_as_numpy(lambda t: t.sum(), lambda t: t.sum(), np.full(3, 2**63 - 1, np.int64))


MATRICES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)), ((2, 3), (5, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((3,), (4, 3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", MATRICES, ids=str)
def test_products(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    for one, other in (("float32", "float32"), ("int8", "int8"), ("int32", "float64"), (bool, bool)):
        x, y = sample(one, shapes[0]), sample(other, shapes[1], 1)
        assert_as_numpy(lambda a, b: a @ b, lambda a, b: a @ b, x, y)


def test_reductions_of_nothing_are_the_identity() -> None:
    x = np.zeros((2, 0), np.float32)
    for name in ("sum", "prod", "any", "all"):
        assert_as_numpy(lambda t: getattr(lp, name)(t, axis=1), lambda t: getattr(np, name)(t, axis=1), x)
    assert run(inputs(x)[0].max(axis=1), x).tolist() == [-np.inf, -np.inf]


def welford(x: Any, axis: Any) -> Any:
    def combine(a: Any, b: Any) -> Any:
        n = a[0] + b[0]
        delta = b[1] - a[1]
        part = lp.where(n > 0, b[0] / lp.maximum(n, 1.0), 0.0)
        return n, a[1] + delta * part, a[2] + b[2] + delta * delta * a[0] * part

    fold = lp.monoid("welford", identity=(0.0, 0.0, 0.0), combine=combine)
    return fold((1.0, x, 0.0), axis=axis)


def test_a_monoid_of_ones_own() -> None:
    x = (1e4 + np.random.default_rng(0).standard_normal((3, 40))).astype(np.float32)
    (t,) = inputs(x)
    count, mean, squares = run(list(welford(t, 1)), x)
    assert count.tolist() == [40.0] * 3
    np.testing.assert_allclose(mean, x.astype(np.float64).mean(1), rtol=1e-6)
    np.testing.assert_allclose(squares / 40, x.astype(np.float64).var(1), rtol=5e-3)
    k = lp.reduce_axis(40)
    inner = lp.compute((3,), lambda i: welford(t[i, k], k), name="w")
    for one, other in zip(run(list(inner), x), (count, mean, squares), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_reduction_inside_a_larger_expression() -> None:
    x = sample("float32", (3, 4))
    (t,) = inputs(x)
    k = lp.reduce_axis(4)
    normal = lp.compute((3, 4), lambda i, j: t[i, j] - lp.max(t[i, k], axis=k) * 2.0)
    np.testing.assert_array_equal(run(normal, x), x - x.max(1, keepdims=True) * 2)
    assert_as_numpy(
        lambda a: lp.exp(a - a.max(axis=1, keepdims=True)), lambda a: np.exp(a - a.max(1, keepdims=True)), x, ulps=1
    )


def test_several_reduce_axes() -> None:
    x = sample("int32", (2, 3, 4))
    (t,) = inputs(x)
    r, k = lp.reduce_axis(3), lp.reduce_axis(4)
    total = lp.compute((2,), lambda i: lp.sum(t[i, r, k] * k, axis=(r, k)))
    np.testing.assert_array_equal(run(total, x), (x * np.arange(4)).sum((1, 2)))


def test_refusals() -> None:
    (t,) = inputs(sample("float32", (3, 4)))
    k = lp.reduce_axis(4)
    fold = lp.monoid("pair", identity=(0.0, 0.0), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]))
    for asked, message in [
        (lambda: t.sum(axis=2), "sum over axis 2 of x0"),
        (lambda: t.max(axis=(0, -2)), "an axis is named twice"),
        (lambda: t.argmax(axis=(0, 1)), "argmax takes one axis"),
        (lambda: lp.sum(t, axis=k), "takes an element"),
        (lambda: lp.argmin(t[0, k], axis=(k, k)), "argmin takes one reduce_axis"),
        (lambda: lp.mean(t[0, k], axis=k), "divide a sum by the extent"),
        (lambda: t @ t, "the inner sizes differ"),
        (lambda: t[0, 0] @ t, "both need a dimension"),
        (lambda: fold((t,), axis=0), "monoid pair folds 2 values, and 1 are given"),
        (lambda: fold((t, t[:, :3]), axis=0), "do not broadcast"),
        (lambda: lp.compute((3,), lambda i, j: t[i, j]), "the shape has 1 dimensions, and the function takes 2"),
        (lambda: lp.compute((3,), lambda i: t[i]), "it has to give one element"),
        (lambda: lp.compute((3,), lambda i: (t[i, 0], t[i, 1])), "several values come only from one reduction"),
        (lambda: lp.symbol("not one"), "a size is named by an identifier"),
        (lambda: lp.symbol("n", multiple_of=0), "at least 0 and 1"),
        (lambda: lp.reduce_axis(-2), "-2 is no size"),
    ]:
        with pytest.raises(lp.ExprError, match=message):
            asked()
