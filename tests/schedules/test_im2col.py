"""Convolutions with gaps or short rows, as products of matrices: they mean the same, and windows that run well stay."""

from contextlib import suppress

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.common.contraction import contraction
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.im2col import im2col, worth_matrices


def convolution(
    batch: int, channels: int, outputs: int, size: int, window: int, stride: int, padding: int
) -> lp.Schedule:
    x = lp.placeholder((batch, channels, size, size + 1), "float32", name="x")
    w = lp.placeholder((outputs, channels, window, window), "float32", name="w")
    return lp.Schedule(lp.relu(lp.conv2d(x, w, stride=stride, padding=padding)).named("y"))


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 2), st.integers(1, 3), st.integers(2, 5), st.integers(4, 7), st.sampled_from((1, 2, 3)),
       st.sampled_from((1, 2)), st.sampled_from((0, 1)))  # fmt: skip
def test_a_convolution_by_matrices_means_the_same(
    b: int, c: int, o: int, size: int, window: int, stride: int, padding: int
) -> None:
    s = convolution(b, c, o, size, window, stride, padding)
    (stage,) = (x for x in s.stages if s.reduced(x))
    if worth_matrices(s, stage, 4):
        with suppress(lp.ScheduleError):  # one channel and one element are no fold along memory
            assert_equivalent(s, im2col(s, stage))
    assert_equivalent(s, cpu(s, 4))


def test_windows_of_long_rows_without_gaps_stay() -> None:
    s = convolution(1, 8, 8, 56, 3, 1, 1)
    (stage,) = (x for x in s.stages if s.reduced(x))
    assert not worth_matrices(s, stage, 16)
    assert worth_matrices(convolution(1, 8, 8, 56, 3, 2, 1), stage, 16)
    s = convolution(1, 8, 8, 14, 3, 1, 1)
    assert worth_matrices(s, stage, 16)
    assert contraction(im2col(s, stage), stage) is not None
