"""No question to the solver goes on for ever: it has a budget of operations, and what is not decided is no proof."""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.analysis.dependence.access import statements_of
from loopir.analysis.dependence.depend import Pair, conflicts
from loopir.analysis.presburger import solver
from loopir.analysis.presburger.constraints import ConstraintSystem
from loopir.analysis.presburger.solver import effort, isl, question, read_set
from loopir.errors import Undecided
from loopir.ir.parser.parse import parse
from loopir.testing.generate.steps import schedules
from loopir.testing.generate.strategies import funcs

HARD = "{ [a, b, c, d, e] : 0 <= a, b, c, d, e <= 999 and (7a + 5b - 11c) mod 89 = 3 and (13c - 9d + 4e) mod 97 = 5 }"


def hard() -> None:
    read_set(HARD).lexmin()


@pytest.fixture
def stingy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question is too hard."""
    monkeypatch.setattr(solver, "WORK", 1)
    monkeypatch.setattr(solver, "MIN_OPERATIONS", 1)


def test_what_takes_too_many_operations_is_not_decided() -> None:
    with pytest.raises(Undecided, match="would take too long"), question(50):
        hard()


def test_the_solver_is_there_again_after_that() -> None:
    for _ in range(3):
        with pytest.raises(Undecided), question(50):
            hard()
        with question():
            assert not read_set("{ [i] : 0 <= i < 3 }").is_empty()


def test_nothing_is_answered_outside_of_a_question() -> None:
    with question():
        found = read_set("{ [i, j] : 0 <= i < 3 and i < j }")
    with pytest.raises(isl.Error):
        found.lexmin()


def test_an_answer_of_a_spent_budget_is_none() -> None:
    """Not every call of isl's raises when it failed: some give back nothing, which would be taken for an answer."""
    with pytest.raises(Undecided), question(50), suppress(isl.Error):
        hard()


def test_each_thread_has_a_budget_of_its_own() -> None:
    seen: list[bool] = []

    def ask() -> None:
        with question():
            seen.append(read_set("{ [i] : 0 <= i < 3 }").is_empty())

    def beside() -> None:
        with question(50):
            other = Thread(target=ask)
            other.start()
            other.join()
            hard()

    with pytest.raises(Undecided):
        beside()
    assert seen == [False]


def test_an_effort_ends_though_all_its_questions_are_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some that spend their budgets, each has a little: their number does not make the whole longer."""
    monkeypatch.setattr(solver, "MIN_OPERATIONS", 10)
    spent: list[int] = []

    def ask() -> None:
        with question(50):
            spent.append(solver._SOLVER.budget)
            hard()

    with effort():
        for _ in range(20):
            with pytest.raises(Undecided):
                ask()
    assert spent == [50] * 4 + [10] * 16
    with effort(), question():
        assert solver._SOLVER.budget == solver.QUESTION
    spent.clear()
    with effort(3):
        for _ in range(20):
            with pytest.raises(Undecided):
                ask()
    assert spent == [50] * 12 + [10] * 8


NEAR = 'def f(n: "size", a: "inout float32[n, n]"):\n    for i in range(n - 2):\n        for j in range(n - 2):\n'


@pytest.mark.usefixtures("stingy")
@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.parallel("i"),
        lambda s: s.reorder("j", "i"),
        lambda s: s.split("i", 4).split("j", 4).reorder("j_o", "i_i"),
    ],
    ids=["parallel", "reorder", "tile"],
)
def test_a_step_that_is_not_decided_is_refused_in_words(step: Callable[[lp.Schedule], lp.Schedule]) -> None:
    s = lp.Schedule(parse(NEAR + "            a[(3 * i + 2 * j) // 5, j] = a[(2 * i + 3 * j + 1) // 5, i] + 1.0\n"))
    with pytest.raises(lp.ScheduleError, match="not decided, as the integer solver would take too long") as refused:
        step(s)
    assert "fewer splits, guards and quotients" in str(refused.value)


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_lowering_holds_what_it_cannot_decide(target: str, data: st.DataObject) -> None:
    """Without the solver a nest is lowered to more checks and barriers, or refused in words; never by another error."""
    s = data.draw(schedules(data.draw(funcs()), most=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "WORK", 1)
        patch.setattr(solver, "MIN_OPERATIONS", 1)
        with suppress(lp.LowerError, lp.TargetError):
            lp.lower(s, target)


@given(st.data(), st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_a_budget_changes_no_answer(data: st.DataObject, operations: int) -> None:
    """Within any budget a question has the answer that it has within a large one, or none."""
    func = data.draw(schedules(data.draw(funcs()), most=3)).func
    with pytest.MonkeyPatch.context() as patch:
        for s in statements_of(func)[:3]:
            for a, b in [*conflicts(s, s)][:2]:
                pair = Pair(func, s, a, s, b)
                system, dims = pair.base, pair.dims()
                patch.setattr(solver, "QUESTION", 1_000_000)
                whole = solvable(system, dims, 1_000_000)
                assert solvable(system, dims, operations) in (whole, None)


def solvable(system: ConstraintSystem, dims: list[str], operations: int) -> bool | None:
    try:
        with question(operations):
            return not all(x.is_empty() for x in system.solutions(dims, []))
    except Undecided:
        return None


def test_an_interrupt_leaves_the_solver_as_it_was() -> None:
    """Ctrl-C goes through as what it is, also where the budget is spent, and the next question is answered."""

    def interrupted() -> None:
        with question(50):
            with suppress(isl.Error):
                hard()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with question():
        assert not read_set("{ [i] : 0 <= i < 3 }").is_empty()
