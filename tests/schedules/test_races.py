"""Statistics of the tuner: nothing is sure of few rounds, and a difference is found in noise that both meet."""

from __future__ import annotations

import random

from loopir.schedules.tuning.races import Times, bounds, percentile, surely_faster_than_first, surely_slower


def raced(factor: float, rounds: int, seed: int = 0) -> Times:
    draw, times = random.Random(seed), Times()
    for _ in range(rounds):
        busy = draw.choice((1.0, 1.0, 3.0))
        first, own = (busy * draw.uniform(0.98, 1.02) for _ in range(2))
        times.add([factor * own], [first])
    return times


def test_a_difference_is_sure_after_some_rounds() -> None:
    assert not surely_faster_than_first(raced(0.5, 3))
    assert surely_faster_than_first(raced(0.9, 20))
    assert not surely_faster_than_first(raced(0.995, 40))  # sure, and not worth it
    assert surely_slower(raced(1.1, 20), raced(1.0, 20, seed=1))
    assert not surely_slower(raced(1.0, 20), raced(1.0, 20, seed=1))


def test_what_is_the_same_is_rarely_taken_for_faster() -> None:
    assert sum(surely_faster_than_first(raced(1.0, 20, seed)) for seed in range(400)) <= 20


def test_bounds_and_percentiles_are_of_the_values() -> None:
    assert bounds([1.0] * 5) == (float("-inf"), float("inf"))
    low, high = bounds([float(x) for x in range(100)])
    assert 38 <= low <= 41
    assert 58 <= high <= 61
    assert percentile(list(map(float, range(500))), 0.99) == 495.0
    assert percentile([], 0.5) == 0.0
    assert Times().ratio == float("inf")
    assert Times([3.0, 1.0, 2.0]).median == 2.0
