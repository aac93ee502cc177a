"""Convolutions with channels in lanes: they mean the same, and are taken where the other forms cost more."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.common.nest_queries import extent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.conv_channels import conv_channels, worth_channels


def convolution(x: tuple[int, ...], w: tuple[int, ...], **how: int) -> tuple[lp.Schedule, str]:
    """relu of a convolution, with a bias, and its stage that folds."""
    data = lp.placeholder(x, "float32", name="x")
    weights, bias = lp.placeholder(w, "float32", name="w"), lp.placeholder(w[:1], "float32", name="bias")
    s = lp.Schedule(lp.relu(lp.conv2d(data, weights, bias, **how)).named("y"))
    (stage,) = (x for x in s.stages if s.reduced(x))
    return s, stage


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 2), st.integers(1, 2), st.integers(4, 9), st.integers(3, 6), st.sampled_from((1, 2, 3)),
       st.sampled_from((1, 2)), st.sampled_from((0, 1)))  # fmt: skip
def test_a_convolution_by_channels_means_the_same(
    b: int, c: int, o: int, size: int, window: int, stride: int, padding: int
) -> None:
    s, stage = convolution((b, c, size, size + 1), (o, c, window, window), stride=stride, padding=padding)
    try:
        made = conv_channels(s, stage, lanes=4)
    except lp.ScheduleError:
        one_place = (size - window + 2 * padding) // stride == (size + 1 - window + 2 * padding) // stride == 0
        assert c == 1 or one_place  # one channel and one element are no fold, one place is no image
        return
    assert_equivalent(s, made)


def test_channels_that_are_no_whole_tiles_are_padded() -> None:
    s, stage = convolution((1, 2, 4, 5), (6, 2, 3, 3), padding=1)
    made = conv_channels(s, stage, lanes=4)
    assert_equivalent(s, made)
    (inner,) = (x for x in made.stages if made.reduced(x))
    assert made.why("pad", inner) is not None  # no guard is left there


def test_a_tile_leaves_registers_for_its_weights_and_an_element(monkeypatch: pytest.MonkeyPatch) -> None:
    for bytes_, count in ((16, 16), (32, 16), (64, 32)):
        monkeypatch.setattr(lp, "vector_unit", lambda unit=(bytes_, count): unit)
        s, stage = convolution((1, 64, 56, 56), (64, 64, 3, 3), padding=1)
        made = conv_channels(s, stage)
        (inner,) = (x for x in made.stages if made.reduced(x))
        *_, near, lane = made.loops(inner)
        rows, width = extent(made, near) or 0, extent(made, lane) or 0
        vectors = width // (bytes_ // 4)
        assert 0 < rows * vectors + vectors + 1 <= count


def test_each_group_has_whole_tiles() -> None:
    s, stage = convolution((1, 4, 4, 5), (16, 2, 3, 3), padding=1, groups=2)
    assert_equivalent(s, conv_channels(s, stage, lanes=4))
    s, stage = convolution((1, 4, 4, 5), (12, 2, 3, 3), padding=1, groups=2)
    with pytest.raises(lp.ScheduleError, match="no product of an image"):
        conv_channels(s, stage, lanes=4)


def test_short_rows_and_strides_are_taken_by_channels_and_few_channels_are_not() -> None:
    for n, channels, stride in ((28, 32, 1), (14, 256, 1), (28, 64, 2), (56, 64, 1)):
        x, w = (4, channels, n * stride, n * stride), (channels, channels, 3, 3)
        s, stage = convolution(x, w, stride=stride, padding=1)
        assert worth_channels(s, stage, 16)
        assert any("conv_channels" in str(x) for x in cpu(s, 16).trace)
    for x, w in (((1, 3, 56, 56), (8, 3, 3, 3)), ((1, 64, 56, 56), (3, 64, 3, 3)), ((1, 256, 7, 7), (128, 256, 3, 3))):
        assert not worth_channels(*convolution(x, w, padding=1), 16)


def test_weights_that_lie_along_the_channels_are_refused() -> None:
    x, w = lp.placeholder((1, 8, 8, 8), "float32", name="x"), lp.placeholder((3, 3, 8, 16), "float32", name="w")
    u, v, z = lp.reduce_axis(3, name="u"), lp.reduce_axis(3, name="v"), lp.reduce_axis(8, name="z")
    y = lp.compute((1, 16, 6, 6), lambda b, o, i, j: lp.sum(x[b, z, i + u, j + v] * w[u, v, z, o], axis=(z, u, v)))
    s = lp.Schedule(y.named("y"))
    with pytest.raises(lp.ScheduleError, match="along what it folds"):
        conv_channels(s, "y", lanes=4)


def test_a_batch_of_products_is_no_convolution() -> None:
    a, b = lp.placeholder((16, 128, 128), "float32", name="a"), lp.placeholder((16, 128, 128), "float32", name="b")
    assert not any("conv_channels" in str(step) for step in cpu(lp.Schedule(a @ b), 16).trace)
