"""Calls with odd arrays are right or refused in words, and end no process; the command makes many."""

import array
import random
from typing import Any

import numpy as np
import pytest

from loopir.testing.odd_arrays import (
    PROGRAMS,
    Counts,
    _judged,  # pyright: ignore[reportPrivateUsage]
    call,
    made,
)


def test_a_few_calls_end_well() -> None:
    counts = made(300, random.randrange(1 << 30), plain=True)
    assert counts.ended["wrong"] == counts.ended["crashed"] == 0, str(counts)
    assert counts.ended["right"] > 20
    assert counts.ended["refused"] > 100


def test_a_call_is_the_same_in_every_run() -> None:
    assert [call(3, n) for n in range(20)] == [call(3, n) for n in range(20)]


@pytest.mark.parametrize("kind", [np.asarray, memoryview])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_what_holds_nothing_has_a_shape_all_the_same(kind: Any, shape: tuple[int, int]) -> None:
    given = [np.zeros(shape), np.zeros(shape[1], np.int64)]
    assert _judged(PROGRAMS[1], given, kind(np.zeros(shape))).kind == "right"
    assert _judged(PROGRAMS[1], given, kind(np.zeros((shape[0], shape[1] + 1)))).kind == "wrong"
    assert _judged(PROGRAMS[0], [np.zeros(2, np.float32)], array.array("f", [1.0, 1.0])).kind == "right"


def test_what_is_wrong_is_told() -> None:
    counts = Counts()
    counts.ended.update(right=2, crashed=1)
    counts.messages.append("call 7 of seed 1 ended its process with -11")
    assert str(counts) == "3 calls: 2 right, 0 refused, 0 wrong, 1 crashed\ncall 7 of seed 1 ended its process with -11"
