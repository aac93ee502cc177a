"""Tables of recipes: the first row that matches and gives something has the stage; what a row ends; what is checked."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
import schedules
from schedules.cuda.recipe_table import Phase, Recipe, apply_phases, first_of, remembering_lowered


def program() -> lp.Schedule:
    x, k = lp.placeholder((6, 4), "float32", name="x"), lp.reduce_axis(4, name="k")
    return lp.Schedule([(x * 2.0).named("a"), lp.compute((6,), lambda i: lp.max(x[i, k], axis=k), name="b")])


def unrolled(s: lp.Schedule, stage: str) -> lp.Schedule:
    return s.unroll(s.loops(stage)[-1])


def refused(s: lp.Schedule, stage: str) -> lp.Schedule:
    raise lp.ScheduleError("not this one")


def folds(s: lp.Schedule, stage: str) -> bool:
    return bool(s.reduced(stage))


def always(s: lp.Schedule, stage: str) -> bool:
    return True


def test_the_first_row_that_gives_something_has_the_stage() -> None:
    rows = [
        Recipe("refuses", always, refused),
        Recipe("folds alone", folds, unrolled, checked=False),
        Recipe("all", always, lambda s, stage: s.bind(s.loops(stage)[0], "blockIdx.x")),
    ]
    made = apply_phases(program(), [Phase(rows)])
    assert [(step.name, step.args[0]) for step in made.trace] == [("bind", "i"), ("unroll", "k")]


def test_what_ends_a_row_leaves_the_stage_to_the_next_and_what_ends_the_program_is_last() -> None:
    both = [Recipe("row", always, unrolled, ends="row"), Recipe("stage", always, unrolled, checked=False)]
    assert len(apply_phases(program(), [Phase([both[0]])]).trace) == 2
    last = [Recipe("program", always, unrolled, ends="program"), *both]
    assert len(apply_phases(program(), [Phase(last), Phase(both)]).trace) == 1


def test_a_phase_of_the_whole_program_is_asked_once() -> None:
    seen: list[str] = []
    row = Recipe("whole", lambda s, stage: seen.append(stage), unrolled)
    apply_phases(program(), [Phase([row], whole=True)])
    assert seen == [""]


def test_what_the_target_does_not_take_is_not_taken() -> None:
    def wide(s: lp.Schedule, stage: str) -> lp.Schedule:
        return s.bind("i", "blockIdx.x").cache_read(stage, "x", "shared", at="i")

    many = lp.Schedule((lp.placeholder((2, 1 << 17), "float32", name="x") * 2.0).named("a"))
    rows = [Recipe("512 KB of shared memory", lambda s, stage: stage == "a", wide)]
    assert apply_phases(many, [Phase(rows)]).trace == ()
    unchecked = [Recipe("the same", lambda s, stage: stage == "a", wide, checked=False)]
    assert apply_phases(many, [Phase(unchecked)]).trace
    assert apply_phases(many, [Phase(unchecked)], checked=True).trace == ()


def test_nests_that_a_recipe_leaves_as_they_are_are_not_lowered_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of nests that differ in names alone one is, where what is known of them is remembered."""
    seen: list[tuple[str, ...]] = []
    lower = lp.lower

    def noted(s: lp.Schedule, target: str) -> object:
        seen.append(s.stages)
        return lower(s, target)

    monkeypatch.setattr(lp, "lower", noted)
    x = lp.placeholder((6, 4), "float32", name="x")
    s = lp.Schedule([(x * 2.0).named(name) for name in ("y0", "y1", "y2")])
    rows = [Recipe("all", always, lambda s, stage: s.bind(s.loops(stage)[0], "blockIdx.x"))]
    made = apply_phases(s, [Phase(rows)])
    assert len(made.trace) == len(seen) == 3
    assert all(len(x) == 1 for x in seen)
    with remembering_lowered({}):
        assert apply_phases(s, [Phase(rows)]).func == made.func
    assert len(seen) == 4


def test_what_lowering_takes_of_a_program_alone_is_looked_at_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = lp.lower

    def whole_alone(s: lp.Schedule, target: str) -> object:
        if len(s.stages) == 1:
            raise lp.LowerError("this needs what the other nests make")
        return lower(s, target)

    monkeypatch.setattr(lp, "lower", whole_alone)
    rows = [Recipe("all", always, unrolled)]
    assert len(apply_phases(program(), [Phase(rows)]).trace) == 2


def test_nests_that_share_memory_of_a_kernel_are_lowered_together() -> None:
    source = """
def f(A: "float32[1]", Y: "out float32[1]"):
    with alloc("float32[]") as T:
        for i in range(1):
            T[()] = sum(A[i], over=i, init=0.0)
        for j in range(1):
            Y[j] = A[0]
        for k in range(1):
            T[()] = A[0]
"""
    s = lp.Schedule(lp.parse(source))
    a = np.full(1, 3.0, np.float32)
    assert lp.interpret(schedules.gpu(s, threads=4).func, [a])["Y"] == a


def test_a_table_that_gives_nothing_is_named() -> None:
    with pytest.raises(lp.ScheduleError, match="b is nothing for this, that"):
        first_of([Recipe("this", always, refused), Recipe("that", always, refused)])(program(), "b")
