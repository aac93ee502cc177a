"""The integer set solver, isl, behind a budget: every question that is put to it has so many operations, and no more.

Whether linear constraints have an integer solution may take exponential time to decide, in C code that nothing
interrupts. So isl is asked inside `question()`: one that needs more operations raises Undecided, which is never a
proof. Operations are counted by isl itself, not by a clock, so that the answer is the same on every machine. Within an
`effort()`, which is one step, one lowering or the like, the questions share an allowance besides: each one that needs
much takes from it, and once it is spent every question has only a little.

This file is the only one that knows islpy, and outside of a question its contexts do nothing at all: what goes round
the budget fails in the first test that meets it. Each thread has a context of its own, as budgets are the context's.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import local
from types import TracebackType
from typing import ParamSpec, TypeVar

import islpy as isl

from loopir.errors import Undecided

P = ParamSpec("P")
T = TypeVar("T")

QUESTION = 100_000
"""Operations of isl that a question has at most."""
WORK = 24_000_000
"""What the operations of a question cost at most, one on a system of so many rows and columns as many as it has cells:
that is what isl goes through to pivot it, a few seconds' work."""
ALGEBRA = 10
"""How many times more a question has that is about sets made of several systems: most of its operations are small."""
PROOF = 20 * QUESTION
"""Operations that each part of the proof of a whole program has, as `renew` tells them apart."""
EFFORT = 4 * 128
"""What the questions of an effort have together, for each of its parts: one that spends its budget takes 128, one that
needs more than `MIN_OPERATIONS` operations 1 at least, and others nothing."""
MIN_OPERATIONS = 1_000
"""Operations that a question has once the effort's are spent."""
_CLOSED = 1
"""What a context is left with: no limit is 0, and the first operation passes one of 1."""


class _Solver(local):
    """A thread's context, how deep it is in questions and efforts, and what is left of the effort."""

    def __init__(self) -> None:
        self.context = isl.Context()
        self.context.set_max_operations(_CLOSED)
        self.questions = self.efforts = 0
        self.budget = 0
        self.times = 1
        self.left = EFFORT
        self.numbers: dict[int, isl.Val] = {}
        self.spaces: dict[int, isl.Space] = {}

    def exceeds(self, operations: int) -> bool:
        """Whether more than so many operations were made since the question began."""
        self.context.set_max_operations(operations)
        return self.spent()

    def spent(self) -> bool:
        """Whether the budget is."""
        try:
            isl.Val.int_from_si(self.context, 0)
        except isl.Error:
            return True
        return False


_SOLVER = _Solver()


class question:
    """A question to the solver: isl is there inside, until the budget is spent, and then Undecided is raised.

    Questions within questions are parts of the outermost one.
    """

    __slots__ = ("operations", "times")

    def __init__(self, operations: int = QUESTION, *, times: int = 1) -> None:
        self.operations = operations
        self.times = times

    def __enter__(self) -> None:
        solver = _SOLVER
        solver.questions += 1
        if solver.questions == 1:
            solver.times = self.times
            solver.budget = MIN_OPERATIONS if solver.efforts and solver.left <= 0 else self.times * self.operations
            solver.context.reset_operations()
            solver.context.set_max_operations(solver.budget)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        solver = _SOLVER
        solver.questions -= 1
        spent = solver.spent()  # what was answered since may be nonsense: not every call says that it failed
        if not solver.questions:
            if solver.efforts and solver.exceeds(MIN_OPERATIONS):
                solver.left -= next((n for n in (128, 64, 32) if solver.exceeds(max(1, solver.budget * n // 128))), 1)
            solver.context.set_max_operations(_CLOSED)
        if isinstance(error, isl.Error) or (spent and (error is None or isinstance(error, Exception))):
            raise Undecided from None


def weigh(rows: int, columns: int) -> None:
    """Give the question that is being asked, as it is about a system of so many rows and columns, no more for that."""
    solver = _SOLVER
    fewer = max(MIN_OPERATIONS, solver.times * WORK // max(1, rows * columns))
    if fewer < solver.budget:
        solver.budget = fewer
        solver.context.set_max_operations(fewer)


def renew() -> None:
    """Begin another part of a proof: it has the budget that the question began with, unless that is spent."""
    solver = _SOLVER
    if not solver.efforts and not solver.spent():
        solver.context.reset_operations()


class effort:
    """What is worked on as one: a step, a pass of a lowering. Its questions share an allowance, as do efforts within
    it: so much for each of its `parts`, as the kernels of a program are, so that the last ones have theirs, too."""

    __slots__ = ("parts",)

    def __init__(self, parts: int = 1) -> None:
        self.parts = parts

    def __enter__(self) -> None:
        solver = _SOLVER
        solver.efforts += 1
        if solver.efforts == 1:
            solver.left = EFFORT * max(1, self.parts)

    def __exit__(self, *_: object) -> None:
        _SOLVER.efforts -= 1


def asking(fn: Callable[P, T]) -> Callable[P, T]:
    """`fn`, which is no generator, as one question about sets."""

    @wraps(fn)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        with question(times=ALGEBRA):
            return fn(*args, **kwargs)

    return asked


# ---------------------------------------------------------------- what isl makes of text and numbers, in our context


def number(value: int) -> isl.Val:
    """An isl number; making one costs more than using it."""
    known = _SOLVER.numbers
    found = known.get(value)
    if found is None:
        context = _SOLVER.context
        made = isl.Val.int_from_si(context, value) if abs(value) < 1 << 62 else isl.Val(str(value), context)
        if len(known) > 1024:
            known.clear()
        found = known[value] = made
    return found


def space(dims: int) -> isl.Space:
    """The space of sets of `dims` dimensions."""
    known = _SOLVER.spaces
    found = known.get(dims)
    if found is None:
        found = known[dims] = isl.Space.set_alloc(_SOLVER.context, 0, dims)
    return found


def matrix(rows: int, columns: int) -> isl.Mat:
    """A matrix of zeros."""
    return isl.Mat.alloc(_SOLVER.context, 0, columns).insert_zero_rows(0, rows)


def nothing(dims: int) -> isl.Set:
    """The empty set of `dims` dimensions."""
    return isl.Set.empty(space(dims))


def read_set(text: str) -> isl.Set:
    """The set that `text` describes."""
    return isl.Set(text, _SOLVER.context)


def read_map(text: str) -> isl.Map:
    """The relation that `text` describes."""
    return isl.Map(text, _SOLVER.context)
