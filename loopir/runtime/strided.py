"""Arrays that are not contiguous: kernels run on contiguous copies of them, and what is written is copied back.

The copy is made by the array's own library, on its device and in the order of its stream. Kernels take contiguous
arrays, as an index is then known to be affine; a copy reads each element once, which no kernel does faster.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

MOST_WORK = 1000
"""Candidates that NumPy looks at for an element that two views share."""
PACKAGE = str(Path(__file__).resolve().parent.parent)


def contiguous_copier(x: Any) -> Callable[[], Any] | None:
    """What makes a contiguous copy of `x`, in row-major order; None if its library is none that is known."""
    if isinstance(x, np.ndarray):
        return lambda: np.ascontiguousarray(x)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    library = type(x).__module__.partition(".")[0]
    if library == "torch":
        return x.contiguous
    if library == "cupy":
        return lambda: sys.modules["cupy"].ascontiguousarray(x)
    return None


@dataclass(frozen=True, slots=True)
class Extent:
    """Where elements of `item` bytes lie, `steps` bytes apart by dimension."""

    pointer: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    item: int

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """For NumPy, which is asked about addresses alone and reads nothing."""
        typed = {"typestr": f"|V{self.item}", "data": (self.pointer, True), "version": 3}
        return {"shape": self.shape, "strides": self.steps, **typed}

    @property
    def elements_apart(self) -> bool:
        """Whether no two elements are seen to share memory: each step is past all that the smaller ones reach."""
        reached = self.item
        for step, n in sorted((abs(step), n) for n, step in zip(self.shape, self.steps, strict=True) if n > 1):
            if step < reached:
                return False
            reached += (n - 1) * step
        return True


def share_memory(x: Extent, y: Extent) -> bool:
    """Whether an element of `x` and one of `y` share a byte, or that is hard to tell."""
    try:
        return np.shares_memory(np.asarray(x), np.asarray(y), max_work=cast(Any, MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def warn_of_copy(kernel: str, name: str, copy: str, written: bool) -> None:
    """Warn, once for each place that calls, that argument `name` is copied at each call."""
    back = " and back" if written else ""
    said = f"{name} of {kernel} is not contiguous, and is copied{back} at each call; {copy} is a copy to keep"
    frame, level = sys._getframe(1), 2  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(said, RuntimeWarning, stacklevel=level)
