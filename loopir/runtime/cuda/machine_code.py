"""What machine code says of itself: the kernels that touch memory only after they have waited for the one before.

A kernel that may be put in place while another ends (`griddepcontrol`) has to wait first. That is written at its
beginning, but compilers move loads of what nobody writes past anything; so a kernel is started early only if its
instructions, as they stand, begin with the wait. A cubin is an ELF file; an instruction has 16 bytes (sm_70 and later),
and its low 12 bits say what it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

WAIT = 0x82E
LOADS = (0x980, 0x981)
"""Of any memory, and of global memory: what is moved. Stores, atomics and asynchronous copies stay where they are."""


def kernels_that_wait_first(cubin: bytes) -> frozenset[str]:
    """The functions of `cubin` that wait before they load."""
    first: set[str] = set()
    for name, ops in functions(cubin):
        waits, loads = np.flatnonzero(ops == WAIT), np.flatnonzero(np.isin(ops, LOADS))
        if len(waits) and (not len(loads) or waits[0] < loads[0]):
            first.add(name)
    return frozenset(first)


def functions(cubin: bytes) -> Iterator[tuple[str, npt.NDArray[np.signedinteger[Any]]]]:
    """The name of each function of `cubin`, and its instructions in the order in which they stand."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    _, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    table = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections + 64 * n) for n in range(count)]
    for name, _, _, _, offset, length, *_ in table:
        start = table[names][4] + name
        told = cubin[start : cubin.index(b"\0", start)].decode()
        if told.startswith(".text."):
            code = np.frombuffer(cubin, "<u2", length // 2, offset)
            yield told.removeprefix(".text."), code[:: 16 // 2] & 0xFFF
