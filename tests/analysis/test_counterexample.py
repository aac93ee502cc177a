"""A difference is met by a run, also where it begins late or far out."""

from __future__ import annotations

import pytest
from test_validate_outputs import CHAIN, TWO_SIZES, compared


@pytest.mark.parametrize("least", [50, 333, 4000])
def test_a_difference_that_begins_late_is_met(least: int) -> None:
    found = compared(CHAIN, "A[i] + 1.0", f"A[i] + select(i < {least}, 1.0, 2.0)")
    assert found.proved == ("Z",)
    assert found.wrong is not None
    assert (found.wrong.buffer, found.wrong.element) == ("X", (least,))


def test_a_difference_far_out_along_one_of_two_sizes_is_met() -> None:
    found = compared(TWO_SIZES, "+ 1.0", "+ select(j < 700, 1.0, 2.0)")
    assert found.wrong is not None
    assert found.wrong.element == (0, 700)
