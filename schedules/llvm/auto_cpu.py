"""A CPU schedule for any nest: threads over the outermost independent loop, vectors over an inner one.

Stages along the same rows, and stages that read neighbours of what others make, are computed where they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import loopir as lp

from ..common.contraction import contraction, padded, separate_operands, worth_tiling
from ..common.direct_conv import direct_cpu
from ..common.fusion import epilogue, index_stages_inlined, views_inlined
from ..common.hoisted_tables import hoisted_tables
from ..common.knobs import Knob, either, octaves
from ..common.narrow_sums import narrow_sums
from ..common.nest_queries import (
    evaluates_functions,
    extent,
    free_loops,
    fused,
    if_legal,
    in_lanes,
    iterations,
    legal,
    one_nest,
    reads_own,
    written_by,
)
from ..common.normalize_nests import normalized, without_idle_stages
from ..common.operands import is_reshaped_operand, materialized
from ..common.products import product, several
from ..common.view_loops import fuse_contiguous, fuse_viewed_dims, join_views, with_views_split
from .chains_in_lanes import chains_in_lanes
from .column_reduction import across, columns
from .conv_channels import conv_channels, worth_channels
from .diagonals import diagonals
from .folded_rows import folded_rows
from .im2col import im2col, worth_matrices
from .inner_loops import carried_in_rows, column_of, column_sums, inner_vectors
from .interleaved_chains import interleaved_chains
from .matmul_amx import matmul_amx, tiled
from .matmul_cpu import asks_for_tiles, matmul_cpu, tile_before, whole_vectors
from .matmul_few_rows import few_rows, matmul_few_rows
from .matmul_vnni import matmul_pairs, pairs
from .nontemporal_stores import past_caches, streamed
from .periodic_reads import MOST_LANES, lanes_for_periods, split_periods
from .piecewise import cut_in_pieces
from .pivots import cut_at_pivots
from .product_chains import product_chain
from .register_transpose import transpose_cpu, transposed_tile
from .row_fusion import rows, windows_in_lanes
from .rows_in_lanes import rows_in_lanes
from .shared_rows import shared_rows
from .short_products import short_product
from .sliding_windows import windows
from .split_reduction import folded, into_one, lanes_of, runs_along
from .threads import parallel, parallel_if_legal, worth_sharing

SHORT_LOOP = 4
"""How long each loop of a contraction is at least that is worth tiles of registers."""
WORTH_A_MATRIX = 16
"""How long each loop of one is at least that is worth a matrix of what it computes of an operand."""
MASKING_REGISTERS = 32
"""Vector registers of a machine that masks lanes so."""
CHUNK = 8192
"""Iterations of a one-dimensional loop that a thread takes at once: 32 KiB of float32 an array."""
LINE_VECTORS = 4
"""Vectors that one iteration takes of a line, so that functions of several of them are evaluated meanwhile."""
IDLE = 1 / 8
"""What part of the vectors of a line may be computed for nothing, so that functions of several are evaluated side by
side: less than these gain by it (1.15 to 1.3 of exp and silu, as measured)."""
SMALLEST_TILE = 4
"""Rows of a tile in registers, at least."""
CHAINED = Knob("chained", "whether products with folds of rows between them are one loop over blocks", either, 0.5)
ONE_LOOP = Knob("together", "whether all stages are in one loop over rows", either, 0.3)
UNIT = Knob("unit", "which instructions multiply", lambda formula: ("vectors",), 0.3)
LANE_ELEMENTS = Knob("lanes", "elements that the lanes of an iteration take", octaves(2, 512), 0.1)
CHUNK_LENGTH = Knob("chunk", "iterations of a line that a thread takes at once", octaves(1024, 1 << 20), 0.02)
IN_FLIGHT = Knob("in flight", "vectors that one iteration takes of a line", octaves(1, 16), 0.05)
TABLES = Knob("tables", "whether functions that each row evaluates alike are tables", either, 0.3)
STREAMED = Knob("streamed", "whether results are stored past the caches", either, 0.2)
GRID_ROWS = Knob("rows", "rows of a grid that are taken together", octaves(1, 8), 0.05)


def cpu(s: lp.Schedule, lanes: int | None = None) -> lp.Schedule:
    """`s` with each stage run by threads over its outermost loop, by vectors over its innermost free one.

    Vectors have `lanes` elements, by default as many as this machine's. A contraction of two operands runs in register
    tiles, as does a convolution. Reductions along a row fold vectors, and those across rows take these as they lie; in
    others the lanes are brought inside the reduced loops, so that a vector of sums stays in a register. What is read
    across the direction of the results goes through tiles in registers. Two products with folds of rows between them,
    as in attention, are one loop over blocks. Functions that a row evaluates as the one before did are evaluated once,
    into a table, where that is predicted to be faster.
    """
    is_new = not s.trace
    s = without_idle_stages(s) if is_new else s
    made, t = _scheduled(s, lanes, is_new=is_new), s
    for stage in s.stages:
        t = hoisted_tables(t, stage)
    if t.func is s.func:
        return made
    tables = frozenset(y for x in t.stages if x not in s.stages for y in written_by(t, x))
    other = legal(t, _scheduled, lanes, is_new=is_new, tables=tables)
    return other if other is not None and TABLES(_is_faster(other, made)) else made


def _is_faster(s: lp.Schedule, other: lp.Schedule) -> bool:
    """Whether `s` is predicted to be faster than `other`, on one thread and on as many as there are."""
    prices = ((lp.predict(x, "llvm", threads=n).seconds for x in (s, other)) for n in (1, None))
    return all(mine < others for mine, others in prices)


def _scheduled(s: lp.Schedule, lanes: int | None, *, is_new: bool, tables: frozenset[str] = frozenset()) -> lp.Schedule:
    """`s` with its stages scheduled, of which those that store to `tables` stay before the rows that read them;
    `is_new` where no step was taken but those that made these."""
    s = index_stages_inlined(s)
    for stage in s.stages if is_new else ():
        s = if_legal(s, "unwrap", stage)  # a division for each lane costs more than a test that loops are cut at
    if lanes is None and (chained := with_views_split(s, _chosen_chain)) is not None:
        return chained
    s = _prepared(_without_unit_loops(join_views(views_inlined(s))) if is_new else s)
    laned, done = _rows_in_lanes(s, lanes)
    if laned is not s:
        s, together = laned, None
    else:
        together = legal(s, _rows_in_one_loop, lanes, tables)
        if together is None and (split := _periods_split(s, lanes)).func is not s.func:
            s, together = split, legal(split, _rows_in_one_loop, lanes, tables)
    if together is not None:
        return together
    s = _windows_first(shared_rows(s), lanes)
    left = [x for x in s.stages if x not in done]
    copies = [x for x in left if is_reshaped_operand(s, x)]
    for stage in (*(x for x in left if x not in copies), *copies):
        if stage in copies:
            s = if_legal(s, "compute_inline", stage)  # into copies of tiles, or tiles read it as it lies
        if stage in s.stages:
            s = legal(s, _stage, stage, lanes) or s  # others are scheduled in any case
    return _several_on_threads(s)


def _several_on_threads(s: lp.Schedule) -> lp.Schedule:
    """`s` with nests of several stages on threads by their outermost loops, where these are free."""
    for nest in lp.nests(s.func):
        loops = [s.loops(stage) for stage in nest.stages]
        if len(loops) < 2 or not loops[0] or any(s.loop(x).kind == "parallel" for found in loops for x in found):
            continue
        start = lp.local_cpu().start
        parts = zip(nest.stages, loops, strict=True)
        if any(iterations(s, found) is None or worth_sharing(s, stage, found, start) for stage, found in parts):
            s = parallel_if_legal(s, nest.stages[0], loops[0][0])
    return s


def _rows_in_lanes(s: lp.Schedule, lanes: int | None) -> tuple[lp.Schedule, set[str]]:
    """`s` with its nests that shuffle rows of their own, and those of chains, with a row or a chain in each lane, and
    the stages that stand there then."""
    done = set[str]()
    for nest in lp.nests(s.func):
        if nest.stages and nest.stages[0] in s.stages:
            made = rows_in_lanes(s, nest.stages[0], lanes=lanes)
            if made.func is s.func:
                made = chains_in_lanes(s, nest.stages[0], lanes=lanes)
            if made.func is s.func:
                made = interleaved_chains(s, nest.stages[0])
            if made.func is not s.func:
                s, done = made, done | {*nest.stages} | ({*made.stages} - {*s.stages})
    return s, done


def _prepared(s: lp.Schedule) -> lp.Schedule:
    """`s` in normal form, with operands of products that are computed once, and folded dimensions as one."""
    s = narrow_sums(normalized(s, whole=False))
    for stage in s.stages:
        if (t := separate_operands(s, stage)) is not s:
            c = contraction(t, stage)
            s = t if several(t, stage) or (c is not None and worth_tiling(t, c, SHORT_LOOP)) else s
        s = _operands_once(s, stage)
        if s.reduced(stage) and one_nest(s, stage) and product(s, stage) is None:
            s = fuse_contiguous(s, stage)
    return s


def _periods_split(s: lp.Schedule, lanes: int | None) -> lp.Schedule:
    """`s` with loops that are read by quotients and remainders as several."""
    for stage in s.stages:
        s = split_periods(s, stage, least=lanes or lanes_of(s, stage))
    return s


def _windows_first(s: lp.Schedule, lanes: int | None) -> lp.Schedule:
    """`s` with its convolutions scheduled, which take the stages that they read along."""
    for stage in s.stages:
        if stage in s.stages and s.reduced(stage) and one_nest(s, stage):
            c = contraction(s, stage)
            by_channels = c is None and several(s, stage, SHORT_LOOP) and worth_channels(s, stage, lanes)
            if by_channels and (made := legal(s, conv_channels, stage, lanes=lanes)) is not None:
                s = made
                continue
            if worth_matrices(s, stage, lanes or lanes_of(s, stage)):
                s = legal(s, _matrices, stage) or s
            if stage in s.stages and contraction(s, stage) is None and several(s, stage, SHORT_LOOP):
                s = legal(s, direct_cpu, stage) or s
    return s


def _stage(s: lp.Schedule, stage: str, lanes: int | None) -> lp.Schedule:
    """`s` with `stage` scheduled by what kind of nest it is."""
    if (made := _vectors_at_pivots(s, stage, lanes)).func is not s.func:
        return made
    if not one_nest(s, stage) or _carried(s, stage):
        return _dependent(s, stage, lanes)
    c = contraction(s, stage)
    if c is not None and worth_tiling(s, c, SHORT_LOOP):
        whole = padded(s, stage, c.row, c.column)
        made = whole if _masks_lanes() else short_product(whole, stage, lanes=lanes)
        return _product(s, stage, whole) if made.func is whole.func else made
    if (made := cut_in_pieces(s, stage)) is not s:
        return _pieces(made, s.stages, stage, lanes)
    if _carries_inside(s, stage):
        return carried_in_rows(fuse_contiguous(s, stage), stage, lanes=lanes)
    return _by_loops(s, stage, lanes)


def _by_loops(s: lp.Schedule, stage: str, lanes: int | None) -> lp.Schedule:
    """A stage in a nest of its own, no product, by how its loops run over what it reads and stores."""
    width = lanes or lanes_of(s, stage)
    s = s if s.reduced(stage) else fuse_contiguous(s, stage)
    loops = free_loops(s, stage)
    if len(loops) == 1 and loops == s.loops(stage):
        return _line(s, stage, loops[0], width)
    if (made := _columns_in_registers(s, stage, loops, width)) is not None:
        return made
    if loops and runs_along(s, stage) and not (across(s, stage) and _shorter(s, stage, width)):
        return _fold_rows(s, stage, loops[0], lanes)
    if across(s, stage) is not None:
        return columns(s, stage, lanes=lanes)
    if loops:
        made = _transposed(s, stage) or _grid(s, stage, loops, width)
        if stage not in made.stages or _has_lanes(made, stage):
            return made
        along = any(t.contiguous(s.loops(stage)[-1]) for t in s.accesses(stage))
        made = folded(made, stage, lanes=lanes)
        beside = None if along else legal(s, _results_in_lanes, stage, loops[-1], width)
        return beside if beside is not None and _is_faster(beside, made) else made
    return into_one(s, stage, lanes=lanes)


def _results_in_lanes(s: lp.Schedule, stage: str, column: str, width: int) -> lp.Schedule | None:
    """The fold `stage`, of what does not lie along its loops, with `width` results along `column` side by side; those
    that fill no vector are folded one by one."""
    over = s.reduced(stage)
    if (
        not over
        or (extent(s, column) or 0) < width
        or not all(t.contiguous(column) for t in s.accesses(stage) if t.write)
    ):
        return None
    t, (outer, lane, *_) = s.split(column, width, tail="peel").with_loops
    t = t.reorder(outer, *over, lane).vectorize(lane)
    return parallel_if_legal(t, stage, t.loops(stage)[0])


def _columns_in_registers(s: lp.Schedule, stage: str, loops: Sequence[str], width: int) -> lp.Schedule | None:
    """`stage` with sums of columns in registers, if it folds windows, whose rows run along what is folded, too, or rows
    that are found by numbers from memory; None if it is neither, or only vectors that are not worth it."""
    windows = bool(s.reduced(stage)) and runs_along(s, stage)
    found = any(t.strides.get(x, 0) is None for t in s.accesses(stage) for x in s.reduced(stage))
    found = found and across(s, stage) is None
    column = column_of(s, stage) if windows or found else None
    if column not in loops:
        return None
    made = column_sums(s, stage, str(column), width)
    if made is s:
        return s if windows else None
    return if_legal(made, "parallel", made.loops(stage)[0])


def _transposed(s: lp.Schedule, stage: str) -> lp.Schedule | None:
    """`stage` by tiles in registers, if it reads across the direction it writes in: the largest that are boxes of what
    is read, as no row of a tile is where a loop over several dimensions of the input passes the end of one."""
    rows = transposed_tile(s, stage) or 0
    tiles = (legal(s, transpose_cpu, stage, rows=n) for n in (rows, rows // 2, rows // 4) if n >= SMALLEST_TILE)
    return next((t for t in tiles if t is not None), None)


def _pieces(s: lp.Schedule, before: Sequence[str], stage: str, lanes: int | None) -> lp.Schedule:
    """The parts of `stage`, which have loops of their own: each as a stage, or by vectors in one loop on threads."""
    parts = [stage, *(x for x in s.stages if x not in before)]
    if all(one_nest(s, x) for x in parts):
        for x in parts:
            s = legal(s, _stage, x, lanes) or s
        return s
    for x in parts:
        s = _vectors(s, s.loops(x)[-1], lanes or lanes_of(s, x), partition=True)  # one mask, in the last vector
    return parallel_if_legal(s, stage, s.loops(stage)[0])


def _dependent(s: lp.Schedule, stage: str, lanes: int | None) -> lp.Schedule:
    """A stage whose outermost loop carries dependences, or holds others: by diagonals, or inner loops by vectors."""
    t = diagonals(s, stage)
    return inner_vectors(s, stage, lanes=lanes) if t is s else t


def _vectors_at_pivots(s: lp.Schedule, stage: str, lanes: int | None) -> lp.Schedule:
    """A stage that reads a row and a column of what it changes, by vectors on either side of these."""
    t = (legal(s, cut_at_pivots, stage) or s) if one_nest(s, stage) and reads_own(s, stage) else s
    for x in (x for x in t.stages if x == stage or x not in s.stages) if t is not s else ():
        t = inner_vectors(t, x, lanes=lanes)
    return t


def _fold_rows(s: lp.Schedule, stage: str, outer: str, lanes: int | None) -> lp.Schedule:
    """A fold along memory: of windows side by side in lanes, of a row by vectors; threads over `outer`."""
    t = windows_in_lanes(s, stage, lanes=lanes)
    t = folded_rows(s, stage, lanes=lanes) if t.func is s.func else t
    if t.func is s.func:
        return parallel(folded(s, stage, lanes=lanes), stage, outer)
    return parallel_if_legal(t, stage, t.loops(stage)[0])


def _carried(s: lp.Schedule, stage: str) -> bool:
    """Whether the outermost loop of `stage` carries dependences that are not those of its fold."""
    outer = s.loops(stage)[0]
    return outer not in s.reduced(stage) and s.loop(outer).kind == "serial" and s.why("parallel", outer) is not None


def _carries_inside(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` is a scan of rows: its outermost loop is free, and one inside it carries a dependence."""
    if s.reduced(stage) or not reads_own(s, stage):
        return False
    return 0 < len(free_loops(s, stage)) < len(s.loops(stage))


def _without_unit_loops(s: lp.Schedule) -> lp.Schedule:
    """`s` without loops of one iteration: a product with a vector is a fold of rows or of columns, as `lp.sum` is, and
    a convolution with a window of one element is a product over its channels alone."""
    if all(extent(s, x) != 1 for x in s.loops()):
        return s
    s = s.simplify(drop_unit_loops=True)
    for stage in s.stages:
        while (pair := _unit_pair(s, stage)) is not None:
            s = s.fuse(*pair)
    return s


def _unit_pair(s: lp.Schedule, stage: str) -> tuple[str, str] | None:
    """Two neighbouring loops that `stage` folds over, of which one runs once, if they can be one loop."""
    over = s.reduced(stage)
    for pair in pairwise(s.loops(stage)):
        if {*pair} <= {*over} and 1 in (extent(s, x) for x in pair) and s.why("fuse", *pair) is None:
            return pair
    return None


def _operands_once(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with what a product computes of its operands computed once, if it is worth tiles of registers then."""
    t = materialized(fuse_viewed_dims(s, stage), stage) if s.reduced(stage) else s
    c = contraction(t, stage) if t is not s else None
    return t if c is not None and worth_tiling(t, c, WORTH_A_MATRIX) else s


def _rows_in_one_loop(s: lp.Schedule, lanes: int | None, tables: frozenset[str]) -> lp.Schedule | None:
    """All stages but those of `tables` in one loop over rows of the last one, if they can be there; rows of it are on
    threads then."""
    if _nest_count(s, _making_rows(s, tables)) < 2:
        return None
    last = s.stages[-1]
    loops = s.loops(last)
    if len(loops) < 2 or s.reduced(last) or loops[0] not in free_loops(s, last):
        return None
    folds = [x for x in s.stages if s.reduced(x)]
    if any(product(s, x) is not None or several(s, x, SHORT_LOOP) or not runs_along(s, x) for x in folds):
        return None
    for prepared in dict.fromkeys((_rows_as_one_loop(s, folds), s)) if folds else (s,):  # borders of rows need many
        t = rows(prepared, lanes=lanes) if folds else windows(s, lanes=lanes)
        outer = _loop_around(t, _making_rows(t, tables))  # the last stage may have another name: that of a tail
        if outer is not None and (t.loop(outer).kind == "parallel" or t.why("parallel", outer) is None):
            return t if ONE_LOOP(True) else None
    return None


def _nest_count(s: lp.Schedule, stages: Sequence[str]) -> int:
    """How many nests the `stages` stand in."""
    return len({s.loops(x)[:1] or x for x in stages})


def _loop_around(s: lp.Schedule, stages: Sequence[str]) -> str | None:
    """The outermost loop of `stages`, if they all stand in one."""
    outermost = {s.loops(x)[:1] for x in stages}
    return outermost.pop()[0] if len(outermost) == 1 and () not in outermost else None


def _making_rows(s: lp.Schedule, tables: frozenset[str]) -> list[str]:
    """The stages of `s` that store to more than `tables`."""
    return [x for x in s.stages if not written_by(s, x) <= tables]


def _rows_as_one_loop(s: lp.Schedule, folds: Sequence[str]) -> lp.Schedule:
    """`s` with the rows of its last stage, which `folds` fold, counted by one loop, where several count them and what
    one iteration of the outermost touches does not stay in the first cache."""
    loops = s.loops(s.stages[-1])
    counting = loops[: min(len(loops) - 1, *(len(free_loops(s, x)) for x in folds))]
    return fused(s, counting)[0] if len(counting) > 1 and not _stays_in_cache(s, loops[1:]) else s


def _stays_in_cache(s: lp.Schedule, loops: Sequence[str]) -> bool:
    """Whether the elements that `loops` run over are known to take at most half of the first cache, of each array."""
    elements = prod(extent(s, x) or 0 for x in loops)
    return 0 < 2 * elements * sum(a.buffer.dtype.bytes for a in s.func.args) <= lp.caches()[0]


def _chosen_chain(s: lp.Schedule) -> lp.Schedule | None:
    """Two products with folds of rows between them in one loop over blocks, if they can be, and are chosen to be."""
    t = product_chain(s)
    return t if t is not None and CHAINED(True) else None


def _product(s: lp.Schedule, stage: str, whole: lp.Schedule) -> lp.Schedule:
    """A contraction in register tiles, and what is made of it in its stores. `whole` is `s` without tests for a
    triangle, whose outside register tiles alone leave out."""
    for fits, unit in ((tiled, matmul_amx), (pairs, matmul_pairs)):
        chosen = fits(whole, stage) is not None and UNIT(unit.__name__, at=stage) == unit.__name__
        if chosen and (t := legal(whole, unit, stage)) is not None:  # no other sum, say, is in an instruction's way
            return epilogue(t, stage)
    if few_rows(whole, stage) is not None and UNIT("matmul_few_rows", at=stage) == "matmul_few_rows":
        return epilogue(matmul_few_rows(whole, stage), stage)
    made = matmul_cpu(s, stage)
    t = epilogue(made, stage)
    for x in s.stages:
        if x in t.stages and _in_vectors(t, x) and not _in_vectors(s, x):
            t = whole_vectors(tile_before(t, x) if stage not in t.stages and asks_for_tiles(made, stage) else t, x)
    return t


def _shorter(s: lp.Schedule, stage: str, lanes: int) -> bool:
    """Whether the innermost loop of `stage` is known to be shorter than a vector."""
    length = extent(s, s.loops(stage)[-1])
    return length is not None and length < lanes


def _in_vectors(s: lp.Schedule, stage: str) -> bool:
    return any(s.loop(x).kind == "vectorize" for x in s.loops(stage)[-1:])


def _has_lanes(s: lp.Schedule, stage: str) -> bool:
    return any(s.loop(x).kind == "vectorize" for x in s.loops(stage))


def _matrices(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A convolution as a product of matrices; what goes on with it runs over the same loops."""
    return join_views(im2col(s, stage).simplify(drop_unit_loops=True))


def _line(s: lp.Schedule, stage: str, loop: str, lanes: int) -> lp.Schedule:
    """One loop over independent elements: whole chunks for the threads, what is left in a loop of its own, by vectors
    where functions are evaluated, of which LLVM makes none of most.

    What does not stay in the caches is stored past them.
    """
    length, chunk = extent(s, loop), CHUNK_LENGTH(CHUNK, at=stage)
    if length is not None and length < 2 * chunk:
        return _vectors(s, loop, LANE_ELEMENTS(_lanes_for_functions(s, stage, length, lanes), at=stage))
    if s.why("split", loop, chunk, tail="peel") is not None:
        return s
    s = s.split(loop, chunk, tail="peel")
    outer, inner, *rest = s.last.loops
    vectors = IN_FLIGHT(LINE_VECTORS, at=stage)
    for left in rest if evaluates_functions(s, stage) else ():
        s = in_lanes(s, left, vectors * lanes)
    s, (_, lane) = parallel(s, stage, outer).split(inner, vectors * lanes).with_loops
    if s.why("vectorize", lane) is not None:
        return s
    return streamed(s, stage, lane) if STREAMED(past_caches(s), at=stage) else s.vectorize(lane)


def _grid(s: lp.Schedule, stage: str, loops: Sequence[str], lanes: int) -> lp.Schedule:
    """Several loops: the last free one inside all others, for the lanes; the first for the threads."""
    if len(loops) > 1:
        before = set(s.loops())
        width = lanes_for_periods(s, stage, loops[-1], _lanes_for_functions(s, stage, extent(s, loops[-1]), lanes))
        s = _vectors(s, loops[-1], LANE_ELEMENTS(width, at=stage))
        if stage not in s.stages:
            return s  # a step showed that it never runs
        lane = next((x for x in s.loops(stage) if s.loop(x).kind == "vectorize"), None)
        if lane is not None:
            order = (*(x for x in s.loops(stage) if x != lane), lane)
            if order != s.loops(stage) and s.why("reorder", *order) is None:
                s = s.reorder(*order)
            vector = next((x for x in s.loops(stage) if x not in before), lane)
            rows = GRID_ROWS(1, at=stage)
            if rows > 1 and (together := _rows_together(s, stage, vector, lane, rows)) is not None:
                return parallel_if_legal(together, stage, together.loops(stage)[0])
            s = if_legal(s, "partition", vector)  # one mask, in the last vector
    return parallel_if_legal(s, stage, loops[0])


def _rows_together(s: lp.Schedule, stage: str, vector: str, lane: str, rows: int) -> lp.Schedule | None:
    """`s` with so many rows of a grid in each iteration, so that what they share is read once."""
    loops = s.loops(stage)
    if loops[-2:] != (vector, lane) or len(loops) < 3 or (extent(s, loops[-3]) or rows) < 2 * rows:
        return None
    row = loops[-3]
    if s.why("split", row, rows, tail="peel") is not None:
        return None
    t, (outer, inner, *_) = s.split(row, rows, tail="peel").with_loops
    order = (*loops[:-3], outer, vector, inner, lane)
    if t.why("reorder", *order) is not None:
        return None
    t = t.reorder(*order)
    return if_legal(if_legal(t, "partition", vector), "unroll", inner)


def _lanes_for_functions(s: lp.Schedule, stage: str, length: int | None, lanes: int) -> int:
    """The lanes of an iteration of a loop: of up to LINE_VECTORS vectors, if there are functions of them to evaluate
    side by side and few of them run past the end of the loop; else of one."""
    if length is None or not evaluates_functions(s, stage):
        return lanes
    vectors = -(-length // lanes)
    for count in (LINE_VECTORS, LINE_VECTORS // 2):
        if count * lanes <= min(length, MOST_LANES) and -vectors % count <= IDLE * vectors:
            return count * lanes
    return lanes


def _masks_lanes() -> bool:
    """Whether this machine masks lanes of any load and store at no cost."""
    return lp.vector_unit()[1] >= MASKING_REGISTERS


def _vectors(s: lp.Schedule, loop: str, lanes: int, *, partition: bool = False) -> lp.Schedule:
    """`loop` by vectors of `lanes`; where it is shorter, by one of as many, if that is a power of two, or one in which
    some are masked, if these are few enough."""
    length, least = extent(s, loop), lanes // 4 + 1 if _masks_lanes() else lanes
    if length is not None and least <= length < lanes and length & (length - 1) == 0:
        lanes = length
    return s if length is not None and length < least else in_lanes(s, loop, lanes, partition=partition)
