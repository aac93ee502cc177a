"""Steps along time of a state of several columns, as linear attention has them, on a GPU: some threads for a column.

Each step updates a matrix and reads it, as `S += k v.T`, `y = q S`. The next step waits for that, but one column of the
state does not wait for another one. So the loop over columns, which each statement of a step has inside, goes outside
all steps; a column of the state then stays in the registers of the threads that have it, which fold what is folded
along it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import loopir as lp

from ..common.nest_queries import (
    argument_names,
    counting_same,
    extent,
    fused,
    if_legal,
    is_serial,
    reads_own,
    written_by,
)
from ..common.row_intermediates import own_buffers, statements_beside
from .cheapest import cheapest

STATE_THREADS = 64
"""Of a block: few, as steps wait for one another and blocks do not."""
LANES = (1, 4, 8, 16)
"""How many threads may have a column together."""
COLUMN_BYTES = 512
"""Of the state of a column in one thread, at most: half of the registers that it may have."""


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
def state_columns(s: lp.Schedule, stage: str, *, lanes: int = 1) -> lp.Schedule:
    """The nest of `stage` with `lanes` threads for each column of its state, which go along all steps.

    ScheduleError where the statements have no loop that may go outside the steps.
    """
    nest = statements_beside(s, stage)
    s, column, step = _columns_outside(s, nest)
    s, copies = _in_registers(s, nest, column, lanes)
    for x in (*nest, *copies):
        s = _unrolled(s, x, (column, step), lanes)
    around = s.loops(nest[0])
    s, column = fused(s, around[: around.index(column) + 1])
    s, (block, thread) = s.split(column, STATE_THREADS // lanes).with_loops
    s, block = fused(s, s.loops(nest[0])[: s.loops(nest[0]).index(block) + 1])
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x" if lanes == 1 else "threadIdx.y")


def columns_of_state(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`state_columns` by as many threads for a column as is predicted to be the fastest."""
    recipes = [partial(state_columns, stage=stage, lanes=n) for n in LANES]
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
