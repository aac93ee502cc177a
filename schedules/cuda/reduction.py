"""Reductions on a GPU: along rows, along columns, over everything; at any size, by threads that fold together.

Where the data runs along what is reduced, the threads of a block stand side by side along it, and a block has one row
or, where rows are short, several. Where it runs along what is kept, threads stand side by side along that, each with
as many columns as a vector holds, and those of one column fold through shared memory. A sum with few results has few
blocks: it is cut in parts first, whose results a second kernel folds. What is made of the results, element by element,
is made where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import loopir as lp

from ..common.knobs import Knob, octaves
from ..common.nest_queries import argument_names, extent, fused, if_legal, iterations, one_nest, reader, reads_of
from .column_blocks import SECTOR_BYTES
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

MAX_THREADS = Knob("threads", "threads of a block, at most", octaves(64, 1024), 0.05)
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


@dataclass(frozen=True)
class _Nest:
    """A reduction: its loops over results, of which `column` runs along memory if one does, and those it folds over."""

    stage: str
    rows: tuple[str, ...]
    column: str | None
    over: tuple[str, ...]

    @property
    def free(self) -> tuple[str, ...]:
        """The loops over results."""
        return (*self.rows, self.column) if self.column else self.rows


@lp.composite
def reduction(
    s: lp.Schedule, stage: str, *, threads: int = 512, chunk: int | None = None, side: int | None = None
) -> lp.Schedule:
    """`s` with the reduction `stage` spread over a GPU; a stage that is no reduction is left as it is.

    `threads` is how many a block has at most. A reduction with few results is cut into parts of `chunk` elements along
    the innermost reduced loop, or as many as make enough blocks; 0 cuts none, so that every result is one block's.
    `side` is how many vectors of columns a block has side by side.
    """
    if not s.reduced(stage):
        return s
    threads = MAX_THREADS(threads, at=stage)
    s, n = _with_few_loops(s, stage)
    if n.column and not n.rows and chunk is None:
        s, n = _picked(s, n, threads)
        if (made := _in_groups(s, n)) is not None:
            return made
    width = _width(s, n)
    side = side or min(threads, WARP // 2 if width > 1 else 2 * WARP)
    blocks, together = _blocks(s, n, side * width), side * width if n.column else 1
    enough, parts = _wanted_blocks(s, n, blocks, together)
    given, chunk = chunk, _part(s, n, blocks, together, parts, threads) if chunk is None else chunk
    many = f"{MANY_ELEMENTS} <= {lp.text(s.loop(n.over[-1]).extent)}"
    if given is None and _is_one_unknown_loop(s, n) and s.why("specialize", n.over[0], many) is None:
        s, other = s.specialize(n.over[0], many).with_stage
        s = _in_turns(s, n.stage, n.over[0], max(1, VECTOR_BYTES // _read_bytes(s, n.stage)), threads)
        return reduction(s, other, threads=threads, chunk=chunk)
    few = blocks < enough if blocks is not None else n.column is not None and extent(s, n.over[-1]) is None
    if few and chunk and _has_even_rows(s, n) and _many(s, n.over[-1], chunk):
        return _in_two(s, n, threads, chunk, side)
    return _columns(s, n, threads, side) if n.column else _rows(s, n, threads)


def _with_few_loops(s: lp.Schedule, stage: str) -> tuple[lp.Schedule, _Nest]:
    """`s` with the loops of `stage` over results around those it folds over, fused as far as can be; and these."""
    over = s.reduced(stage)
    rows = tuple(x for x in s.loops(stage) if x not in over)
    if s.loops(stage) != (*rows, *over):
        s = s.reorder(*rows, *over)
    along = [x for x in (*over, *rows) if any(t.contiguous(x) for t in streamed(s, stage))]
    column = along[0] if along and along[0] in rows else None
    s, rows = _merged(s, tuple(x for x in rows if x != column))
    s, over = _merged(s, over)
    return s, _Nest(stage, rows, column, over)


def _in_groups(s: lp.Schedule, n: _Nest) -> lp.Schedule | None:
    """Columns that are no vectors, of a known number of rows, by `grouped_columns`; None where that takes them not."""
    if n.column is None or _width(s, n) > 1 or extent(s, n.over[0]) is None:
        return None
    return grouped(s, n.stage, n.column, n.over)


def _width(s: lp.Schedule, n: _Nest) -> int:
    """Elements of a vector of columns; 1 where there are no columns."""
    return vector(s, {n.stage: n.column}, _inputs(s, n.stage)) if n.column else 1


def _read_bytes(s: lp.Schedule, stage: str) -> int:
    """Bytes of the largest element that `stage` reads."""
    return max((t.dtype.bytes for t in reads_of(s, stage)), default=1)


def _wanted_blocks(s: lp.Schedule, n: _Nest, blocks: int | None, together: int) -> tuple[int, int]:
    """From how many blocks on a reduction is left whole, and how many parts it has otherwise."""
    enough, parts = _about(FEW_BLOCKS if n.column else BLOCKS), _about(PARTS)
    if n.column and blocks is not None and _uneven(blocks):
        row = blocks * together * _read_bytes(s, n.stage)
        if _bytes(s, n.over, row) >= LARGE_BYTES:
            return blocks + 1, 2 * parts  # some of which begin as others end
    return enough, parts


def _is_one_unknown_loop(s: lp.Schedule, n: _Nest) -> bool:
    """Whether `n` folds everything, in one loop of a length that is not known, and nothing else stands in its nest."""
    return not n.free and len(n.over) == 1 and extent(s, n.over[0]) is None and one_nest(s, n.stage)


def _has_even_rows(s: lp.Schedule, n: _Nest) -> bool:
    """Whether the innermost reduced loop is as long for every result."""
    return not n.free or s.why("reorder", n.over[-1], *n.free) is None


def _picked(s: lp.Schedule, n: _Nest, threads: int) -> tuple[lp.Schedule, _Nest]:
    """Versions of columns of a number that is not known: enough whole blocks for a GPU, fewer, and whole vectors; and
    of columns that are none, or need not be, of many rows.

    Given back is the nest of the version for all other numbers. What is made of the results alone goes with them.
    """
    if n.column is None or not one_nest(s, n.stage) or s.loops(n.stage) != (n.column, *n.over):
        return s, n
    versions = _column_versions(s, n, n.column)
    if not versions:
        return s, n
    stage, column, over = n.stage, n.column, n.over
    after = reader(s, stage)
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
        s, stage, column, over = made, other, others[0], others[1:]
    return _split_stage(s, column, stage), _Nest(stage, (), column, over)


def _column_versions(s: lp.Schedule, n: _Nest, column: str) -> list[tuple[str, int | None]]:
    """The conditions of versions of `n`, each with the `chunk` of its reduction; None for one by `grouped_columns`."""
    width = max(1, VECTOR_BYTES // _read_bytes(s, n.stage))
    count, least = lp.text(s.loop(column).extent), _about(FEW_BLOCKS) * WARP // 2 * width
    blocks = f"{count} % {WARP // 2 * width} == 0"
    versions: list[tuple[str, int | None]] = []
    if count.isidentifier():
        versions = [
            (f"{blocks} and {least} <= {count}", 0),
            (blocks, SHORT_ROW),
            (f"{count} % {width} == 0", SHORT_ROW),
        ]
    if s.why("split", column, width, tail="exact") is not None and (many := many_rows(s, n.stage, column, n.over)):
        versions.append((many, None))
    return versions


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


def _blocks(s: lp.Schedule, n: _Nest, together: int) -> int | None:
    """How many blocks have a result each, or `together` columns; None if that is not known."""
    counts = [extent(s, x) for x in n.free]
    if None in counts:
        return None
    sizes = [c for c in counts if c is not None]
    return prod(sizes[:-1]) * -(-sizes[-1] // together) if n.column else prod(sizes)


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


def _part(s: lp.Schedule, n: _Nest, blocks: int | None, together: int, parts: int, threads: int) -> int:
    """How long a part of the innermost reduced loop is: for `parts` blocks in all, and worth a block.

    It is a power of two, or, of rows, a multiple of the elements that the `threads` of a block take at once.
    """
    size = _read_bytes(s, n.stage)
    least = max(1, CHUNK_BYTES // size) // together
    length = extent(s, n.over[-1])
    if length is None or blocks is None:
        return 1 << (max(least, LONG) - 1).bit_length()
    others = max(1, blocks) * prod(extent(s, x) or 1 for x in n.over[:-1])
    wanted = max(-(-length * others // parts), least)
    turn = threads * max(1, VECTOR_BYTES // size)
    if not n.column and wanted > turn:
        return -(-wanted // turn) * turn
    return 1 << (max(wanted, 1) - 1).bit_length()


def _many(s: lp.Schedule, loop: str, chunk: int) -> bool:
    """Whether `loop` may be longer than a chunk."""
    length = extent(s, loop)
    return length is None or length > chunk


def _in_two(s: lp.Schedule, n: _Nest, threads: int, size: int, side: int) -> lp.Schedule:
    """Parts of the innermost reduced loop folded by blocks of their own, and what they give by a second kernel."""
    length = lp.text(s.loop(n.over[-1]).extent)
    s, (part, inner) = s.split(n.over[-1], size).with_loops
    s = s.reorder(part, *n.free, *n.over[:-1], inner)
    s, partial = s.rfactor(n.stage, part).with_stage
    finals = s.loops(n.stage)
    if len(finals) > 1:
        s = s.reorder(*finals[1:], finals[0])
    first = _Nest(partial, (part, *n.rows), n.column, (*n.over[:-1], inner))
    if n.column:
        whole = None if extent(s, part) is not None else f"({part} + 1) * {size} <= {length}"
        threads = max(side, threads // 2)
        s = _columns(s, first, threads, side, whole)
    else:
        s = _rows(s, first, threads, (length, f"{part} * {size}"))
    return reduction(s, n.stage, threads=threads, chunk=0, side=_side_of_parts(s, n, threads, side))


def _side_of_parts(s: lp.Schedule, n: _Nest, threads: int, side: int) -> int | None:
    """Vectors of columns side by side in a block that folds parts: fewer, as long as its threads have rows for several
    turns, which they wait for one after the other, not every processor has a block, and vectors are whole sectors."""
    if not n.column:
        return None
    s, n = _with_few_loops(s, n.stage)
    width, rows = _width(s, n), iterations(s, n.over)
    bytes_of_vector, flight = width * _read_bytes(s, n.stage), ROWS_IN_FLIGHT[width == 1]
    side = min(threads, WARP // 2 if width > 1 else 2 * WARP)
    while rows is not None and 2 * (threads // side) * flight <= rows and side * bytes_of_vector > SECTOR_BYTES:
        blocks = _blocks(s, n, side * width)
        if blocks is None or blocks >= lp.machine().processors:
            break
        side //= 2
    return side


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
    for buffer in dict.fromkeys(
        t.buffer for t in reads_of(s, after)
    ):  # of several, each is copied by a stage of its own
        touching = [x for x in s.stages if buffer in {t.buffer for t in s.accesses(x)}]
        own = buffer not in argument_names(s) and s.buffer(buffer).scope == "global"
        if own and all(block in s.loops(x) for x in touching):
            s = if_legal(s, "set_scope", buffer, "shared")
    return spread_row(s, after, block, side, width)


def _crowds(s: lp.Schedule, stage: str, after: str, block: str) -> bool:
    """Whether so few blocks fold `stage` that they would be long at `after`, which all processors could share."""
    blocks, work = iterations(s, s.loops(stage)[: s.loops(stage).index(block) + 1]), iterations(s, s.loops(after))
    machine = lp.machine()
    return blocks is not None and work is not None and blocks < machine.processors and work > blocks * ALONE


def _in_column_blocks(s: lp.Schedule, stage: str, column: str, together: int) -> tuple[lp.Schedule, tuple[str, ...]]:
    """`stage` in blocks of `together` columns; in those of what is made of it, where that is one version of several."""
    after = reader(s, stage)
    others = after is not None and len(s.loops(after)) == 1 and not s.reduced(after) and s.loops(stage)[0] == column
    if after is not None and others and s.why("reverse_compute_at", after, column) is not None:
        t, (block, _) = s.split(s.loops(after)[0], together).with_loops
        if t.why("compute_at", stage, block) is None:
            return t.compute_at(stage, block), (block, column)
    return s.split(column, together).with_loops


def _rows(s: lp.Schedule, n: _Nest, threads: int, whole: tuple[str, str] | None = None) -> lp.Schedule:
    """A block for each row, or for several short ones; its threads along the innermost reduced loop.

    Where rows are parts of something of length `whole[0]`, starting at `whole[1]`, the last may not be whole vectors.
    Rows of a length that is not known have kernels for whole vectors up to several lengths, picked at each launch.
    """
    length, size = lp.text(s.loop(n.over[-1]).extent), _input_bytes(s, n.stage)
    one_size = length.isidentifier() and length not in s.loops()
    if whole is None and one_size and n.rows and len(n.over) == 1 and s.loops(n.stage)[0] == n.rows[0]:
        s, n = _rows_by_length(s, n, threads, length, max(1, VECTOR_BYTES // size))
    return _rows_of(s, n, threads, whole)


def _rows_by_length(s: lp.Schedule, n: _Nest, threads: int, length: str, width: int) -> tuple[lp.Schedule, _Nest]:
    """Kernels for rows of up to several lengths, in vectors of `width`, and the nest for all other rows."""
    kernels = [*((most, width) for most in LONGEST), *([(MIDDLE, 1)] if width > 1 else [])]
    for most, each in kernels:
        aligned = f"{length} % {each} == 0 and " if each > 1 else ""
        inside = f"{aligned}1 <= {length} and {length} <= {most}"
        if not one_nest(s, n.stage) or s.why("specialize", n.rows[0], inside) is not None:
            break
        s, other = s.specialize(n.rows[0], inside).with_stage
        others = s.last.loops
        s, (pieces, *lane) = s.split(n.over[-1], each).with_loops if each > 1 else (s, (n.over[-1],))
        s, (one, piece) = s.split(pieces, most // each).with_loops
        s = _rows_of(s, replace(n, over=(one, piece, *lane)), threads, None, guarded=True)
        count = len(n.rows)
        n = _Nest(other, others[:count], None, others[count:])
    return s, n


def _input_bytes(s: lp.Schedule, stage: str) -> int:
    """Bytes of the largest element that `stage` reads of memory."""
    inputs = _inputs(s, stage)
    return max((t.dtype.bytes for t in s.accesses(stage) if t.buffer in inputs), default=1)


def _rows_of(
    s: lp.Schedule, n: _Nest, threads: int, whole: tuple[str, str] | None, guarded: bool = False
) -> lp.Schedule:
    """Rows of one kernel. Vectors that are `guarded` are copied to registers first: between loads, tests would keep
    these from being in flight together."""
    row, inputs, length = n.rows[-1] if n.rows else None, _inputs(s, n.stage), iterations(s, n.over)
    width, lanes = _vectors_and_threads(s, n, threads, length, part=whole is not None)
    s, fold = _results_in_registers(s, n.stage, row)
    before, tests = s.stages, whole
    for buffer in sorted(inputs) if guarded else ():
        s = if_legal(s, "cache_read", fold, buffer, "local", row)
    copies = [x for x in s.stages if x not in before]
    if whole is not None and length is not None:
        s, tests = _specialize_last_part(s, n, lanes, width, length, whole)
    s = spread_row(s, fold, row, lanes, width, tests)
    for copy in copies:
        s = spread_row(s, copy, row, lanes, width)
    if row is None:
        return s
    if lanes <= WARP and whole is None:
        s, (row, inner) = s.split(row, max(1, threads // 2 // lanes)).with_loops
        s = s.bind(inner, "threadIdx.y")
    return _on_blocks(s, (*n.rows[:-1], row))


def _vectors_and_threads(
    s: lp.Schedule, n: _Nest, threads: int, length: int | None, *, part: bool
) -> tuple[int, int]:  # fmt: skip
    """Elements of a vector along a row of `n`, and threads of a row; a `part` of a row may not be whole vectors."""
    size = _input_bytes(s, n.stage)
    width = max(1, VECTOR_BYTES // size) if part else vector(s, {n.stage: n.over[-1]}, _inputs(s, n.stage))
    lanes = threads_evenly(length, width, min(threads, threads_worth(length, size)) if n.rows else threads)
    short = length is not None and length <= WARP * FLIGHT * width
    return width, min(lanes, WARP) if n.rows and short and not part else lanes


def _specialize_last_part(
    s: lp.Schedule, n: _Nest, lanes: int, width: int, length: int, whole: tuple[str, str]
) -> tuple[lp.Schedule, tuple[str, str] | None]:
    """`s` with a version of `n` that has no tests, for parts that are not the last; and the tests of what is left.

    Tests between loads would keep these from being in flight together.
    """
    inside = f"{whole[1]} + {length} <= {whole[0]}"
    if s.why("specialize", n.over[-1], inside) is not None:
        return s, whole
    made = s.specialize(n.over[-1], inside)
    last, *more = (x for x in made.stages if x not in s.stages)
    if more:  # the loop holds other stages, too
        return s, whole
    return spread_row(made, last, n.rows[-1], lanes, width, whole), None


def _on_blocks(s: lp.Schedule, loops: tuple[str, ...]) -> lp.Schedule:
    """`s` with `loops` as the blocks of a grid."""
    s, blocks = _merged(s, loops)
    return s.bind(blocks[-1], "blockIdx.x")


def _results_in_registers(s: lp.Schedule, stage: str, at: str | None) -> tuple[lp.Schedule, str]:
    """The results of an iteration of `at` kept in registers and stored when they are done; and the stage that folds."""
    if s.why("cache_write", stage, "local", at) is not None:
        return s, stage
    t = s.cache_write(stage, "local", at)
    folds = [x for x in t.stages if t.reduced(x) and x not in s.stages]
    return (t, folds[0]) if len(folds) == 1 else (s, stage)  # of one term, say, which folds no more


def _columns(s: lp.Schedule, n: _Nest, threads: int, side: int, whole: str | None = None) -> lp.Schedule:
    """A block for `side` vectors of columns side by side, one a thread, its threads along y folding each.

    Blocks for which `whole` holds have all the rows that there are in any; the others have tests.
    """
    assert n.column is not None
    stage, inputs, known = n.stage, _inputs(s, n.stage), whole is None and extent(s, n.over[-1]) is not None
    width = _width(s, n)
    s, (block, part) = _in_column_blocks(s, stage, n.column, side * width)
    s, (lane, one) = s.split(part, width).with_loops if width > 1 else (s, (part, ""))
    flight = ROWS_IN_FLIGHT[width == 1] if known or not one else AHEAD
    s, (turn, inner) = s.split(n.over[-1], threads // side * flight).with_loops
    s, (some, row) = s.split(inner, threads // side).with_loops
    if one:
        s = s.reorder(*(x for x in s.loops(stage)[s.loops(stage).index(lane) :] if x != one), one)
    s, fold = _results_in_registers(s, stage, lane)
    nests: list[tuple[str, ...]] = [(fold, turn, some, row, one)]
    if one and whole is not None and s.why("specialize", turn, whole) is None:
        s, other = s.specialize(turn, whole).with_stage
        nests.append((other, *s.last.loops))
        s = s.simplify(turn)
    for nest in nests:
        s = _folded(s, nest, sorted(inputs), known, nest[1] == turn)
    if one and fold != stage:
        s = if_legal(s, "vectorize", s.loops(stage)[-1])
    s = _made_there(s.bind(lane, "threadIdx.x"), stage, block, side, width)
    return _on_blocks(s, (*n.rows, block))


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
