"""Garbage is collected seldom while the package works, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import loopir as lp
from loopir.ir.collection import UNCOLLECTED

PYTHONS = (700, 10, 10)


@pytest.fixture(autouse=True, scope="module")
def _few_objects() -> None:
    """What other tests have left is not looked at."""
    gc.freeze()


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.collect()


def enter() -> None:
    lp.text(lp.parse('def f(a: "out float32[4]"):\n    for i in range(4):\n        a[i] = 1.0\n'))


def test_the_first_collection_outside_restores_what_was_set() -> None:
    gc.set_threshold(*PYTHONS)
    enter()
    assert gc.get_threshold() == (UNCOLLECTED, *PYTHONS[1:])
    gc.collect()
    assert gc.get_threshold() == PYTHONS


@pytest.mark.parametrize("chosen", [(0, 0, 0), (UNCOLLECTED + 1, 5, 5)])
def test_a_program_that_collects_less_has_its_way(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    enter()
    assert gc.get_threshold() == chosen


def test_what_is_set_meanwhile_stays() -> None:
    gc.set_threshold(*PYTHONS)
    enter()
    gc.set_threshold(9_000, 3, 3)
    gc.collect()
    assert gc.get_threshold() == (9_000, 3, 3)
    enter()
    gc.collect()
    assert gc.get_threshold() == (9_000, 3, 3)
