"""Report what a program's tests of its subscripts and values found: an error after the run, if one failed.

Lowering puts a test where an access is not proved to be inside its buffer (see
`loopir.lower.common.insert_bounds_checks`). A test that fails writes words, which are read when the program has run.
On a GPU, calls like an earlier one do not wait for that: see `loopir.runtime.cuda.deferred_tests`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from loopir.errors import BoundsError, NanError

WORDS = 3
"""Of each test: whether it failed, at which index, and the size."""


class Lender(Protocol):
    """A runtime that brings a small array to where the program runs, and back when all of the block has run."""

    def lent(self, words: np.ndarray[Any, Any]) -> AbstractContextManager[int]: ...


class Checked:
    """The host function of a program with tests, called as one without: it raises BoundsError for one that failed.

    `tests` say what each is of. The program's last argument is int64[tests, 3], filled with 0: whether it failed, at
    which index, and the size of the dimension, or -1 for an index that divides.
    """

    def __init__(self, host: Callable[..., None], program: str, tests: Sequence[str]) -> None:
        self.host, self.program, self.tests = host, program, tests

    def __call__(self, runtime: Lender, *args: Any) -> None:
        words = np.zeros((len(self.tests), WORDS), np.int64)
        with runtime.lent(words) as pointer:
            self.host(runtime, *args, pointer)
        if words[:, 0].any():
            raise BoundsError(
                f"{self.describe(words)}. Nothing was touched there, but the results are not complete; built with "
                f'checks=True, or for "interpret", the program tells the iteration'
            )

    def describe(self, words: np.ndarray[Any, Any]) -> str:
        """The first test that failed, with its index, in words of a person."""
        first = int(words[:, 0].argmax())
        _, index, size = map(int, words[first])
        return f"{self.program}: {self.tests[first]}, {_out_of_bounds(index, size)}"


class Located:
    """The host function of a program that was built with checks, called as one without.

    Its last argument is int64[3 + loops]: the number of the first fault, the index, the size, the iteration. By number,
    from 1, `sites` say what it is and name the loops; `values` are the numbers of those about nan. BoundsError or
    NanError says where it was first.
    """

    def __init__(
        self, host: Callable[..., None], program: str, sites: Sequence[tuple[str, Sequence[str]]],
        values: Collection[int], words: int,
    ) -> None:  # fmt: skip
        self.host, self.program, self.sites, self.values, self.words = host, program, sites, values, words

    def __call__(self, runtime: Lender, *args: Any) -> None:
        words = np.zeros(self.words, np.int64)
        outside: BoundsError | None = None
        with runtime.lent(words) as pointer:
            try:
                self.host(runtime, *args, pointer)
            except BoundsError as error:
                outside = error
        if not words[0]:
            if outside is not None:
                raise outside
            return
        number, index, size, *iteration = map(int, words)
        what, loops = self.sites[number - 1]
        at = ", ".join(f"{v}={x}" for v, x in zip(loops, iteration, strict=False))
        where = f" (at {at})" if at else ""
        if number in self.values:
            raise NanError(f"{self.program}: {what}{where}, before any other statement that does")
        raise BoundsError(
            f"{self.program}: {what}{where}, {_out_of_bounds(index, size)}. Nothing was touched there, but the results "
            f"are not complete"
        ) from None


def _out_of_bounds(index: int, size: int) -> str:
    if size < 0:
        return f"which is {index}; a divisor is at least 1"
    if size == 0:
        return f"at index {index}; no index is allowed, as the size is 0"
    return f"at index {index}; indices run from 0 to {size - 1}"
