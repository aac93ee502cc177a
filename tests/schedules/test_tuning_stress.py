"""A small share of what `python -m loopir.schedules.tuning.stress` does, and that it finds what is broken."""

from __future__ import annotations

import os

import pytest
from loopir.schedules.tuning import database, stress

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of a fork beside threads, from Python 3.12 on
]


def test_processes_that_are_killed_lose_no_finished_record() -> None:
    done = stress.kill_writers(15, workers=3)
    assert done["kills"] == 15
    assert done["records finished"] > 0
    assert stress.failures_in(done) == 0, done


def test_a_database_that_loses_lines_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign can fail: records that are said to be finished and were not written."""
    monkeypatch.setattr(database.Database, "_append", lambda self, line: None)
    assert stress.failures_in(stress.kill_writers(3, workers=2)) > 0
