"""Whatever a product is fused with is multiplied by tensor cores, and means what it says: on the interpreter."""

from __future__ import annotations

import pytest
from products import CASES, ROUNDED, Case, arrays, off, schedule

import loopir as lp
import schedules
from loopir.interp.interpret import interpret


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_large_ones_are_taken_by_warpgroups(case: Case) -> None:
    assert "wgmma_m64n" in str(schedules.auto(schedule(case, 4096, 4096, 4096), "cuda", "sm_90a"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_small_ones_mean_what_they_say(case: Case) -> None:
    s = schedules.gpu(schedule(case, 16, 32, 32), arch="sm_90a")  # a plan may be of ordinary units at these sizes
    assert "mma_m16n8k16" in lp.text(s.func)
    given = arrays(case, 16, 32, 32)
    (found,) = interpret(lp.lower(s, "cuda")[0], tuple(given)).values()
    assert off(case, found, given) <= ROUNDED
