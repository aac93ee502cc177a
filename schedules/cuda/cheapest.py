"""Choose among recipes by prediction: each is tried, lowered and priced, and the first stays unless another saves time.

What was measured comes first in a list, and recipes whose price alone speaks for them after it. So a prediction moves
nobody away from what is known to be fast for a gain that is smaller than its error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import loopir as lp

from ..common.knobs import are_chosen
from ..common.nest_queries import legal
from .recipe_table import is_lowered, lowered, remembering_lowered

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


@dataclass(frozen=True)
class Priced:
    """What the recipe with this number made: its predicted seconds, and how many kernels it is."""

    recipe: int
    seconds: float = 0.0
    kernels: int = 0


@dataclass
class Choices:
    """What recipes were found to cost, by the text of what is scheduled and the names of all recipes.

    Where recipes compare others inside, which in one kernel may be others, also by whether it was `in_one_kernel`.
    A product is compared once for all its readers, as what takes its sums costs about the same after each recipe: it
    is known by itself, in names that say nothing, too.
    """

    prices: dict[tuple[str, ...], list[Priced]] = field(default_factory=dict[tuple[str, ...], list[Priced]])
    lowered: dict[tuple[str, lp.Machine], bool] = field(default_factory=dict[tuple[str, lp.Machine], bool])
    """Whether lowering for a machine takes a program, by its text."""
    asked: int = 0
    """How often the cheapest of some recipes was asked for."""


_choices = ContextVar[Choices | None]("choices", default=None)


@contextmanager
def remembering(choices: Choices) -> Generator[None]:
    """Compare recipes once in the body for all parts of programs that differ in names alone."""
    choices = choices if (known := _choices.get()) is None else known
    token = _choices.set(choices)
    try:
        with remembering_lowered(choices.lowered):
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
    if (known := _choices.get()) is not None:
        known.asked += 1
    if part and len(recipes) > 1 and (found := _prices_for(s, part, recipes, observer)) is not None:
        priced, made = found
        while priced:
            best = priced[_cheapest_of(priced)]
            x = made[best.recipe] if made else lowered(s, recipes[best.recipe])
            if x is not None:
                return x
            priced = [p for p in priced if p is not best]  # what takes the sums is no store here, perhaps
    made = _compare(s, recipes, observer)
    return made[_cheapest_of([p for p, _ in made])][1] if made else None


def _compare(
    s: lp.Schedule, recipes: Sequence[Callable[[lp.Schedule], lp.Schedule]], observer: Observer | None
) -> list[tuple[Priced, lp.Schedule]]:
    """What the recipes make of `s`, and what each costs, if there are several. Lowering takes the cheapest, and, where
    they are shown to an observer, all: it takes far longer than a price."""
    made, seen_texts = list[tuple[int, lp.Schedule]](), set[str]()
    for n, recipe in enumerate(recipes):
        x = legal(s, recipe)
        if x is not None and (text := lp.text(x.func)) not in seen_texts:  # options that make no difference
            seen_texts.add(text)
            made.append((n, x))
    seen = observer or _observer.get()
    if seen is not None or len(made) < 2:
        made = [(n, x) for n, x in made if is_lowered(x)]
    if len(made) < 2:  # there is nothing to compare
        return [(Priced(n), x) for n, x in made]
    priced = [(p, x) for n, x in made if (p := _price(n, x)) is not None]
    while priced and not is_lowered(priced[best := _cheapest_of([p for p, _ in priced])][1]):
        del priced[best]
    if seen is not None and priced:
        found = [p for p, _ in priced]
        shown = {n: Candidate(recipes[found[n].recipe], priced[n][1], found[n].seconds) for n in _compared(found)}
        seen([*shown.values()], shown[_cheapest_of(found)])
    return priced


def _price(recipe: int, s: lp.Schedule) -> Priced | None:
    """The price of `s`, which the recipe with this number made; None where lowering would not take it either."""
    try:
        found = lp.predict(s, "cuda")
    except lp.LoopirError:
        return None
    return Priced(recipe, found.seconds, found.kernels)


def _compared(priced: Sequence[Priced]) -> list[int]:
    """The places of those to choose from: all, or, `in_one_kernel`, those that are the fewest kernels."""
    fewest = min(p.kernels for p in priced)
    return [n for n, p in enumerate(priced) if not _in_one_kernel.get() or p.kernels == fewest]


def _cheapest_of(priced: Sequence[Priced]) -> int:
    """The place of what is taken: the first, unless another one saves time."""
    best, *others = _compared(priced)
    for n in others:
        seconds = priced[best].seconds
        if seconds - priced[n].seconds > max(SAVED, LEAST_GAIN * seconds):
            best = n
    return best


def _prices_for(
    s: lp.Schedule,
    part: Sequence[str],
    recipes: Sequence[Callable[[lp.Schedule], lp.Schedule]],
    observer: Observer | None,
) -> tuple[list[Priced], dict[int, lp.Schedule]] | None:
    """What `recipes` cost for `part` alone, and what each makes of `s`, if that was made; None where no price is
    known."""
    if are_chosen():  # values of knobs are given by the program's names
        return None
    try:
        found = lp.extract(s.func, part)
    except lp.ScheduleError:
        return None  # another nest has to run between
    names = {old: new for new, old in found.labels.items()}
    own = [_renamed(recipe, names) for recipe in recipes]
    keys = [(lp.text(found.func), *(Candidate(r, s, 0.0).name for r in own)), *_keys_of_product(s, part, recipes)]
    known, one = _choices.get() or Choices(), "in one kernel" if _in_one_kernel.get() else "in any number of kernels"
    for key in keys:
        if priced := known.prices.get(key) or known.prices.get((*key, one)):
            return priced, {}
    before = known.asked
    alone = len(found.nests) == len(lp.nests(s.func))
    made = _compare(s, recipes, observer) if alone else _compare(lp.Schedule(found.func), own, observer)
    if not made:
        return None
    priced = [p for p, _ in made]
    if s.reduced(part[-1]) and len(priced) < len(recipes):  # what refuses may take it where something reads its sums
        del keys[1:]
    for key in keys:
        known.prices.setdefault(key if known.asked == before else (*key, one), priced)
    return priced, {p.recipe: x for p, x in made} if alone else {}


def _keys_of_product(
    s: lp.Schedule, part: Sequence[str], recipes: Sequence[Callable[[lp.Schedule], lp.Schedule]]
) -> list[tuple[str, ...]]:
    """The text of `part` up to the last stage that folds, and the names of all recipes, in names that do not depend on
    the program's; nothing where none folds, or another nest has to run between them."""
    last = max((n for n, x in enumerate(part) if s.reduced(x)), default=-1)
    if last < 0:
        return []
    try:
        found = lp.extract(s.func, part[: last + 1])
    except lp.ScheduleError:
        return []
    own = [_renamed(recipe, {old: new for new, old in found.labels.items()}) for recipe in recipes]
    numbers = {x: f"_{n}" for n, x in enumerate(dict.fromkeys((*found.original, *found.labels)))}

    def anonymous(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda m: numbers.get(m[0], m[0]), text)

    return [("product", anonymous(lp.text(found.func)), *(anonymous(Candidate(r, s, 0.0).name) for r in own))]


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
