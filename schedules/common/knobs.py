"""Knobs: the numbers of a recipe that a formula chooses and a measurement may choose otherwise.

A recipe declares a knob once and asks it where the number is used, with what its formula gives:

    UNROLL = schedules.Knob("unroll", "vectors in flight", lambda formula: (1, 2, 4, 8))
    ...
    vectors = UNROLL(4, at=stage)

By itself that gives 4. Inside `with choosing({"unroll(y)": 8}) as choices:` it gives 8, and `choices.queries` has what
was asked, so that a tuner knows which knobs a program has without a list of all recipes. A value is one of those that
the knob has for this machine; there is no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import loopir as lp

V = TypeVar("V")


@dataclass(frozen=True)
class Knob:
    """A number that a recipe leaves open: its name, what it is, and the values that are legal where `formula` is one.

    `values` may ask what the machine is: `lp.machine()`, `lp.caches()`, `lp.vector_unit()`, `lp.thread_count()`.
    `price` is what part of the time a value twice or half that of the formula is expected to lose; another value that
    is no number loses as much. Values are tried in the order of their price.
    """

    name: str
    what: str
    values: Callable[[Any], Iterable[Any]]
    price: float = 0.05

    def __call__(self, formula: V, at: str = "", among: Iterable[V] | None = None) -> V:
        """The value for stage `at`: the formula's, unless another one, which has to be legal, is chosen.

        What is legal there may be said at the place: it is then `among` these, and not those of the knob.
        """
        choices = _choices.get()
        return formula if choices is None else choices.ask(self, formula, at, among)

    def cost(self, value: object, formula: object) -> float:
        """What part of the time `value` is expected to lose beside what the formula gives."""
        if value == formula:
            return 0.0
        a, b = _size(value), _size(formula)
        return self.price if a is None or b is None else self.price * max(1.0, abs(math.log2(a / b)))


@dataclass(frozen=True)
class Query:
    """One question of a recipe: the knob, for which stage, what its formula gave, and what else is legal."""

    knob: Knob
    at: str
    formula: Any
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        return _key(self.knob.name, self.at)


@dataclass
class Choices:
    """Values by "knob(stage)", and what was asked meanwhile, in order."""

    values: Mapping[str, Any]
    queries: dict[str, Query] = field(default_factory=dict[str, Query])

    def ask(self, knob: Knob, formula: Any, at: str, among: Iterable[Any] | None) -> Any:
        key = _key(knob.name, at)
        legal = tuple(dict.fromkeys((formula, *(knob.values(formula) if among is None else among))))
        if key not in self.queries:
            self.queries[key] = Query(knob, at, formula, legal)
        if key not in self.values:
            return formula
        value = self.values[key]
        if value not in legal:
            raise lp.ScheduleError(f"{key} cannot be {value!r}", suggestion=f"one of {', '.join(map(str, legal))}")
        return value


_choices: ContextVar[Choices | None] = ContextVar("choices", default=None)


def are_chosen() -> bool:
    """Whether values of knobs are given, and queries of them noted: in the body of `choosing`."""
    return _choices.get() is not None


@contextmanager
def choosing(values: Mapping[str, Any]) -> Generator[Choices]:
    """Recipes that run meanwhile, in this thread, take these values of their knobs, by "knob(stage)"."""
    choices = Choices(dict(values))
    token = _choices.set(choices)
    try:
        yield choices
    finally:
        _choices.reset(token)


def octaves(low: int, high: int) -> Callable[[int], tuple[int, ...]]:
    """Values for a knob: half, a quarter, twice and four times the formula's, from `low` to `high`."""
    return lambda formula: tuple(
        n for n in (formula // 2, 2 * formula, formula // 4, 4 * formula) if low <= n <= high and n != formula
    )


def either(formula: bool) -> tuple[bool, ...]:
    """Values for a knob that is a question."""
    return (not formula,)


def _key(name: str, at: str) -> str:
    return f"{name}({at})" if at else name


def _size(value: object) -> float | None:
    """How large a value is, to compare it with another; None for what has no size."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return float(value) if value > 0 else None
    if isinstance(value, tuple) and value and all(isinstance(x, int) and x > 0 for x in value):  # pyright: ignore[reportUnknownVariableType]
        return float(math.prod(value))  # pyright: ignore[reportUnknownArgumentType]
    return None
