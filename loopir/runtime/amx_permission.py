"""Tiles of AMX: a process asks Linux for them before its first one (the kernel's Documentation/arch/x86/xstate.rst)."""

from __future__ import annotations

import ctypes
import platform
from functools import lru_cache

ARCH_PRCTL, REQUEST, DATA = 158, 0x1023, 18
"""The call, what asks it for a part of a processor's state (ARCH_REQ_XCOMP_PERM), and the part that tiles are."""


@lru_cache(maxsize=1)
def permitted() -> bool:
    """Whether this process, with its threads and those it forks, may use tiles: asked once, and granted for good."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST, DATA) == 0
