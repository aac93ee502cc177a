"""Give recursive walks the stack frames that a deep program takes, and refuse in words what is deeper.

Trees are walked by recursion, a few frames of Python a level. Python's own limit of 1,000 frames ends at a sum of 250
terms or at 250 stages in one another's scope, so `deep` raises it, while an entry to the package runs, by FRAMES. That
many frames take less than half of the 8 MB that a thread's C stack has by default; a program that needs more meets the
error of the room that it entered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import Lock, local
from typing import Any, TypeVar, cast

from loopir.errors import LoopirError

FRAMES = 8_000
"""Frames beyond the limit that was set: enough for sums of 1,000 terms and for 1,000 stages."""

F = TypeVar("F", bound=Callable[..., Any])
_lock, _here = Lock(), local()
_running, _outside = 0, 0


def deep(error: type[LoopirError]) -> Callable[[F], F]:
    """Decorate an entry to the package: it may recurse by FRAMES more, and raises `error` where that is not enough."""

    def decorate(fn: F) -> F:
        @wraps(fn)
        def entry(*args: Any, **kwargs: Any) -> Any:
            if getattr(_here, "inside", False):
                return fn(*args, **kwargs)
            _enter()
            _here.inside = True
            try:
                return fn(*args, **kwargs)
            except RecursionError:
                raise error(
                    "the program is nested deeper than Python's stack allows; store a part of it on the way, as "
                    "lp.compute or t.named(...) does, or take it apart into several programs"
                ) from None
            finally:
                _here.inside = False
                _leave()

        return cast(F, entry)

    return decorate


def _enter() -> None:
    """Raise the limit for the first thread that comes in; it is one for all threads."""
    global _running, _outside
    with _lock:
        if not _running:
            _outside = sys.getrecursionlimit()
            sys.setrecursionlimit(_outside + FRAMES)
        _running += 1


def _leave() -> None:
    """Restore the limit after the last thread, unless somebody set another one meanwhile."""
    global _running
    with _lock:
        _running -= 1
        if not _running and sys.getrecursionlimit() == _outside + FRAMES:
            sys.setrecursionlimit(_outside)
