"""What a kernel reads from memory of buffers that the L2 cache cannot hold: reuse distances over its grid's blocks.

Blocks start in the order of their number. A block that reads what an earlier one has read finds it in the cache if what
all blocks between them read is no more than the cache holds (Mattson et al., "Evaluation techniques for storage
hierarchies", 1970), or if both run at once. Where a read of a block begins stands for all that it reads there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loopir.errors import VerifyError
from loopir.ir.grammar import Index
from loopir.ir.layout.layouts import evaluate
from loopir.ir.traverse.walk import free_vars

Ints = npt.NDArray[np.int64]
MOST_BLOCKS = 1 << 17
"""Blocks whose reads are looked at, the first of the grid."""
STEP = 4
"""How much larger each window is whose reads are counted."""


@dataclass(frozen=True)
class Reference:
    """A read of global memory: where it begins in the buffer, and the bytes that it takes in all blocks together."""

    buffer: str
    at: tuple[Index, ...]
    taken: float


def read_from_memory(
    references: Sequence[Reference],
    grid: Sequence[tuple[str, int]],
    sizes: Mapping[str, int],
    running: int,
    cache: float,
) -> dict[str, tuple[float, float]]:
    """For each buffer the bytes that blocks read first, and those that they read again from memory.

    `grid` has the variables of the block's number and their extents, the fastest first; `running` blocks run at once;
    `cache` is in bytes.
    """
    total = int(np.prod([n for _, n in grid] or [1]))
    seen = min(total, MOST_BLOCKS)
    env, left = dict[str, Ints](), np.arange(seen, dtype=np.int64)
    for var, extent in grid:
        env[var], left = left % max(1, extent), left // max(1, extent)
    starts = [_first_elements(r.at, {**sizes, **env}, seen) for r in references]
    reach = max(running, _reach(starts, [r.taken / max(1, total) for r in references], cache))
    found: dict[str, tuple[float, float]] = {}
    for r, start in zip(references, starts, strict=True):
        order = np.argsort(start, kind="stable")
        again = start[order][1:] == start[order][:-1]
        missed = int((np.diff(order)[again] > reach).sum())
        first, more = found.get(r.buffer, (0.0, 0.0))
        found[r.buffer] = first + r.taken * (1 - again.sum() / seen), more + r.taken * missed / seen
    return found


def _first_elements(at: Sequence[Index], env: Mapping[str, int | Ints], blocks: int) -> Ints:
    """A number for where a read begins in each block; one place where memory decides."""
    code = np.zeros(blocks, np.int64)
    for ix in at:
        zero = dict.fromkeys(free_vars(ix) - env.keys(), 0)
        try:
            along = np.broadcast_to(np.asarray(evaluate(ix, {**zero, **env}), np.int64), (blocks,))
        except VerifyError:
            continue
        span = int(along.max()) - int(along.min()) + 1
        code = np.unique(code, return_inverse=True)[1] * span + (along - along.min())
    return code


def _reach(starts: Sequence[Ints], each: Sequence[float], cache: float) -> float:
    """How many blocks after another one still finds what it read in the cache."""
    window, before, blocks = 1, 0.0, len(starts[0]) if starts else 0
    while window < blocks:
        window = min(blocks, window * STEP)
        read = sum(len(np.unique(s[:window])) * size for s, size in zip(starts, each, strict=True))
        if read > cache:
            return window * max(1.0, cache - before) / read if before else window * cache / read
        before = read
    return float(blocks)
