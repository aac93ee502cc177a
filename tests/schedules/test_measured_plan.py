"""A plan that is measured: one group, with what the tuner chose, that goes through JSON as any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopir.schedules.tuning.database import Database
from loopir.schedules.tuning.records import Record, machine_name, subject_of

import loopir as lp
from loopir import schedules


def test_a_measured_plan_is_what_the_database_has(tmp_path: Path) -> None:
    x = lp.placeholder((64, 64), "float32", name="x")
    s = lp.Schedule(lp.compute((64, 64), lambda i, j: x[i, j] + 1.0, name="y"))
    trace = (("split", ("i", 16), ()),)
    subject = subject_of(s, "llvm", machine_name("llvm"))
    Database(tmp_path).add(
        Record(subject, "winner", "strips", (), trace, "ok", seconds=1e-6, first_seconds=2e-6, effort="quick")
    )
    p = schedules.plan(s, "llvm", effort="measure", database=tmp_path)
    assert [(g.how, g.seconds) for g in p.groups] == [("strips", 1e-6)]
    assert "2.0 -> 1.0 us" in str(p.decisions[0])
    assert str(p).startswith("1.0 us measured on llvm")
    assert str(schedules.load(s, p.json())).startswith("1.0 us measured on llvm")
    assert "range(16)" in lp.text(p.apply().func)
    assert lp.text(schedules.load(s, p.json()).apply().func) == lp.text(p.apply().func)
    with pytest.raises(ValueError, match="takes no pins"):
        schedules.plan(s, "llvm", effort="measure", pins=[["y"]])
    with pytest.raises(TypeError, match='budget_s: options of effort="measure" alone'):
        schedules.plan(s, "llvm", budget_s=3.0)
