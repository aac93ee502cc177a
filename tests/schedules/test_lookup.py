"""What a database has for a program is proved again, and left out with a warning where it is not legal."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopir.schedules.tuning.database import Database
from loopir.schedules.tuning.lookup import find_tuned
from loopir.schedules.tuning.records import Record, machine_name, subject_of

import loopir as lp
from loopir import schedules

RUNNING_SUM = """
def running_sum(a: "inout float32[17]"):
    for i in range(16):
        a[i + 1] = a[i + 1] + a[i]
"""


def test_a_forged_record_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_TUNING_DIR", str(tmp_path))
    s = lp.Schedule(lp.parse(RUNNING_SUM))
    assert find_tuned(s, "llvm") is None
    forged = Record(
        subject_of(s, "llvm", machine_name("llvm")), "winner", "fast", (), (("parallel", ("i",), ()),), "ok"
    )
    Database(tmp_path).add(forged)
    with pytest.warns(RuntimeWarning, match="is not legal for this program.*; the formula chooses"):
        made = schedules.auto(s, "llvm")
    assert made.loop("i").kind == "serial"
