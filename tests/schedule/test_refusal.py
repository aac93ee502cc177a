"""What every refusal has: the call, a reason, what would be legal, iterations that are there. It changes nothing."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.schedule import Schedule
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate.steps import arguments_of
from loopir.testing.legality import programs
from loopir.testing.oracles.oracles import false_witness

ROOM = Path(lp.__file__).parent / "schedule"


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOM)))
def test_a_refusal_is_written_with_what_would_be_legal(path: Path) -> None:
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    errors = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == "ScheduleError"]
    assert [n.lineno for n in errors if not any(k.arg == "suggestion" for k in n.keywords)] == []


def test_what_the_program_after_a_step_would_do_is_told() -> None:
    s = Schedule(
        parse("""
def h(A: "float32[8]", T: "out float32[1]"):
    for i in bind("threadIdx.x", 8):
        T[0] = sum(A[i] + 1.0, over=i, init=0.0)
""")
    )
    with pytest.raises(ScheduleError, match=r"at \(i=0\) writes T\[0\], which T_1 at \(i=1\) reads") as caught:
        s.split_sum("T")
    assert_told(s, "split_sum", ("T",), caught.value)


def test_what_is_computed_from_itself_is_told_what_is_legal() -> None:
    s = Schedule(
        parse("""
def f(n: "size", X: "inout float32[n + 1]", Y: "out float32[n]"):
    for i in range(n):
        X[i + 1] = X[i] + 1.0
    for j in range(n):
        Y[j] = X[j + 1]
""")
    )
    with pytest.raises(ScheduleError, match="X is computed from X itself") as caught:
        s.compute_at("X", "j")
    assert_told(s, "compute_at", ("X", "j"), caught.value)


@settings(max_examples=60, deadline=None, phases=(Phase.generate,))
@given(st.data())
def test_what_is_refused_is_told_and_changes_nothing(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PRIMITIVES)))
    s = Schedule(data.draw(programs(name)))
    before = text(s.func)
    for _ in range(3):
        args, kwargs = data.draw(arguments_of(PRIMITIVES[name], s.func))
        try:
            s.apply(Step(name, args, tuple(kwargs.items())))
        except ScheduleError as error:
            assert_told(s, name, args, error)
            assert text(s.func) == before
            assert s.trace == ()
            assert s.func == parse(before)


def assert_told(s: Schedule, name: str, args: tuple[Any, ...], error: ScheduleError) -> None:
    """It is of this call, with a reason and what would be legal; if iterations are told, they are there and clash."""
    assert error.primitive == name
    assert str(error).startswith(f"{name}(")
    assert error.reason
    assert error.suggestion, error
    assert false_witness(s.func, error) is None, error
    told = " at (" in error.reason and ("which" in error.reason or "writes" in error.reason)
    then = error.__context__  # a refusal of the program that the step would make has its witness in that program
    assert error.witness is not None or not told or (isinstance(then, ScheduleError) and then.witness), error
