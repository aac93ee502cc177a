"""Drawing one of several things, and whole numbers: by strategies that are made once.

Making and checking a strategy costs Hypothesis more than drawing from it, and a program is hundreds of draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


@cache
def between(low: int, high: int) -> st.SearchStrategy[int]:
    """Whole numbers from `low` to `high`, which shrink to the one nearest to 0."""
    return st.integers(low, high)


def choose(draw: st.DrawFn, options: Sequence[T]) -> T:
    """One of `options`; the first is the simplest."""
    return options[draw(between(0, len(options) - 1))]
