"""Import of what is loaded when it is first used, and what a fork waits for.

A package that is missing is named with the command that installs it. A child has only the thread that forked: what
another one was in the middle of stays half done for ever, and its locks held. So a fork waits until no thread loads a
module by this file (Python holds a lock for each module being imported), and until it has the locks told to `at_fork`.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from types import ModuleType
from typing import Any

_loading: list[int] = []
"""The threads that load a module, once for each that they load."""
_locks: list[AbstractContextManager[Any]] = []


def load(name: str) -> ModuleType:
    """The module `name`; ModuleNotFoundError with the command to install what it needs and is not there.

    ImportError for a signal handler or a finaliser that interrupts the import of that very module.
    """
    thread = threading.get_ident()
    _loading.append(thread)
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        told = import_module("loopir.requirements").missing(error)
        raise ModuleNotFoundError(told, name=error.name, path=error.path) from None
    finally:
        _loading.remove(thread)
    if getattr(module.__spec__, "_initializing", False):  # by this thread: for another one an import waits
        raise ImportError(f"{name} is being imported by what this code interrupts; import it before", name=name)
    return module


def at_fork(lock: AbstractContextManager[Any]) -> None:
    """Have every fork of this process wait for `lock`, which is reentrant, and free it in parent and child."""
    _locks.append(lock)


class _ForkLocks(threading.local):
    """The locks that this thread holds for a fork, and one more time for a fork in a signal handler."""

    def __init__(self) -> None:
        self.stacks: list[ExitStack] = []


_fork_locks = _ForkLocks()


def _others_load() -> bool:
    thread = threading.get_ident()
    return any(other != thread for other in list(_loading))


def _lock_all() -> None:
    """Take all locks while no other thread loads a module."""
    while True:
        stack = ExitStack()
        for lock in list(_locks):
            stack.enter_context(lock)
        if not _others_load():
            _fork_locks.stacks.append(stack)
            return
        stack.close()
        time.sleep(0.001)


def _after() -> None:
    """Free what `_before` took."""
    _fork_locks.stacks.pop().close()


def _after_in_child() -> None:
    """Free what `_before` took, and forget threads that the child does not have."""
    thread = threading.get_ident()
    _loading[:] = [t for t in _loading if t == thread]
    _after()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock_all, after_in_parent=_after, after_in_child=_after_in_child)
