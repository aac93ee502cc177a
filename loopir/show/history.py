"""What each step of a Schedule did to it, by estimate: bytes from memory, how much runs at once, seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopir.schedule.schedule import Schedule
from loopir.show.estimate import Estimate, chip_for, estimate
from loopir.show.units import count, seconds, si

HEADS = ("traffic", "at once", "time")
MEANINGS = ("bytes that come from memory", "operations that run at the same time", "by estimate, to compare steps by")


@dataclass(frozen=True)
class Entry:
    """A Schedule on the way: the step that led to it, in words, and what it costs by estimate."""

    step: str
    estimate: Estimate

    def cells(self) -> tuple[str, ...]:
        """What is printed, a cell for each of HEADS."""
        e = self.estimate
        return (f"{si(e.bytes)}B", count(e.at_once), seconds(e.seconds))


def history(schedule: Schedule, sizes: Mapping[str, int] | None = None) -> list[Entry]:
    """The program as written, then every step; all on what the last of them is for. A size is 1024 unless given."""
    chip, on_the_way = chip_for(schedule.func), [schedule]
    while on_the_way[-1].trace:
        on_the_way.append(on_the_way[-1].undo())
    names = ("as written", *map(str, schedule.trace))
    return [
        Entry(name, estimate(s.func, sizes or {}, chip)) for name, s in zip(names, reversed(on_the_way), strict=True)
    ]
