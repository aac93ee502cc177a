"""Prefix sums as NumPy's; refusals by message."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, run, sample

import loopir as lp
import schedules


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
    st.sampled_from(["int8", "int32", "uint8", "bool", "float32", "float64"]),
    st.data(),
)
def test_cumsum(shape: tuple[int, ...], dtype: str, data: st.DataObject) -> None:
    """Quarters are added exactly, so that the order does not matter."""
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    assert_as_numpy(lambda t: lp.cumsum(t, axis) + 0, lambda a: np.cumsum(a, axis), sample(dtype, shape))


def test_cumsum_of_narrow_floats_is_rounded_once() -> None:
    x = np.full(3000, 1.0, np.float16)
    assert run(lp.cumsum(lp.placeholder(x.shape, "float16", name="x")), x)[-1] == 3000.0


def test_cumsum_along_a_size_that_is_known_at_the_call_is_one_stage() -> None:
    x = lp.placeholder((3, lp.symbol("n")), "float32", name="x")
    s = lp.Schedule(lp.cumsum(x, 1))
    assert len(s.stages) == 1
    a = sample("float32", (3, 7))
    np.testing.assert_array_equal(s.build("interpret")(a), np.cumsum(a, 1))


@pytest.mark.parametrize(("shape", "axis"), [((4096, 4096), 1), ((1 << 22,), 0)])
def test_a_gpu_reads_memory_twice_at_most(shape: tuple[int, ...], axis: int) -> None:
    """Once along rows; one row is cut into blocks, whose sums are found first."""
    made = schedules.auto(lp.Schedule(lp.cumsum(lp.placeholder(shape, name="x"), axis)), "cuda", arch="sm_90a")
    report = made.report()
    assert sum(k.moved for k in report.kernels) <= (1.05 if axis else 1.55) * 8 * np.prod(shape)


def test_refusals() -> None:
    with pytest.raises(lp.LoopirError, match="axis"):
        lp.cumsum(lp.placeholder((3,), name="x"), 1)
