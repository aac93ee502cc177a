"""Steps that are drawn have a chance: of every primitive, more than one in ten is accepted on programs of all kinds."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import given, seed, settings, strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.checking import QUIET
from loopir.testing.fuzz import themed
from loopir.testing.generate.steps import Crash, arguments_of, schedules

SELDOM = ("tensorize", "reuse", "double_buffer", "reverse_compute_at", "hoist", "privatize")
"""Those that find a place in few nests."""


def draw_steps(name: str, programs: int, start: str) -> tuple[Counter[str], Counter[str]]:
    """Steps of programs for the primitive `name`: those tried, and those accepted, by primitive."""
    tried, accepted = Counter[str](), Counter[str]()

    def refused(func: Func, step: Step, error: ScheduleError) -> None:
        tried[step.name] += 1

    @seed(start)
    @settings(QUIET, max_examples=programs)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        func, weighted = data.draw(themed(name))
        with suppress(Crash):
            s = data.draw(schedules(func, primitives=weighted, refused=refused))
            tried.update(step.name for step in s.trace)
            accepted.update(step.name for step in s.trace)

    run()
    return tried, accepted


def test_what_seldom_has_a_place_is_still_accepted() -> None:
    tried, accepted = Counter[str](), Counter[str]()
    for name in SELDOM:
        for start in (0, 20):  # programs of one seed are alike; of fewer, the share is a matter of chance
            for total, more in zip((tried, accepted), draw_steps(name, 12, f"{name} 0 {start}"), strict=True):
                total.update({x: more[x] for x in SELDOM})
    assert accepted.total() * 10 > tried.total(), accepted
    assert sum(accepted[x] > 0 for x in SELDOM) >= len(SELDOM) - 2, accepted


NEST = parse("""
def f(A: "float32[8]", B: "out float32[8]"):
    for i in range(8):
        B[i] = A[i]
""")


@given(arguments_of(PRIMITIVES["split"], NEST))
def test_arguments_are_found_in_the_nest(drawn: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    (loop, factor, *_), _ = drawn
    assert (loop, type(factor)) == ("i", int)


def failing(func: Func, loop: str) -> Func:
    raise ZeroDivisionError(loop)


@given(arguments_of(failing, NEST))
def test_arguments_at_which_a_primitive_fails_are_passed_on(drawn: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Whoever draws them meets the failure, not the draw."""
    assert drawn == (("i",), {})
