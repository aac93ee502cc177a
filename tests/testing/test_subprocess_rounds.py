"""Rounds in a process of their own: one that dies is a failure with its round."""

from __future__ import annotations

import sys
from pathlib import Path
from time import time

import pytest

from loopir.testing import fuzz, subprocess_rounds
from loopir.testing.subprocess_rounds import Note, run_rounds

DYING = """
import os, runpy, sys, signal, time
from pathlib import Path
note = runpy.run_path(sys.argv[3])["Note"](int(sys.argv[1]), path=Path(sys.argv[2]))
while note.round < 9:
    note.keep()
    note.tally["cases"] += 10
    if note.round == {round}:
        note.case = "a script"
        note.keep()
        {what}
    note.round += 1
note.done = True
note.keep()
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "Fatal Python error: Segmentation fault"),
        ("open('hung', 'w').close(); time.sleep(9000)", "it began no case for 1000 s"),
        ("sys.exit(3)", "it ended with status 3"),
    ],
)
def test_a_process_that_dies_is_a_failure_with_its_round(
    what: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days go by as soon as one hangs, so that nobody waits for it, and none that is slow is taken for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess_rounds, "time", lambda: time() + 1e6 * Path("hung").exists())
    said: list[str] = []
    apart_py = str(Path(fuzz.__file__).with_name("subprocess_rounds.py"))
    script = DYING.format(round=4, what=what)
    total = run_rounds(
        lambda first, _, kept: [sys.executable, "-X", "faulthandler", "-c", script, str(first), str(kept), apart_py],
        9000.0, 2, stuck=1000.0, say=said.append, again=lambda first: f"again {first}",
    )  # fmt: skip
    assert (total.failures, total.tally["cases"]) == (1, 70)  # rounds 2 to 4, and then 5 to 8
    (message,) = said
    assert "round 4" in message
    assert told in message
    assert "a script" in message
    assert "again 4" in message


def test_a_process_that_does_not_start_ends_the_run() -> None:
    said: list[str] = []
    total = run_rounds(lambda *_: [sys.executable, "-c", "x"], 9000.0, 2, stuck=1000.0, say=said.append, again=str)
    assert total.failures == len(said) == 1
    assert "NameError" in said[0]


def test_a_run_in_a_process_apart(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(fuzz.__file__).parents[2]))
    assert fuzz.main(["--seconds", "0", "--seed", "3", "--examples", "3", "--quick"]) == 0
    assert capfd.readouterr().out.startswith("3 cases, 0 of them on all oracles, 0 failures")


def test_what_a_process_is_at_is_read_back(tmp_path: Path) -> None:
    note = Note(7, "x", failures=2, path=tmp_path / "note")
    note.tally.update(split=3)
    note.keep()
    assert Note.kept(tmp_path / "note", 0) == Note(7, "x", failures=2, tally=note.tally)
    assert Note.kept(tmp_path / "none", 5) == Note(5)
