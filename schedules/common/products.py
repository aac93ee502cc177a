"""What a stage is as a product of two operands over several loops: a convolution, a product in batches.

What these have in common with a matrix product is that each operand does not speak of some of the loops. What sets
them apart is that an index adds a loop of the output and one that is folded over (a window), that a border is filled
up, that one loop counts groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import loopir as lp

from .contraction import sides
from .nest_queries import extent, fold_made, free_loops, iterations, reader, readers, reads_of, spatial_loops


@dataclass(frozen=True)
class Side:
    """An operand: its buffer, the loops that it alone speaks of, and the loop that runs along its rows."""

    buffer: str
    loops: tuple[str, ...]
    along: str | None


@dataclass(frozen=True)
class Product:
    """A stage that folds products of two operands: the output runs along a loop of `right`, which is `column`."""

    free: tuple[str, ...]
    reduced: tuple[str, ...]
    left: Side
    right: Side
    column: str


def product(s: lp.Schedule, stage: str) -> Product | None:
    """What `stage` is as a product over several loops; None if it is none."""
    over, reads = s.reduced(stage), reads_of(s, stage)
    found = sides(s, stage, reads)
    if found is None or reads[0].buffer == reads[1].buffer or any(t.invariant(over[-1]) for t in reads):
        return None  # for one buffer see `separate_operands`
    one, other = (
        Side(t.buffer, own, next((x for x in s.loops(stage) if t.contiguous(x)), None))
        for t, own in ((found.left, found.rows), (found.right, found.columns))
    )
    return Product(tuple(spatial_loops(s, stage)), over, one, other, found.column)


def require_product(s: lp.Schedule, stage: str) -> Product:
    """As `product`; ScheduleError if `stage` is none."""
    p = product(s, stage)
    if p is None:
        raise lp.ScheduleError(f"{stage} folds no product of two operands over independent loops")
    return p


def several(s: lp.Schedule, stage: str, least: int = 16) -> bool:
    """Whether `stage` is a product over several loops, of matrices that are not known to be smaller than `least`."""
    if not s.reduced(stage) or len(reads_of(s, stage)) != 2:  # before any loop is split for a look
        return False
    for loop in free_loops(s, stage):
        size = _group(s, stage, loop)
        s = s if size is None else s.split(loop, size, tail="exact")
    p = product(s, stage)
    if p is None or len(p.free) + len(p.reduced) == 3:
        return False
    return all((iterations(s, loops, least) or 0) >= least for loops in (p.left.loops, p.right.loops, p.reduced))


def followed(s: lp.Schedule, stage: str) -> tuple[lp.Schedule, str, str]:
    """`s`, the stage that folds, and the stage that takes its sums one by one: a copy, if what reads them folds, too,
    or if several stages do.

    A loop over outputs that counts groups, too, is cut in both, into groups and what is in one; it is read off an
    operand that moves only every so many iterations of it.
    """
    free = spatial_loops(s, stage)
    after = s.stages[s.stages.index(stage) + 1 :]
    out = after[0] if after else stage
    users = {*readers(s, stage)}.intersection(after)
    if users != {out} or s.reduced(out) or len(s.loops(out)) < len(free):
        s = s.cache_write(stage, "global")
        out, stage = stage, fold_made(s)
    for n, loop in enumerate(free):
        size = _group(s, stage, loop)
        if size is not None:
            own = s.loops(out)[-len(free) :]
            s = s.split(loop, size, tail="exact").split(own[n], size, tail="exact")
    return s, stage, out


def _group(s: lp.Schedule, stage: str, loop: str) -> int | None:
    """How many iterations of `loop` make a group, if it counts groups."""
    length = extent(s, loop) or 0
    if all(t.strides.get(loop, 0) is not None for t in s.accesses(stage)):
        return None
    for size in (n for n in range(length - 1, 1, -1) if length % n == 0):
        t, (_, inner) = s.split(loop, size, tail="exact").with_loops
        if any(x.invariant(inner) for x in t.accesses(stage)):
            return size
    return None


def pooled(s: lp.Schedule, stage: str) -> str | None:
    """The stage that alone reads what `stage` writes, and folds neighbours of it; None if there is none."""
    pool = reader(s, stage)
    return pool if pool is not None and s.reduced(pool) and product(s, pool) is None else None


def filled(s: lp.Schedule, by: Sequence[str]) -> tuple[str, ...]:
    """The stages that those of `by` alone read, and that are no epilogue of a fold: borders, above all."""
    folded = {t.buffer for x in s.stages if s.reduced(x) for t in s.accesses(x) if t.write}
    out: list[str] = []
    for stage in s.stages:
        users, given = set(readers(s, stage)), {t.buffer for t in reads_of(s, stage)}
        if users and users <= {*by} and not s.reduced(stage) and not given & folded:
            out.append(stage)
    return tuple(out)
