"""Folds of few elements on a GPU, each in the registers of one thread: pooling, windows, depthwise convolutions.

A fold of a few dozen elements gives the threads of a block nothing to share. A thread makes several results that lie
side by side, with all folded loops unrolled: what neighbouring results read in common is loaded once, as the compiler
finds loads of one address within a thread, and what neighbouring threads read in common comes from the first cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import loopir as lp

from ..common.nest_queries import (
    argument_names,
    extent,
    fold_made,
    free_loops,
    fused,
    if_legal,
    iterations,
    one_nest,
    reader,
    reads_of,
    result_of,
    spatial_loops,
    written_by,
)
from ..common.products import filled
from .cheapest import cheapest
from .elementwise import by_element
from .reduction import reduction, streamed, streams
from .row_blocks import row_blocks
from .row_threads import VECTOR_BYTES

MOST_TERMS = 64
"""Elements that a fold has, at most."""
MOST_STATEMENTS = 512
"""Terms that a thread adds up, at most: each is an instruction or more, as all loops are unrolled."""
MOST_RESULTS, MOST_ROWS = 8, 4
"""Results of a thread along the innermost loop, and rows of them, at most."""
MOST_REGISTERS = 96
"""Registers that a thread keeps inputs and results in, at most: more, and too few threads fit a processor."""
MANY_TERMS, MOST_AT_ONCE = 6, 36
"""Terms from which on windows may be gone through line by line, and up to which they may be all at once."""
LINE_ROWS, LOST, FULL = (8, 4, 2), 1.2, 4
"""How many results a thread makes then along windows that overlap, the most that can be; how many times as many as
there are these may be; and what part of the threads that a GPU holds are enough for it."""
TERMS_AT_ONCE = 4
"""Elements that a thread folds at once, of those that are too many to be spelled out."""
MIN_RESULTS_PER_COPY = 128
"""How many times as many results there are as elements of an operand that is copied for them."""
MIN_VECTOR_BYTES = 8
"""Bytes of a vector that is worth a load of its own."""
SECTOR = 32
"""Bytes that caches fetch together, at least."""
TILED = 16
"""How long two loops are at least, over each of which one operand is used again: tiles of a product pay then."""


def short_fold(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds a known number of elements, few enough for the registers of a thread, of given arrays.

    Not where it is a product of two operands that are both used again, but by a matrix of a few rows and columns:
    tiles serve others better.
    """
    over, free, reads = s.reduced(stage), spatial_loops(s, stage), reads_of(s, stage)
    terms = iterations(s, over) if over else None
    if not free or terms is None or terms > MOST_TERMS or not one_nest(s, stage):
        return False
    folded = set[str]().union(*(written_by(s, x) for x in s.stages if s.reduced(x)))
    if any(t.buffer in folded for t in reads):
        return False
    shortest = _shortest_reused(s, free, reads)
    return shortest < TILED and (shortest == 1 or terms < TILED)


def _shortest_reused(s: lp.Schedule, free: Sequence[str], reads: Sequence[Any]) -> int:
    """How long the shorter one is, at least, of two of the loops `free` over each of which another one of `reads` is
    used again; 1 where there are no such loops."""
    again = {x for x in free if (extent(s, x) or TILED) > 1 and any(t.invariant(x) for t in reads)}
    pairs = ((x, y) for x in again for y in again for t in reads for u in reads
             if t.invariant(x) and u.invariant(y) and not t.invariant(y) and not u.invariant(x))  # fmt: skip
    return min((min(extent(s, x) or TILED, extent(s, y) or TILED) for x, y in pairs), default=1)


@lp.composite
def short_folds(
    s: lp.Schedule, stage: str, *, threads: int = 256, results: int | None = None, rows: int | None = None
) -> lp.Schedule:
    """`s` with the fold `stage`, and the stage that alone reads it element by element, by threads of several results.

    Unless told, a thread makes `results` along the innermost loop, and `rows` of them along a loop over which windows
    overlap, as many as registers hold and as leave threads enough for a GPU. What it reads in common is moved into
    registers first. Raises ScheduleError where `stage` folds too much or its results depend on each other.
    """
    if not short_fold(s, stage):
        raise lp.ScheduleError(f"{stage} does not fold a known, small number of elements")
    last = _last(s, stage)
    loops = free_loops(s, last)
    if not loops or set(s.loops(last)) - {*loops, *s.reduced(last)}:
        raise lp.ScheduleError(f"{last} has loops that depend on each other")
    s = _side_by_side(s, stage)
    terms = prod(extent(s, x) or 1 for x in s.reduced(stage))
    total = iterations(s, loops)
    machine = lp.machine()  # fewer results a thread where not as many threads are left as run at once
    share = total // (machine.processors * machine.threads_per_processor) if total is not None else MOST_STATEMENTS
    most = max(1, min(MOST_STATEMENTS // terms, share))
    recipes = [partial(_in_one, stage=stage, last=last, loops=loops, most=most, given=(results, rows), threads=threads)]
    if not results and not rows:
        recipes = _recipes_of_terms(s, stage, last, loops, recipes, terms, max(1, FULL * share), threads)
    made = cheapest(s, recipes) if len(recipes) > 1 else recipes[0](s)
    if made is None:
        raise lp.ScheduleError(f"{stage} is not taken by threads of several results")
    return made


def _recipes_of_terms(
    s: lp.Schedule, stage: str, last: str, loops: Sequence[str], plain: list[Any], terms: int, share: int, threads: int
) -> list[Any]:
    """The recipes for a fold of so many `terms`, of which those that are `plain` spell out all of it."""
    recipes = [*plain]
    lines = _lines_tile(s, stage, last, loops, share)
    if lines is not None and terms >= MANY_TERMS:
        tile, kept = lines
        by_lines = partial(_by_threads, stage=stage, last=last, tile=tile, threads=threads, kept=kept)
        recipes = [by_lines] if terms > MOST_AT_ONCE else [*recipes, by_lines]
    if terms > MOST_AT_ONCE and has_steps(s, stage):
        recipes.append(partial(folds_in_steps, stage=stage, threads=threads))
    if reads_long_rows(s, stage):
        recipes.append(partial(_rows_by_several, stage=stage, last=last))
    return recipes


def has_steps(s: lp.Schedule, stage: str) -> bool:
    """Whether `folds_in_steps` may take `stage`: it reads vectors along its results, and what it multiplies these with
    is the same for all results of a vector, as in products of vectors with a matrix that is picked for each."""
    over, free, reads = s.reduced(stage), spatial_loops(s, stage), reads_of(s, stage)
    if not over or not free or not one_nest(s, stage) or iterations(s, s.loops(stage)) is None:
        return False
    vectors = [t for t in reads if t.contiguous(free[-1]) and not t.invariant(over[-1])]
    return bool(vectors) and any(t.invariant(free[-1]) and not t.invariant(over[-1]) for t in reads)


@lp.composite
def folds_in_steps(s: lp.Schedule, stage: str, *, threads: int = 256) -> lp.Schedule:
    """`s` with the fold `stage`, and the stage that alone reads it element by element, by threads of a vector of
    results each, which fold `TERMS_AT_ONCE` elements at once: these are in registers, and are read as vectors.
    ScheduleError where there are no vectors, or results depend on each other."""
    last = _last(s, stage)
    loops = free_loops(s, last)
    if not has_steps(s, stage) or not loops or set(s.loops(last)) - {*loops, *s.reduced(last)}:
        raise lp.ScheduleError(f"{stage} folds no vectors of independent results")
    inner, fold = spatial_loops(s, stage)[-1], s.reduced(stage)[-1]
    widest = max(t.dtype.bytes for t in reads_of(s, stage) if t.contiguous(inner))
    width = _largest_divisor(extent(s, loops[-1]), VECTOR_BYTES // widest)
    step = _largest_divisor(extent(s, fold), TERMS_AT_ONCE)
    if width == 1 or step == 1:
        raise lp.ScheduleError(f"{stage} has neither whole vectors of results nor several elements to fold at once")
    s, (_, one) = s.split(fold, step).with_loops
    kept = [x for x in s.reduced(stage) if x != one]
    return _by_threads(s, stage, last, {loops[-1]: width}, threads, kept)


def reads_long_rows(s: lp.Schedule, stage: str) -> bool:
    """Whether each fold of `stage` reads a run of memory of its own that is longer than a sector.

    The threads of a warp read as many sectors at once then, if each has a fold; threads that fold together read one.
    """
    inner = s.reduced(stage)[-1:]
    runs = [t for t in streamed(s, stage) if inner and t.contiguous(inner[0])]
    return streams(s, stage) and any((extent(s, inner[0]) or 0) * t.dtype.bytes > SECTOR for t in runs)


def _rows_by_several(s: lp.Schedule, stage: str, last: str) -> lp.Schedule:
    """`stage` by threads that fold together, and `last` where its results are, which takes the whole program."""
    if last == stage:
        return reduction(s, stage)
    if {*s.stages} != {stage, last}:
        raise lp.ScheduleError(f"other stages stand beside {stage} and {last}")
    return row_blocks(s)


def _in_one(
    s: lp.Schedule, stage: str, last: str, loops: Sequence[str], most: int, given: tuple[int | None, int | None],
    threads: int,
) -> lp.Schedule:  # fmt: skip
    """All that a thread folds spelled out at once: as many results as registers hold, at most so many."""
    results, rows = given
    while True:
        made = _by_threads(s, stage, last, _tile(s, stage, last, loops, most, results, rows), threads)
        if _local_registers(made) <= MOST_REGISTERS or most <= 1 or results or rows:
            return made
        most //= 2


def _lines_tile(
    s: lp.Schedule, stage: str, last: str, loops: Sequence[str], share: int
) -> tuple[dict[str, int], tuple[str, ...]] | None:
    """A tile of results whose windows overlap along one loop, and the folded loops that are gone through outside of it:
    all but the one along which windows slide, so that a thread has but a line of each at a time.

    Neighbouring threads read neighbours: the loop is not the innermost one, but where results are not vectors. None if
    there is no such loop, or several results along it are too many.
    """
    own = spatial_loops(s, stage)
    inner = loops[-1]
    widths = _line_widths(s, stage, last, inner)
    found: list[tuple[int, int, str, tuple[str, ...]]] = []
    for loop, x in zip(loops[:-1], own[:-1], strict=False):
        slide, length = _slides(s, stage, x), extent(s, loop) or 0
        kept = tuple(r for r in s.reduced(stage) if r not in slide)
        most = min(share, MOST_STATEMENTS // prod(extent(s, r) or 1 for r in slide))
        rows = [n for n in LINE_ROWS if slide and kept and -(-length // n) * n <= LOST * length]
        found += [(n, width, loop, kept) for n in rows for width in widths if n * width <= most]
    if not found:
        return None
    rows, width, loop, kept = max(found, key=lambda x: x[:2])
    return {loop: rows, inner: width} if width > 1 else {loop: rows}, kept


def _line_widths(s: lp.Schedule, stage: str, last: str, inner: str) -> list[int]:
    """How many elements along `inner` a thread may have: a vector at most, and one where windows overlap there."""
    given = argument_names(s)
    touched = [*s.accesses(stage), *s.accesses(last)]
    widest = max(t.dtype.bytes for t in [t for t in touched if t.buffer in given] or touched)
    own = spatial_loops(s, stage)
    vector = 1 if _slides(s, stage, own[-1]) else VECTOR_BYTES // widest
    return [n for n in range(vector, 0, -1) if (extent(s, inner) or 0) % n == 0]


def _local_registers(s: lp.Schedule) -> int:
    """Registers that the arrays of a thread fill."""
    local = [s.buffer(b) for b in s.buffers if s.buffer(b).scope == "local"]
    return sum(-(-prod(getattr(d, "value", 1) for d in b.shape) * b.dtype.bytes // 4) for b in local)


def _by_threads(
    s: lp.Schedule, stage: str, last: str, tile: Mapping[str, int], threads: int, kept: Sequence[str] = ()
) -> lp.Schedule:
    """`stage` and `last` by threads that have a `tile` of results each, and go through the folded loops that are `kept`
    one iteration after the other."""
    inside: list[str] = []
    for loop, size in tile.items():
        s, (_, part) = s.split(loop, size).with_loops
        inside.append(part)
    outer = [x for x in s.loops(last) if x not in inside and x not in s.reduced(last)]
    s = s.reorder(*outer, *inside, *s.reduced(last)) if inside else s
    s, flat = fused(s, outer)
    s, (block, thread) = s.split(flat, threads).with_loops
    if last != stage:
        s, fold = s.compute_at(stage, thread), stage
        s = s.set_scope(result_of(s, stage), "local")
    else:
        s = s.cache_write(stage, "local", thread)
        fold = fold_made(s)
    s = s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")
    home = thread
    if kept:
        own = s.loops(fold)[s.loops(fold).index(thread) + 1 :]
        here = [x for x in own if x in kept]
        s = s.reorder(*here, *(x for x in own if x not in kept))
        home = here[-1]
    s = _in_registers(s, fold, home)
    for each in s.stages:
        if thread in s.loops(each):
            for n, loop in enumerate(reversed(s.loops(each)[s.loops(each).index(thread) + 1 :])):
                s = s if loop in kept else _spelled_out(s, each, loop, n == 0 and each != fold)
    return s


def _last(s: lp.Schedule, stage: str) -> str:
    """What is made of the results of `stage`, one by one, or `stage` itself."""
    after = reader(s, stage)
    if after is None or s.reduced(after) or len(s.loops(after)) != len(s.loops(stage)) - len(s.reduced(stage)):
        return stage
    return after if one_nest(s, after) else stage


def _side_by_side(s: lp.Schedule, stage: str) -> lp.Schedule:
    """Small operands that the innermost loop strides through copied first, so that it runs along the copy."""
    inner = spatial_loops(s, stage)[-1]
    results = iterations(s, spatial_loops(s, stage))
    for t in s.accesses(stage):
        if t.write or t.invariant(inner) or t.contiguous(inner):
            continue
        if _constant_stride(t.strides.get(inner)) * t.dtype.bytes % MIN_VECTOR_BYTES == 0:
            continue  # what a result takes of it is whole vectors already
        on = [x for x in s.loops(stage) if not t.invariant(x)]
        size = iterations(s, on)
        if results is None or size is None or size * MIN_RESULTS_PER_COPY > results:
            continue
        order = (*(x for x in on if x != inner), inner)
        if s.why("reindex", stage, t.buffer, *order) is None:
            s = s.reindex(stage, t.buffer, *order)
            s = by_element(s, s.last.stages[0])
    return s


def _tile(
    s: lp.Schedule, stage: str, last: str, loops: Sequence[str], most: int, results: int | None, rows: int | None
) -> dict[str, int]:
    """How many iterations of which `loops` of `last` a thread takes, at most `most`; the innermost comes last."""
    own = spatial_loops(s, stage)
    widest = max(t.dtype.bytes for t in s.accesses(last))
    most_inside = results or min(most, MOST_RESULTS if _slides(s, stage, own[-1]) else VECTOR_BYTES // widest)
    inner = _largest_divisor(extent(s, loops[-1]), most_inside)
    tile = {loops[-1]: inner} if inner > 1 else {}
    across = [n for n, x in enumerate(own[:-1]) if _slides(s, stage, x)]
    if across and (rows or most // inner) > 1:
        high = _largest_divisor(extent(s, loops[across[-1]]), rows or min(MOST_ROWS, most // inner))
        tile = {loops[across[-1]]: high, **tile} if high > 1 else tile
    return tile


def _largest_divisor(length: int | None, most: int) -> int:
    """The largest divisor of `length` that is at most `most`; 1 where the length is not known."""
    return next((n for n in range(most, 1, -1) if length is not None and length % n == 0), 1)


def _slides(s: lp.Schedule, stage: str, loop: str) -> tuple[str, ...]:
    """The folded loops along which the window of an iteration of `loop` overlaps that of the next one."""
    found: list[str] = []
    for t in s.accesses(stage):
        step_ = _constant_stride(t.strides.get(loop))
        if not t.write and step_:
            for x in s.reduced(stage):
                along = _constant_stride(t.strides.get(x))
                if along and step_ % along == 0 and step_ // along < (extent(s, x) or 0):
                    found.append(x)
    return tuple(x for x in s.reduced(stage) if x in found)


def _constant_stride(stride: object) -> int:
    return getattr(stride, "value", 0)


def _in_registers(s: lp.Schedule, stage: str, at: str) -> lp.Schedule:
    """What a thread reads in an iteration of `at` moved into registers first, where that is known, and the borders
    filled up there."""
    for border in reversed(filled(s, (stage,))):
        if s.why("compute_at", border, at) is None:
            s = s.compute_at(border, at)
            s = s.set_scope(result_of(s, border), "local")
    for buffer in sorted({t.buffer for t in s.accesses(stage) if not t.write and s.buffer(t.buffer).scope == "global"}):
        if s.why("cache_read", stage, buffer, "local", at) is not None:
            continue
        made, copied = s.cache_read(stage, buffer, "local", at).with_loops
        count = iterations(made, copied)
        size = None if count is None else -(-count * s.buffer(buffer).dtype.bytes // 4)
        if copied and size is not None and size <= MOST_REGISTERS:  # what is gathered may come from anywhere
            s = made
    return if_legal(s, "pad", stage)


def _spelled_out(s: lp.Schedule, stage: str, loop: str, moves: bool) -> lp.Schedule:
    """`loop` as a vector where `stage` only moves elements and their number fills one, else unrolled."""
    if moves and s.why("vectorize", loop) is None and (extent(s, loop) or 3) in (2, 4, 8):
        widest = max(t.dtype.bytes for t in s.accesses(stage))
        runs = all(
            t.contiguous(loop) or t.invariant(loop) or s.buffer(t.buffer).scope == "local" for t in s.accesses(stage)
        )
        if runs and widest * (extent(s, loop) or 0) <= 2 * VECTOR_BYTES:
            return s.vectorize(loop)
    return s.unroll(loop) if s.loop(loop).kind == "serial" else s
