"""distance counts the numbers from one float to another."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loopir.testing.oracles.ulp import distance

finite = st.floats(-(2.0**120), 2.0**120, width=32)


@given(finite, st.integers(0, 5), st.sampled_from([np.float32(np.inf), np.float32(-np.inf)]))
def test_steps_to_the_next_number_are_counted(x: float, steps: int, towards: np.float32) -> None:
    a = b = np.array([x], np.float32)
    for _ in range(steps):
        b = np.nextafter(b, towards)
    assert distance(a, b)[0] == distance(b, a)[0] == steps


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_zeros_are_equal_and_nan_is_nan(dtype: str) -> None:
    tiny = np.nextafter(np.zeros(1, dtype), np.ones(1, dtype))[0]
    a = np.array([0.0, -0.0, np.nan, np.nan, -tiny, np.inf, -np.inf], dtype)
    b = np.array([-0.0, 0.0, np.nan, 1.0, tiny, np.inf, np.inf], dtype)
    found = distance(a, b)
    assert found[:6].tolist() == [0.0, 0.0, 0.0, np.inf, 2.0, 0.0]
    assert found[6] > 1000


def test_integers_are_equal_or_not() -> None:
    for dtype in ("int64", "uint8", "bool"):
        assert distance(np.array([0, 1], dtype), np.array([0, 0], dtype)).tolist() == [0.0, np.inf]
