"""A step may change what a store reads if nobody looks at what it stores, and no sooner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given as drawn, settings, strategies as st

import loopir as lp
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate.guarded import guarded
from loopir.testing.generate.steps import arguments_of
from loopir.testing.legality import verdict
from loopir.testing.oracles.brute_force import first_violation, small_sizes

DEAD = """
def f(n: "size", A: "float32[n]", X: "inout float32[n + 2]", Y: "inout float32[2]"):
    for i in range(n):
        Y[{at}] = {value}
        X[i + {shift}] = A[i]
    {then}
"""
OVERWRITTEN = "Y[0] = 1.0"


def program(value: str = "X[i]", at: str = "0", shift: int = 1, then: str = OVERWRITTEN, source: str = DEAD) -> lp.Func:
    return lp.parse(source.format(value=value, at=at, shift=shift, then=then))


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_what_is_read_for_a_value_that_is_overwritten_may_change(shift: int) -> None:
    func = program(shift=shift, value="X[i] * 2.0")
    after = lp.Schedule(func).distribute("i").func
    assert first_violation(func, after, small_sizes(func)) is None


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"then": ""}, id="nothing overwrites it"),
        pytest.param({"then": "Y[1] = 1.0"}, id="another element is overwritten"),
        pytest.param({"then": "for j in range(n):\n        X[j] = Y[0]\n    Y[0] = 1.0"}, id="somebody looks before"),
        pytest.param({"then": "if n > 2:\n        Y[0] = 1.0"}, id="it is overwritten at some sizes only"),
        pytest.param({"then": "if A[0] < 1.0:\n        Y[0] = 1.0"}, id="it may be overwritten, as memory says"),
        pytest.param({"value": "A[index(X[i]) % n]"}, id="the value decides where another is stored"),
    ],
)
def test_what_is_read_for_a_value_that_is_looked_at_stays(given: dict[str, Any]) -> None:
    if "index" in given.get("value", ""):
        source = DEAD.replace("inout float32[n + 2]", "inout int32[n + 2]").replace("= A[i]", "= 1")
        func = program(source=source, **given)
    else:
        func = program(**given)
    with pytest.raises(lp.ScheduleError, match="runs these two the other way round"):
        lp.Schedule(func).distribute("i")


NOT_YET = """
def f(n: "size", A: "float32[n]", Y: "inout float32[2]"):
    with alloc("float32[n]") as X:
        for i in range({first}):
            X[i] = A[i]
        for j in range(n - 1):
            Y[0] = X[j]{of}
            X[j + 1] = A[j]
        Y[0] = 1.0
"""


@pytest.mark.parametrize(
    ("first", "of", "taken"),
    [("n", " * 2.0", True), ("min(n, 1)", " * 2.0", False), ("min(n, 1)", "", True)],
)
def test_memory_that_nobody_has_written_yet_is_not_used_sooner(first: str, of: str, taken: bool) -> None:
    """What is read for a value that nobody looks at may be anything, if it is there. A copy is no use."""
    func = lp.parse(NOT_YET.format(first=first, of=of))
    if not taken:
        with pytest.raises(lp.ScheduleError, match="runs these two the other way round"):
            lp.Schedule(func).distribute("j")
        return
    after = lp.Schedule(func).distribute("j").func
    assert first_violation(func, after, small_sizes(func)) is None


TAKEN: dict[str, tuple[str, Step]] = {
    "a fold whose result is overwritten": (
        """
def f(A: "float32[6]", Y: "out float32[]"):
    Y[()] = A[5]
    for i in range(2):
        Y[()]: "fold" = sum(A[i + 2], over=i)
        Y[()]: "step" = A[i]
""",
        Step("distribute", ("i",), ()),
    ),
    "an integer that is divided, for a value that is overwritten": (
        """
def f(A: "int32[8]", X: "inout int32[8]", Y: "inout int32[1]"):
    for i in range(7):
        Y[0] = A[i] // X[i]
        X[i + 1] = A[i]
    Y[0] = 1
""",
        Step("distribute", ("i",), ()),
    ),
    "what is computed again, later": (
        """
def f(A: "float32[8]", Y: "inout float32[8]"):
    for i in range(4):
        Y[i]: "first" = A[i] * 2.0
        for k in range(4):
            Y[k]: "second" = A[k] * 2.0
""",
        Step("compute_root", ("first",), ()),
    ),
    "rows of a ring that nobody looks at": (
        """
def f(A: "float32[16]", X: "inout float32[16]"):
    with alloc("float32[3]") as T:
        for x in range(3):
            T[x] = A[x]
        for q in range(2):
            X[0]: "first" = T[0]
            X[0]: "second" = A[q]
""",
        Step("fold_storage", ("T", 0, 1), ()),
    ),
    "lanes that read what is overwritten": (
        """
def f(A: "float32[16]", X: "inout float32[16]", Y: "inout float32[4]"):
    for i in range(4):
        Y[i] = X[i]
        X[i + 1]: "moved" = A[i]
    for j in range(4):
        Y[j]: "last" = A[j]
""",
        Step("vectorize", ("i",), ()),
    ),
    "a loop backwards over memory that each iteration fills first": (
        """
def f(n: "size", A: "float32[n]", Y: "out float32[n]"):
    with alloc("float32[1]") as T:
        for i in range(n):
            T[0] = A[i]
            Y[i] = T[0] * 2.0
""",
        Step("reverse", ("i",), ()),
    ),
    "a copy out over what is written again": (
        """
def f(A: "float32[16]", X: "float32[16]", Y: "inout float32[16]"):
    for q in range(4):
        for i in range(1):
            for k in range(3):
                Y[k]: "copied" = X[k]
                if q <= 1:
                    Y[q + i + k]: "other" = A[q + i + k]
    for o in range(16):
        Y[o]: "last" = A[o]
""",
        Step("cache_write", ("copied", "local", "q"), ()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TAKEN)
def test_steps_that_change_no_output_are_taken(what: str) -> None:
    source, step = TAKEN[what]
    found, told = verdict(lp.parse(source), step)
    assert found == "accepted", told


REFUSED: dict[str, tuple[str, Step]] = {
    "a sum that a statement makes of its own last one": (  # in another order it is rounded otherwise
        """
def f(A: "float32[8]", X: "inout float32[1]"):
    for i in range(8):
        X[0]: "one" = X[0] + A[i]
        X[0]: "other" = X[0] + A[7 - i]
""",
        Step("distribute", ("i",), ()),
    ),
    "lanes that store to one element": (
        """
def f(A: "float32[8]", X: "inout float32[1]"):
    for i in range(8):
        X[0] = A[0]
""",
        Step("vectorize", ("i",), ()),
    ),
    "iterations that run at once": (
        """
def f(A: "float32[8]", X: "inout float32[8]", Y: "inout float32[1]"):
    for p in parallel(1):
        for i in range(7):
            Y[0] = X[i]
            X[i + 1] = A[i]
        Y[0] = 1.0
""",
        Step("distribute", ("i",), ()),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_matter_of_values_is_refused_still(what: str) -> None:
    source, step = REFUSED[what]
    with pytest.raises(lp.ScheduleError):
        lp.Schedule(lp.parse(source)).apply(step)


def test_two_values_that_nobody_reads_are_stored_in_any_order() -> None:
    func = lp.parse("""
def f(n: "size", A: "float32[n]", X: "inout float32[n + 2]"):
    for i in range(n):
        X[i] = A[i] * 2.0
        X[i + 1] = A[i]
    for j in range(n + 2):
        X[j] = 0.0
""")
    after = lp.Schedule(func).distribute("i").func
    assert first_violation(func, after, small_sizes(func)) is None


def test_of_two_writes_one_of_which_is_looked_at_the_order_stays() -> None:
    func = lp.parse("""
def f(n: "size", A: "float32[n]", X: "inout float32[n + 2]"):
    for i in range(n):
        X[i] = A[i] * 2.0
        X[i + 1] = A[i]
    for j in range(n - 1):
        X[j] = 0.0
""")
    with pytest.raises(lp.ScheduleError, match="writes later"):
        lp.Schedule(func).distribute("i")


def test_compute_root_of_a_value_that_nobody_reads() -> None:
    func = program()
    label = str(lp.Schedule(func).func.body[0].body[0].label)  # type: ignore[union-attr]
    after = lp.Schedule(func).compute_root(label).func
    assert first_violation(func, after, small_sizes(func)) is None


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@drawn(guarded(), st.data())
def test_no_output_changes_where_much_is_overwritten(func: lp.Func, data: st.DataObject) -> None:
    for name in ("distribute", "compute_root", "cache_write", "vectorize", "fold_storage", "reverse"):
        args, kwargs = data.draw(arguments_of(PRIMITIVES[name], func))
        step = Step(name, args, tuple(kwargs.items()))
        found, told = verdict(func, step)
        assert found not in ("accepted, illegal", "crash"), f"{step}\n{told}"
