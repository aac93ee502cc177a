"""Chains of products of floats of 8 bits, as of queries, keys and values that are stored so: in 16 bits first.

Nothing is lost by that, as bfloat16 has all values of these. Tiles are then copied, and multiplied, as those of any
chain of products of 16-bit floats, which the operands are converted for once.
"""

from __future__ import annotations

from collections.abc import Callable

import loopir as lp

from ..common.contraction import operands_read
from ..plan import flat
from .recipe_table import lowered

WIDER = "bfloat16"
"""What operands of fewer bits are converted to."""


def chain_of_wider_operands(
    s: lp.Schedule, chain: Callable[[lp.Schedule], lp.Schedule], others: Callable[[lp.Schedule], lp.Schedule]
) -> lp.Schedule:
    """`s`, a chain of products, with its operands of 8-bit floats stored in 16 bits by `others`, and the rest by
    `chain`."""
    copies = list[str]()
    for stage in [x for x in s.stages if s.reduced(x)]:
        for t in operands_read(s, stage):
            if t.dtype.is_float and t.dtype.bits < 16:
                moving = sorted((x for x in s.loops(stage) if not t.invariant(x)), key=t.contiguous)
                s, copy = s.reindex(stage, t.buffer, *moving, dtype=WIDER).with_stage
                copies.append(copy)
    if len(copies) < 2:
        raise lp.ScheduleError("no two operands are of fewer than 16 bits")
    rest = tuple(x for x in s.stages if x not in copies)
    whole, first = (lp.Schedule(lp.extract(s.func, x).func) for x in (rest, tuple(copies)))
    made = lowered(whole, chain)
    if made is None:
        raise lp.ScheduleError("the chain is none of products of 16-bit floats")
    return s.schedule_nests(
        (tuple(copies), flat(others(first).steps_since(first) or ())), (rest, flat(made.steps_since(whole) or ()))
    )
