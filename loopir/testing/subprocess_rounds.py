"""Run the rounds of a fuzz campaign in subprocesses, so that a crash or a hang is a find.

The process keeps a note of what it is at (`Note`); when it ends as it should not, the note says which round is to be
run again, and `run_rounds` goes on with the one after it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep, time

MAX_TAIL_CHARS = 6000
"""So many characters of what a process said at its end are passed on."""


@dataclass
class Note:
    """What a process is at: the round, the case if it is one that is compiled, and what it has done so far."""

    round: int
    case: str = ""
    done: bool = False
    failures: int = 0
    tally: Counter[str] = field(default_factory=Counter[str])
    path: Path | None = None
    """Where it is kept for the process that waits."""

    def keep(self) -> None:
        if self.path is not None:
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(vars(self) | {"path": None}))
            new.replace(self.path)

    def goes_on(self) -> None:
        """What is kept still holds, and the process is alive."""
        if self.path is not None:
            os.utime(self.path)

    @staticmethod
    def kept(path: Path, first: int) -> Note:
        """The note that is kept there; of round `first`, if there is none."""
        if not path.exists():
            return Note(first)
        known = json.loads(path.read_text())
        return Note(**known | {"tally": Counter[str](known["tally"])})


def run_rounds(
    command: Callable[[int, float, Path], Sequence[str]],
    seconds: float,
    first: int,
    *,
    stuck: float,
    say: Callable[[str], object],
    again: Callable[[int], str],
) -> Note:
    """Run `command(round, seconds, file for its note)` until one ends by itself or `seconds` have gone by.

    One that dies is logged with round, case and the traceback that Python's faulthandler left, and so is one that
    begins no case for `stuck` seconds, which is ended. Gives what all have done together.
    """
    end, total = monotonic() + seconds, Note(first)
    while True:
        with tempfile.TemporaryDirectory() as folder:
            path, log = Path(folder) / "note", Path(folder) / "errors"
            with log.open("wb") as errors:
                process = subprocess.Popen(command(first, max(0.0, end - monotonic()), path), stderr=errors)
                why = _ended(process, path, stuck)
            began, note, told = path.exists(), Note.kept(path, first), log.read_text(errors="replace")
        total.tally += note.tally
        total.failures += note.failures
        if note.done:
            return total
        total.failures += 1
        case = f"\n\nwhile it ran\n\n{note.case}" if note.case else ""
        say(
            f"{'=' * 30} round {note.round}\nprocess: {why}\n{told[-MAX_TAIL_CHARS:]}{case}\nagain: {again(note.round)}"
        )
        first = note.round + 1
        if monotonic() >= end or not began:
            return total


def _ended(process: subprocess.Popen[bytes], path: Path, stuck: float) -> str:
    """Wait for `process`, and say how it ended."""
    begun = time()
    try:
        while process.poll() is None:
            sleep(0.05)
            alive = path.stat().st_mtime if path.exists() else begun
            if time() - max(alive, begun) > stuck:
                return f"it began no case for {stuck:g} s"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    code = process.returncode
    return f"it died of {signal.Signals(-code).name}" if code < 0 else f"it ended with status {code}"
