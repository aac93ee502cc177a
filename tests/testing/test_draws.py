"""Every number of a range is drawn, from bytes, too, whichever the version of Hypothesis."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from loopir.testing.checking import QUIET
from loopir.testing.generate.draws import between


@pytest.mark.parametrize(("low", "high"), [(2, 3), (10, 25), (-3, 3), (0, 2)])
def test_bytes_reach_every_number(low: int, high: int) -> None:
    found: set[int] = set()
    test = settings(QUIET)(given(st.data())(lambda data: found.add(data.draw(between(low, high)))))
    draws = Random(0)
    for _ in range(200):
        test.hypothesis.fuzz_one_input(draws.randbytes(64))  # pyright: ignore[reportFunctionMemberAccess]
    assert found == {*range(low, high + 1)}
