"""Stages inside loops that carry dependences, on a CPU: what is independent in each iteration runs by vectors.

For factorizations, in-place updates and sweeps: the order of the outer loops stays, folds inside them are of vectors of
partial results, sums of columns stay in registers, and threads share an inner loop where an iteration is long enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loopir as lp

from ..common.nest_queries import extent, if_legal, in_lanes, is_serial, reads_of
from .split_reduction import EXCHANGED, folded, lanes_of, runs_along
from .threads import parallel_if_legal, worth_sharing

COLUMN_VECTORS = 4
"""Vectors of columns whose sums are in registers."""
RECORD = 4
"""Elements of a record, at most, that are stored together where each is stored by a statement of its own."""
FEW_BLOCKS = 4
"""How often a column is read, at least, for a copy of it to be worth the time it takes."""


@lp.composite
def inner_vectors(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """`s` with the innermost loops of `stage` in vectors of `lanes`, by default those of this machine, if they can be.

    A stage whose loops are scheduled already, or that does not run along memory, is left as it is.
    """
    loops, over, before = s.loops(stage), s.reduced(stage), s.stages
    if not loops or any(s.loop(x).kind != "serial" for x in loops):
        return s
    width = lanes or lanes_of(s, stage)
    s = s if runs_along(s, stage) else _column_innermost(s, stage)
    loops, column = s.loops(stage), column_of(s, stage)
    if runs_along(s, stage):
        made = folded(s, stage, lanes=lanes, vectors=1 if extent(s, loops[-1]) is None else COLUMN_VECTORS)
    elif column is None:
        made = s if over else _shuffled_lanes(s, stage, loops[-1], width)
    elif over:
        made = column_sums(s, stage, column, width)
    else:
        made = s if _reads_behind(s, stage, column, width) else _vector_loop(s, column, width)
    return _columns_once(_inner_on_threads(made, stage), [x for x in made.stages if x == stage or x not in before])


def _columns_once(s: lp.Schedule, stages: Sequence[str]) -> lp.Schedule:
    """`s` with a copy of each column of an array that `stages` fold along and several vectors of sums need: each of its
    elements lies in a line of its own, which is then brought near once."""
    for stage in (x for x in stages if x in s.stages and s.reduced(x)):
        loops, folds = s.loops(stage), s.reduced(stage)
        at = loops.index(folds[0])
        if len(folds) == 1 and at >= 2 and loops[at:-1] == folds and s.loop(loops[-1]).kind == "vectorize":
            for buffer in _read_far(s, stage, loops[at - 1], folds[0], loops[-1]):
                s = if_legal(s, "cache_read", stage, buffer, "global", loops[at - 2])
    return s


def _read_far(s: lp.Schedule, stage: str, block: str, along: str, lane: str) -> list[str]:
    """The buffers of which `stage` reads one column along `along`, a line for each element, in all vectors alike."""
    blocks, reads = extent(s, block), reads_of(s, stage)
    if blocks is not None and blocks < FEW_BLOCKS:
        return []
    alike = [t for t in reads if t.invariant(lane) and t.invariant(block)]
    steps = {t.buffer: t.dtype.bytes * abs(getattr(t.strides.get(along), "value", 0)) for t in alike}
    line = lp.local_cpu().line
    return [x for x, step in steps.items() if step >= line and sum(t.buffer == x for t in reads) == 1]


def carried_in_rows(s: lp.Schedule, stage: str, *, lanes: int | None = None) -> lp.Schedule:
    """`s` with rows of `stage` on threads, in which other loops carry dependences, and what is independent inside
    these, along memory, by vectors."""
    column = column_of(s, stage)
    made = s if column is None else _vector_loop(s, column, lanes or lanes_of(s, stage))
    return parallel_if_legal(made, stage, made.loops(stage)[0])


def column_of(s: lp.Schedule, stage: str) -> str | None:
    """The free loop of `stage` along which all that it touches lies, or stays, and with only folds inside it."""
    column = next((x for x in reversed(s.loops(stage)) if x not in s.reduced(stage)), None)
    return column if column is not None and _lies_along(s, stage, column) else None


def _lies_along(s: lp.Schedule, stage: str, loop: str) -> bool:
    """Whether all that `stage` and what stands beside it in `loop` touch lies along `loop`, or stays and is only
    read."""
    inside = (stage, *(x for x in s.stages if x != stage and loop in s.loops(x)))
    return all(t.contiguous(loop) or (t.invariant(loop) and not t.write) for x in inside for t in s.accesses(x))


def _column_innermost(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the loop of `stage` innermost along which all that it touches lies and whose iterations are
    independent, where another one is, and it may be; `s` itself if there is none."""
    loops = s.loops(stage)
    if column_of(s, stage) is not None or s.reduced(stage) == loops[-1:]:
        return s
    for n, x in enumerate(loops[:-1]):
        if x not in s.reduced(stage) and _lies_along(s, stage, x) and s.why("parallel", x) is None:
            return if_legal(s, "reorder", *loops[n + 1 :], x)
    return s


def _reads_behind(s: lp.Schedule, stage: str, column: str, lanes: int) -> bool:
    """Whether `stage` reads, of what it stores, elements up to a vector behind, as a sweep of every other element in
    place does: such a load waits until the vector stored last is in the cache, as no store has all of it."""
    touches = s.accesses(stage)
    for read, stored in ((a, b) for a in touches for b in touches if b.write and not a.write and a.buffer == b.buffer):
        *rows, along = zip(read.subscripts, stored.subscripts, strict=True)
        behind = along[1].constant - along[0].constant
        same_row = all(a == b for a, b in rows) and along[0].without_constant == along[1].without_constant
        if same_row and 0 < behind < lanes and stored.contiguous(column):
            return True
    return False


def _vector_loop(s: lp.Schedule, loop: str, lanes: int) -> lp.Schedule:
    """`loop` by vectors, if it is not shorter than one."""
    length = extent(s, loop)
    return s if length is not None and length < lanes else in_lanes(s, loop, lanes)


def _shuffled_lanes(s: lp.Schedule, stage: str, loop: str, lanes: int) -> lp.Schedule:
    """`loop` by vectors, if each is stored as it lies, or with those of the statements beside it as whole records, and
    made of a few whole vectors whose lanes are exchanged."""
    inside = [x for x in s.stages if loop in s.loops(x)]
    around_others = any(s.loops(x)[-1] != loop for x in inside)
    t = s if around_others else _vector_loop(s, loop, lanes)
    if t is s or t.loop(t.loops(stage)[-1]).kind != "vectorize":
        return s
    outer, lane = t.loops(stage)[-2:]
    apart = list[Any]()
    for a in (a for x in inside for a in t.accesses(x) if t.buffer(a.buffer).shape):  # a scalar is a lane's own
        step = getattr(a.strides.get(outer), "value", None)
        few = a.strides.get(lane) is None and step is not None and abs(step) <= EXCHANGED * lanes
        if a.write and not a.contiguous(lane):
            apart.append(a)
        elif not (a.contiguous(lane) or few or a.invariant(lane)):
            return s
    return t if _fill_records(apart, lane) else s


def _fill_records(stores: Sequence[Any], lane: str) -> bool:
    """Whether `stores`, of which each leaves gaps between its lanes, fill these together, in each array."""
    for buffer in dict.fromkeys(a.buffer for a in stores):
        own = [a for a in stores if a.buffer == buffer]
        steps = {getattr(a.strides.get(lane), "value", None) for a in own}
        places = sorted(a.subscripts[-1].constant for a in own)
        rest = {(*a.subscripts[:-1], a.subscripts[-1].without_constant) for a in own}
        if len(own) > RECORD or steps != {len(own)} or len(rest) > 1 or places[-1] - places[0] != len(own) - 1:
            return False
    return True


def column_sums(s: lp.Schedule, stage: str, column: str, lanes: int) -> lp.Schedule:
    """The sums of some columns of `stage` in registers while the rows come by; its loop over them is outside then."""
    loops, over = s.loops(stage), s.reduced(stage)
    inner = loops[loops.index(column) + 1 :]
    length = extent(s, column)
    vectors = COLUMN_VECTORS if length is None else min(COLUMN_VECTORS, length // lanes)
    if length is not None and vectors and length % (vectors * lanes):
        vectors = 1 << (vectors.bit_length() - 1)  # masked ones are loaded one by one where they are no power of two
    if not vectors or set(inner) - set(over) or s.why("split", column, vectors * lanes) is not None:
        return s
    t, (outer, lane) = s.split(column, vectors * lanes).with_loops
    if t.why("reorder", outer, *inner, lane) is not None:
        return s
    t = t.reorder(outer, *inner, lane)
    if t.why("cache_write", stage, "local", outer) is None:
        t = t.cache_write(stage, "local", outer)
    if t.why("vectorize", lane) is not None:
        return s
    t = t.vectorize(lane)
    for copy in (x for x in t.stages if x not in s.stages or x == stage):
        if t.loop(t.loops(copy)[-1]).kind == "serial" and lane not in t.loops(copy):
            t = if_legal(t, "vectorize", t.loops(copy)[-1])
    return if_legal(t, "partition", outer)


def _inner_on_threads(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with an independent loop inside those that carry dependences on threads, if its iterations take long."""
    if lp.thread_count() == 1 or stage not in s.stages:
        return s
    loops, restart = s.loops(stage), lp.local_cpu().restart
    for n, loop in enumerate(loops[1:], 1):
        several = (extent(s, loop) or s.longest(stage, loop) or 0) > 1
        if several and worth_sharing(s, stage, loops[n:], restart) and s.why("parallel", loop) is None:
            return s.parallel(loop)
    return _chunks_outside(s, stage)


def _chunks_outside(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with an inner loop of `stage` cut into chunks, one for each thread and each with all iterations of the loops
    outside, which carry dependences: threads start once. `s` itself where no chunks are independent."""
    loops, start = s.loops(stage), lp.local_cpu().start
    inside = [x for x in s.stages if s.loops(x)[:1] == loops[:1]]
    if not any(worth_sharing(s, x, s.loops(x), start) for x in inside):
        return s
    for n, loop in enumerate(loops[1:], 1):
        length = extent(s, loop)
        if not is_serial(s, loop) or length is None:
            continue
        t, (outer, _) = s.split(loop, max(1, -(-length // lp.thread_count()))).with_loops
        if t.why("reorder", outer, *loops[:n]) is None:
            t = t.reorder(outer, *loops[:n])
            if t.why("parallel", outer) is None and s.why("parallel", loops[0]) is not None:
                return t.parallel(outer)
    return s
