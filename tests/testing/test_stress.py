"""A small share of what `python -m loopir.testing.stress` does, and that it finds what is broken."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from loopir.runtime import cache
from loopir.testing import stress

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


@FORKS
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads, from Python 3.12 on
def test_processes_that_are_killed_leave_whole_entries() -> None:
    done = stress.kills(12, workers=3)
    assert done["kills"] == done["kernels built"] == 12
    assert done["entries read"] > 0
    assert stress.failures(done) == 0, done


def test_threads_build_and_call_at_once() -> None:
    done = stress.build_concurrently(0.5, threads=4)
    assert done["kernels built"] >= 4
    assert done["calls"] >= 80
    assert stress.failures(done) == 0, done


@FORKS
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_cache_that_writes_in_place_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign can fail: entries written where they are read, and taken without their digest."""

    def store(name: str, data: bytes) -> None:
        path = cache.directory() / name[:2] / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(8) + hashlib.sha256(name.encode()).digest() + data[:-1])

    monkeypatch.setattr(cache, "store", store)
    monkeypatch.setattr(stress, "kernel", lambda number: None)
    monkeypatch.setattr(stress, "right", lambda number, built: True)
    assert stress.failures(stress.kills(3, workers=2)) > 0


def test_what_is_half_there_is_not_whole(tmp_path: Path) -> None:
    with stress.small_cache() as folder:
        cache.store(name := cache.key("x"), b"data" * 100)
        path = folder / name[:2] / name
        assert stress.is_intact(path)
        path.write_bytes(path.read_bytes()[:-1])
        assert not stress.is_intact(path)
    assert stress.is_intact(tmp_path / "nothing")
