"""Nests of several statements under one independent loop, in steps that depend on one another: a block an iteration.

A sorting network, an elimination or a time loop of each row of a batch: the threads of a block take the innermost
loops side by side, each with what it folds itself, and wait for one another between steps. Intermediates of a row lie
in the block's shared memory, where they fit.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import prod

import loopir as lp

from ..common.nest_queries import argument_names, extent, if_legal, one_nest, written_by
from ..common.row_intermediates import own_buffers, statements_beside, with_own_rows
from .cheapest import cheapest
from .row_threads import WARP

MOST_THREADS = 1024
"""Threads of a block at most, where a processor has one block at most and its threads alone hide its latency."""


def in_steps(s: lp.Schedule, stage: str) -> bool:
    """Whether the nest of `stage` has several statements under an independent loop, and a loop of steps in it."""
    if one_nest(s, stage) or not s.loops(stage) or s.loop(s.loops(stage)[0]).kind != "serial":
        return False
    nest = statements_beside(s, stage)
    around = dict.fromkeys(x for y in nest for x in _outside_folds(s, y)[1:-1])
    return (
        all(len(s.loops(x)) > 1 for x in nest)
        and all(x in around or s.why("parallel", x) is None for x in (_outside_folds(s, y)[-1] for y in nest))
        and any(s.loops(like=x, carried=True) for x in around)
        and s.why("bind", s.loops(stage)[0], "blockIdx.x") is None
    )


def leads_steps(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is the first statement of a nest that is `in_steps`: its others would be told the same."""
    return not one_nest(s, stage) and statements_beside(s, stage)[0] == stage and in_steps(s, stage)


@lp.composite
def own_intermediates(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The nest of `stage` with a row of its intermediates for each iteration of its outermost loop, and no more.

    ScheduleError where it has none, or a block's shared memory does not hold them.
    """
    return with_own_rows(s, stage, lp.machine().shared_per_block)


@lp.composite
def steps_in_blocks(s: lp.Schedule, stage: str, *, threads: int = 256, keep: bool = False) -> lp.Schedule:
    """The nest of `stage` with a block for each iteration of its outermost loop, and at most `threads` threads for the
    innermost loops, in whole warps, or as many as there are where blocks are few; its own intermediates lie in shared
    memory, and with `keep` arrays that an iteration updates do meanwhile, too. ScheduleError if one of the loops cannot
    be on threads."""
    rows, own = s.loops(stage)[0], own_buffers(s, stage)
    s = _in_shared_memory(s, stage, rows) if keep else s
    nest = statements_beside(s, stage)
    inner = dict.fromkeys(x for y in nest if (x := _outside_folds(s, y)[-1]) in _free(s, y))
    met = Counter(x for y in nest for x in s.loops(y))  # threads meet between the statements of a loop of several
    pairs = ((y, *_outside_folds(s, y)[-2:]) for y in nest)
    outer = dict.fromkeys(x for y, x, z in pairs if z in inner and met[x] == 1 and x in _free(s, y))
    longest = max((_longest(s, x) or threads for x in inner), default=threads)
    few = lp.machine().processors
    most = threads if (extent(s, rows) or few) >= few else MOST_THREADS
    width = min(most, -(-longest // WARP) * WARP)
    s = s.bind(rows, "blockIdx.x")
    for loops, count, axis in ((inner, width, "threadIdx.x"), (outer, most // width, "threadIdx.y")):
        for loop in loops if count > 1 else ():
            s, (_, thread) = s.split(loop, count).with_loops
            s = s.bind(thread, axis)
    for buffer in own:
        s = if_legal(s, "set_scope", buffer, "shared")
    return s


def cheapest_steps(threads: int, s: lp.Schedule, stage: str) -> lp.Schedule:
    """`steps_in_blocks` with what steps update in shared memory, or in place, whichever is predicted to be faster."""
    recipes = [partial(steps_in_blocks, stage=stage, threads=threads, keep=x) for x in (False, True)]
    made = cheapest(s, recipes, part=tuple(statements_beside(s, stage)))
    if made is None:
        raise lp.ScheduleError(f"the steps of {stage} have no loops for the threads of a block")
    return made


def _in_shared_memory(s: lp.Schedule, stage: str, rows: str) -> lp.Schedule:
    """The part of each array that an iteration of `rows` updates in shared memory, where it fits."""
    given, room = argument_names(s), lp.machine().shared_per_block
    found = dict.fromkeys(x for y in statements_beside(s, stage) for x in written_by(s, y) if x in given)
    for buffer in found:
        if s.why("cache_inplace", buffer, "shared", rows) is None:
            t = s.cache_inplace(buffer, "shared", rows)
            copy = next(x for y in t.last.stages for x in written_by(t, y) if x not in given)
            sizes = [getattr(n, "value", None) for n in t.buffer(copy).shape]
            taken = prod(n or room for n in sizes) * t.buffer(copy).dtype.bytes
            if taken <= room:
                s, room = t, room - taken
                odd = f"lambda i, j: i * {(sizes[-1] or 0) | 1} + j"  # columns in banks of their own
                s = if_legal(s, "set_layout", copy, odd) if len(sizes) == 2 else s
    if not room < lp.machine().shared_per_block:
        raise lp.ScheduleError(f"an iteration of {rows} updates no array that shared memory holds", loop=rows)
    return s


def _free(s: lp.Schedule, stage: str) -> list[str]:
    """The loops of `stage` inside the outermost one whose iterations are independent."""
    return [x for x in s.loops(stage)[1:] if s.why("parallel", x) is None]


def _outside_folds(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """The loops of `stage` without the innermost ones that it folds over, which are a thread's, if any of a row's are
    outside of them."""
    loops, own = s.loops(stage), s.reduced(stage)
    while len(loops) > 2 and loops[-1] in own and loops[-2] != loops[0]:
        loops = loops[:-1]
    return loops


def _longest(s: lp.Schedule, loop: str) -> int | None:
    """How many iterations `loop` has at most: those of the rectangle around it where it is a side of a triangle."""
    count = extent(s, loop)
    return extent(s.rectangularize(loop), loop) if count is None and s.why("rectangularize", loop) is None else count
