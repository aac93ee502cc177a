"""How sure a comparison of times is: medians of ratios that were taken side by side, with bounds from their ranks.

A round times each candidate and the formula's choice a moment apart, so that what the machine does meanwhile meets
both: only ratios of one round are compared. The median of a few dozen lies between two of them in order, with 95 %
confidence, whatever their distribution is.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

LEAST_ROUNDS = 6
"""From which on a median has bounds."""
NORMAL_95 = 1.96
WORTH = 0.99
"""What part of the time of the formula's choice another one takes at most, to be taken."""


@dataclass
class Times:
    """What is known of a candidate: seconds by round, and beside those of the formula's choice."""

    seconds: list[float] = field(default_factory=list[float])
    ratios: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else 0.0

    @property
    def ratio(self) -> float:
        """The median of its time by that of the formula's choice."""
        return statistics.median(self.ratios) if self.ratios else float("inf")

    def add(self, seconds: Sequence[float], first: Sequence[float]) -> None:
        self.seconds += seconds
        self.ratios += [a / b for a, b in zip(seconds, first, strict=True) if b > 0.0]


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """Between which values their median is, with 95 % confidence; nothing is known of it from too few."""
    n = len(values)
    if n < LEAST_ROUNDS:
        return float("-inf"), float("inf")
    out = max(0, int((n - NORMAL_95 * n**0.5) / 2))
    ordered = sorted(values)
    return ordered[out], ordered[n - 1 - out]


def surely_slower(a: Times, b: Times) -> bool:
    """Whether `a` is slower than `b`, beside the formula's choice."""
    return bounds(a.ratios)[0] > bounds(b.ratios)[1]


def surely_faster_than_first(a: Times) -> bool:
    """Whether a candidate is faster than the formula's choice, by as much as is worth it."""
    return bounds(a.ratios)[1] < 1.0 and a.ratio <= WORTH


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of `values` is at most; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
