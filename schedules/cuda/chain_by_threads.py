"""A chain of products of very few rows by the threads of a block, which has all columns of the first product.

With one row, or a few, both products are sums of rows or columns of their right operands, and what counts is to read
these once, in vectors, with many of them under way. Scores of the block's columns go through shared memory, so blocks
take so few columns that there are many blocks: the chain is one of `.chains_in_parts`.
"""

from __future__ import annotations

from math import prod

import loopir as lp

from ..common.contraction import Contraction
from ..common.nest_queries import argument_names, extent, fused, if_legal, result_of
from ..common.product_chains import require_chain, rows_in_blocks
from .row_threads import VECTOR_BYTES, WARP

CHAIN_THREADS, VECTORS_UNDER_WAY = 256, 8
"""Of a block; vectors of an operand that a thread has under way."""
FEW_ROWS = 4
"""At most: each has sums of its own in registers."""


@lp.composite
def chain_by_threads(s: lp.Schedule, *, threads: int = CHAIN_THREADS, flight: int = VECTORS_UNDER_WAY) -> lp.Schedule:
    """`s`, a chain of products of so few rows and columns that a block takes all of them, in one kernel: threads along
    rows of the right operands have a vector of these each, `flight` of them under way."""
    s, c = require_chain(s)
    rows, keys, depth, width = (extent(s, x) for x in (c.first.row, c.first.column, c.first.reduced, c.second.column))
    if c.beside:
        raise lp.ScheduleError("scores of several products are none of threads")
    if rows is None or rows > FEW_ROWS or keys is None or depth is None or width is None:
        raise lp.ScheduleError("rows are not few, or columns are not of a number that is known")
    if not c.first.right.along or c.second.right.along:
        raise lp.ScheduleError("threads do not stand side by side along rows of both right operands")
    s, block = rows_in_blocks(s, c, rows, "exact")
    around = s.loops(s.stages[-1])
    s, block = fused(s, around[: around.index(block) + 1])
    s = s.bind(block, "blockIdx.x").simplify(drop_unit_loops=True)
    size = max(t.dtype.bytes for x in (c.first, c.second) for t in s.accesses(x.stage) if t.buffer == x.right.buffer)
    vector = VECTOR_BYTES // size
    side = max(depth, width) // vector
    if depth % vector or width % vector or side > WARP:
        raise lp.ScheduleError(f"rows of {depth} and {width} elements are no vectors of {vector} for {WARP} threads")
    down = threads // side
    s = _sums_by_threads(s, c.first, block, (vector, down, flight))
    for x in (*c.before, c.fold, *c.after):
        s = _along_columns(s, x, block, side, down)
    s = _columns_by_threads(s, c.second, block, (vector, down, flight))
    s = _results_stored(s, s.stages[-1], block, vector)
    return _in_memory_of_blocks(s)


def _inside(s: lp.Schedule, stage: str, block: str) -> tuple[str, ...]:
    return s.loops(stage)[s.loops(stage).index(block) + 1 :]


def _shared_out(s: lp.Schedule, loop: str, down: int, flight: int) -> tuple[lp.Schedule, tuple[str, str, str]]:
    """`loop` in runs, one for each of the threads `down` the block, and these in runs of `flight`."""
    count = extent(s, loop) or 0
    s, (thread, rest) = s.split(loop, -(-count // (down * flight)) * flight).with_loops
    s, (turn, rest) = s.split(rest, flight, tail="exact").with_loops
    return s.bind(thread, "threadIdx.y"), (thread, turn, rest)


def _sums_by_threads(s: lp.Schedule, c: Contraction, block: str, sizes: tuple[int, int, int]) -> lp.Schedule:
    """The first product: threads side by side fold an element together."""
    vector, down, flight = sizes
    *rows, y, e = _inside(s, c.stage, block)
    s, (thread, turn, y) = _shared_out(s, y, down, flight)
    s, (lane, e) = s.split(e, vector, tail="exact").with_loops
    s = s.reorder(thread, lane, turn, y, *rows, e).bind(lane, "threadIdx.x")
    for x in (e, *rows, y):
        s = s.unroll(x)
    s = _read_in_vectors(s, c.stage, c.right.buffer, turn)
    return _read_in_vectors(s, c.stage, c.left.buffer, lane)


def _columns_by_threads(s: lp.Schedule, c: Contraction, block: str, sizes: tuple[int, int, int]) -> lp.Schedule:
    """The second product: threads side by side have columns each, and those one below the other fold them together."""
    vector, down, flight = sizes
    *rows, e, y = _inside(s, c.stage, block)
    s, (lane, e) = s.split(e, vector, tail="exact").with_loops
    s, (thread, turn, y) = _shared_out(s, y, down, flight)
    s = s.reorder(lane, thread, turn, y, *rows, e)
    s, new = s.cache_write(c.stage, "local", at=lane).with_stage
    fold = next(x for x in (c.stage, new) if s.reduced(x))
    s = s.bind(lane, "threadIdx.x")
    for x in (e, *rows, y):
        s = s.unroll(x)
    return _read_in_vectors(s, fold, c.right.buffer, turn)


def _read_in_vectors(s: lp.Schedule, stage: str, buffer: str, at: str) -> lp.Schedule:
    """What an iteration of `at` reads of `buffer`, copied to registers in vectors first, also of rows that indices in
    memory select."""
    if s.why("cache_read", stage, buffer, "local", at) is None:
        s, copy = s.cache_read(stage, buffer, "local", at).with_stage
    else:
        (read,) = (t for t in s.accesses(stage) if t.buffer == buffer)
        s, copy = s.reindex(stage, buffer, *(x for x in s.loops(stage) if not read.invariant(x))).with_stage
        s = s.compute_at(copy, at).simplify(drop_unit_loops=True)
        s = s.set_scope(result_of(s, copy), "local")
    *rows, last = _inside(s, copy, at)
    for x in rows:
        s = s.unroll(x)
    return s.vectorize(last)


def _along_columns(s: lp.Schedule, stage: str, block: str, side: int, down: int) -> lp.Schedule:
    """What is made of scores, or folded over them, by all threads."""
    y = _inside(s, stage, block)[-1]
    s, (turn, y) = s.split(y, side * down).with_loops
    s, (thread, lane) = s.split(y, side, tail="exact").with_loops
    return if_legal(s.bind(thread, "threadIdx.y").bind(lane, "threadIdx.x"), "unroll", turn)


def _results_stored(s: lp.Schedule, stage: str, block: str, vector: int) -> lp.Schedule:
    """Results of columns by the threads that have these; what there is one of a row by one thread."""
    loops = _inside(s, stage, block)
    if not loops or extent(s, loops[-1]) is None or s.why("split", loops[-1], vector, tail="exact") is not None:
        return s
    s, (lane, e) = s.split(loops[-1], vector, tail="exact").with_loops
    return s.bind(lane, "threadIdx.x").vectorize(e)


def _in_memory_of_blocks(s: lp.Schedule) -> lp.Schedule:
    """What a row has one of in registers of all threads, and all else in the block's shared memory."""
    results = argument_names(s)
    for x in s.stages:
        for t in (t for t in s.accesses(x) if t.write and t.buffer not in results):
            if s.buffer(t.buffer).scope == "global":
                one = prod(getattr(n, "value", 0) for n in s.buffer(t.buffer).shape) <= FEW_ROWS
                s = s.set_scope(t.buffer, "local" if one else "shared")
    return s
