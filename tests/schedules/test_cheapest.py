"""Of several recipes the cheapest by prediction is taken; the first stays unless another saves enough."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import loopir as lp
import schedules
from schedules.cuda.auto_gpu import gpu
from schedules.cuda.cheapest import Choices, cheapest, remembering
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


def test_an_observer_sees_all_candidates_and_what_is_taken() -> None:
    seen: list[tuple[list[str], str]] = []

    def observer(candidates: Sequence[schedules.Candidate], taken: schedules.Candidate) -> None:
        assert all(c.seconds == lp.predict(c.schedule, "cuda").seconds for c in candidates)
        seen.append(([c.name for c in candidates], taken.name))

    s = lp.Schedule((lp.placeholder((1 << 22,), name="x") + 1.0).named("y"))
    cheapest(s, (_slow, _never, _fast), observer)
    with schedules.observing(observer):
        cheapest(s, (_fast, _slow))
    cheapest(s, (_slow, _fast))
    assert seen == [(["_slow", "_fast"], "_fast"), (["_fast", "_slow"], "_fast")]


def test_auto_and_plans_show_what_they_compare() -> None:
    """`auto` the candidates for a product, and a plan what rules make of each group, too."""
    seen: list[tuple[int, schedules.Candidate]] = []

    def observer(candidates: Sequence[schedules.Candidate], taken: schedules.Candidate) -> None:
        seen.append((len(candidates), taken))

    a, b = lp.placeholder((16, 512), "bfloat16", name="a"), lp.placeholder((512, 2048), "bfloat16", name="b")
    made = schedules.auto(lp.Schedule(a @ b), "cuda", arch="sm_90a", observer=observer)
    ((count, taken),) = seen
    assert count > 1
    assert taken.schedule.func == made.func
    x = lp.placeholder((64, 64), name="x")
    p = schedules.plan(lp.Schedule((x + 1.0).named("y")), "cuda", arch="sm_90a", observer=observer)
    assert seen[-1][1].seconds == p.seconds


def test_a_product_is_compared_by_itself_and_once_for_all_alike() -> None:
    seen: list[int] = []
    x = lp.placeholder((48, 512), "bfloat16", name="x")
    s = lp.Schedule([x @ lp.placeholder((512, 256), "bfloat16", name=name) for name in "qkv"])
    made = schedules.auto(s, "cuda", arch="sm_90a", observer=lambda every, _: seen.append(len(every)))
    assert len(seen) <= 2  # as the cheapest, and as one kernel to stand beside others
    assert lp.lower(made, "cuda")


def test_a_product_is_compared_once_for_all_its_readers() -> None:
    x, w = (lp.placeholder(shape, "bfloat16", name=n) for shape, n in (((48, 512), "x"), ((512, 256), "w")))
    bias, scale = (lp.placeholder((256,), "bfloat16", name=name) for name in ("bias", "scale"))
    seen: list[int] = []
    choices = Choices()
    with schedules.observing(lambda every, _: seen.append(len(every))), remembering(choices):
        for y in (x @ w, x @ w + bias, lp.relu((x @ w) * scale), (x @ w).named("other")):
            made = gpu(lp.Schedule(y), arch="sm_90a")
            assert lp.lower(made, "cuda")
    assert len(seen) == 1


def _only_of_two(s: lp.Schedule, stage: str) -> lp.Schedule:
    if len(s.stages) < 2:
        raise lp.ScheduleError("it needs a reader")
    return elementwise(s, stage)


def test_where_the_cheapest_is_refused_the_next_by_price_is_taken_and_nothing_compared_again() -> None:
    """A product that nothing reads has no place for what adds its parts up, which is cheapest where there is one."""
    a, b = (lp.placeholder((64, 64), name=name) for name in "ab")
    slow, only = (partial(how, stage="matmul") for how in (lambda s, stage: s, _only_of_two))
    programs = [lp.Schedule(lp.relu(a @ b)), lp.Schedule(a @ b)]
    for order in (programs, programs[::-1]):
        seen: list[int] = []
        with schedules.observing(lambda every, _, seen=seen: seen.append(len(every))), remembering(Choices()):
            for s in order:
                made = cheapest(s, (slow, only), part=s.stages)
                assert made is not None
                assert bool(made.trace) == (len(s.stages) > 1)
        assert seen == [2]
