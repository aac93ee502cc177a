"""Keep the main thread answering signals while C code runs that nothing interrupts.

Python calls signal handlers, and so raises KeyboardInterrupt, only between its instructions in the main thread: a
compilation or a kernel that takes a minute would hold a Ctrl-C back for as long. So the main thread has another thread
do such work and waits for it in a way that signals end. What was abandoned so goes on to its end: its arguments live
as long as it does, and nobody gets its result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK = 0.1
"""Seconds between two looks at signals where the system does not wake who waits for a lock."""


def interruptible(work: Callable[[], T], *, once: bool = False) -> T:
    """Give what `work()` gives or raises, and let signal handlers of the main thread run, and raise, meanwhile.

    `work` runs on another thread, so the caller may hold no lock that it takes. Other threads than the main one get no
    signals, and do it themselves.

    The process ends only when abandoned work did, as what it runs may be taken down at exit; and a child that a signal
    handler forks does the work anew. Neither is so with `once`, for work that writes what the caller sees: the process
    ends at once, and such a child gets a RuntimeError.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    given: list[T] = []
    raised: list[BaseException] = []
    done = threading.Lock()
    done.acquire()

    def call() -> None:
        try:
            given.append(work())
        except BaseException as error:  # which is raised again where it belongs
            raised.append(error)
        finally:
            done.release()

    thread = threading.Thread(target=call, name="loopir", daemon=once)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is closing down, or the system gives no more threads
        return work()
    while not done.acquire(timeout=LOOK):
        if thread.is_alive():
            continue
        if given or raised:
            break
        if once:  # this process is a child that was forked meanwhile
            raise RuntimeError("this process was forked while a kernel ran, which only its parent goes on with")
        return work()
    if raised:
        try:
            raise raised[0]
        finally:
            raised.clear()  # its traceback holds this frame
    return given[0]
