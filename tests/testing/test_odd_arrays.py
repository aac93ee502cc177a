"""Calls with odd arrays are right or refused in words, and end no process; the command makes many."""

import random

from loopir.testing.odd_arrays import Counts, call, made


def test_a_few_calls_end_well() -> None:
    counts = made(300, random.randrange(1 << 30), plain=True)
    assert counts.ended["wrong"] == counts.ended["crashed"] == 0, str(counts)
    assert counts.ended["right"] > 20
    assert counts.ended["refused"] > 100


def test_a_call_is_the_same_in_every_run() -> None:
    assert [call(3, n) for n in range(20)] == [call(3, n) for n in range(20)]


def test_what_is_wrong_is_told() -> None:
    counts = Counts()
    counts.ended.update(right=2, crashed=1)
    counts.told.append("call 7 of seed 1 ended its process with -11")
    assert str(counts) == "3 calls: 2 right, 0 refused, 0 wrong, 1 crashed\ncall 7 of seed 1 ended its process with -11"
