"""What a tuner shows: nothing unless it is wanted or there is a terminal."""

from __future__ import annotations

import pytest
from loopir.schedules.tuning.progress import Progress


def test_progress_says_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(None, "quiet", 10.0) as shown:
        shown.show("checking a")
    assert capsys.readouterr().err == ""
    with Progress(True, "matmul", 10.0) as shown:
        shown.measured, shown.failed, shown.best = 7, 1, "lanes = 32 [0.9]"
        shown.show("racing")
        assert shown.status is not None
        assert "matmul: racing; 7 candidates, 1 failed; 0 of 10 s; best: lanes = 32" in str(shown.status.status)
