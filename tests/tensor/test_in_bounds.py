"""Reads outside of an array are refused where they are so at every size; what is said to be in bounds is."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.errors import ExprError

N = lp.symbol("n", min=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 6), st.integers(1, 6))
def test_a_read_is_refused_exactly_where_the_first_or_last_iteration_is_outside(
    stride: int, shift: int, extent: int, size: int
) -> None:
    A = lp.placeholder((size,), "float32", name="A")
    outside = extent > 0 and not all(0 <= stride * i + shift < size for i in (0, extent - 1))
    if outside:
        with pytest.raises(ExprError, match="outside"):
            lp.compute((extent,), lambda i: A[i * stride + shift])
    else:
        lp.compute((extent,), lambda i: A[i * stride + shift])


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_read_beyond_a_symbolic_size_is_refused_and_a_guarded_one_is_not(shift: int) -> None:
    A = lp.placeholder((N,), "float32", name="A")
    with pytest.raises(ExprError, match=r"A has n there"):
        lp.compute((N,), lambda i: A[i + shift])
    lp.compute((N,), lambda i: lp.where((i + shift >= 0) & (i + shift < N), A[i + shift], 0.0))
