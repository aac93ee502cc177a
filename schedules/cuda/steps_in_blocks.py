"""Nests of several statements under one independent loop, in steps that depend on one another: a block an iteration.

A sorting network, an elimination or a time loop of each row of a batch: the threads of a block take the innermost
loops side by side, and wait for one another between steps. Intermediates of a row lie in the block's shared memory,
where they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import loopir as lp

from ..common.nest_queries import argument_names, extent, if_legal, one_nest
from .row_threads import WARP

MOST_THREADS = 1024
"""Threads of a block at most, where a processor has one block at most and its threads alone hide its latency."""


def in_steps(s: lp.Schedule, stage: str) -> bool:
    """Whether the nest of `stage` has several statements under an independent loop, and a loop of steps in it."""
    if one_nest(s, stage) or not s.loops(stage) or s.loop(s.loops(stage)[0]).kind != "serial":
        return False
    nest = _statements_beside(s, stage)
    around = dict.fromkeys(x for y in nest for x in s.loops(y)[1:-1])
    return (
        all(len(s.loops(x)) > 1 and s.why("parallel", s.loops(x)[-1]) is None for x in nest)
        and any(s.why("parallel", x) is not None for x in around)
        and s.why("bind", s.loops(stage)[0], "blockIdx.x") is None
    )


@lp.composite
def own_intermediates(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The nest of `stage` with a row of its intermediates for each iteration of its outermost loop, and no more.

    ScheduleError where it has none, or a block's shared memory does not hold them.
    """
    loop = s.loops(stage)[0]
    dims = {x: _dim_along(s, stage, x, loop) for x in _own_buffers(s, stage)}
    rows = [_bytes_without(s, x, d) for x, d in dims.items()]
    if not rows or sum(rows) > lp.machine().shared_per_block:
        raise lp.ScheduleError(f"{loop} has no intermediates, or more of them than a block's shared memory holds")
    for buffer, dim in dims.items():
        s = s.privatize(buffer, loop).fold_storage(buffer, dim, 1)
    return s


@lp.composite
def steps_in_blocks(s: lp.Schedule, stage: str, *, threads: int = 256) -> lp.Schedule:
    """The nest of `stage` with a block for each iteration of its outermost loop, and at most `threads` threads for the
    innermost loops, in whole warps, or as many as there are where blocks are few; its own intermediates lie in shared
    memory. ScheduleError if one of the loops cannot be on threads."""
    rows, own = s.loops(stage)[0], _own_buffers(s, stage)
    inner = dict.fromkeys(s.loops(x)[-1] for x in _statements_beside(s, stage))
    longest = max((extent(s, x) or threads for x in inner), default=threads)
    few = lp.machine().processors
    most = threads if (extent(s, rows) or few) >= few else MOST_THREADS
    width = min(most, -(-longest // WARP) * WARP)
    s = s.bind(rows, "blockIdx.x")
    for loop in inner:
        s, (_, thread) = s.split(loop, width).with_loops
        s = s.bind(thread, "threadIdx.x")
    for buffer in own:
        s = if_legal(s, "set_scope", buffer, "shared")
    return s


def _statements_beside(s: lp.Schedule, stage: str) -> Sequence[str]:
    """The statements in the outermost loop of `stage`."""
    return [x for x in s.stages if s.loops(x)[:1] == s.loops(stage)[:1]]


def _own_buffers(s: lp.Schedule, stage: str) -> list[str]:
    """The intermediates that no statement outside the outermost loop of `stage` touches."""
    nest = _statements_beside(s, stage)
    others = argument_names(s) | {t.buffer for x in s.stages if x not in nest for t in s.accesses(x)}
    return [x for x in dict.fromkeys(t.buffer for y in nest for t in s.accesses(y)) if x not in others]


def _dim_along(s: lp.Schedule, stage: str, buffer: str, loop: str) -> int:
    """The dimension of `buffer` that all accesses in the nest of `stage` index by `loop`."""
    found = [t.subscripts for x in _statements_beside(s, stage) for t in s.accesses(x) if t.buffer == buffer]
    dim = next((d for d in range(len(found[0])) if all(at[d] == loop for at in found)), None)
    if dim is None:
        raise lp.ScheduleError(f"no dimension of {buffer} is indexed by {loop} alone")
    return dim


def _bytes_without(s: lp.Schedule, buffer: str, dim: int) -> int:
    """Bytes of `buffer` at one index of dimension `dim`."""
    b = s.buffer(buffer)
    sizes = [getattr(n, "value", None) for d, n in enumerate(b.shape) if d != dim]
    known = [n for n in sizes if n is not None]
    if len(known) < len(sizes):
        raise lp.ScheduleError(f"the size of {buffer} is not known")
    return prod(known) * b.dtype.bytes
