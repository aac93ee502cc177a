"""Allocations, loops and conditions with nothing in them: every step takes them, or says in words that it does not."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.errors import LoopirError, ScheduleError
from loopir.ir.printer import text
from loopir.lower.pipeline import lower
from loopir.schedule import Schedule
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.empties import with_empties
from loopir.testing.generate.steps import arguments_of
from loopir.testing.legality import programs

BESIDE = """
def f(n: "size", A: "float32[n]", X: "out float32[n]", Y: "out float32[n]"):
    with alloc("float32[4]") as T:
        pass
    for i in range(n):
        X[i] = A[i]
    with alloc("float32[4]") as U:
        pass
    for j in range(n):
        Y[j] = A[j]
"""


def test_loops_beside_an_empty_allocation_are_merged() -> None:
    """It ended with an IndexError."""
    for side_by_side in (True, False):
        s = Schedule(lp.parse(BESIDE)).merge("i", "j", side_by_side=side_by_side)
        assert s.validate()


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_step_takes_them_or_says_why_not(name: str, data: st.DataObject) -> None:
    s = Schedule(data.draw(with_empties(data.draw(programs(name)))))
    steps = candidate_steps(s.func, name) if name in TABLE else []
    for _ in range(4):
        if steps and data.draw(st.booleans()):
            step = data.draw(st.sampled_from(steps))
        else:
            args, kwargs = data.draw(arguments_of(PRIMITIVES[name], s.func))
            step = Step(name, args, tuple(kwargs.items()))
        try:
            after = s.apply(step)
        except ScheduleError:
            continue
        except Exception as error:
            raise AssertionError(f"{step} on\n{text(s.func)}") from error
        for target in ("llvm", "cuda"):
            try:
                lower(after.func, target)
            except LoopirError:
                continue
            except Exception as error:
                raise AssertionError(f"{step}, lowered for {target}, on\n{text(s.func)}") from error
