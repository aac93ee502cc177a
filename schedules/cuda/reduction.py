"""Reductions on a GPU: along rows, along columns, over everything; at any size, by threads that fold together.

Where the data runs along what is reduced, the threads of a block stand side by side along it, and a block has one row
or, where rows are short, several. Where it runs along what is kept, threads stand side by side along that, each with
as many columns as a vector holds, and those of one column fold through shared memory. A sum with few results has few
blocks: it is cut in parts first, whose results a second kernel folds. What is made of the results, element by element,
is made where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import extent, fused, if_legal, iterations, one_nest, reader, reads_of
from .grouped_columns import grouped, many_rows
from .row_threads import (
    LONGEST,
    MIDDLE,
    VECTOR_BYTES,
    WARP,
    spread_row,
    threads_evenly,
    threads_worth,
    vector,
    vector_read,
)

THREADS = Knob("threads", "threads of a block, at most", octaves(64, 1024), 0.05)
BLOCKS, FEW_BLOCKS, PARTS = 2, 1, 8
"""For each processor, about: results that keep a GPU busy without cutting them up, blocks of columns that do, and
blocks that a reduction with fewer is cut into, of columns of half as many threads."""
EVEN, LARGE_BYTES = 0.9, 1 << 26
"""What part of the two blocks of columns that one has the others are to have on average, where as many
bytes are read: else a second launch takes longer than waiting for those that have two."""
BLOCK_ROUNDS, THREAD_STEPS, MANY_ELEMENTS = 8, 8, 1 << 22
"""Blocks of 512 threads that fold everything, four on each processor twice, and the vectors a thread has in
flight, where there are as many elements, at least, of a number that is not known."""
ALONE = 1 << 14
"""Elements that a block makes of what it folded, at most, where not every processor has a block."""
LONG, SHORT_ROW = 1024, 256
"""What a block folds of a loop whose length is not known, at least: of elements, of whole vectors."""
CHUNK_BYTES = 16384
"""What a block folds at least, where a reduction is cut."""
ROWS_IN_FLIGHT, AHEAD = (4, 16), 8
"""Rows that a thread has in flight where it folds columns: of whole vectors, of single elements; and of whole vectors
where the number of rows is not known."""
FLIGHT = 8
"""Vectors of a row that a lane has in flight: rows that a warp takes so have one each, and a block has several."""


@lp.composite
def reduction(
    s: lp.Schedule, stage: str, *, threads: int = 512, chunk: int | None = None, side: int | None = None
) -> lp.Schedule:
    """`s` with the reduction `stage` spread over a GPU; a stage that is no reduction is left as it is.

    `threads` is how many a block has at most. A reduction with few results is cut into parts of `chunk` elements along
    the innermost reduced loop, or as many as make enough blocks; 0 cuts none, so that every result is one block's.
    `side` is how many vectors of columns a block has side by side.
    """
    over = s.reduced(stage)
    rows = tuple(x for x in s.loops(stage) if x not in over)
    if not over:
        return s
    threads = THREADS(threads, at=stage)
    if s.loops(stage) != (*rows, *over):
        s = s.reorder(*rows, *over)
    along = [x for x in (*over, *rows) if any(t.contiguous(x) for t in streamed(s, stage))]
    column = along[0] if along and along[0] in rows else None
    s, rows = _merged(s, tuple(x for x in rows if x != column))
    s, over = _merged(s, over)
    size = max((t.dtype.bytes for t in s.accesses(stage) if not t.write), default=1)
    if column and not rows and chunk is None and one_nest(s, stage):
        s, (stage, column, *rest) = _picked(s, (stage, column, *over), max(1, VECTOR_BYTES // size), threads)
        over = tuple(rest)
    width = vector(s, {stage: column}, _inputs(s, stage)) if column else 1
    if column and width == 1 and not rows and chunk is None and extent(s, over[0]) is not None:
        made = grouped(s, stage, column, over)
        if made is not None:
            return made
    side = side or min(threads, WARP // 2 if width > 1 else 2 * WARP)
    blocks = _blocks(s, rows, column, side * width)
    enough, parts = _about(FEW_BLOCKS if column else BLOCKS), _about(PARTS)
    if (
        column
        and blocks is not None
        and _uneven(blocks)
        and _bytes(s, over, blocks * side * width * size) >= LARGE_BYTES
    ):
        enough, parts = blocks + 1, 2 * parts  # some of which begin as others end
    all_of = chunk is None and not rows and not column and len(over) == 1 and extent(s, over[0]) is None
    if chunk is None:
        least = max(1, CHUNK_BYTES // size) // (side * width if column else 1)
        chunk = _part(s, over, blocks, least, parts, 0 if column else threads * max(1, VECTOR_BYTES // size))
    many = f"{MANY_ELEMENTS} <= {lp.text(s.loop(over[-1]).extent)}"
    if all_of and one_nest(s, stage) and s.why("specialize", over[0], many) is None:
        s, other = s.specialize(over[0], many).with_stage
        s = _in_turns(s, stage, over[0], max(1, VECTOR_BYTES // size), threads)
        return reduction(s, other, threads=threads, chunk=chunk)
    free = (*rows, column) if column else rows
    alike = not free or s.why("reorder", over[-1], *free) is None  # as long in every row
    few = blocks < enough if blocks is not None else column is not None and extent(s, over[-1]) is None
    if alike and chunk and few and _many(s, over[-1], chunk):
        return _in_two(s, stage, rows, column, over, threads, chunk, side)
    return _columns(s, stage, rows, column, over, threads, side) if column else _rows(s, stage, rows, over, threads)


def _picked(s: lp.Schedule, nest: tuple[str, ...], width: int, threads: int) -> tuple[lp.Schedule, tuple[str, ...]]:
    """Versions of columns of a number that is not known: enough whole blocks for a GPU, fewer, and whole vectors; and
    of columns that are none, or need not be, of many rows.

    `nest` is the stage and its loops; given back are those of the version for all other numbers. What is made of the
    results alone goes with them.
    """
    stage, column, *over = nest
    count, least = lp.text(s.loop(column).extent), _about(FEW_BLOCKS) * WARP // 2 * width
    if s.loops(stage) != nest[1:]:
        return s, nest
    blocks = f"{count} % {WARP // 2 * width} == 0"
    versions: list[tuple[str, int | None]] = []
    if count.isidentifier():
        versions = [
            (f"{blocks} and {least} <= {count}", 0),
            (blocks, SHORT_ROW),
            (f"{count} % {width} == 0", SHORT_ROW),
        ]
    if s.why("split", column, width, tail="exact") is not None and (many := many_rows(s, stage, column, over)):
        versions.append((many, None))
    after = reader(s, stage) if versions else None
    alone = after is not None and len(s.loops(after)) == 1 and not s.reduced(after)
    if after is not None and alone and s.why("reverse_compute_at", after, column) is None:
        s = s.reverse_compute_at(after, column).simplify(column, drop_unit_loops=True)
    for whole, part in versions:
        if s.why("specialize", column, whole) is not None:
            break
        t, others = s.specialize(column, whole).with_loops
        other = next(x for x in t.last.stages if t.reduced(x))
        t = _split_stage(t, column, stage)
        made = grouped(t, stage, column, over) if part is None else reduction(t, stage, threads=threads, chunk=part)
        if made is None:
            break
        s, stage, column, over = made, other, others[0], list(others[1:])
    return (_split_stage(s, column, stage) if versions else s), (stage, column, *over)


def _split_stage(s: lp.Schedule, column: str, stage: str) -> lp.Schedule:
    """`s` with the loop `column` split into one around `stage` and one around what follows, if that is legal."""
    return if_legal(s, "distribute", column, stage)


def streams(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a reduction that reads something as long as its loops, each element once: no product."""
    loops = [x for x in s.loops(stage) if extent(s, x) != 1]
    return bool(s.reduced(stage)) and not any(t.invariant(x) for t in streamed(s, stage) for x in loops)


def streamed(s: lp.Schedule, stage: str) -> list[Any]:
    """What `stage` reads once, no loop of it again; where there is no such thing, all that it reads."""
    reads = reads_of(s, stage)
    loops = [x for x in s.loops(stage) if extent(s, x) != 1]
    return [t for t in reads if not any(t.invariant(x) for x in loops)] or reads


def _inputs(s: lp.Schedule, stage: str) -> frozenset[str]:
    """What `stage` reads of memory."""
    found = {t.buffer for t in s.accesses(stage) if not t.write}
    return frozenset(x for x in found if s.buffer(x).scope == "global")


def _merged(s: lp.Schedule, loops: Sequence[str]) -> tuple[lp.Schedule, tuple[str, ...]]:
    """`loops` as few as can be, the innermost merged first."""
    if not loops:
        return s, ()
    s, last = fused(s, loops)
    return s, (*(x for x in loops if x in s.loops()), *(() if last in loops else (last,)))


def _blocks(s: lp.Schedule, rows: Sequence[str], column: str | None, together: int) -> int | None:
    """How many blocks have a result each, or `together` columns; None if that is not known."""
    counts = [extent(s, x) for x in rows] + ([extent(s, column)] if column else [])
    if None in counts:
        return None
    sizes = [n for n in counts if n is not None]
    return prod(sizes[:-1]) * -(-sizes[-1] // together) if column else prod(sizes)


def _uneven(blocks: int) -> bool:
    """Whether, of so many blocks, some processors have two and many have one, which they are done with too soon."""
    processors = lp.machine().processors
    return processors < blocks < EVEN * 2 * processors


def _about(each: int) -> int:
    """Blocks, about `each` for every processor: the power of two that is not more."""
    return 1 << (each * lp.machine().processors).bit_length() - 1


def _bytes(s: lp.Schedule, over: Sequence[str], row: int) -> int:
    """What is read of so many bytes a row; none where the number of rows is not known."""
    return row * prod(extent(s, x) or 0 for x in over)


def _part(
    s: lp.Schedule, over: Sequence[str], blocks: int | None, least: int, parts: int, together: int = 0
) -> int:  # fmt: skip
    """How long a part of the innermost reduced loop is: for `parts` blocks in all, and at least `least`.

    It is a power of two, or a multiple of the `together` elements that the threads of a block take at once.
    """
    length = extent(s, over[-1])
    if length is None or blocks is None:
        return 1 << (max(least, LONG) - 1).bit_length()
    others = max(1, blocks) * prod(extent(s, x) or 1 for x in over[:-1])
    wanted = max(-(-length * others // parts), least)
    if together and wanted > together:
        return -(-wanted // together) * together
    return 1 << (max(wanted, 1) - 1).bit_length()


def _many(s: lp.Schedule, loop: str, chunk: int) -> bool:
    """Whether `loop` may be longer than a chunk."""
    length = extent(s, loop)
    return length is None or length > chunk


def _in_two(
    s: lp.Schedule, stage: str, rows: tuple[str, ...], column: str | None, over: tuple[str, ...], threads: int,
    size: int, side: int,
) -> lp.Schedule:  # fmt: skip
    """Parts of the innermost reduced loop folded by blocks of their own, and what they give by a second kernel."""
    length = lp.text(s.loop(over[-1]).extent)
    s, (part, inner) = s.split(over[-1], size).with_loops
    s = s.reorder(part, *rows, *((column,) if column else ()), *over[:-1], inner)
    s, partial = s.rfactor(stage, part).with_stage
    finals = s.loops(stage)
    if len(finals) > 1:
        s = s.reorder(*finals[1:], finals[0])
    first = (*over[:-1], inner)
    if column:
        whole = None if extent(s, part) is not None else f"({part} + 1) * {size} <= {length}"
        s = _columns(s, partial, (part, *rows), column, first, max(side, threads // 2), side, whole)
    else:
        s = _rows(s, partial, (part, *rows), first, threads, (length, f"{part} * {size}"))
    return reduction(s, stage, threads=max(side, threads // 2) if column else threads, chunk=0)


def _in_turns(s: lp.Schedule, stage: str, loop: str, width: int, threads: int) -> lp.Schedule:
    """Everything, of a number that is not known: TURNS blocks a processor take so many vectors a thread each in turns.

    What they give, as many whatever the number is, is folded by a second kernel.
    """
    length, together = lp.text(s.loop(loop).extent), threads * width * THREAD_STEPS
    blocks = BLOCK_ROUNDS * lp.machine().processors
    s, (turn, rest) = s.split(loop, blocks * together).with_loops
    s, (part, rest) = s.split(rest, together).with_loops
    s = s.reorder(part, turn, rest)
    s, partial = s.rfactor(stage, part).with_stage
    s, fold = _results_in_registers(s, partial, part)
    s = spread_row(s, fold, turn, threads, width, (length, f"({turn} * {blocks} + {part}) * {together}"))
    s = if_legal(s, "partition", turn)
    s = s.bind(part, "blockIdx.x")
    return reduction(s, stage, threads=threads, chunk=0)


def _made_there(s: lp.Schedule, stage: str, block: str, side: int, width: int) -> lp.Schedule:
    """What is made of the columns of a block, and of nothing else, made by the block."""
    after = reader(s, stage)
    if after is None or s.reduced(after):
        return s
    if block not in s.loops(after) and _crowds(s, stage, after, block):
        return s
    if block not in s.loops(after):
        if s.why("reverse_compute_at", after, block) is not None:
            return s
        s = s.reverse_compute_at(after, block)
    for buffer in (t.buffer for t in s.accesses(stage) if t.write):
        s = if_legal(s, "set_scope", buffer, "shared")
    return spread_row(s, after, block, side, width)


def _crowds(s: lp.Schedule, stage: str, after: str, block: str) -> bool:
    """Whether so few blocks fold `stage` that they would be long at `after`, which all processors could share."""
    blocks, work = iterations(s, s.loops(stage)[: s.loops(stage).index(block) + 1]), iterations(s, s.loops(after))
    machine = lp.machine()
    return blocks is not None and work is not None and blocks < machine.processors and work > blocks * ALONE


def _placed(s: lp.Schedule, stage: str, column: str, together: int) -> tuple[lp.Schedule, tuple[str, ...]]:
    """`stage` in blocks of `together` columns; in those of what is made of it, where that is one version of several."""
    after = reader(s, stage)
    others = after is not None and len(s.loops(after)) == 1 and not s.reduced(after) and s.loops(stage)[0] == column
    if after is not None and others and s.why("reverse_compute_at", after, column) is not None:
        t, (block, _) = s.split(s.loops(after)[0], together).with_loops
        if t.why("compute_at", stage, block) is None:
            return t.compute_at(stage, block), (block, column)
    return s.split(column, together).with_loops


def _rows(
    s: lp.Schedule, stage: str, rows: tuple[str, ...], over: tuple[str, ...], threads: int,
    whole: tuple[str, str] | None = None,
) -> lp.Schedule:  # fmt: skip
    """A block for each row, or for several short ones; its threads along the innermost reduced loop.

    Where rows are parts of something of length `whole[0]`, starting at `whole[1]`, the last may not be whole vectors.
    Rows of a length that is not known have kernels for whole vectors up to several lengths, picked at each launch.
    """
    size = max((t.dtype.bytes for t in s.accesses(stage) if t.buffer in _inputs(s, stage)), default=1)
    length, width = lp.text(s.loop(over[-1]).extent), max(1, VECTOR_BYTES // size)
    asked = rows and len(over) == 1 and whole is None and s.loops(stage)[0] == rows[0] and length.isidentifier()
    kernels = (*((most, width) for most in LONGEST), *(((MIDDLE, 1),) if width > 1 else ()))
    for most, width in kernels if asked and length not in s.loops() else ():
        aligned = f"{length} % {width} == 0 and " if width > 1 else ""
        inside = f"{aligned}1 <= {length} and {length} <= {most}"
        if s.why("specialize", rows[0], inside) is not None:
            break
        s, others = s.specialize(rows[0], inside).with_loops
        (other,) = s.last.stages
        s, (pieces, *lane) = s.split(over[-1], width).with_loops if width > 1 else (s, (over[-1],))
        s, (one, piece) = s.split(pieces, most // width).with_loops
        s = _rows_of(s, stage, rows, (one, piece, *lane), threads, None, kept=True)
        stage, rows, over = other, others[: len(rows)], others[len(rows) :]
    return _rows_of(s, stage, rows, over, threads, whole)


def _rows_of(
    s: lp.Schedule, stage: str, rows: tuple[str, ...], over: tuple[str, ...], threads: int,
    whole: tuple[str, str] | None, kept: bool = False,
) -> lp.Schedule:  # fmt: skip
    """Rows of one kernel. With `kept`, vectors have tests, which would keep loads from being in flight together."""
    lengths, inputs = [extent(s, x) for x in over], _inputs(s, stage)
    length = None if None in lengths else prod(n or 0 for n in lengths)
    size = max((t.dtype.bytes for t in s.accesses(stage) if t.buffer in inputs), default=1)
    width = max(1, VECTOR_BYTES // size) if whole else vector(s, {stage: over[-1]}, inputs)
    lanes = threads_evenly(length, width, min(threads, threads_worth(length, size)) if rows else threads)
    if rows and not whole and length is not None and length <= WARP * FLIGHT * width:
        lanes = min(lanes, WARP)
    s, fold = _results_in_registers(s, stage, rows[-1] if rows else None)
    before = s.stages
    for buffer in sorted(inputs) if kept else ():
        s = if_legal(s, "cache_read", fold, buffer, "local", rows[-1])
    copies = [x for x in s.stages if x not in before]
    inside, tests = f"{whole[1]} + {length} <= {whole[0]}" if whole and length is not None else "", whole
    if inside and s.why("specialize", over[-1], inside) is None:
        known = s.stages
        s = s.specialize(over[-1], inside)  # tests between loads would keep them from being in flight together
        (last,) = (x for x in s.stages if x not in known)
        s, tests = spread_row(s, last, rows[-1], lanes, width, whole), None
    s = spread_row(s, fold, rows[-1] if rows else None, lanes, width, tests)
    for copy in copies:
        s = spread_row(s, copy, rows[-1], lanes, width)
    if not rows:
        return s
    block = rows[-1]
    if lanes <= WARP and not whole:
        s, (block, row) = s.split(block, max(1, threads // 2 // lanes)).with_loops
        s = s.bind(row, "threadIdx.y")
    s, blocks = _merged(s, (*rows[:-1], block))
    return s.bind(blocks[-1], "blockIdx.x")


def _results_in_registers(s: lp.Schedule, stage: str, at: str | None) -> tuple[lp.Schedule, str]:
    """The results of an iteration of `at` kept in registers and stored when they are done; and the stage that folds."""
    if s.why("cache_write", stage, "local", at) is not None:
        return s, stage
    t = s.cache_write(stage, "local", at)
    folds = [x for x in t.stages if t.reduced(x) and x not in s.stages]
    return (t, folds[0]) if len(folds) == 1 else (s, stage)  # of one term, say, which folds no more


def _columns(
    s: lp.Schedule, stage: str, rows: tuple[str, ...], column: str, over: tuple[str, ...], threads: int, side: int,
    whole: str | None = None,
) -> lp.Schedule:  # fmt: skip
    """A block for `side` vectors of columns side by side, one a thread, its threads along y folding each.

    Blocks for which `whole` holds have all the rows that there are in any; the others have tests.
    """
    inputs, known = _inputs(s, stage), whole is None and extent(s, over[-1]) is not None
    width = vector(s, {stage: column}, inputs)
    s, (block, part) = _placed(s, stage, column, side * width)
    s, (lane, one) = s.split(part, width).with_loops if width > 1 else (s, (part, ""))
    s, (turn, inner) = s.split(
        over[-1], threads // side * (ROWS_IN_FLIGHT[width == 1] if known or not one else AHEAD)
    ).with_loops
    s, (some, row) = s.split(inner, threads // side).with_loops
    if one:
        s = s.reorder(*(x for x in s.loops(stage)[s.loops(stage).index(lane) :] if x != one), one)
    s, fold = _results_in_registers(s, stage, lane)
    nests: list[tuple[str, ...]] = [(fold, turn, some, row, one)]
    if one and whole is not None and s.why("specialize", turn, whole) is None:
        s, others = s.specialize(turn, whole).with_loops
        (other,) = s.last.stages
        s = s.simplify(turn)
        nests.append((other, *others))
    for stage_of, *loops in nests:
        s = _folded(s, (stage_of, *loops), sorted(inputs), known, loops[0] == turn)
    last = s.loops(stage)[-1]
    s = s.vectorize(last) if one and fold != stage and s.why("vectorize", last) is None else s
    s = _made_there(s.bind(lane, "threadIdx.x"), stage, block, side, width)
    s, blocks = _merged(s, (*rows, block))
    return s.bind(blocks[-1], "blockIdx.x")


def _folded(
    s: lp.Schedule, nest: tuple[str, ...], inputs: Sequence[str], known: bool, most: bool = True
) -> lp.Schedule:
    """A stage that folds columns: `nest` is its name, its turns, the rows of a thread, the threads, and its lanes.

    Whole turns are parted from the last where `most` blocks take this version.
    """
    stage, turn, some, row, one = nest
    rows = extent(s, row) or 1
    s = s.bind(row, "threadIdx.y").unroll(some)
    once = {t.buffer for t in streamed(s, stage)}
    again = not once.issuperset(inputs)  # what is read between the vectors would part their loads
    for buffer in inputs if one else ():
        near = _ahead(s, stage, buffer, turn, rows) if not known or (again and buffer in once) else None
        s = near or vector_read(s, stage, buffer, row)
    s = s.unroll(one) if one else s
    # tests between loads would keep them from being in flight together
    return s.partition(turn) if most and s.why("partition", turn) is None else s


def _ahead(s: lp.Schedule, stage: str, buffer: str, turn: str, threads: int) -> lp.Schedule | None:
    """What `stage` reads of `buffer` in a turn, moved into registers first, a row for each of `threads` in turn.

    None where how many rows there are in a turn is not known.
    """
    if s.why("cache_read", stage, buffer, "local", turn) is not None:
        return None
    s, (row, *lanes) = s.cache_read(stage, buffer, "local", turn).with_loops
    if extent(s, row) is None:
        return None
    s, (some, row) = s.split(row, threads).with_loops
    s = s.bind(row, "threadIdx.y").unroll(some)
    for lane in lanes:
        s = if_legal(s, "vectorize", lane)
    return s
