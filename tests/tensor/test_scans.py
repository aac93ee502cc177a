"""Prefix sums as NumPy's; refusals by message."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, run, sample

import loopir as lp


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


def test_refusals() -> None:
    x = lp.placeholder((lp.symbol("n"),), "float32", name="x")
    with pytest.raises(lp.ExprError, match=r"cumsum along axis 0 of x .* known only at the call; write the loop with"):
        lp.cumsum(x)
    with pytest.raises(lp.ExprError, match="cumsum along axis 1 of x"):
        lp.cumsum(x, 1)
