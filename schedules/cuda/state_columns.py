"""Steps along time of a state of several columns, as linear attention has them, on a GPU: some threads for a column.

Each step updates a matrix and reads it, as `S += k v.T`, `y = q S`. The next step waits for that, but one column of the
state does not wait for another one. So the loop over columns, which each statement of a step has inside, goes outside
all steps; a column of the state then stays in the registers of the threads that have it, which fold what is folded
along it together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import gcd, prod
from typing import Any

import loopir as lp

from ..common.nest_queries import (
    argument_names,
    counting_same,
    extent,
    fused,
    if_legal,
    is_serial,
    iterations,
    reads_of,
    reads_own,
    written_by,
)
from ..common.row_intermediates import own_buffers, statements_beside
from .cheapest import cheapest
from .row_threads import VECTOR_BYTES
from .scan import moved_copy

STATE_THREADS = 64
"""Of a block: few, as steps wait for one another and blocks do not."""
LANES = (1, 4, 8, 16)
"""How many threads may have a column together."""
COLUMN_BYTES = 512
"""Of the state of a column in one thread, at most: half of the registers that it may have."""
STEPS_AHEAD, BYTES_AHEAD = (1, 4, 8), 384
"""For how many steps a thread asks memory at once for what they read, and the bytes of that that it has room for."""


def has_state(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is the first of several statements of a step that waits for the one before, or the only one and
    folds what steps before have stored."""
    nest = statements_beside(s, stage)
    if not s.loops(stage) or nest[0] != stage or (len(nest) == 1 and not (s.reduced(stage) and reads_own(s, stage))):
        return False
    if not all(is_serial(s, x) for y in nest for x in s.loops(y)):
        return False
    step = _time_loop(s, nest)
    return step is not None and all(s.loops(x)[-1] != step for x in nest)


@lp.composite
def state_columns(s: lp.Schedule, stage: str, *, lanes: int = 1, ahead: int = 1) -> lp.Schedule:
    """The nest of `stage` with `lanes` threads for each column of its state, which go along all steps, and ask memory
    for what `ahead` of these read at once.

    ScheduleError where the statements have no loop that may go outside the steps, or that is too much for registers.
    """
    nest = statements_beside(s, stage)
    s, column, step = _columns_outside(s, nest)
    s, copies = _in_registers(s, nest, column, lanes)
    turn = step
    if ahead > 1:
        s, turn, step = _read_ahead(s, nest, step, lanes, ahead)
    for x in (*nest, *copies):
        s = _unrolled(s, x, (column, turn, step), lanes)
    around = s.loops(nest[0])
    s, column = fused(s, around[: around.index(column) + 1])
    s, (block, thread) = s.split(column, STATE_THREADS // lanes).with_loops
    s, block = fused(s, s.loops(nest[0])[: s.loops(nest[0]).index(block) + 1])
    s = s if turn == step else if_legal(s.unroll(step), "partition", turn)
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x" if lanes == 1 else "threadIdx.y")


def columns_of_state(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`state_columns` by as many threads for a column, and steps at once, as is predicted to be the fastest."""
    recipes = [partial(state_columns, stage=stage, lanes=n, ahead=m) for m in STEPS_AHEAD for n in LANES]
    made = cheapest(s, recipes, part=tuple(statements_beside(s, stage)))
    if made is None:
        raise lp.ScheduleError(f"the statements beside {stage} have no columns that are independent of one another")
    return made


def _time_loop(s: lp.Schedule, nest: Sequence[str]) -> str | None:
    """The outermost loop around all of `nest` whose iterations wait for one another."""
    shared = [x for x in s.loops(nest[0]) if all(x in s.loops(y) for y in nest)]
    return next((x for x in shared if s.why("parallel", x) is not None), None)


def _columns_outside(s: lp.Schedule, nest: Sequence[str]) -> tuple[lp.Schedule, str, str]:
    """The statements with a loop of theirs outside the steps, of which the iterations are independent."""
    for x in nest:
        for loop in reversed(s.loops(x)):
            s = if_legal(s, "distribute", loop)
    step = _time_loop(s, nest)
    if step is None or any(step not in s.loops(x) for x in nest):
        raise lp.ScheduleError(f"the statements beside {nest[0]} wait for no step before")
    first = s.loops(nest[0])
    for loop in reversed(first[first.index(step) + 1 :]):
        moved = _moved_outside(s, nest, step, counting_same(s, nest[0], loop, nest))
        if moved is not None:
            return moved, loop, step
    raise lp.ScheduleError(f"the statements in {step} have no loop that may go outside", loop=step)


def _moved_outside(s: lp.Schedule, nest: Sequence[str], step: str, columns: dict[str, str]) -> lp.Schedule | None:
    """The statements with their loops `columns` as one, outside `step`; None where that is refused."""
    if set(columns) != set(nest):
        return None
    for x in nest:
        inside = s.loops(x)[s.loops(x).index(step) + 1 :]
        order = (columns[x], *(y for y in inside if y != columns[x]))
        if columns[x] not in inside or (order != inside and s.why("reorder", *order) is not None):
            return None
        s = s.reorder(*order) if order != inside else s
    column = columns[nest[0]]
    for x in nest[1:]:
        if s.why("fuse_loops", column, columns[x]) is not None:
            return None
        s = s.fuse_loops(column, columns[x])
    if s.why("reorder", column, step) is not None:
        return None
    s = s.reorder(column, step)
    return s if s.why("parallel", column) is None else None


def _in_registers(s: lp.Schedule, nest: Sequence[str], column: str, lanes: int) -> tuple[lp.Schedule, list[str]]:
    """What an iteration of `column` updates of arrays, and its own intermediates, in the registers of its threads; and
    the copies of arrays to these and back."""
    given, copies = argument_names(s), list[str]()
    for buffer in dict.fromkeys(y for x in nest for y in written_by(s, x)):
        if buffer in given and s.why("cache_inplace", buffer, "local", column) is None:
            t = s.cache_inplace(buffer, "local", column)
            made = t.last.stages
            copy = next(y for x in made for y in written_by(t, x) if y not in given)
            sizes = [getattr(n, "value", None) for n in t.buffer(copy).shape]
            if None in sizes or prod(n or 0 for n in sizes) * t.buffer(copy).dtype.bytes > COLUMN_BYTES * lanes:
                continue
            s = t
            copies += [x for x in made if x not in nest]
    for buffer in own_buffers(s, nest[0]):
        for loop in s.loops(nest[0])[: s.loops(nest[0]).index(column) + 1]:
            s = if_legal(s, "privatize", buffer, loop)
        s = if_legal(s, "set_scope", buffer, "local")
    return s, copies


def _read_ahead(s: lp.Schedule, nest: Sequence[str], step: str, lanes: int, ahead: int) -> tuple[lp.Schedule, str, str]:
    """What `ahead` steps read of arrays that `nest` does not write, in the registers of the threads of a column."""
    s, (turn, step) = s.split(step, ahead).with_loops
    written = {y for x in nest for y in written_by(s, x)}
    room = BYTES_AHEAD
    for buffer in dict.fromkeys(t.buffer for x in nest for t in reads_of(s, x) if t.buffer not in written):
        s, size = _copied_ahead(s, nest, buffer, (turn, step), lanes)
        room -= size
        if room < 0:
            raise lp.ScheduleError(f"{ahead} steps read more of {buffer} and others than a thread has registers for")
    return s, turn, step


def _copied_ahead(
    s: lp.Schedule, nest: Sequence[str], buffer: str, loops: tuple[str, str], lanes: int
) -> tuple[lp.Schedule, int]:
    """A copy of what the steps of a turn, of these `loops`, read of `buffer`, and the bytes that a thread has of it;
    none where all steps read the same, or not all as much."""
    turn, step = loops
    own = {x: found for x in nest if (found := [t for t in reads_of(s, x) if t.buffer == buffer])}
    every = [t for found in own.values() for t in found]
    if all(t.invariant(step) for t in every) or s.why("cache_read", tuple(own), buffer, "local", turn) is not None:
        return s, 0
    columns = _columns_along(s, own, step)
    made, _, moved = moved_copy(s.cache_read(tuple(own), buffer, "local", turn))
    count, length = iterations(made, moved), extent(made, moved[-1])
    if count is None or length is None:
        return s, 0
    if columns != {length}:
        return _all_unrolled(made, moved), count * every[0].dtype.bytes
    if length % lanes == 0 and lanes > 1:
        made, (lane, inner) = made.split(moved[-1], length // lanes, tail="exact").with_loops
        made, moved, count = made.bind(lane, "threadIdx.x"), (*moved[:-1], inner), count // lanes
    made, moved = _copied_in_vectors(made, moved, every[0].dtype.bytes)
    return _all_unrolled(made, moved), count * every[0].dtype.bytes


def _columns_along(s: lp.Schedule, own: Mapping[str, Sequence[Any]], step: str) -> set[int | None]:
    """How long the innermost loops of the statements of `own` are; none where these are the steps themselves, or
    one of the reads does not go along."""
    inner = {x: s.loops(x)[-1] for x in own}
    if step in inner.values() or any(t.invariant(inner[x]) for x, found in own.items() for t in found):
        return set()
    return {extent(s, x) for x in inner.values()}


def _all_unrolled(s: lp.Schedule, loops: Sequence[str]) -> lp.Schedule:
    for loop in loops:
        s = if_legal(s, "unroll", loop)
    return s


def _copied_in_vectors(s: lp.Schedule, loops: tuple[str, ...], size: int) -> tuple[lp.Schedule, tuple[str, ...]]:
    """The innermost of `loops`, of a copy of elements of `size` bytes, in vectors if it is a whole number of them, and
    the loops around these."""
    count = extent(s, loops[-1]) or 1
    lanes = gcd(count, VECTOR_BYTES // size)
    if lanes == 1:
        return s, loops
    s, (vector, lane) = s.split(loops[-1], lanes, tail="exact").with_loops
    return if_legal(s, "vectorize", lane), (*loops[:-1], vector)


def _unrolled(s: lp.Schedule, stage: str, outer: Sequence[str], lanes: int) -> lp.Schedule:
    """The innermost loop of `stage`, if it runs along a column, by `lanes` threads, each of which has a run of it,
    written out, as registers have no subscripts."""
    loop = s.loops(stage)[-1]
    count = extent(s, loop)
    if loop in outer or count is None:
        return s
    if lanes > 1 and count % lanes == 0:
        s, (lane, loop) = s.split(loop, count // lanes, tail="exact").with_loops
        s = s.bind(lane, "threadIdx.x")
    return if_legal(s, "unroll", loop)
