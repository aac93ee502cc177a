"""Stages placed anywhere: what is accepted computes the same, exactly, inside every buffer, at every size."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product

from hypothesis import given, settings, strategies as st
from meaning import assert_same
from stages import programs

import loopir.intrinsics  # noqa: F401
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import loops
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step

GRID = [{"n": n, "m": m} for n, m in ((0, 0), (1, 0), (0, 2), (1, 1), (2, 3), (5, 4))]


def loop_steps(s: Schedule) -> Iterator[Step]:
    for loop in s.loops():
        yield from (Step("split", (loop, 2), (("tail", tail),)) for tail in ("guard", "peel"))
    for a, b in product(s.loops(), s.loops()):
        yield Step("reorder", (a, b))
        yield Step("fuse", (a, b))


def placements(s: Schedule) -> Iterator[Step]:
    for stage, loop in product(s.stages, s.loops()):
        if loop not in s.loops(stage):
            yield Step("compute_at", (stage, loop))
            yield Step("compute_at", (stage, loop), (("store", "root"),))
            yield Step("reverse_compute_at", (stage, loop))
            outer = [x for x in s.loops() if x != loop and loop in (y.var for y in loops(s.loop(x).body))]
            yield from (Step("compute_at", (stage, loop), (("store", x),)) for x in outer if x not in s.loops(stage))


def inlinings(s: Schedule) -> Iterator[Step]:
    for stage in s.stages:
        yield Step("compute_inline", (stage,))
        yield Step("reverse_compute_inline", (stage,))
        yield Step("compute_root", (stage,))


def foldings(s: Schedule) -> Iterator[Step]:
    for buffer, dim, factor in product(s.buffers, (0, 1), (1, 2, 3, 4)):
        yield Step("fold_storage", (buffer, dim, factor))


def taken(s: Schedule, steps: list[Step], data: st.DataObject) -> Schedule:
    """`s` after the first of some of `steps` that is legal, if one is."""
    for step in data.draw(st.lists(st.sampled_from(steps), max_size=5)) if steps else ():
        with suppress(ScheduleError):
            return s.apply(step)
    return s


@settings(max_examples=60, deadline=None)
@given(programs(), st.data())
def test_placed_stages_compute_the_same(source: str, data: st.DataObject) -> None:
    base = s = Schedule(parse(source))
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from((loop_steps, placements, placements, inlinings, foldings)))
        s = taken(s, list(kind(s)), data)
    assert find_out_of_bounds(s.func) is None
    for sizes in GRID:
        assert_same(base.func, s.func, sizes)
    assert parse(str(s)) == s.func
