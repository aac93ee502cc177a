"""Choose among recipes by prediction: each is tried, lowered and priced, and the first stays unless another saves time.

What was measured comes first in a list, and recipes whose price alone speaks for them after it. So a prediction moves
nobody away from what is known to be fast for a gain that is smaller than its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import loopir as lp

from .recipe_table import lowered

SAVED, LEAST_GAIN = 4.0e-7, 0.03
"""Seconds, and what part of the seconds of the first, that another recipe is to save at least."""


def cheapest(s: lp.Schedule, recipes: Iterable[Callable[[lp.Schedule], lp.Schedule]]) -> lp.Schedule | None:
    """What the recipe makes of `s` that is predicted to take the fewest seconds; None where all refuse."""
    made = [x for recipe in recipes if (x := lowered(s, recipe)) is not None]
    if len(made) < 2:  # there is nothing to compare
        return made[0] if made else None
    best, least = made[0], lp.predict(made[0], "cuda").seconds
    for other in made[1:]:
        seconds = lp.predict(other, "cuda").seconds
        if least - seconds > max(SAVED, LEAST_GAIN * least):
            best, least = other, seconds
    return best
