"""Collect cyclic garbage seldom while an entry to the package runs: trees are many small objects without cycles.

Python looks for cyclic garbage once in 700 new objects, now and then among all that live, which takes a fifth of the
time of planning. From an entry on it does so once in UNCOLLECTED new objects, until the first time that no entry runs
then: a schedule is made by many entries, one after the other.
"""

from __future__ import annotations

import gc

UNCOLLECTED = 100_000
"""New objects between two collections; a program that asks for more, or for no collections, has its way."""

_running = 0
_replaced: tuple[int, int, int] | None = None


def enter() -> None:
    """Collect seldom from here on. The caller sees to it that one thread at a time enters or leaves."""
    global _running, _replaced
    _running += 1
    now = gc.get_threshold()
    if 0 < now[0] < UNCOLLECTED:
        _replaced = now
        gc.set_threshold(UNCOLLECTED, *now[1:])


def leave() -> None:
    """Collect as before from the next collection on, if nothing else is entered until then."""
    global _running
    _running -= 1


def _restore(phase: str, info: dict[str, int]) -> None:
    """Restore what `enter` replaced, unless somebody replaced that meanwhile; called by each collection."""
    global _replaced
    if phase != "start" or _running or _replaced is None:
        return
    if gc.get_threshold() == (UNCOLLECTED, *_replaced[1:]):
        gc.set_threshold(*_replaced)
    _replaced = None


gc.callbacks.append(_restore)
