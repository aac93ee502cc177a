"""What a program's tests of its subscripts told: an IndexError after the run, if one failed.

Lowering puts a test where an access is not proved to be inside its buffer (see
`loopir.lower.common.insert_bounds_checks`). The tests write words, which are read when the program has run; on a GPU
a call of such a program therefore waits for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from loopir.errors import BoundsError


class Lender(Protocol):
    """A runtime that brings a small array to where the program runs, and back."""

    def lent(self, words: np.ndarray[Any, Any]) -> AbstractContextManager[int]: ...


class Checked:
    """The host function of a program with tests, called as one without: it raises BoundsError for one that failed.

    `tests` say what each is of. The program's last argument is int64[tests, 3]: whether it failed, at which index, and
    the size of the dimension, or -1 for an index that divides.
    """

    def __init__(self, host: Callable[..., None], program: str, tests: Sequence[str]) -> None:
        self.host, self.program, self.tests = host, program, tests

    def __call__(self, runtime: Lender, *args: Any) -> None:
        words = np.empty((len(self.tests), 3), np.int64)
        with runtime.lent(words) as pointer:
            self.host(runtime, *args, pointer)
        if words[:, 0].any():
            first = int(words[:, 0].argmax())
            _, index, size = map(int, words[first])
            if size < 0:
                wrong = f"which is {index}; a divisor is at least 1"
            elif size == 0:
                wrong = f"at index {index}; no index is allowed, as the size is 0"
            else:
                wrong = f"at index {index}; indices run from 0 to {size - 1}"
            raise BoundsError(
                f"{self.program}: {self.tests[first]}, {wrong}. Nothing was touched there, but the results are "
                f'not complete; built for "interpret", the program tells the iteration'
            )
