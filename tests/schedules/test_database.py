"""The tuning database: what was finished is found, what is damaged is left out, and nothing in it runs code."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from loopir.schedules.tuning.database import STALE, Database, default_database, open_database
from loopir.schedules.tuning.records import Record, Subject

SUBJECT = Subject("a program", (("n", 8),), "llvm", "a machine")
STEPS = (("split", ("i", 4), (("tail", "guard"),)),)
RECORD = Record(
    SUBJECT, "candidate", "auto", (("unroll(y)", 8, 4),), STEPS, "ok", seconds=0.25, first_seconds=0.5, samples=9
)
WINNER = replace(RECORD, kind="winner")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert Database(tmp_path / "new" / "folder").records() == []
    database = Database(tmp_path / "new" / "folder")
    assert database.add(RECORD)
    assert database.add(replace(RECORD, name="other"))
    again = Database(tmp_path / "new" / "folder")
    assert again.records(SUBJECT) == [RECORD, replace(RECORD, name="other")] == again.records()
    assert again.records(replace(SUBJECT, sizes=())) == []
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 1
    assert again.add(WINNER)  # another process or object has a file of its own
    assert len(again.segments()) == 2
    assert database.records() == again.records()


def test_the_winner_is_the_last_of_the_most_effort(tmp_path: Path) -> None:
    database = Database(tmp_path)
    assert database.winner(SUBJECT) is None
    for seconds, effort, when in ((0.1, "quick", 1.0), (0.2, "full", 2.0), (0.3, "full", 4.0), (0.4, "quick", 9.0)):
        database.add(replace(WINNER, seconds=seconds, effort=effort, when=when))
    database.add(replace(WINNER, outcome="failed", effort="full", when=99.0))
    found = database.winner(SUBJECT)
    assert found is not None
    assert found.seconds == 0.3
    assert database.winner(replace(SUBJECT, machine="another")) is None
    quick = Database(tmp_path / "quick")
    quick.add(WINNER)
    assert quick.winner(SUBJECT, "quick") == WINNER
    assert quick.winner(SUBJECT, "full") is None


def test_files_of_other_folders_are_read_and_not_written(tmp_path: Path) -> None:
    Database(tmp_path / "shipped").add(WINNER)
    database = Database(tmp_path / "own", tmp_path / "shipped")
    assert database.winner(SUBJECT) == WINNER
    database.add(RECORD)
    assert len(list((tmp_path / "shipped").iterdir())) == len(list((tmp_path / "own").iterdir())) == 1


def test_export_and_import_are_one_file(tmp_path: Path) -> None:
    database = Database(tmp_path / "a")
    for r in (RECORD, WINNER, RECORD):
        database.add(r)
    assert database.export(tmp_path / "all.jsonl") == 2
    assert database.export(tmp_path / "winners.jsonl", winners=True) == 1
    other = Database(tmp_path / "b")
    assert other.load(tmp_path / "winners.jsonl") == 1
    assert other.load(tmp_path / "all.jsonl") == 1
    assert other.load(tmp_path / "all.jsonl") == 0
    assert sorted(r.kind for r in other.records()) == ["candidate", "winner"]


LINE = RECORD.line()
DAMAGED = {
    b"{": "no JSON",
    b"[" * 100_000: "no JSON",
    b'{"a": 1}': "no record of loopir's tuner",
    LINE[:-1].replace(b'record": 1', b'record": 9', 1): "format 9",
    LINE[:-1].replace(b"0.25", b"0.26"): "its digest is another",
    LINE[:-1].replace(SUBJECT.key.encode(), replace(SUBJECT, target="cuda").key.encode()): "the key of another",
    replace(RECORD, seconds=float("nan")).line()[:-1]: "seconds of nan",
    replace(RECORD, outcome="fine").line()[:-1]: "'fine', which is none of ok",
    replace(RECORD, trace=(("split", 3, 4),)).line()[:-1]: "lacks a field, or has one of another type",  # type: ignore[arg-type]
    replace(RECORD, name=7).line()[:-1]: "7 is no text",  # type: ignore[arg-type]
    replace(RECORD, knobs=(("a", {}, 1),)).line()[:-1]: "no plain data",
}


def test_damaged_lines_are_left_out_with_one_warning(tmp_path: Path) -> None:
    for n, (line, said) in enumerate(DAMAGED.items()):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "x.jsonl").write_bytes(LINE + line + b"\n" + WINNER.line() + b'{"loopir record": 1, "unfinis')
        database = Database(folder)
        with pytest.warns(RuntimeWarning, match="lines that are left out") as found:
            assert [database.records(), database.records()] == [[RECORD, WINNER]] * 2
        assert len(found) == 1
        assert said in str(found[0].message)
        with pytest.warns(RuntimeWarning, match="1 lines are left out|2 lines are left out"):
            assert Database(tmp_path / "new" / str(n)).load(folder / "x.jsonl") == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")  # reading it would wait for ever
    (tmp_path / "folder.jsonl").mkdir()
    assert Database(tmp_path).records() == []


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    database = Database(tmp_path / "file" / "folder")
    with pytest.warns(RuntimeWarning, match=r"cannot be written .*kept in memory") as found:
        assert [database.add(RECORD), database.add(WINNER)] == [False, False]
    assert len(found) == 1
    assert database.records(SUBJECT) == [RECORD, WINNER]
    assert database.winner(SUBJECT) == WINNER


def test_a_full_disk_costs_the_line_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, write = Database(tmp_path), os.write
    assert database.add(RECORD)
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[: len(data) // 2]))
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        assert not database.add(WINNER)
    monkeypatch.undo()
    assert database.add(replace(RECORD, name="later"))
    assert [r.name for r in Database(tmp_path).records()].count("later") == 1
    assert len(Database(tmp_path).records()) == 2


def test_prune_leaves_what_may_be_written_to(tmp_path: Path) -> None:
    database = Database(tmp_path)
    failed = replace(RECORD, name="bad", outcome="crashed")
    for r in (RECORD, WINNER, failed, failed, replace(WINNER, subject=replace(SUBJECT, machine="another"))):
        database.add(r)
    (tmp_path / "old.jsonl").write_bytes(b"not a record\n")
    assert Database(tmp_path).prune() == (0, 0)
    for path in tmp_path.iterdir():
        os.utime(path, (path.stat().st_mtime - 2 * STALE,) * 2)
    assert Database(tmp_path).prune() == (3, 3)  # a candidate beside a winner, one twice, one damaged
    assert [r.outcome for r in Database(tmp_path).records()] == ["ok", "crashed", "ok"]
    (path,) = tmp_path.iterdir()
    os.utime(path, (path.stat().st_mtime - 2 * STALE,) * 2)
    assert Database(tmp_path).prune(machine="a machine") == (1, 2)


def test_which_database_is_read_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPIR_TUNING_DIR", os.pathsep.join(["one", "two"]))
    assert default_database().folder == Path("one")
    assert default_database() is default_database()
    (tmp_path / "loopir_tuning").mkdir()
    assert default_database().also[:2] == (Path("two"), tmp_path / "loopir_tuning")
    monkeypatch.delenv("LOOPIR_TUNING_DIR")
    assert default_database().also[:1] == (tmp_path / "loopir_tuning",)
    assert open_database("here").folder == Path("here")
    assert open_database(database := Database("x")) is database


def test_reading_warns_of_nothing_that_is_whole(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (tmp_path / "x.jsonl").write_bytes(LINE + LINE[:40])  # the last line is being written
        assert Database(tmp_path).records(SUBJECT) == [RECORD]
