"""Reductions along rows on a CPU: vectors of partial results, several of them, so that additions need not wait.

A sum of floats one by one takes as long as as many additions after one another. Here every lane of a few vectors folds
on its own, the vectors are folded into one at the end of the row, and its lanes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, if_legal, reads_of
from .periodic_reads import MOST_LANES
from .threads import parallel_if_legal

PARTIAL_VECTORS = 4
"""Vectors of partial results: an addition takes about as many cycles, and one can start in each."""
EXCHANGED = 4
"""Whole vectors from which the lanes of one are picked, at most."""
PART = 1 << 15
"""Elements that a thread folds at once, of a fold of all that there is."""
WORTH_WIDENING = 16
"""Iterations from which sums in narrower integers pay for being widened at the end."""
SHORT_ROW = 64
"""Iterations at most of a fold whose length varies that are one by one: masks, and lanes that are folded at its end,
take as long as half as many additions after one another."""
PARTIAL = Knob("partial vectors", "vectors of partial results of a fold", octaves(1, 16), 0.05)
PART_LENGTH = Knob("part", "elements that a thread folds at once", octaves(1 << 12, 1 << 20), 0.03)
IN_FLIGHT = Knob("in flight", "elements of several vectors that an iteration takes", octaves(4, 512), 0.05)


def lanes_of(s: lp.Schedule, stage: str) -> int:
    """The elements of a vector of this machine, of the widest type that `stage` touches."""
    return max(1, lp.vector_unit()[0] // max(t.dtype.bytes for t in s.accesses(stage)))


def several(s: lp.Schedule, stage: str) -> int:
    """The elements of a few vectors, where a row has them twice: functions of several are evaluated meanwhile."""
    length, width = extent(s, s.loops(stage)[-1]), lanes_of(s, stage)
    return IN_FLIGHT(
        width if length is None or length < 2 * PARTIAL_VECTORS * width else PARTIAL_VECTORS * width, at=stage
    )


def runs_along(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds over an innermost loop along which all that it reads lies side by side, or stays."""
    loops = s.loops(stage)
    if not loops or loops[-1] not in s.reduced(stage):
        return False
    reads = reads_of(s, stage)
    return any(t.contiguous(loops[-1]) for t in reads) and all(
        t.contiguous(loops[-1]) or t.invariant(loops[-1]) for t in reads
    )


@lp.composite
def folded(s: lp.Schedule, stage: str, *, lanes: int | None = None, vectors: int = PARTIAL_VECTORS) -> lp.Schedule:
    """`s` with the innermost reduced loop of `stage` in `vectors` vectors of `lanes` partial results.

    What is read by steps of more than a few elements is loaded one by one, so there are as many partial results as
    additions can start meanwhile. A stage whose rows are known to be shorter than a vector is left as it is, as is one
    that is no fold.
    """
    if not s.reduced(stage):
        return s
    lanes = lanes or lanes_of(s, stage)
    lanes, vectors = (lanes, vectors) if runs_along(s, stage) else (_picked_lanes(s, stage, lanes), 1)
    loop = s.loops(stage)[-1]
    length, most = extent(s, loop), s.longest(stage, loop)
    if lanes < 2 or (most is not None and most < (SHORT_ROW if length is None else lanes)):
        return s
    vectors = PARTIAL(vectors, at=stage)
    for width, dtype in _narrow_lanes(s, stage, lanes):
        count = _whole_vectors(min(vectors, MOST_LANES // width), width, length)
        t, (outer, lane) = s.split(loop, width * count).with_loops
        t = t if t.why("rfactor", stage, lane) is not None else _fold_privately(t, stage, lane)
        parts = [x for x in t.stages if x not in s.stages]
        if parts and t.why("narrow_sum", parts[0], dtype) is None:
            return _vectorized(t.narrow_sum(parts[0], dtype), stage, outer, lane) or s
    vectors = _whole_vectors(vectors, lanes, length)
    t, (outer, lane) = s.split(loop, lanes * vectors).with_loops
    if t.why("rfactor", stage, lane) is not None:
        return s
    t = _fold_privately(t, stage, lane)
    if vectors > 1 and sum(x.write for x in t.accesses(stage)) > 1:  # comparisons: the masks of each vector by itself
        t, (turn, lane) = t.split(lane, lanes).with_loops
        t = t.unroll(turn)
    return _vectorized(t, stage, outer, lane) or s


def _whole_vectors(vectors: int, lanes: int, length: int | None) -> int:
    """A power of two, as others are masked, and folded, one by one: of `vectors` and the whole ones in `length`."""
    return 1 << ((vectors if length is None else min(vectors, length // lanes)).bit_length() - 1)


def _vectorized(s: lp.Schedule, stage: str, outer: str, lane: str) -> lp.Schedule | None:
    """`s` with the partial results along `lane`, and what folds them, in vectors; None where they cannot be."""
    if s.why("vectorize", lane) is not None:
        return None
    t = if_legal(s.vectorize(lane), "partition", outer)
    return if_legal(t, "vectorize", t.loops(stage)[-1])  # the vector is folded by halves


def _narrow_lanes(s: lp.Schedule, stage: str, lanes: int) -> Iterator[tuple[int, str]]:
    """Integers in which each lane of a sum of wider ones may have its part, narrowest first, and the elements of a
    vector that has more than `lanes` of them and of what the sum reads."""
    (total, *others), loop = [t for t in s.accesses(stage) if t.write], s.loops(stage)[-1]
    if others or not total.dtype.is_integer or lanes != lanes_of(s, stage) or not runs_along(s, stage):
        return
    least = max((t.dtype.bytes for t in reads_of(s, stage) if not t.invariant(loop)), default=total.dtype.bytes)
    for bits in (8, 16, 32):
        width = lp.vector_unit()[0] // max(least, bits // 8)
        if bits < 8 * total.dtype.bytes and lanes < width <= (extent(s, loop) or 0) // WORTH_WIDENING:
            yield from ((width, f"uint{bits}"), (width, f"int{bits}"))


@lp.composite
def into_one(s: lp.Schedule, stage: str, *, lanes: int | None = None, part: int = PART) -> lp.Schedule:
    """`s` with a `stage` that folds all that there is into one result by parts of so many elements, each by vectors.

    Threads take the parts, whose results are folded at the end. A stage that is no such fold is left as it is.
    """
    over = s.reduced(stage)
    if not over or over != s.loops(stage):
        return s
    part = PART_LENGTH(part, at=stage)
    length, rows = extent(s, over[0]), max(1, part // prod(extent(s, x) or part for x in over[1:]))
    if length is not None and length < 2 * rows:
        return folded(s, stage, lanes=lanes)
    if length is not None:  # parts alike, of whole vectors
        vectors = PARTIAL_VECTORS * (lanes or lanes_of(s, stage)) if len(over) == 1 else 1
        rows = length // (length // rows) // vectors * vectors or rows
    t, (outer, *_) = s.split(over[0], rows, tail="peel").with_loops
    if t.why("rfactor", stage, outer) is not None:
        return folded(s, stage, lanes=lanes)
    t = t.rfactor(stage, outer)
    for x in (x for x in t.stages if x not in (stage, *s.stages)):  # the parts, and what is left over
        t = folded(t, x, lanes=lanes)
    return parallel_if_legal(t, stage, outer)


def _picked_lanes(s: lp.Schedule, stage: str, lanes: int) -> int:
    """How many partial results `stage` has whose reads do not all lie side by side: `lanes`, if each vector is picked
    from a few, or by indices that it reads, else as many as additions that can start one after another."""
    loop = s.loops(stage)[-1]
    if loop not in s.reduced(stage) or s.loop(loop).kind != "serial":
        return 1
    steps = [t.strides.get(loop) for t in reads_of(s, stage) if not t.invariant(loop)]
    near = all(step is None or abs(getattr(step, "value", EXCHANGED + 1)) <= EXCHANGED for step in steps)
    return lanes if near else min(lanes, PARTIAL_VECTORS)


def _fold_privately(s: lp.Schedule, stage: str, loop: str) -> lp.Schedule:
    """`stage` folded apart for each iteration of `loop`, in registers."""
    s = s.rfactor(stage, loop)
    for buffer in s.last.buffers:
        s = s.set_scope(buffer, "local")
    return s
