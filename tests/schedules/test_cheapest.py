"""Of several recipes the cheapest by prediction is taken; the first stays unless another saves enough."""

from __future__ import annotations

from functools import partial

import loopir as lp
from schedules.cuda.cheapest import cheapest
from schedules.cuda.elementwise import elementwise


def _slow(s: lp.Schedule) -> lp.Schedule:
    return s.bind(s.loops("y")[0], "blockIdx.x")


def _fast(s: lp.Schedule) -> lp.Schedule:
    return elementwise(s, "y")


def _never(s: lp.Schedule) -> lp.Schedule:
    raise lp.ScheduleError("no")


def test_the_cheapest_is_taken_whatever_the_order_and_what_refuses_is_none() -> None:
    s = lp.Schedule((lp.placeholder((1 << 22,), name="x") + 1.0).named("y"))
    for recipes in ((_slow, _fast), (_fast, _slow), (_never, _fast, _slow, _never)):
        made = cheapest(s, recipes)
        assert made is not None
        assert made.func == _fast(s).func
    assert cheapest(s, (_never,)) is None
    assert cheapest(s, ()) is None


def test_the_first_stays_where_another_saves_next_to_nothing() -> None:
    s = lp.Schedule((lp.placeholder((4096,), name="x") + 1.0).named("y"))
    few, many = partial(elementwise, stage="y", threads=64), partial(elementwise, stage="y", threads=128)
    for recipes in ((few, many), (many, few)):
        made = cheapest(s, recipes)
        assert made is not None
        assert made.func == recipes[0](s).func
