"""What a database has for a program: the schedule that a run of the tuner chose, proved again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import loopir as lp

from .database import Database, open_database
from .records import Record, Refused, apply_record, machine_name, subject_of


def find_tuned(
    s: lp.Schedule,
    target: str,
    arch: str | None = None,
    database: Database | str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    effort: str = "none",
) -> tuple[lp.Schedule, Record] | None:
    """What a run of at least that `effort` chose for `s` on this machine, and its record; None if there is none.

    A record whose steps are not legal is left out, with a warning that says why.
    """
    opened = open_database(database)
    if not opened.memory and not opened.segments():
        return None
    record = opened.winner(subject_of(s, target, machine_name(target, arch), sizes), effort)
    if record is None:
        return None
    try:
        return apply_record(s, record), record
    except Refused as error:
        warnings.warn(f"the tuning database: {error}; the formula chooses", RuntimeWarning, stacklevel=3)
        return None
