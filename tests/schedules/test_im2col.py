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


def test_each_image_of_a_batch_has_a_matrix_of_its_own_and_all_have_the_panels_of_the_filters() -> None:
    s = convolution(4, 128, 256, 14, 3, 1, 1)
    (stage,) = (x for x in s.stages if s.reduced(x))
    made = cpu(im2col(s, stage).simplify(drop_unit_loops=True), 16)
    assert any("matmul_cpu" in str(x) for x in made.trace)
    outer = made.loops(next(x for x in made.stages if made.reduced(x)))[0]
    assert made.loop(outer).kind == "parallel"
    assert getattr(made.loop(outer).extent, "value", None) == 4
    panels = [x for x in made.stages if x.startswith("w_at")]
    assert panels
    assert all(outer not in made.loops(x) for x in panels)


def test_sums_that_two_stages_read_are_stored_and_loops_stay_on_threads() -> None:
    """What several nests read cannot be memory of one thread, which would put all of them on one."""
    x = lp.placeholder((1, 8, 56, 56), "float32", name="x")
    w = lp.placeholder((8, 8, 3, 3), "float32", name="w")
    c = lp.conv2d(x, w, padding=1)
    s = lp.Schedule([lp.relu(c).named("y"), (c * 2.0).named("z")])
    made = cpu(s, 16)
    assert all(made.buffer(b).scope != "local" for b in s.buffers if b in made.buffers)
    small = lp.placeholder((1, 2, 6, 9), "float32", name="x")
    c = lp.conv2d(small, lp.placeholder((3, 2, 3, 3), "float32", name="w"), padding=1)
    s = lp.Schedule([lp.relu(c).named("y"), (c * 2.0).named("z")])
    assert_equivalent(s, cpu(s, 4))


def test_a_window_of_one_element_is_a_product_of_matrices_over_its_channels() -> None:
    x, w = lp.placeholder((1, 32, 5, 7), "float32", name="x"), lp.placeholder((16, 32, 1, 1), "float32", name="w")
    s = lp.Schedule(lp.conv2d(x, w))
    made = cpu(s)
    assert any("im2col" in str(step) for step in made.trace)
    assert_equivalent(s, made)
    sums = {t.buffer for x in made.stages if made.reduced(x) for t in made.accesses(x) if t.write}
    assert {len(made.buffer(x).shape) for x in sums} == {2}  # tiles of a matrix, in whatever dimensions the result lies
