"""The time that `auto` takes for a GPU, counted in calls, by the number of stages."""

from __future__ import annotations

from support.call_counts import calls

import loopir as lp
from loopir import schedules


def chain(stages: int) -> lp.Schedule:
    """So many stages, one after another, by turns elementwise and less the greatest of the row."""
    n = lp.symbol("n")
    y = lp.placeholder((n, 512), "float32", name="x")
    for k in range(stages):
        y = y - lp.max(y, axis=1)[:, None] if k % 2 else y * 2.0 + 1.0
    return lp.Schedule(y)


def work(stages: int) -> int:
    s = chain(stages)
    return calls(lambda: schedules.auto(s, "cuda", arch="sm_90a"))


def test_twice_the_stages_take_less_than_four_times_the_work() -> None:
    """Each step looks at the whole program, so that it is not twice."""
    assert work(48) < 3.6 * work(24), "both are planned"
