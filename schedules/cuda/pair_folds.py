"""Folds over pairs on a GPU: each row meets all columns, and what is made of a pair depends on both.

Nearest neighbours, pairwise forces and kernel sums are of this kind. A block's threads stand along rows, each with
several of them in registers, and along parts of the columns, which they fold together at the end. What is folded of a
pair first, as a distance is over its coordinates, stays in a register, so that no matrix of pairs is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from typing import Any

import loopir as lp

from ..common.contraction import contraction
from ..common.fusion import epilogue
from ..common.nest_queries import (
    batched,
    extent,
    fold_made,
    free_loops,
    if_legal,
    iterations,
    one_nest,
    reader,
    reads_of,
    result_of,
    spatial_loops,
    written_by,
)
from .cheapest import cheapest
from .matmul_mma import aligned_vector, rounded
from .reduction import reduction

THREADS, SIDES = 512, (32, 16, 8)
"""Threads of a block, and how many of them stand along rows: the rest are parts of the columns."""
MOST_ROWS, MOST_COLUMNS = 8, 4
"""Rows of a thread, and columns that it goes through at once, at most."""
MOST_REGISTERS = 100
"""What a thread keeps of rows, columns and results, at most, of the 128 registers that it has where a processor holds
a block of THREADS: the others take addresses and what is computed."""
MOST_TERMS, MOST_FLOAT_TERMS, MOST_INSIDE = 16, 32, 8
"""Elements that are folded of a pair first, at most; of float32, of which tensor cores take no products; and results
that a pair adds to."""
ALONE = 128
"""Threads of a small block, which may all stand along rows, each with all columns, where rows are many."""
VECTOR = 4
"""Elements that a thread loads together, where a row or a column is made of these."""
FEWEST = 64
"""Rows and columns, at least: fewer are no work for threads along both."""


@dataclass(frozen=True)
class PairFold:
    """The loops of a fold over pairs: of its batch, over rows, over results of a row, and over columns; and the stages
    that fold something of each pair for it alone."""

    batch: tuple[str, ...]
    row: str
    inside: tuple[str, ...]
    column: str
    made: tuple[str, ...]


def pair_fold(s: lp.Schedule, stage: str) -> PairFold | None:
    """How `stage` folds pairs of rows and columns of known numbers; None where it does not.

    Each of its loads, and of those of the short folds that it alone reads, belongs to rows or to columns; what belongs
    to both would be loaded once for each pair. A row may also be a number alone, as that of a class or a bin.
    """
    over, free = s.reduced(stage), spatial_loops(s, stage)
    if not _is_known(s, stage) or (extent(s, over[0]) or 0) < FEWEST:
        return None
    made = tuple(x for x in _folds_for(s, stage) if _is_of_pairs(s, x, stage, over[0]))
    rows = _row_loops(s, stage, over[0], made)
    if not rows:
        return None
    row = max(rows, key=lambda x: (extent(s, x) or 0, x))
    others = [x for x in free if x != row]
    inside = tuple(x for x in others if any(t.invariant(x) for t in reads_of(s, stage)))
    while (iterations(s, inside) or 0) > MOST_INSIDE:
        inside = inside[1:]
    batch = tuple(x for x in others if x not in inside)
    if batch != tuple(free[: len(batch)]):
        return None
    return PairFold(batch, row, inside, over[0], made)


def _folds_for(s: lp.Schedule, stage: str) -> tuple[str, ...]:
    """The stages that fold something that `stage` alone reads."""
    read = {t.buffer for t in reads_of(s, stage)}
    folds = (x for x in s.stages if s.reduced(x) and not read.isdisjoint(written_by(s, x)))
    return tuple(x for x in folds if reader(s, x) == stage)


def _is_of_pairs(s: lp.Schedule, made: str, stage: str, column: str) -> bool:
    """Whether what `stage` reads of `made` depends on the `column` and on other loops."""
    reads = [t for t in reads_of(s, stage) if t.buffer == result_of(s, made)]
    free = spatial_loops(s, stage)
    return any(not t.invariant(column) and not all(map(t.invariant, free)) for t in reads)


def _is_known(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds over one loop, inside independent ones, and is a nest of its own of known lengths."""
    free = spatial_loops(s, stage)
    known = len(s.reduced(stage)) == 1 and bool(free) and iterations(s, s.loops(stage)) is not None
    return known and one_nest(s, stage) and set(free_loops(s, stage)) == set(free)


def _row_loops(s: lp.Schedule, stage: str, column: str, made: Sequence[str]) -> set[str]:
    """The loops that may count rows: no load depends on them and on the `column`, and some do on that."""
    pairs = {result_of(s, x) for x in made}
    reads = reads_of(s, stage)
    rows = {x for x in spatial_loops(s, stage) if (extent(s, x) or 0) >= FEWEST}
    rows = {x for x in rows if not any(_of_both(t, x, column) for t in reads if t.buffer not in pairs)}
    rows = set[str]() if all(t.invariant(column) for t in reads) else rows
    return rows.intersection(*(_rows_of_pairs(s, x, stage) for x in made))


def _of_both(t: Any, row: str, column: str) -> bool:
    return not t.invariant(row) and not t.invariant(column)


def _rows_of_pairs(s: lp.Schedule, stage: str, taker: str) -> set[str]:
    """The loops of `taker` that count the rows of the pairs that it reads, of each of which `stage` folds few elements,
    loaded of a row or of a column; none where it does something else."""
    terms, free, loads = iterations(s, s.reduced(stage)), spatial_loops(s, stage), reads_of(s, stage)
    if terms is None or terms > _most_terms(s, stage) or not one_nest(s, stage):
        return set()
    places = _places(s, stage, taker)
    (column,) = (places.get(x) for x in s.reduced(taker))
    if column is None or len(places) != len(free):
        return set()
    met = {x for x, y in places.items() if y != column and not any(_of_both(t, y, column) for t in loads)}
    return {x for x in met if not all(t.invariant(places[x]) for t in loads)}


def _most_terms(s: lp.Schedule, stage: str) -> int:
    """The most elements that are folded of a pair first: fewer where tensor cores multiply them."""
    c = contraction(s, stage, of_one_buffer=True)
    is_float = all(t.dtype.name == "float32" for t in s.accesses(stage))
    return MOST_FLOAT_TERMS if is_float and (c is None or not rounded(s, c)) else MOST_TERMS


def _places(s: lp.Schedule, stage: str, taker: str) -> dict[str, str]:
    """The loop of `stage` for each loop of `taker` that counts the same of what that reads of it; none if it reads
    several elements of it at once, or not by loops alone."""
    (read, *more) = [t for t in reads_of(s, taker) if t.buffer == result_of(s, stage)]
    (made, *others) = [t for t in s.accesses(stage) if t.write]
    free = tuple(spatial_loops(s, stage))
    if others or any(t.text != read.text for t in more) or tuple(made.subscripts) != free:
        return {}
    return dict(zip(read.subscripts, free, strict=True))


def folds_pairs(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds pairs, perhaps for a part of the results of each row at a time."""
    return pair_fold(_in_parts_of_rows(s, stage), stage) is not None


def _in_parts_of_rows(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the results of a row of `stage`, where these are too many for a thread, in parts, of all rows each."""
    free = spatial_loops(s, stage)
    if pair_fold(s, stage) is not None or not s.reduced(stage) or not _is_known(s, stage) or len(free) < 2:
        return s
    part = gcd(extent(s, free[-1]) or 1, MOST_INSIDE)
    if part == 1 or part == extent(s, free[-1]):
        return s
    t, (outer, _) = s.split(free[-1], part, tail="exact").with_loops
    return if_legal(t, "reorder", outer, *free[:-1])


def pair_folds(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the fold over pairs `stage`, and what it needs of each pair, by the tile that is predicted to be
    fastest, or as any other fold where that is. ScheduleError where it is none."""
    s = _in_parts_of_rows(s, stage)
    found = pair_fold(s, stage)
    if found is None:
        raise lp.ScheduleError(f"{stage} folds no pairs of rows and columns")
    tiles = [dict(zip(("side", "rows", "parts"), tile, strict=True)) for tile in _tile_sizes(s, found)]
    recipes = [partial(pairs_in_tiles, stage=stage, **tile) for tile in tiles]
    recipes += [partial(pairs_in_tiles, stage=stage, **tile) for tile in _blocks_along_rows(s, stage, found)]
    others = [] if found.made else [partial(_as_any_fold, stage=stage)]
    made = cheapest(s, [*recipes, *others], part=(*found.made, stage))
    if made is None:
        raise lp.ScheduleError(f"{stage} is not taken by threads along rows and columns")
    return made


def _as_any_fold(s: lp.Schedule, stage: str) -> lp.Schedule:
    return epilogue(reduction(s, stage), stage)


def _tile_sizes(s: lp.Schedule, found: PairFold) -> list[tuple[int, int, int]]:
    """Threads along rows, rows of each, and parts of the columns that blocks have: as many rows as leave about a block
    for each processor, or twice as many; and the most rows, where parts of the columns make blocks enough."""
    rows, batch = extent(s, found.row) or 1, iterations(s, found.batch) or 1
    processors, columns = lp.machine().processors, extent(s, found.column) or 1
    out = dict[tuple[int, int, int], None]()
    for side in SIDES:
        blocks = {n: batch * -(-rows // (n * side)) for n in (8, 4, 2, 1)}
        enough = next((n for n in blocks if blocks[n] >= processors), 1)
        out |= {(side, n, 1): None for n in {enough, min(2 * enough, MOST_ROWS)}}
        parts = min(-(-processors // blocks[MOST_ROWS]), columns // THREADS)
        out |= {(side, MOST_ROWS, parts): None} if parts > 1 else {}
    return [*out]


def _blocks_along_rows(s: lp.Schedule, stage: str, found: PairFold) -> list[dict[str, int]]:
    """Blocks of few threads, all of which stand along rows, or a warp of them: as many rows for each as fit registers
    and leave a block for each processor."""
    rows, batch = extent(s, found.row) or 1, iterations(s, found.batch) or 1
    columns, out = _columns_at_once(s, stage, found), list[dict[str, int]]()
    for side in (ALONE, SIDES[0]):
        enough = (n for n in (4, 2, 1) if batch * -(-rows // (n * side)) >= lp.machine().processors)
        fits = (n for n in enough if _registers_of_thread(s, stage, found, n, columns) <= MOST_REGISTERS)
        out += [{"side": side, "rows": n, "threads": ALONE} for n in [*fits][:1]]
    return out


def _elements_of_pair(s: lp.Schedule, stage: str, found: PairFold) -> tuple[int, int]:
    """How many elements there are of a row, and of a column, that the stages read which fold something of a pair."""
    kept = dict[tuple[bool, str], int]()
    for x in found.made:
        column = _places(s, x, stage)[found.column]
        for t in reads_of(s, x):
            kept[t.invariant(column), t.buffer] = iterations(s, s.reduced(x)) or 1
    of_row, of_column = (sum(n for (side, _), n in kept.items() if side == is_row) for is_row in (True, False))
    return max(1, of_row), max(1, of_column)


def _columns_at_once(s: lp.Schedule, stage: str, found: PairFold) -> int:
    return max(1, MOST_COLUMNS // -(-max(_elements_of_pair(s, stage, found)) // MOST_COLUMNS))


def _registers_of_thread(s: lp.Schedule, stage: str, found: PairFold, rows: int, columns: int) -> int:
    """About how many registers a thread needs for so many of its rows and columns, and for results."""
    of_row, of_column = _elements_of_pair(s, stage, found)
    return rows * of_row + columns * of_column + rows * prod(extent(s, x) or 1 for x in found.inside)


@lp.composite
def pairs_in_tiles(
    s: lp.Schedule,
    stage: str,
    *,
    side: int,
    rows: int,
    parts: int = 1,
    columns: int | None = None,
    threads: int = THREADS,
) -> lp.Schedule:
    """`s` with the fold over pairs `stage` in blocks of `threads`, `side` of them along rows, of which each has
    `rows`, the others along columns, of which each goes through `columns` at once. With several `parts`, blocks have a
    part of the columns each, and what they give is folded by a second kernel."""
    found = pair_fold(s, stage)
    if found is None:
        raise lp.ScheduleError(f"{stage} folds no pairs of rows and columns")
    columns = columns or _columns_at_once(s, stage, found)
    if _registers_of_thread(s, stage, found, rows, columns) > MOST_REGISTERS:
        raise lp.ScheduleError(f"{rows} rows and {columns} columns at once are too many for registers")
    count, column, batch, first = -(-(extent(s, found.column) or 1) // parts), found.column, found.batch, stage
    if parts > 1:
        s, (piece, column) = s.split(column, count).with_loops
        batch = (piece, *batch)
        s = s.reorder(*batch, found.row, *found.inside, column)
        s, first = s.rfactor(stage, piece).with_stage
    s, (block, row) = s.split(found.row, side * rows).with_loops
    s, (thread, row) = s.split(row, rows).with_loops
    each = -(-count // (threads // side * columns)) * columns
    s, (part, column) = s.split(column, each).with_loops
    s, (turn, column) = s.split(column, columns).with_loops
    s = s.reorder(*batch, block, thread, part, turn, column, row, *found.inside)
    s = s.cache_write(first, "local", thread)
    fold = fold_made(s)
    for x in found.made:
        s = s.compute_at(x, row)
        s = s.set_scope(result_of(s, x), "local")
    s = s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x").bind(part, "threadIdx.y")
    s = s.simplify(drop_unit_loops=True)
    s = _in_thread_registers(s, (*found.made, fold), thread, turn if turn in s.loops() else part)
    s = batched(s, batch)
    for x in s.stages:
        if thread in s.loops(x):
            for loop in s.loops(x):
                s = s.unroll(loop) if s.loop(loop).kind == "serial" and loop != turn else s
    return epilogue(s if parts == 1 else reduction(s, stage, chunk=0), stage)


def _in_thread_registers(s: lp.Schedule, stages: Sequence[str], thread: str, turn: str) -> lp.Schedule:
    """What `stages` read of rows kept in registers of a `thread`, and what they read of columns in each `turn`."""
    for stage in stages:
        inner = s.loops(stage)[s.loops(stage).index(turn) + 1 :]
        found = dict[tuple[str, ...], str]()
        for t in reads_of(s, stage):
            own = [x for x in inner if not t.invariant(x)]
            if own and s.buffer(t.buffer).scope == "global":
                found[t.buffer, *own] = thread if t.invariant(turn) else turn
        for (buffer, *own), at in found.items():
            if s.why("reindex", stage, buffer, *own, at=at) is None:
                s, made = s.reindex(stage, buffer, *own, at=at).with_stage
                s = s.set_scope(s.last.buffers[0], "local")
                s = _copied_by_vectors(s, made)
    return s


def _copied_by_vectors(s: lp.Schedule, copy: str) -> lp.Schedule:
    """`s` with the innermost loop of `copy` in vectors, where rows in memory are made of these."""
    *_, last = s.loops(copy)
    length = extent(s, last) or 1
    if any(not t.contiguous(last) for t in s.accesses(copy)) or length % VECTOR:
        return s
    if aligned_vector(s, copy, VECTOR) < VECTOR:
        return s
    s, (_, element) = s.split(last, VECTOR, tail="exact").with_loops
    return if_legal(s, "vectorize", element)
