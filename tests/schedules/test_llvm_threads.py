"""Loops on threads: unless they are chosen to stay on one, or cannot be there."""

from __future__ import annotations

import pytest
from loopir.schedules.common.knobs import choosing
from loopir.schedules.llvm.threads import parallel_if_legal

import loopir as lp


def test_threads_are_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_NUM_THREADS", "2")
    x = lp.placeholder((8, 8), "float32", name="x")
    s = lp.Schedule(lp.sum(x, axis=1).named("y"))
    i, j = s.loops(s.stages[0])
    assert parallel_if_legal(s, "y", i).loop(i).kind == "parallel"
    assert parallel_if_legal(s, "y", j) is s  # a fold
    with choosing({"threads(y)": False}) as choices:
        assert parallel_if_legal(s, "y", i) is s
    assert list(choices.queries) == ["threads(y)"]
