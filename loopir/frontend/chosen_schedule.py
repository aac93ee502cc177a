"""The schedule that `schedules.auto` chooses for a program, kept on disk for later processes.

To choose takes seconds for a large model, to read what was chosen a part of a tenth. It is kept as text, under a key of
all that the choice depends on: the program, the machine, and the source of loopir and of its schedules.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from loopir.build import Schedule, caches, describe_target, vector_unit
from loopir.errors import LoopirError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.loading import load
from loopir.runtime import cache


def chosen_schedule(s: Schedule, target: str) -> Schedule:
    """`s` scheduled for "llvm" or "cuda" as `schedules.auto` does it, or did it in an earlier process."""
    schedules = load("loopir.schedules")
    tuned = load("loopir.schedules.tuning.lookup").find_tuned(s, target, None)
    if tuned is not None:
        return tuned[0]
    name = cache.key("schedule", _source_state(), target, *_machine(target), text(s.func))
    known = cache.load(name)
    if known is not None and (read := _parsed(known)) is not None:
        return Schedule(read)
    made = schedules.auto(s, target)
    written = text(made.func).encode()
    if _parsed(written) == made.func:
        cache.store(name, written)
    return made


def _parsed(written: bytes) -> Func | None:
    """The program of a text; None if it is none, or one that is too deep to be read."""
    try:
        return parse(written.decode())
    except (LoopirError, UnicodeDecodeError, RecursionError):
        return None


def _machine(target: str) -> tuple[str, ...]:
    """What of this machine a choice depends on."""
    return describe_target(target), repr(vector_unit()), repr(caches())


@lru_cache(maxsize=1)
def _source_state() -> str:
    """The files of loopir and of its schedules, with their sizes and the times of their last change."""
    roots = [Path(__file__).parents[1], *map(Path, load("loopir.schedules").__path__)]
    found = [(path, path.stat()) for root in roots for path in sorted(root.rglob("*.py"))]
    return "\n".join(f"{path} {facts.st_size} {facts.st_mtime_ns}" for path, facts in found)
