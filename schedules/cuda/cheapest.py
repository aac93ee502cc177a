"""Choose among recipes by prediction: each is tried, lowered and priced, and the first stays unless another saves time.

What was measured comes first in a list, and recipes whose price alone speaks for them after it. So a prediction moves
nobody away from what is known to be fast for a gain that is smaller than its error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import loopir as lp

from ..common.knobs import are_chosen
from .recipe_table import is_lowered, legal, lowered

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


_in_one_kernel = ContextVar[bool]("in_one_kernel", default=False)


@contextmanager
def in_one_kernel() -> Generator[None]:
    """Take the cheapest of those recipes that make the fewest kernels in the body, as one grid beside others wants."""
    token = _in_one_kernel.set(True)
    try:
        yield
    finally:
        _in_one_kernel.reset(token)


Choices = dict[tuple[str, ...], int]
"""Which recipe was the cheapest, by the text of what is scheduled and the names of all recipes."""
_choices = ContextVar[Choices | None]("choices", default=None)


@contextmanager
def remembering(choices: Choices) -> Generator[None]:
    """Compare recipes once in the body for all parts of programs that differ in names alone."""
    token = _choices.set(choices if (known := _choices.get()) is None else known)
    try:
        yield
    finally:
        _choices.reset(token)


def cheapest(
    s: lp.Schedule,
    recipes: Iterable[Callable[[lp.Schedule], lp.Schedule]],
    observer: Observer | None = None,
    *,
    part: Sequence[str] = (),
) -> lp.Schedule | None:
    """What the recipe makes of `s` that is predicted to take the fewest seconds; None where all refuse.

    Where other nests stand beside the stages of `part`, which are all that recipes schedule, they are compared on these
    as a program of their own: what is not scheduled yet takes longer than all that a recipe may save. `observer`, or
    that of `observing`, is called with the candidates and what is taken, where there are several.
    """
    recipes = list(recipes)
    if part and len(recipes) > 1 and (taken := _choice_for(s, part, recipes, observer)) is not None:
        made = lowered(s, recipes[taken])
        if made is not None:
            return made
    found = _compare(s, recipes, observer)
    return None if found is None else found[1]


def _compare(
    s: lp.Schedule, recipes: Sequence[Callable[[lp.Schedule], lp.Schedule]], observer: Observer | None
) -> tuple[int, lp.Schedule] | None:
    """Which recipe is taken, and what it makes of `s`."""
    made, seen_texts = list[tuple[int, lp.Schedule]](), set[str]()
    for n, recipe in enumerate(recipes):
        x = legal(s, recipe)
        if x is not None and (text := lp.text(x.func)) not in seen_texts:  # options that make no difference
            seen_texts.add(text)
            made += [(n, x)] if is_lowered(x) else []
    if len(made) < 2:  # there is nothing to compare
        return made[0] if made else None
    prices = [lp.predict(x, "cuda") for _, x in made]
    if _in_one_kernel.get():
        fewest = min(p.kernels for p in prices)
        made, prices = zip(*((x, p) for x, p in zip(made, prices, strict=True) if p.kernels == fewest), strict=True)
    candidates = [Candidate(recipes[n], x, p.seconds) for (n, x), p in zip(made, prices, strict=True)]
    best = 0
    for n, other in enumerate(candidates):
        if candidates[best].seconds - other.seconds > max(SAVED, LEAST_GAIN * candidates[best].seconds):
            best = n
    if (seen := observer or _observer.get()) is not None:
        seen(candidates, candidates[best])
    return made[best]


def _choice_for(
    s: lp.Schedule,
    part: Sequence[str],
    recipes: Sequence[Callable[[lp.Schedule], lp.Schedule]],
    observer: Observer | None,
) -> int | None:
    """Which of `recipes` is the cheapest for `part` alone; None where that is not known."""
    if are_chosen():  # values of knobs are given by the program's names
        return None
    try:
        found = lp.extract(s.func, part)
    except lp.ScheduleError:
        return None  # another nest has to run between
    names = {old: new for new, old in found.labels.items()}
    own = [_renamed(recipe, names) for recipe in recipes]
    one = "in one kernel" if _in_one_kernel.get() else ""
    known, key = _choices.get(), (lp.text(found.func), one, *(Candidate(r, s, 0.0).name for r in own))
    if known is not None and key in known:
        return known[key]
    alone = len(found.nests) == len(lp.nests(s.func))
    taken = _compare(s, recipes, observer) if alone else _compare(lp.Schedule(found.func), own, observer)
    if taken is not None and known is not None:
        known[key] = taken[0]
    return None if taken is None else taken[0]


def _renamed(recipe: Any, names: Mapping[str, str]) -> Any:
    """A recipe of stages, which has these as "stage" and "within", with other names for them."""
    if not isinstance(recipe, partial):
        return recipe
    given = cast("partial[Any]", recipe)
    return partial(given.func, *given.args, **_with_names(given.keywords, names))


def _with_names(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    out = dict(options)
    if "stage" in out:
        out["stage"] = names[out["stage"]]
    if "within" in out:
        out["within"] = tuple(names[x] for x in out["within"])
    if "options" in out:
        out["options"] = _with_names(out["options"], names)
    return out
