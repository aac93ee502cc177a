"""Two programs that are not shown to be equal, run on small inputs: an element in which they differ, if any.

The run is exact, over the integers modulo 2^32 with unknown functions as hashes, so a difference is one of dataflow,
and not of rounding. Finding none says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from loopir.errors import InterpretError, VerifyError, pairs
from loopir.ir.grammar import Func, Int, Loop
from loopir.ir.interpret import holds, interpret
from loopir.ir.verify import evaluate
from loopir.ir.walk import statements

SMALL = (0, 1, 2, 3, 4, 5, 7)
MOST = 20_000
"""Iterations that are tried, as far as loops of constant extent tell."""
CALLS = 24


@dataclass(frozen=True)
class Wrong:
    """An element that the second program leaves otherwise than the first, at some sizes."""

    buffer: str
    element: tuple[int, ...]
    sizes: dict[str, int]
    why: str

    def __str__(self) -> str:
        at = f" (at {pairs(self.sizes)})" if self.sizes else ""
        return (
            f"{self.buffer}[{', '.join(map(str, self.element))}] {self.why}{at}" if self.buffer else f"{self.why}{at}"
        )


def counterexample(before: Func, after: Func) -> Wrong | None:
    """The first difference at small sizes, on random inputs; None if none is met, or the programs are too large."""
    if any(prod(d for d in _constants(f)) > MOST for f in (before, after)):
        return None
    for n, sizes in enumerate(_sizes(before)):
        if n == CALLS:
            break
        found = _at(before, after, sizes, n)
        if found is not None:
            return found
    return None


def _constants(func: Func) -> Iterator[int]:
    nested = (s.extent for s in statements(func.body) if isinstance(s, Loop))
    yield from (max(1, x.value) for x in nested if isinstance(x, Int))


def _sizes(func: Func) -> Iterator[dict[str, int]]:
    several = product(SMALL, repeat=len(func.sizes)) if len(func.sizes) < 4 else [(v,) * len(func.sizes) for v in SMALL]
    every = sorted(
        (dict(zip(func.sizes, v, strict=True)) for v in several), key=lambda s: (sum(s.values()) % 13, sum(s.values()))
    )
    yield from (s for s in every if all(holds(c, s) for c in func.assumes))


def _at(before: Func, after: Func, sizes: Mapping[str, int], seed: int) -> Wrong | None:
    arrays = _arrays(before, sizes, seed)
    try:
        wanted = interpret(before, arrays, sizes, domain="ring")
    except (InterpretError, VerifyError):
        return None  # it means nothing here
    other = dict(zip(after.sizes, sizes.values(), strict=True))
    try:
        found = interpret(after, arrays, other, domain="ring")
    except InterpretError as error:
        return Wrong("", (), dict(sizes), str(error))
    for (name, x), y in zip(wanted.items(), found.values(), strict=True):
        if x.shape == y.shape and not np.array_equal(x, y):
            at = tuple(int(v) for v in np.argwhere(x != y)[0])
            return Wrong(name, at, dict(sizes), "comes from other values than before")
    return None


def _arrays(func: Func, sizes: Mapping[str, int], seed: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    out: list[np.ndarray[Any, Any]] = []
    for a in func.args:
        if a.access != "out":
            t, shape = a.buffer.dtype, [max(0, evaluate(d, dict(sizes))) for d in a.buffer.shape]
            whole = rng.integers(0, 2**32, shape, np.uint32)
            out.append(whole if t.is_float else (whole % 4).astype(t.numpy))
    return out
