"""Views and what joins tensors, as NumPy's: slices, gathers, shapes, padding; refusals by message."""

# ruff: noqa: B023  (functions made in loops are called at once)

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, inputs, run, sample

import loopir as lp

X = sample("int32", (3, 4, 5))
ENDS = st.none() | st.integers(-7, 7)
STEPS = st.none() | st.sampled_from([1, 2, 3, -1, -2, -3])


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers, slices and new axes, perhaps with an Ellipsis for the rest."""
    out: list[Any] = []
    used = draw(st.integers(0, len(shape)))
    back = draw(st.integers(0, used))
    for n in range(used):
        size = shape[n] if n < back else shape[len(shape) - used + n]
        if draw(st.integers(0, 3)) == 0:
            out.append(None)
        if n == back:
            out.append(...)
        out.append(
            draw(st.integers(-size, size - 1)) if draw(st.booleans()) else slice(draw(ENDS), draw(ENDS), draw(STEPS))
        )
    return tuple(out) if used else (..., None)


@settings(max_examples=80, deadline=None)
@given(keys(X.shape))
def test_basic_indexing(key: tuple[Any, ...]) -> None:
    assert_as_numpy(lambda t: t[key], lambda t: t[key], X)


@settings(max_examples=40, deadline=None)
@given(ENDS, ENDS, STEPS, st.integers(0, 6))
def test_slices_of_symbolic_sizes(start: int | None, stop: int | None, step: int | None, n: int) -> None:
    x = np.arange(n, dtype=np.int32)
    t = lp.placeholder((lp.symbol("n", min=0),), "int32", name="x")
    assert run(t[start:stop:step] + 0, x).tolist() == x[start:stop:step].tolist()


ALL_SLICES = [slice(a, b, c) for a in (None, 0, 1, 2, -2, -1) for b in (None, 1, 2, -2, -1) for c in (None, 2, -1)]


@pytest.mark.parametrize("least", [0, 3])
def test_slices_of_one_length_at_every_size_go_together(least: int) -> None:
    t = lp.placeholder((lp.symbol("n", min=least),), "int32", name="x")
    alike: dict[tuple[int, ...], lp.Tensor] = {}
    for k in ALL_SLICES:
        first = alike.setdefault(tuple(len(range(n)[k]) for n in range(least, 12)), t[k])
        assert (first + t[k]).ndim == 1
    for one, other in combinations([t for t in alike.values() if not isinstance(t.shape[0], int)], 2):
        with pytest.raises(lp.ExprError, match="do not broadcast"):
            one + other


def test_a_view_of_a_view() -> None:
    assert_as_numpy(lambda t: t[1:, ::-2].T[2:, None, :, 1], lambda t: t[1:, ::-2].T[2:, None, :, 1], X)
    for axes in permutations(range(3)):
        assert_as_numpy(lambda t: t.transpose(*axes)[::2], lambda t: t.transpose(*axes)[::2], X)
        assert_as_numpy(lambda t: lp.transpose(t, axes), lambda t: np.transpose(t, axes), X)
    assert_as_numpy(lambda t: t.transpose(-1, 0, 1), lambda t: t.transpose(-1, 0, 1), X)


@pytest.mark.parametrize("shape", [(60,), (-1,), (5, 12), (4, -1, 3), (3, 4, 5), (1, 60, 1), (2, 2, 3, 5), (15, -1)])
def test_reshape(shape: tuple[int, ...]) -> None:
    assert_as_numpy(lambda t: t.reshape(shape), lambda t: t.reshape(shape), X)
    assert_as_numpy(lambda t: t.T.reshape(*shape)[::-1], lambda t: t.T.reshape(*shape)[::-1], X)


def test_reshape_of_nothing() -> None:
    empty = np.zeros((0, 3), np.float32)
    for shape in ((3, 0), (0,), (-1, 3), (0, 7, 2)):
        assert_as_numpy(lambda t: t.reshape(shape), lambda t: t.reshape(shape), empty)
    with pytest.raises(lp.ExprError, match="-1 could be any size"):
        inputs(empty)[0].reshape(0, -1)


def test_symbolic_reshape() -> None:
    n = lp.symbol("n")
    x = sample("int32", (3, 8))
    t = lp.placeholder((n, 8), "int32", name="x")
    assert run(t.reshape(-1), x).tolist() == x.reshape(-1).tolist()
    assert run(t.reshape(n * 2, 4), x).tolist() == x.reshape(6, 4).tolist()
    assert run(t.reshape(2, 2, -1, 2), x).tolist() == x.reshape(2, 2, -1, 2).tolist()


def test_broadcast_to() -> None:
    x = sample("float32", (3, 1))
    assert_as_numpy(lambda t: t.broadcast_to((2, 3, 4)), lambda t: np.broadcast_to(t, (2, 3, 4)), x)
    n = lp.symbol("n")
    t = lp.placeholder((n + 1,), name="t")
    assert t.broadcast_to((2, 1 + n)).ndim == 2


# ---------------------------------------------------------------- gathers


# ---------------------------------------------------------------- joining


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate_and_stack(axis: int) -> None:
    x, y = sample("int8", (2, 3)), sample("float32", (2, 3), 1)
    z = np.zeros((2, 0) if axis else (0, 3), np.int16)
    assert_as_numpy(lambda *t: lp.concatenate(t, axis), lambda *t: np.concatenate(t, axis), x, y, z, x)
    for where in (0, 1, 2, -1, -3):
        assert_as_numpy(lambda *t: lp.stack(t, where), lambda *t: np.stack(t, where), x, y)


def test_pad() -> None:
    x = sample("float32", (2, 3))
    widths = ((1, 2), (0, 1))
    assert_as_numpy(lambda t: lp.pad(t, widths), lambda t: np.pad(t, widths), x)
    assert_as_numpy(lambda t: lp.pad(t, widths, -1.5), lambda t: np.pad(t, widths, constant_values=-1.5), x)
    n = lp.symbol("n")
    t = lp.placeholder((n,), "int32", name="t")
    for size in (1, 4):
        v = np.arange(size, dtype=np.int32)
        assert run(lp.pad(t, [(2, 1)], 7), v).tolist() == [7, 7, *range(size), 7]


def test_refusals() -> None:
    (t,) = inputs(X)
    flags = lp.placeholder((3,), "bool", name="flags")
    i, j = (lp.placeholder((n,), "int32", name="i") for n in (2, 3))
    for asked, message in [
        (lambda: t[3], "index 3 is out of bounds for dimension 0"),
        (lambda: t[0, -5], "index -5 is out of bounds for dimension 1"),
        (lambda: t[0, 0, 0, 0], "has 3 dimensions, and is indexed by 4"),
        (lambda: t[..., 0, ...], "one Ellipsis at most"),
        (lambda: t[::0], "a step is not 0"),
        (lambda: t.transpose(0, 1), "the axes are each dimension once"),
        (lambda: t.reshape(7, -1), "the sizes differ"),
        (lambda: t.reshape(-1, -1), "one size at most is -1"),
        (lambda: t.broadcast_to((4, 5)), "does not broadcast to"),
        (lambda: lp.concatenate([]), "at least one tensor"),
        (lambda: lp.concatenate([t, t[0]]), "the shapes differ"),
        (lambda: lp.concatenate([t, t], axis=3), "axis 3 of x0"),
        (lambda: lp.stack([t, t], axis=4), "stack along axis 4"),
        (lambda: lp.take(t, t, axis=-4), "axis -4 of x0"),
        (lambda: lp.pad(t, [(0, 0)] * 2), "2 widths for 3 dimensions"),
        (lambda: lp.pad(t, [(0, 0), (-1, 0), (0, 0)]), "widths are at least 0"),
        (lambda: t[i, j], "do not broadcast"),
    ]:
        with pytest.raises(lp.ExprError, match=message):
            asked()
    with pytest.raises(TypeError, match="an index is an integer"):
        t[flags]
    with pytest.raises(TypeError, match="use an integer, a slice, None or an integer tensor"):
        t[1.0]
