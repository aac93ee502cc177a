"""Arrays with a fence on either side, which shows what was written beside them."""

from __future__ import annotations

import numpy as np

from loopir.ir.dtypes import Array

WIDTH, MARK = 256, 0xAB
"""Bytes of a fence, and what they hold."""


class Fenced:
    """A copy of an array, `.array`, between two fences."""

    def __init__(self, array: Array) -> None:
        self.bytes = np.full(array.nbytes + 2 * WIDTH, MARK, np.uint8)
        self.array = self.bytes[WIDTH : WIDTH + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def broken(self) -> str | None:
        """Where something was written beside the array; None if nothing was."""
        outside = self.bytes != MARK
        outside[WIDTH : WIDTH + self.array.nbytes] = False
        found = np.flatnonzero(outside)
        return f"something is written {int(found[0]) - WIDTH} bytes from its start" if found.size else None
