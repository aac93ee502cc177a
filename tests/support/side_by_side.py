"""Products that share an operand, in one grid: the tiles of the one, then those of the others."""

from collections.abc import Callable
from typing import Any

import loopir as lp
from schedules.common.nest_queries import reader


def side_by_side(schedule: Callable[..., lp.Schedule], m: int, n: int, *more: int, **how: Any) -> lp.Schedule:
    """relu(A @ B), of `n` columns, and A @ C of `more` but the last, which is how many terms each has; all by
    `schedule`, which leaves one loop of blocks around each."""
    *columns, k = more
    a, b = lp.placeholder((m, k), "bfloat16", name="A"), lp.placeholder((k, n), "bfloat16", name="B")
    first = lp.relu(a @ b)
    s = lp.Schedule([first, *(a @ lp.placeholder((k, p), "bfloat16", name=f"C{x}") for x, p in enumerate(columns))])
    blocks: list[str] = []
    for stage in [x for x in s.stages if s.reduced(x)]:
        out = reader(s, stage)
        assert out is not None
        s = schedule(s, stage, **how)
        blocks.append(s.loops(out)[0])
    return s.merge(*blocks, side_by_side=True, name="tile")
