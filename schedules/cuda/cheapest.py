"""Choose among recipes by prediction: each is tried, lowered and priced, and the first stays unless another saves time.

What was measured comes first in a list, and recipes whose price alone speaks for them after it. So a prediction moves
nobody away from what is known to be fast for a gain that is smaller than its error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import loopir as lp

from .recipe_table import lowered

SAVED, LEAST_GAIN = 4.0e-7, 0.03
"""Seconds, and what part of the seconds of the first, that another recipe is to save at least."""


@dataclass(frozen=True)
class Candidate:
    """A schedule that was compared with others by its price: what made it, and the seconds that are predicted."""

    recipe: Any
    schedule: lp.Schedule
    seconds: float

    @property
    def name(self) -> str:
        """What made it, by its options."""
        given: dict[str, Any] = getattr(self.recipe, "keywords", {})
        how = given.get("how", getattr(self.recipe, "func", self.recipe))
        options: dict[str, Any] = given.get("options", {})
        said = " ".join(f"{k}={_spelled(v)}" for k, v in options.items())
        return f"{getattr(how, '__name__', how)} {said}".strip()


def _spelled(value: Any) -> str:
    return "x".join(map(str, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else str(value)


Observer = Callable[[Sequence[Candidate], Candidate], None]
"""What is called after each comparison, with all candidates and the one that is taken."""
_observer = ContextVar[Observer | None]("observer", default=None)


@contextmanager
def observing(observer: Observer | None) -> Generator[None]:
    """Call `observer` for each comparison of recipes by price in the body; None leaves the one that there is."""
    token = _observer.set(observer if observer is not None else _observer.get())
    try:
        yield
    finally:
        _observer.reset(token)


def cheapest(
    s: lp.Schedule, recipes: Iterable[Callable[[lp.Schedule], lp.Schedule]], observer: Observer | None = None
) -> lp.Schedule | None:
    """What the recipe makes of `s` that is predicted to take the fewest seconds; None where all refuse.

    `observer`, or that of `observing`, is called with the candidates and what is taken, where there are several.
    """
    made = [(recipe, x) for recipe in recipes if (x := lowered(s, recipe)) is not None]
    if len(made) < 2:  # there is nothing to compare
        return made[0][1] if made else None
    candidates = [Candidate(recipe, x, lp.predict(x, "cuda").seconds) for recipe, x in made]
    best = candidates[0]
    for other in candidates[1:]:
        if best.seconds - other.seconds > max(SAVED, LEAST_GAIN * best.seconds):
            best = other
    if (seen := observer or _observer.get()) is not None:
        seen(candidates, best)
    return best.schedule
