"""Watch what a run of the interpreter writes: each element, with its value, the statement and the iteration."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from loopir.interp.checked_memory import CheckedMemory


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a run: `buffer[at]` becomes `value`, by `statement` in the iteration `loops`."""

    buffer: str
    at: tuple[int, ...]
    value: Any
    statement: str
    loops: dict[str, int]

    def __str__(self) -> str:
        element = f"{self.buffer}[{', '.join(map(str, self.at)) or '()'}]"
        iteration = ", ".join(f"{v}={x}" for v, x in self.loops.items())
        return f"{element} = {self.value}  by {self.statement}" + (f" at ({iteration})" if iteration else "")


Watcher = Callable[[Write], object]


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched: the writes of `buffers`, of all if it is None, are given to `seen` in order."""

    seen: Watcher
    buffers: Collection[str] | None = None

    def wants(self, buffer: str) -> bool:
        return self.buffers is None or buffer in self.buffers


@dataclass(slots=True)
class WatchedMemory(CheckedMemory):
    """A buffer whose writes are reported, with the element and the value."""

    report_write: Callable[[str, tuple[int, ...], Any], None] | None = None

    def store(self, at: tuple[int, ...], value: Any, atomic: str = "", kind: str = "") -> None:
        CheckedMemory.store(self, at, value, atomic, kind)
        if self.report_write is not None:
            self.report_write(self.name, at, value)
