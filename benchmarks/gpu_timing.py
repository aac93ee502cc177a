"""Times on a GPU: by events, in turns, so that what the machine does meanwhile meets all that are compared.

Also what results are checked with before they are timed, and what a record begins with.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable
from typing import Any

import memory_rows
import tables
import torch

AHEAD = 3
"""Calls that come before a turn."""
TURN = 4e-3
"""Seconds."""


def record(name: str, write: bool) -> tables.Record:
    """The record `name`, begun with the commit and the machine. The GPU is touched: what forks does so before."""
    begun = tables.Record(name, write)
    begun(f"commit {tables.commit()}")
    begun(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {platform.python_version()}")
    return begun


def checked_with(row: memory_rows.Row, dtype: Any) -> tuple[Any, ...]:
    """Arrays to check `row` with, the same at every call: integers for sums, which are exact then in any order."""
    torch.manual_seed(0)
    if row.summed:
        most = memory_rows.LARGEST
        return tuple(torch.randint(-most, most + 1, s, device="cuda").to(dtype) for s in row.shapes)
    return tuple(torch.randn(*s, device="cuda", dtype=dtype) for s in row.shapes)


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """Of one call: of so many, divided."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / repeats


def in_turns(runs: dict[str, Callable[[], Any]], rounds: int, repeats: int | None = None) -> dict[str, float]:
    """Median seconds of each, one after the other in every round; so often that a turn takes `TURN`, if not told.

    Calls come before a turn that are not timed: what the others left in the caches is gone then, and the GPU is at work
    when the clock starts, so that a short kernel is not charged for the host's way to its first launch.
    """
    often: dict[str, int] = {}
    for name, run in runs.items():
        run()
        run()
        often[name] = repeats or max(3, min(200, int(TURN / max(seconds(run, 3), 1e-6))))
    torch.cuda.synchronize()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(AHEAD):
                run()
            taken[name].append(seconds(run, often[name]))
    return {name: statistics.median(times) for name, times in taken.items()}
