"""Bounds on rounding: none misses a wrong term, and none is made up."""

from __future__ import annotations

import numpy as np
import pytest
from test_checking import one_less
from test_oracles import matmul

import loopir as lp
from loopir.testing import NoBound, assert_equivalent, gamma


def test_one_term_of_many_is_missed_by_no_bound() -> None:
    """The last of 64 products left out: far within the relative tolerances that people use."""
    s = matmul()
    with pytest.raises(AssertionError, match="is not"):
        assert_equivalent(s, one_less(s.func, "k"))
    with pytest.raises(AssertionError, match="is not"):
        assert_equivalent(s, one_less(s.func, "k"), domain="real")


def test_the_bound_is_that_of_the_real_depth() -> None:
    """A sum of 64 products one after the other has 64 + 1 roundings on its longest way; of 8 sums of 8, 8 + 8 + 1."""
    s = matmul()
    arrays = [np.ones((4, 64), np.float32), np.ones((64, 4), np.float32)]
    (plain,) = lp.testing.error_bounds(s.func, arrays, {})
    halves = s.split("k", 8).rfactor("C", "k_o")
    (tree,) = lp.testing.error_bounds(halves.func, arrays, {})
    assert plain[0, 0] == pytest.approx(64 * gamma(65, 2.0**-24), rel=1e-6)
    assert tree[0, 0] == pytest.approx(64 * gamma(17, 2.0**-24), rel=1e-6)


def test_no_bound_is_made_up() -> None:
    x = lp.placeholder((4,), "float32", name="x")
    s = lp.Schedule(lp.exp(x) + 1.0)
    assert_equivalent(s, s)
    with pytest.raises(NoBound, match="no bound is known for what exp"):
        assert_equivalent(s, s, domain="real")
