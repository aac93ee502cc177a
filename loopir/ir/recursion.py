"""Raise Python's recursion limit for deep programs, and refuse deeper ones with an error.

Trees are walked by recursion, a few Python frames a level. Python's default of 1,000 frames ends at a sum of 250 terms
or at 250 nested stages, so `deep` raises the limit while an entry to the package runs: by FRAMES, or by as many as the
main thread's C stack has room for. A program that needs more gets the error of the function that was entered. Python's
limit is global to all threads, so an entry on a thread with a smaller stack runs on a thread with a larger one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import Lock, current_thread, local, main_thread
from typing import Any, TypeVar, cast

from loopir.errors import LoopirError, asked_frames
from loopir.ir import collection
from loopir.ir.stack import FRAME, main_stack, on_large_stack, own_stack

OWN = 1_000
"""Frames that a stack has room for besides: those of who calls."""
FRAMES = max(0, min(8_000, main_stack() // FRAME - OWN))
"""Frames beyond the limit that was set: on a stack of 8 MB enough for sums of 1,000 terms and for 1,000 stages."""

F = TypeVar("F", bound=Callable[..., Any])


class _ThreadState(local):
    """What is known of this thread: whether an entry runs, and whether its stack has room for FRAMES."""

    def __init__(self) -> None:
        self.inside, self.roomy = False, own_stack() >= (FRAMES + OWN) * FRAME or current_thread() is main_thread()


_lock, _thread_state = Lock(), _ThreadState()
_running, _outside = 0, 0


def deep(error: type[LoopirError]) -> Callable[[F], F]:
    """Decorate an entry to the package: let it recurse by FRAMES more, and raise `error` where that is not enough."""

    def decorate(fn: F) -> F:
        @wraps(fn)
        def entry(*args: Any, **kwargs: Any) -> Any:
            if _thread_state.inside:
                return fn(*args, **kwargs)
            if not _thread_state.roomy:
                return on_large_stack(lambda: entry(*args, **kwargs))
            _enter()
            _thread_state.inside = True
            try:
                return fn(*args, **kwargs)
            except RecursionError:
                raise error(
                    "the program is nested deeper than Python's stack allows; store a part of it on the way, as "
                    "lp.compute or t.named(...) does, or take it apart into several programs"
                ) from None
            except LoopirError as told:
                raise told.with_traceback(asked_frames(told))  # noqa: B904  (the same error)
            finally:
                _thread_state.inside = False
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
        collection.enter()


def _leave() -> None:
    """Restore the limit after the last thread, unless somebody set another one meanwhile."""
    global _running
    with _lock:
        _running -= 1
        collection.leave()
        if not _running and sys.getrecursionlimit() == _outside + FRAMES:
            sys.setrecursionlimit(_outside)
