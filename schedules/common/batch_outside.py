"""A product whose batch lies along memory, `C[i, j, b]` of `A[i, k, b]` and `B[j, k, b]`, as one of matrices in a row.

No tile of such a product is a tile of memory. So each operand is copied with the batch outside, the sums are made of
these copies, and what reads them turns them back: three passes over memory, and tensor cores for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import loopir as lp

from .nest_queries import argument_names, extent, one_nest, readers, spatial_loops
from .operands import NARROW, multiplied
from .transpose import TransposedRead, find_transposed_read, transpose, worth_turning

LEAST_LENGTH = 16
"""How long rows, columns and what is summed are at least that are worth copies of the operands."""


@dataclass(frozen=True)
class BatchAlong:
    """A product and a loop of its batch, over which both its operands run, that some of its arrays lie along."""

    stage: str
    batch: str
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    """The operands that lie along the batch, with the loops of a copy of each."""


def batch_along(s: lp.Schedule) -> BatchAlong | None:
    """The product of `s` whose operands, or sums, lie along its batch, if it is the only stage that folds."""
    folds = [x for x in s.stages if s.reduced(x)]
    if len(folds) != 1 or not multiplied(s, folds[0]) or not one_nest(s, folds[0]):
        return None
    return _batch_of(s, folds[0])


def _batch_of(s: lp.Schedule, stage: str) -> BatchAlong | None:
    over, touches = s.reduced(stage), s.accesses(stage)
    reads = [t for t in touches if not t.write]
    if [len(over), len(reads), len(touches)] != [1, 2, 3]:
        return None
    free = [x for x in s.loops(stage) if x not in over]
    both = [x for x in free if not any(t.invariant(x) for t in reads)]
    batch = next((x for t in touches for x in both if t.contiguous(x)), None)
    sides = [_loops_of_one(free, *pair) for pair in (reads, reads[::-1])]
    if batch is None or not all(_is_long(s, x) for x in (*sides, over)):
        return None
    both.remove(batch)
    copies = [(t, (t.buffer, (*both, batch, *side, *over))) for t, side in zip(reads, sides, strict=True)]
    return BatchAlong(stage, batch, tuple(x for t, x in copies if t.contiguous(batch)))


def _loops_of_one(free: Sequence[str], one: Any, other: Any) -> list[str]:
    """The loops that one operand runs over, and the other does not."""
    return [x for x in free if not one.invariant(x) and other.invariant(x)]


def _is_long(s: lp.Schedule, loops: Sequence[str]) -> bool:
    """Whether one of `loops` is, or may be, as long as is worth copies."""
    return any((extent(s, x) or LEAST_LENGTH) >= LEAST_LENGTH for x in loops)


def batch_outside(s: lp.Schedule, match: BatchAlong) -> lp.Schedule:
    """`s` with the product's sums, and copies of its operands, as matrices one after the other."""
    stage = match.stage
    given = argument_names(s)
    (written,) = (t for t in s.accesses(stage) if t.write)
    if written.buffer in given and written.contiguous(match.batch):
        s, stage = s.cache_write(stage, "global").with_stage
    (written,) = (t for t in s.accesses(stage) if t.write)
    free = spatial_loops(s, stage)
    if not written.contiguous(match.batch):
        return _with_copies(s, stage, match)
    places = written.subscripts
    if sorted(places) != sorted(free):
        raise lp.ScheduleError(
            f"{stage} does not store its sums by one loop for each dimension, as their reordering needs"
        )
    order = [match.batch, *(x for x in free if x != match.batch)]
    s = s.reorder_dims(written.buffer, *map(places.index, order)).reorder(*order)
    return _with_copies(s, stage, match)


def turned_first(s: lp.Schedule) -> lp.Schedule:
    """`s` with copies that a product reads made by tiles that are turned, where they read across what they write."""
    for stage in s.stages:
        if _transposed_read(s, stage) is not None and any(map(s.reduced, readers(s, stage))):
            s = transpose(s, stage)
    return s


def turned_last(s: lp.Schedule) -> lp.Schedule:
    """`s` with the stage that reads sums across the direction it writes in by tiles that are turned, after sums that
    are stored as they are made, in 16 bits if they are read so."""
    for stage in s.stages:
        t = _transposed_read(s, stage)
        if t is None or not any(s.reduced(x) and stage in readers(s, x) for x in s.stages):
            continue
        for kind in NARROW:
            if s.why("cache_read", (stage,), t.buffer, "global", dtype=kind) is None:
                return transpose(s.cache_read((stage,), t.buffer, "global", dtype=kind), stage)
        return transpose(s, stage)
    raise lp.ScheduleError("no stage reads sums across the direction that it writes in")


def _transposed_read(s: lp.Schedule, stage: str) -> TransposedRead | None:
    """What `stage`, which folds nothing, reads across the direction it writes in, if tiles of that are worth it."""
    t = None if s.reduced(stage) else find_transposed_read(s, stage)
    return t if t is not None and worth_turning(s, t) else None


def _with_copies(s: lp.Schedule, stage: str, match: BatchAlong) -> lp.Schedule:
    for buffer, loops in match.operands:
        s = s.reindex(stage, buffer, *loops)
    return s
