"""Tests of subscripts whose outcome no call waits for: it is raised at the next one.

The tests of a program write words only where one fails (see `loopir.runtime.bounds_report`). Those words lie in memory
of the host that the GPU writes to, filled with 0 for all calls together. So a call reads what earlier ones have left
there, launches its kernels, and returns; nothing is copied and nothing is cleared. A failure that no later call has
raised is told at the end of the process.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from loopir.errors import BoundsError, TargetError
from loopir.runtime.bounds_report import WORDS, Checked
from loopir.runtime.cuda.driver import Device

BYTES = 8
_all_tests: list[DeferredTests] = []
"""Of all programs, for good: the GPU may still write to their words when a program is forgotten."""


class DeferredTests:
    """The words of one program's tests in host memory; `.pointer` is where the GPU writes them."""

    def __init__(self, gpu: Device, checked: Checked) -> None:
        self.gpu, self.checked = gpu, checked
        count = len(checked.tests) * WORDS
        address, self.pointer = gpu.host_words(count * BYTES)
        self.words = (ctypes.c_longlong * count).from_address(address)
        self._lock = threading.Lock()
        _all_tests.append(self)

    def failed(self) -> bool:
        """Whether a test is known to have failed."""
        return any(self.words[::WORDS])

    def require(self) -> None:
        """Raise BoundsError if a test of an earlier call is known to have failed; each failure is raised once."""
        if self.failed() and (found := self._first_failure()):
            raise BoundsError(
                f"{found}. An earlier call did that, whose results are not complete; nothing outside was touched, and "
                f"this call did nothing. kernel.synchronize() after each call tells which one, and a program built "
                f'with checks=True, or for "interpret", the iteration'
            )

    def _first_failure(self) -> str:
        """What failed, when all calls are done, which may still write; "" if another thread has taken it."""
        with self._lock:
            if not self.failed():
                return ""
            self.gpu.synchronize()
            words = np.ctypeslib.as_array(self.words).reshape(-1, WORDS)
            found = self.checked.describe(words)
            words[:] = 0
            return found

    def before(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run`, which launches the program, and raises first what earlier calls have left."""
        return partial(_after, self.words, self.require, run)


def _after(words: Any, require: Callable[[], None], run: Callable[..., Any], *args: Any) -> Any:
    if any(words[::WORDS]):
        require()
    return run(*args)


@atexit.register
def _tell_the_rest() -> None:
    """Write to standard error what no call has raised."""
    for tests in _all_tests:
        try:
            tests.gpu.synchronize()
            tests.require()
        except BoundsError as error:
            print(f"loopir: BoundsError that no later call raised: {error}", file=sys.stderr)
        except TargetError:  # the driver is gone
            return
