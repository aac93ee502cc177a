"""Reductions after a stored number: merge_reduction takes some of them, and keeps what they give."""

from __future__ import annotations

from hypothesis import find, given, settings

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.testing.checking import QUIET
from loopir.testing.generate.starts import started
from loopir.testing.oracles.brute_force import first_violation, small_sizes


def merged(func: Func) -> Func | None:
    try:
        return lp.Schedule(func).merge_reduction("folded").func
    except ScheduleError:
        return None


def test_some_are_accepted() -> None:
    find(started(), lambda func: merged(func) is not None)


@settings(QUIET, max_examples=40)
@given(started())
def test_what_is_accepted_keeps_the_meaning(func: Func) -> None:
    after = merged(func)
    assert after is None or first_violation(func, after, small_sizes(func)) is None
