"""Convolutions, transposed ones and pools beside NumPy by their definition, exact on small integers; refusals."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_close, inputs, run, sample

import loopir as lp

Array = np.ndarray[Any, Any]
Each = tuple[int, ...]


def padded(x: Array, border: Each, value: float = 0) -> Array:
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in border)], constant_values=value)


def windows(x: Array, sizes: Each, steps: Each, holes: Each) -> Array:
    """[b, c, *at, *inside]"""
    space = [(h - d * (r - 1) - 1) // s + 1 for h, r, s, d in zip(x.shape[2:], sizes, steps, holes, strict=True)]
    out = np.empty((*x.shape[:2], *space, *sizes), x.dtype)
    for inside in product(*map(range, sizes)):
        cut = tuple(
            slice(u * d, u * d + (n - 1) * s + 1, s) for u, d, s, n in zip(inside, holes, steps, space, strict=True)
        )
        out[(..., *inside)] = x[(slice(None), slice(None), *cut)]
    return out


def conv(x: Array, w: Array, steps: Each, border: Each, holes: Each, groups: int) -> Array:
    seen = windows(padded(x, border), w.shape[2:], steps, holes)
    rank, own, each = w.ndim - 2, w.shape[1], w.shape[0] // groups
    parts = [
        np.tensordot(seen[:, g * own : (g + 1) * own], w[g * each : (g + 1) * each],
                     axes=([1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)]))
        for g in range(groups)
    ]  # fmt: skip
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1).astype(x.dtype)


def transposed(x: Array, w: Array, steps: Each, cut: Each, more: Each, holes: Each, groups: int) -> Array:
    """Each element of x spread over the result."""
    own, each = x.shape[1] // groups, w.shape[1]
    full = [(h - 1) * s + d * (r - 1) + 1 + m
            for h, s, d, r, m in zip(x.shape[2:], steps, holes, w.shape[2:], more, strict=True)]  # fmt: skip
    out = np.zeros((x.shape[0], each * groups, *full), np.int64)
    for b, c in product(range(x.shape[0]), range(x.shape[1])):
        for o, at, inside in product(range(each), product(*map(range, x.shape[2:])), product(*map(range, w.shape[2:]))):
            to = tuple(i * s + u * d for i, s, u, d in zip(at, steps, inside, holes, strict=True))
            out[(b, c // own * each + o, *to)] += int(x[(b, c, *at)]) * int(w[(c, o, *inside)])
    return out[(..., *(slice(p, n - p) for p, n in zip(cut, full, strict=True)))].astype(x.dtype)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 1, 2, 2, 3]))
    few = 2 if rank == 3 else 3

    def each(low: int, high: int) -> Each:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kernel, holes, border = each(1, few), each(1, 2), each(0, 2)
    room = tuple(max(1, d * (r - 1) + 1 - 2 * p) for d, r, p in zip(holes, kernel, border, strict=True))
    size = tuple(n + draw(st.integers(0, few - 1)) for n in room)
    return {
        "rank": rank, "kernel": kernel, "stride": each(1, 3), "dilation": holes, "padding": border, "size": size,
        "groups": draw(st.integers(1, 2)), "own": draw(st.integers(1, 2)), "each": draw(st.integers(1, 2)),
    }  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(cases(), st.sampled_from(["float32", "int32", "float16"]), st.booleans())
def test_convolutions(c: dict[str, Any], dtype: str, biased: bool) -> None:
    x = sample(dtype, (1, c["own"] * c["groups"], *c["size"]))
    w = sample(dtype, (c["each"] * c["groups"], c["own"], *c["kernel"]), seed=1)
    b = sample(dtype, (w.shape[0],), seed=2)
    expected = conv(x.astype(np.float64), w.astype(np.float64), c["stride"], c["padding"], c["dilation"], c["groups"])
    if biased:
        expected = expected + b.astype(np.float64)[(None, slice(None), *(None,) * c["rank"])]
    arrays = (x, w, b) if biased else (x, w)
    fn = getattr(lp, f"conv{c['rank']}d")
    t = fn(*inputs(*arrays), stride=c["stride"], padding=c["padding"], dilation=c["dilation"], groups=c["groups"])
    assert t.shape == expected.shape
    assert_close(run(t + 0, *arrays), expected.astype(dtype))


@settings(max_examples=30, deadline=None)
@given(cases(), st.data())
def test_transposed_convolutions(c: dict[str, Any], data: st.DataObject) -> None:
    more = tuple(data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(c["stride"], c["dilation"], strict=True))
    size = tuple(min(n, 3) for n in c["size"])
    full = ((h - 1) * s + d * (r - 1) + 1 + m
            for h, s, d, r, m in zip(size, c["stride"], c["dilation"], c["kernel"], more, strict=True))  # fmt: skip
    cut = tuple(min(p, (n - 1) // 2) for p, n in zip(c["padding"], full, strict=True))
    x = sample("int32", (1, c["own"] * c["groups"], *size))
    w = sample("int32", (x.shape[1], c["each"], *c["kernel"]), seed=1)
    expected = transposed(x, w, c["stride"], cut, more, c["dilation"], c["groups"])
    fn = getattr(lp, f"conv_transpose{c['rank']}d")
    t = fn(*inputs(x, w), None, c["stride"], cut, more, c["groups"], c["dilation"])
    assert t.shape == expected.shape
    assert_close(run(t, x, w), expected)


@pytest.mark.parametrize(("stride", "size"), [(2, 2), (2, 4), (2, 3), (3, 2), (1, 3)])
def test_a_transposed_convolution_does_no_work_for_places_that_nothing_reaches(stride: int, size: int) -> None:
    """As much as if each element were spread, but for the edges and for filters that are no whole strides."""
    x, w = lp.placeholder((1, 4, 16), name="x"), lp.placeholder((4, 4, size), name="w")
    s = lp.Schedule(lp.conv_transpose1d(x, w, stride=stride))
    taps = -(-size // stride) * stride
    assert float(s.cost.by_statement["conv"]) <= 4 * 4 * (16 + taps // stride) * taps


def test_an_infinite_element_reaches_only_its_own_places() -> None:
    x, w = sample("float32", (1, 1, 5)), np.ones((1, 1, 3), np.float32)
    x[0, 0, 2] = np.inf
    args = lp.placeholder(x.shape, name="x"), lp.placeholder(w.shape, name="w")
    y = lp.Schedule(lp.conv_transpose1d(*args, stride=2)).build("interpret")(x, w)
    assert np.flatnonzero(np.isinf(y[0, 0])).tolist() == [4, 5, 6]
    assert not np.isnan(y).any()


@settings(max_examples=30, deadline=None)
@given(cases(), st.sampled_from(["float32", "int32", "uint8"]), st.booleans())
def test_pools(c: dict[str, Any], dtype: str, counted: bool) -> None:
    border = tuple(min(p, n // 2) for p, n in zip(c["padding"], c["kernel"], strict=True))
    holes, size = (1,) * c["rank"], tuple(n + 4 for n in c["size"])
    x = sample(dtype, (1, 2, *size))
    inside = tuple(range(2 + c["rank"], 2 + 2 * c["rank"]))
    least = -np.inf if dtype == "float32" else np.iinfo(dtype).min
    most = windows(padded(x, border, least), c["kernel"], c["stride"], holes).max(axis=inside)
    fn = getattr(lp, f"max_pool{c['rank']}d")
    assert_close(run(fn(*inputs(x), c["kernel"], c["stride"], border), x), most)
    total = windows(padded(x.astype(np.float64), border), c["kernel"], c["stride"], holes).sum(axis=inside)
    ones = windows(padded(np.ones(x.shape), border), c["kernel"], c["stride"], holes).sum(axis=inside)
    mean = total / (np.prod(c["kernel"]) if counted else ones)
    fn = getattr(lp, f"avg_pool{c['rank']}d")
    t = fn(*inputs(x), c["kernel"], c["stride"], border, counted)
    assert_close(run(t, x), mean.astype(t.dtype.numpy), ulps=1)


def test_padding_by_name_and_images_of_any_size() -> None:
    x, w = sample("float32", (2, 1, 7)), sample("float32", (3, 1, 4), seed=1)
    t = lp.placeholder((lp.symbol("n"), 1, lp.symbol("h", min=4)), "float32", name="x")
    k = lp.placeholder(w.shape, "float32", name="w")
    wide = np.pad(x, [(0, 0), (0, 0), (1, 2)])
    assert_close(run(lp.conv1d(t, k, padding="same"), x, w), conv(wide, w, (1,), (0,), (1,), 1))
    assert_close(run(lp.conv1d(t, k, padding="valid", stride=2), x, w), conv(x, w, (2,), (0,), (1,), 1))
    assert_close(run(lp.max_pool1d(t, 2), x), x[..., :6].reshape(2, 1, 3, 2).max(-1))


X, W = lp.placeholder((1, 4, 5, 5), "float32", name="X"), lp.placeholder((6, 2, 3, 3), "float32", name="W")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: lp.conv2d(X, W), "filters have the channels of one of 1 groups of x"),
        (lambda: lp.conv1d(X, W), "its dimensions are batch, channels and 1 of space"),
        (lambda: lp.conv2d(X, W, groups=2, stride=0), "stride=0; it is an integer of at least 1, or 2 of them"),
        (lambda: lp.conv2d(X, W, groups=2, padding="full"), 'padding=\'full\'; it is "valid", "same" or integers'),
        (lambda: lp.conv2d(X, W, groups=2, padding="same", stride=2), 'padding="same" is for a stride of 1'),
        (lambda: lp.conv2d(X, W, groups=2, dilation=3), "a window of 7 is larger than axis 2, 5 with padding"),
        (lambda: lp.conv2d(X, W, groups=3), "4 channels are no 3 groups"),
        (lambda: lp.conv2d(X, W, W, groups=2), "the bias is W .*; it has one dimension"),
        (lambda: lp.conv_transpose2d(X, W), "the first size of filters is the channels of x"),
        (lambda: lp.conv_transpose2d(X, W[:4], output_padding=1), "it is less than the stride or the dilation"),
        (lambda: lp.max_pool2d(X, 2, padding=2), "it is at most half of the kernel_size 2"),
        (lambda: lp.avg_pool2d(X, (2, 2, 2)), r"kernel_size=\(2, 2, 2\); it is an integer of at least 1, or 2"),
        (lambda: lp.max_pool2d(X, 9), "a window of 9 is larger than axis 2"),
    ],
)
def test_refusals(wrong: Any, told: str) -> None:
    with pytest.raises(lp.ExprError, match=told):
        wrong()


def test_what_is_made_of_sums_is_stored_before_it_gets_a_border() -> None:
    """By the launch that makes the sums, in the type that it has then; what is made of inputs alone is not stored."""
    x, w = lp.placeholder((1, 4, 6, 6), "bfloat16", name="x"), lp.placeholder((4, 4, 3, 3), "bfloat16", name="w")
    h = lp.relu(lp.conv2d(x, w, padding=1))
    assert lp.Schedule(lp.conv2d(h, w, padding=1) + h).stages == ("padded", "conv", "t", "padded_1", "conv_1", "out")
    assert lp.Schedule(lp.conv2d(lp.relu(x), w, padding=1)).stages == ("padded", "conv", "out")
