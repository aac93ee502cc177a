"""`python -m loopir tune export | import | show | prune | report`: the database of what the tuner has measured."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from loopir import schedules


def main(action: str, file: str | None, folder: str | None, winners: bool, machine: str | None) -> int:
    """Do what the command line asks; the exit status."""
    database = schedules.Database(folder) if folder is not None else schedules.default_database()
    if action in ("export", "import") and file is None:
        print(f"tune {action} needs a file", file=sys.stderr)
        return 2
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            return _done(database, action, file or "", winners, machine)
        except OSError as error:
            print(f"{error.filename or database.folder}: {error.strerror or error}", file=sys.stderr)
            return 1
        finally:
            for note in noted:
                print(note.message, file=sys.stderr)


def _done(database: Any, action: str, file: str, winners: bool, machine: str | None) -> int:
    match action:
        case "export":
            print(f"{database.export(file, winners=winners)} records are in {file}")
        case "import":
            print(f"{database.load(file)} records are new in {database.folder}")
        case "prune":
            went, stayed = database.prune(machine=machine)
            print(f"{went} lines went, {stayed} stayed; files that a process may still write to were left as they are")
        case "show":
            return _show(database.records(), database.folder)
        case _:
            return _report(database.records())
    return 0


def _show(records: Sequence[Any], folder: Any) -> int:
    """Print what was chosen for each program, and what failed."""
    winners = [r for r in records if r.kind == "winner"]
    failed = [r for r in records if r.kind == "candidate" and r.outcome != "ok"]
    print(f"{folder}: {len(records)} records, {len(winners)} choices, {len(failed)} candidates that failed")
    for r in winners:
        gain = r.first_seconds / r.seconds if r.seconds else 1.0
        knobs = "".join(f", {key} = {value}" for key, value, _ in r.knobs)
        day = time.strftime("%Y-%m-%d", time.gmtime(r.when))
        at = "".join(f" {n}={v}" for n, v in r.subject.sizes)
        print(f"{r.subject.key[:8]} {day} {r.effort:5s} {r.seconds * 1e6:10.1f} us {gain:5.2f} x  {r.name}{knobs}")
        print(f"         {_first_line(r.subject.program)}{at} on {r.subject.machine}")
    for r in failed:
        knobs = "".join(f", {key} = {value}" for key, value, _ in r.knobs)
        print(f"{r.subject.key[:8]} {r.outcome}: {r.name}{knobs}: {r.said}")
    return 0


def _first_line(program: str) -> str:
    return next((x for x in program.splitlines() if x.startswith("def ")), "")[:100]


def _report(records: Sequence[Any]) -> int:
    """Print what a correction of predictions by these records is worth, on programs that had no part in it."""
    found = schedules.residual_report(records)
    for each in found:
        print(each)
    if not found:
        print("there are too few records: a correction takes some 24, of 4 programs or more")
    return 0
