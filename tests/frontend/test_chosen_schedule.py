"""Schedules that are chosen once, and read by later processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loopir as lp
from loopir import schedules
from loopir.frontend.chosen_schedule import chosen_schedule
from loopir.runtime import cache


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lp.Schedule:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path / "cache"))
    x = lp.placeholder((40, 50), "float32", name="x")
    return lp.Schedule(lp.softmax(x, axis=1).named("y"))


def failing(*_: Any, **__: Any) -> Any:
    raise RuntimeError("chosen anew")


def test_a_choice_is_read_and_not_made_again(program: lp.Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    made = chosen_schedule(program, "llvm")
    assert made.func == schedules.auto(program, "llvm").func
    monkeypatch.setattr(schedules, "auto", failing)
    assert chosen_schedule(program, "llvm").func == made.func
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "3")  # another machine
    with pytest.raises(RuntimeError, match="chosen anew"):
        chosen_schedule(program, "llvm")


def test_what_is_no_program_is_not_taken(program: lp.Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    made = chosen_schedule(program, "llvm")
    for data in (b"def f(", b"\xff"):
        monkeypatch.setattr(cache, "load", lambda _, data=data: data)
        assert chosen_schedule(program, "llvm").func == made.func
