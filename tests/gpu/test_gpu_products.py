"""Products with all that may be fused with them, on a GPU as they are scheduled for it, beside NumPy in float64."""

from __future__ import annotations

import pytest
from products import CASES, ROUNDED, Case, arrays, off, schedule

import schedules

pytestmark = pytest.mark.gpu
SIZES = (
    (256, 384, 320), (1032, 520, 96), (16, 384, 512), (5, 136, 64), (264, 16, 256), (264, 7, 256), (264, 136, 64),
    (1032, 32, 32), (1032, 16, 64), (17024, 64, 128), (1032, 8, 2048),
)  # fmt: skip
"""Rows, columns, and steps of the sum, in which codes of 4 bits have whole groups."""


def right(case: Case, sizes: tuple[int, int, int]) -> bool:
    given = arrays(case, *sizes)
    kernel = schedules.auto(schedule(case, *sizes), "cuda").build("cuda")
    return off(case, kernel(*given), given) <= ROUNDED


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_it_means_what_it_says(case: Case, sizes: tuple[int, int, int]) -> None:
    assert right(case, sizes)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("sizes", [(129, 67, 101), (33, 1, 17), (1, 130, 75), (150, 140, 3), (150, 140, 8), (3, 5, 7)])
@pytest.mark.parametrize("case", [c for c in CASES if c.name != "an int4 weight"], ids=lambda c: c.name)
def test_at_odd_sizes(case: Case, sizes: tuple[int, int, int]) -> None:
    assert right(case, sizes)
