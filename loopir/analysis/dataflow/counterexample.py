"""Search for a counterexample to the equality of two programs, by running both on small inputs.

They run exactly, over the integers modulo 2^32 with functions as hashes, so a difference is one of dataflow and not of
rounding. Finding none proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Any

import numpy as np

from loopir.errors import InterpretError, VerifyError, pairs
from loopir.interp.interpret import cond_holds, interpret
from loopir.ir.grammar import Func, Int, Loop, Stmt
from loopir.ir.traverse.walk import bodies, is_affine_visible, nodes
from loopir.ir.verify.verify import evaluate

SIZES_TRIED = (0, 1, 2, 3, 4, 5, 7)
MAX_ITERATIONS = 100_000
"""Iterations of one run that are tried."""
CALLS, FAR = 24, 300_000
"""Runs at small sizes; and the iterations, of all runs together, at those near constants of the programs."""


@dataclass(frozen=True)
class Counterexample:
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

    __repr__ = __str__


def counterexample(before: Func, after: Func, suspected: Iterable[Mapping[str, int]] = ()) -> Counterexample | None:
    """The first difference on random inputs; None if none is met, or the programs are too large.

    It is sought at the sizes that are `suspected`, at small ones, and next to each constant of the two programs: what
    they do otherwise from there on is seen at no smaller size.
    """
    small = list(islice(_small(before), CALLS))
    left = FAR
    for n, sizes in enumerate(chain(suspected, small, _near_constants(before, after))):
        if not all(cond_holds(c, sizes) for c in before.assumes):
            continue
        steps = max(iterations(f, dict(zip(f.sizes, sizes.values(), strict=True))) for f in (before, after))
        if steps > MAX_ITERATIONS or (sizes not in small and (left := left - steps) < 0):
            continue
        found = _at(before, after, sizes, n)
        if found is not None:
            return found
    return None


def iterations(func: Func, sizes: Mapping[str, int]) -> int:
    """How many iterations there are at most of all loops of `func` at `sizes`, as far as they are not memory's."""

    def count(body: Iterable[Stmt], largest: Mapping[str, int]) -> int:
        total = 0
        for s in body:
            if isinstance(s, Loop):
                trips = max(0, evaluate(s.extent, dict(largest))) if is_affine_visible(s.extent) else 1
                total += trips and trips * max(1, count(s.body, {**largest, s.var: trips - 1}))
            else:
                total += sum(count(inner, largest) for inner in bodies(s))
        return total

    return count(func.body, sizes)


def _small(func: Func) -> Iterator[dict[str, int]]:
    several = (
        product(SIZES_TRIED, repeat=len(func.sizes))
        if len(func.sizes) < 4
        else [(v,) * len(func.sizes) for v in SIZES_TRIED]
    )
    every = sorted(
        (dict(zip(func.sizes, v, strict=True)) for v in several), key=lambda s: (sum(s.values()) % 13, sum(s.values()))
    )
    yield from (s for s in every if all(cond_holds(c, s) for c in func.assumes))


def _near_constants(before: Func, after: Func) -> Iterator[dict[str, int]]:
    """Each size next to a constant, the others small; then all of them. Constants of one program alone come first."""
    one, other = (
        {n.value for n in nodes(f) if isinstance(n, Int) and n.value > SIZES_TRIED[-1]} for f in (before, after)
    )
    near = [c + d for c in (*sorted(one ^ other), *sorted(one & other)) for d in (1, 0, -1)]
    names = before.sizes
    for value in dict.fromkeys(near):
        for n in names if len(names) > 1 else ():
            yield {v: value if v == n else SIZES_TRIED[3] for v in names}
        if names:
            yield dict.fromkeys(names, value)


def _at(before: Func, after: Func, sizes: Mapping[str, int], seed: int) -> Counterexample | None:
    arrays = _arrays(before, sizes, seed)
    try:
        wanted = interpret(before, arrays, sizes, domain="ring")
    except (InterpretError, VerifyError):
        return None  # it means nothing here
    other = dict(zip(after.sizes, sizes.values(), strict=True))
    try:
        found = interpret(after, arrays, other, domain="ring")
    except InterpretError as error:
        return Counterexample("", (), dict(sizes), str(error))
    for (name, x), y in zip(wanted.items(), found.values(), strict=True):
        if x.shape == y.shape and not np.array_equal(x, y):
            at = tuple(int(v) for v in np.argwhere(x != y)[0])
            return Counterexample(name, at, dict(sizes), "comes from other values than before")
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
