"""Processes that run candidates: what crashes, hangs or is wrong costs itself alone, and is said."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest
from loopir.schedules.tuning import measure

import loopir as lp

TWICE = """
def twice(x: "float32[64]", y: "out float32[64]"):
    for i in range(64):
        y[i] = x[i] * 2.0
"""
ENDLESS = """
def twice(x: "float32[64]", y: "out float32[64]"):
    for z in range(1 << 50):
        for i in range(64):
            y[(i + z) % 64] = x[(i + z) % 64] * 2.0
""".replace("1 << 50", str(1 << 50))


def job(what: str, *nests: str, rounds: int = 2, **others: Any) -> dict[str, Any]:
    given = {"program": "p", "reference": TWICE, "sizes": [], "target": "llvm", "arch": None, "threads": 1,
             "machine": "m", "tolerance": 1e-6, "block": 1e-4}  # fmt: skip
    return {**given, "what": what, "nests": list(nests), "rounds": rounds, **others}


SHORT = TWICE.replace("range(64)", "range(63)")
SPLIT = lp.text(lp.Schedule(lp.parse(TWICE)).split("i", 8).func)


def test_what_hangs_is_ended_and_others_go_on() -> None:
    measure.end_workers()
    assert measure.ask_worker(job("check", SPLIT), 600.0)["outcome"] == "ok"
    pid = measure._idle[-1].process.pid
    hung = measure.ask_worker(job("check", ENDLESS), 0.3)
    assert hung["outcome"] == "hung"
    assert "did not end in" in hung["said"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_crashes_is_said_with_its_signal() -> None:
    measure.end_workers()
    assert measure.ask_worker(job("check", SPLIT), 600.0)["outcome"] == "ok"
    worker = measure._idle[-1].process

    def crash() -> None:
        while measure._idle:  # until it is asked
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(worker.pid, signal.SIGSEGV)

    threading.Thread(target=crash).start()
    found = measure.ask_worker(job("check", ENDLESS), 600.0)
    assert found["outcome"] == "crashed"
    assert "SIGSEGV" in found["said"]
    assert not measure._idle
