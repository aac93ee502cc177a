"""Query the size of this thread's C stack, and call a function on a thread with a large one."""

from __future__ import annotations

import ctypes
import resource
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

FRAME = 768
"""Bytes of the C stack that a frame of Python takes, at most: measured on Python 3.11 to 3.13 where each frame is
called by C code, as by `map` and `__hash__` (300 to 700); a frame that Python code calls takes next to none."""
DEFAULT = 8 << 20
"""Bytes of a main thread's stack that has no limit."""
LARGE = 64 << 20
"""Bytes of the stack that a call gets which needs a larger one: addresses alone, until they are used."""

_making = threading.Lock()


def main_stack() -> int:
    """Bytes of the main thread's stack, which threads have by default, too."""
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return DEFAULT if soft == resource.RLIM_INFINITY else soft


def own_stack() -> int:
    """Bytes of the stack of this thread; 0 where the system does not say."""
    if threading.current_thread() is threading.main_thread():
        return main_stack()
    libc = ctypes.CDLL(None)
    own = ctypes.c_void_p(_own_thread(libc))
    if hasattr(libc, "pthread_get_stacksize_np"):  # macOS
        libc.pthread_get_stacksize_np.restype = ctypes.c_size_t
        return int(libc.pthread_get_stacksize_np(own))
    if not hasattr(libc, "pthread_getattr_np"):
        return 0
    attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
    if libc.pthread_getattr_np(own, attributes):
        return 0
    libc.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    libc.pthread_attr_destroy(attributes)
    return size.value


def _own_thread(libc: ctypes.CDLL) -> int:
    libc.pthread_self.restype = ctypes.c_void_p
    return int(libc.pthread_self())


def on_large_stack(fn: Callable[[], Any]) -> Any:
    """What `fn` gives or raises, called in this thread's context on a thread that has a LARGE stack."""
    given: list[Any] = []
    raised: list[BaseException] = []
    context = copy_context()

    def call() -> None:
        try:
            given.append(context.run(fn))
        except BaseException as error:  # which is raised again where it belongs
            raised.append(error)

    with _making:  # the size is one for all threads that are made
        before = threading.stack_size(LARGE)
        try:
            thread = threading.Thread(target=call, name="loopir")
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if raised:
        raise raised[0]
    return given[0]
