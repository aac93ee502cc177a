"""`python -m loopir tune`: the database as files, as a list, and what predictions are worth."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from loopir.schedules.tuning.database import STALE, Database
from loopir.schedules.tuning.records import Record, Subject

import loopir.__main__ as cli

SUBJECT = Subject('def twice(x: "float32[n]"):\n', (("n", 8),), "llvm", "a machine")
RECORD = Record(SUBJECT, "candidate", "fused", (("lanes(y)", 8, 4),), (), "ok", seconds=1e-4, first_seconds=2e-4)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = tmp_path / "database", tmp_path / "all.jsonl"
    database = Database(folder)
    for r in (RECORD, replace(RECORD, kind="winner"), replace(RECORD, outcome="hung", said="it did not end")):
        database.add(r)

    def said(*arguments: str) -> str:
        assert cli.main(["tune", *arguments, "--database", str(folder)]) == 0
        return capsys.readouterr().out

    shown = said("show")
    assert "3 records, 1 choices, 1 candidates that failed" in shown
    assert "100.0 us  2.00 x  fused, lanes(y) = 8" in shown
    assert "n=8 on a machine" in shown
    assert "hung: fused, lanes(y) = 8: it did not end" in shown
    assert "3 records are in" in said("export", str(file))
    assert "1 records are in" in said("export", str(tmp_path / "best.jsonl"), "--winners")
    assert "0 records are new" in said("import", str(file))
    assert "too few records" in said("report")
    for path in folder.iterdir():
        os.utime(path, (path.stat().st_mtime - 2 * STALE,) * 2)
    assert "1 lines went, 2 stayed" in said("prune")
    assert cli.main(["tune", "export"]) == 2
    assert cli.main(["tune", "import", str(tmp_path / "none"), "--database", str(folder)]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_damaged_line_is_noted_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Database(tmp_path).add(RECORD)
    (tmp_path / "cut.jsonl").write_text("{\n")
    assert cli.main(["tune", "show", "--database", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "1 records" in said.out
    (line,) = said.err.splitlines()
    assert line.startswith(f"the tuning database {tmp_path} has lines that are left out")
