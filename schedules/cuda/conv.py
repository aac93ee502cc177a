"""Convolutions, and products whose batches share an operand, as products of matrices.

`as_matmul` counts their loops together, so that a product of two matrices is left, whose operands are found in the
tensors by index arithmetic: they exist as tiles alone, where a product's tiles are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import loopir as lp

from ..common.fusion import epilogue
from ..common.nest_queries import (
    extent,
    free_loops,
    fused,
    if_legal,
    iterations,
    one_nest,
    reader,
    reads_of,
    result_of,
)
from ..common.operands import own_part
from ..common.products import Product, Side, filled, followed, product, require_product
from ..common.transpose import find_transposed_read, transpose, worth_turning
from .cheapest import cheapest
from .elementwise import by_element, elementwise
from .matmul_mma import ROUNDINGS, matmul_mma
from .matmul_simt import matmul_simt
from .matmul_split_k import MOST_PARTS, matmul_simt_split, matmul_split
from .matmul_wgmma import matmul_wgmma
from .recipe_table import lowered
from .tile_choice import COPY_VECTOR, part_counts


@lp.composite
def as_matmul(
    s: lp.Schedule, stage: str, out: str, *, across: bool = False, last: str | None = None, together: bool = False
) -> lp.Schedule:
    """`stage` and `out`, which reads its sums one by one, as matrices: a row, a column and a folded loop, in batches.

    Loops of one operand that follow one another become one, and so do those that are folded. What the stage makes of
    each operand is a stage of its own, a matrix over these loops, to be computed where its tiles are needed. Its rows
    run along the folded loop where the operand's elements do, unless they are to go `across` it. Of the folded loops
    `last` is the innermost one, or that along which an operand runs. With `together`, all loops of the left operand
    are rows of one matrix, in the order of its elements, however they stand: phases of a transposed convolution that
    read the same elements are rows, and no batches.
    """
    buffer = result_of(s, stage)
    s = _groups_apart(s, stage, buffer, require_product(s, stage))
    s = _rows_together(s, stage, out) if together else s
    p = require_product(s, stage)
    runs = _runs(p)
    row = max(n for n, (_, run) in enumerate(runs) if run[0] in p.left.loops)
    column = next(n for n, (_, run) in enumerate(runs) if p.column in run)
    order = (*(n for n in range(len(runs)) if n not in (row, column)), row, column)
    s = _matrix_dims(s, stage, buffer, [run for _, run in runs], order)
    s = s.reorder(*p.free, *_innermost(p, last))
    nests: list[tuple[str, ...]] = []
    for loops in (s.loops(out)[-len(p.free) :], p.free):
        made: list[str] = []
        for first, run in runs:
            s, loop = fused(s, loops[first : first + len(run)])
            made.append(loop)
        nests.append(tuple(made))
    s, k = fused(s, s.reduced(stage))
    for own, inner in zip(nests, ((), (k,)), strict=True):
        s = s.reorder(*(own[n] for n in order), *inner)
    return _matrices(s, stage, p, [nests[1][n] for n in order], k, across, together)


def _rows_together(s: lp.Schedule, stage: str, out: str) -> lp.Schedule:
    """`s` with the loops of the left operand next to each other where the last one of them stands, in `stage`, in what
    it writes and in `out`; ScheduleError if they are. An operand that is elements of an array is read from there."""
    p = require_product(s, stage)
    if sum(run[0] in p.left.loops and run[0] not in p.right.loops for _, run in _runs(p)) < 2:
        raise lp.ScheduleError(f"the loops of one operand of {stage} stand next to each other")
    maker = next((x for x in filled(s, [stage]) if result_of(s, x) == p.left.buffer), None)
    s = s if maker is None else if_legal(s, "compute_inline", maker)
    p = require_product(s, stage)
    read = next(t for t in reads_of(s, stage) if t.buffer == p.left.buffer)
    far = {x: getattr(read.strides.get(x), "value", None) or 0 for x in p.left.loops}
    rows = sorted((x for x in p.free if x in p.left.loops and x not in p.right.loops), key=lambda x: -far[x])
    others = [x for x in p.free if x not in rows]
    place = len([x for x in p.free[: max(map(p.free.index, rows))] if x in others])
    order = (*others[:place], *rows, *others[place:])
    own = s.loops(out)[-len(p.free) :]
    s = s.reorder_dims(result_of(s, stage), *map(p.free.index, order)).reorder(*order, *p.reduced)
    return s.reorder(*(own[p.free.index(x)] for x in order))


def _matrix_dims(
    s: lp.Schedule, stage: str, buffer: str, runs: Sequence[tuple[str, ...]], order: Sequence[int]
) -> lp.Schedule:
    """`s` with a dimension of `buffer`, which `stage` writes, for each of `runs`, in this order; none for a loop of one
    iteration."""
    (written,) = (t for t in s.accesses(stage) if t.write)
    counted = [[n for n, d in enumerate(written.subscripts) if d.variables & {*run}] for run in runs]
    for dims in reversed(counted):
        s = s.fuse_dims(buffer, dims[0], len(dims)) if len(dims) > 1 else s
    there = [n for n, dims in enumerate(counted) if dims]
    moved = [there.index(n) for n in order if n in there]
    return s if moved == sorted(moved) else s.reorder_dims(buffer, *moved)


def _groups_apart(s: lp.Schedule, stage: str, buffer: str, p: Product) -> lp.Schedule:
    """`s` with a dimension of `buffer` for each loop of `stage` that was cut into groups and what is in one, so that
    what a tile has beyond a group is no other one's."""
    (written,) = (t for t in s.accesses(stage) if t.write)
    for n, at in reversed([*enumerate(written.subscripts)]):
        inner = [x for x in p.free if x in at.variables][1:]
        size = prod(extent(s, x) or 0 for x in inner)
        s = s.split_dim(buffer, n, size) if inner else s
    return s


def _matrices(
    s: lp.Schedule, stage: str, p: Product, loops: Sequence[str], k: str, across: bool, together: bool
) -> lp.Schedule:
    """What `stage` makes of its operands, over the `loops` of a batch, a row and a column, and the folded `k`."""
    *batch, row, column = loops
    for side, x in ((p.left, row), (p.right, column)):
        touch = next(t for t in s.accesses(stage) if t.buffer == side.buffer)
        by = touch.by if touch.by in ROUNDINGS else None
        runs = side is p.right or (together and side.along is not None)
        matrix = (k, x) if across or (runs and side.along not in p.reduced) else (x, k)
        s = s.reindex(stage, side.buffer, *(b for b in batch if not touch.invariant(b)), *matrix, argument_of=by)
    return s


def _runs(p: Product) -> list[tuple[int, tuple[str, ...]]]:
    """The free loops in runs of one kind: of the left operand, of the right one, of both; each with where it starts."""
    runs: list[tuple[int, tuple[str, ...]]] = []
    for n, x in enumerate(p.free):
        kind = x in p.left.loops, x in p.right.loops
        if runs and kind == (runs[-1][1][0] in p.left.loops, runs[-1][1][0] in p.right.loops):
            first, run = runs.pop()
            runs.append((first, (*run, x)))
        else:
            runs.append((n, (x,)))
    return runs


def _innermost(p: Product, last: str | None = None) -> tuple[str, ...]:
    """The folded loops, `last` or one that runs along an operand last."""
    last = last or next((t.along for t in (p.left, p.right) if t.along in p.reduced), p.reduced[-1])
    return (*(x for x in p.reduced if x != last), str(last))


SIMT_TILES = ((128, 64), (8, 8)), ((64, 64), (4, 8)), ((64, 32), (4, 4)), ((32, 32), (4, 4))
"""Tiles of a block on ordinary units, the largest first, with the part of a thread."""
SIMT_DEPTHS = 32, 40, 24, 16, 8
"""Steps of a tile there, the first that divides a folded loop."""
SIMT_DEPTH = 16
"""The same where none does."""
SIMT_BLOCKS = 4
"""Blocks of a processor there, at most, where a folded loop is cut in parts."""
SIMT_SPLIT_TILE = SIMT_TILES[2]
"""The tile there, with the part of a thread, where a folded loop is cut in parts."""
SPLIT_TILE, SPLIT_DEPTH = (32, 64), 64
"""The tile of a product whose folded loop is cut in parts, and its steps of 16 bits."""
LOST = 1.2
"""How many times as many elements as with the tile that loses fewest a tile may fill up."""
GATHERED_TILES: tuple[dict[str, Any], ...] = (
    {"block": (64, 64), "warps": (2, 4), "depth": 64},
    {"block": (32, 32), "warps": (2, 2), "depth": 64},
    {"together": True},
    {"block": (64, 64), "warps": (2, 2), "depth": 64, "together": True},
)
"""Options of products whose elements are copied one by one: threads for few elements each."""
FEW = (64, 128)
"""The tile of which there are to be as many as processors, else smaller ones are tried, too."""
PIECE, STEPS, ENOUGH, AHEAD = 128, 8, 92, 3
"""Of warpgroups: bytes of a step; steps of a tile, and tiles, that are enough; the fewest stages."""
ROWS, WIDTHS, MOST_STAGES = 128, (128, 64), 6
"""Rows and columns of a tile of warpgroups, and the most stages that are worth their shared memory."""
VECTOR, HALF, SUM = 16, 2, 4
"""Bytes of a vector, of an element of 16 bits, whose products rates are of, and of a sum."""
GATHERED, BARRIERS = 25, 1024
"""Instructions that find a vector of a window and test its borders, and bytes of a block for its barriers."""
SMALL_TILES: tuple[dict[str, Any], ...] = (
    {"block": (32, 64), "warps": (2, 2), "depth": 64, "stages": AHEAD},
    {"block": (64, 64), "warps": (2, 2), "depth": 64, "stages": AHEAD},
)
"""Options of products of few tiles."""


@lp.composite
def conv_mma(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] | None = None,
    warps: tuple[int, int] | None = None,
    depth: int | None = None,
    stages: int | None = None,
    stored: tuple[str, ...] = (),
    together: bool = False,
) -> lp.Schedule:
    """The product `stage` of 16-bit floats, or TF32, over several loops, such as a convolution, on tensor cores.

    It is `matmul_mma` of `as_matmul`, with the same options: the matrices' tiles are copied straight from the tensors,
    and borders are filled up in these copies, unless they are `stored` by stages of their own. Unless told, a tile is
    as large as leaves one for each processor, and copies run ahead where they can be asynchronous.
    """
    s, stage, out = followed(s, stage)
    p = product(s, stage)
    wide = p is not None and _is_wide(s, p)
    s = as_matmul(s, stage, out, together=together)
    sources = s.last.stages
    row, column, _ = s.loops(stage)[-3:]
    chosen = _tile(extent(s, row), extent(s, column), wide)
    return matmul_mma(
        s, stage, block=block or chosen[0], warps=warps or chosen[1], depth=depth or _fitted(s, stage, chosen[2]),
        stages=stages or chosen[3], within=_made_in_tiles_of(s, sources, stored), staged=True,
    )  # fmt: skip


def _fitted(s: lp.Schedule, stage: str, count: int) -> int:
    """As many elements of what `stage` multiplies as have the bytes of `count` of 16 bits."""
    return count * HALF // reads_of(s, stage)[0].dtype.bytes


def _is_wide(s: lp.Schedule, p: Product) -> bool:
    """Whether the operands of `p` lie in whole vectors."""
    vectors = ((t, VECTOR // s.buffer(t.buffer).dtype.bytes) for t in (p.left, p.right))
    return all((extent(s, t.along or "") or n) % n == 0 for t, n in vectors)


def _made_in_tiles_of(s: lp.Schedule, sources: Sequence[str], stored: Sequence[str] = ()) -> tuple[str, ...]:
    """What is computed where tiles of the matrices `sources` are copied: these, and what fills their borders up."""
    return (*sources, *(x for x in filled(s, sources) if x not in stored))


@lp.composite
def conv_split(
    s: lp.Schedule,
    stage: str,
    *,
    parts: int,
    block: tuple[int, int] = SPLIT_TILE,
    warps: tuple[int, int] = (1, 2),
    depth: int | None = None,
    stages: int = 1,
    stored: tuple[str, ...] = (),
) -> lp.Schedule:
    """As `conv_mma`, with the folded loop in `parts`, whose sums are added up by another launch: for few tiles."""
    s, stage, out = followed(s, stage)
    s = as_matmul(s, stage, out)
    within = _made_in_tiles_of(s, s.last.stages, stored)
    depth = depth or _fitted(s, stage, SPLIT_DEPTH)
    return matmul_split(
        s, stage, parts=parts, block=block, warps=warps, depth=depth, stages=stages, warpgroups=False, within=within
    )


@lp.composite
def conv_channels_last(
    s: lp.Schedule, stage: str, *, parts: int = 1, warpgroups: bool = False, **tile: Any
) -> lp.Schedule:  # fmt: skip
    """As `conv_mma` or, for `warpgroups`, `conv_wgmma` with options of its `tile`, or `conv_split` in `parts`, of
    operands stored first so that their rows run along the channels: the folded loop that counts a dimension of each by
    itself, and is no part of a window.

    Borders are stored, too. So tiles are copied in whole vectors, asynchronously, whatever the window is.
    """
    s, stage, _ = followed(s, stage)
    p = product(s, stage)
    channel = None if p is None else channel_of(s, stage, p)
    if p is None or channel is None or p.left.along == p.right.along == channel:
        raise lp.ScheduleError(f"{stage} folds no channels across the rows of its operands")
    stored: list[str] = []
    for side in (p.left, p.right):
        if side.along != channel:
            s, made = _stored_along(s, stage, side, channel)
            stored.append(made)
    if warpgroups or parts == 1:
        s = (conv_wgmma if warpgroups else conv_mma)(s, stage, stored=tuple(stored), **tile)
    else:
        s = conv_split(s, stage, parts=parts, stages=AHEAD, stored=tuple(stored))
    for x in stored:
        transposed = find_transposed_read(s, x)
        tiled = lowered(s, transpose, x) if transposed is not None and worth_turning(s, transposed) else None
        s = tiled if tiled is not None else elementwise(s, x)
    return s


def channel_of(s: lp.Schedule, stage: str, p: Product) -> str | None:
    """The longest folded loop that counts a dimension of each operand by itself, and no window with another loop."""
    found: list[set[str]] = []
    for side in (p.left, p.right):
        names = [d.variables for d in _dimensions(s, stage, side)]
        found.append({x for x in p.reduced for d in names if x in d and not d & {*side.loops, *p.reduced} - {x}})
    both = [x for x in p.reduced if all(x in own for own in found) and (extent(s, x) or 1) % COPY_VECTOR == 0]
    return max(both, key=lambda x: extent(s, x) or 0, default=None)


def _dimensions(s: lp.Schedule, stage: str, side: Side) -> tuple[Any, ...]:
    """The subscripts of an operand's element."""
    return next(t.subscripts for t in reads_of(s, stage) if t.buffer == side.buffer)


def _stored_along(s: lp.Schedule, stage: str, side: Side, channel: str) -> tuple[lp.Schedule, str]:
    """An operand stored so that its last dimension is that of the `channel`, and the stage that stores it: the one that
    makes it, if it is made for this product alone, or a copy."""
    at = next(n for n, d in enumerate(_dimensions(s, stage, side)) if channel in d.variables)
    made = next(
        (x for x in filled(s, [stage]) if any(t.write and t.buffer == side.buffer for t in s.accesses(x))), None
    )
    buffer = side.buffer
    if made is None:
        s, made = s.cache_read(stage, side.buffer, "global", None).with_stage
        buffer = result_of(s, made)
    order = [n for n in range(len(s.buffer(buffer).shape)) if n != at]
    return s.reorder_dims(buffer, *order, at), made


def conv_on_tensor_cores(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The product `stage` by `conv_mma`, or, where there are fewer tiles than processors, by `conv_split`, whichever is
    predicted to be faster.

    Where elements are copied one by one, as they do not lie in whole vectors, it is tried with more warps for a tile,
    too, and with all loops of an operand as rows. Copies that have the channels last are left to warpgroups, too, where
    there are any.
    """
    one = partial(_with_reader, stage=stage)
    recipes: list[Callable[[lp.Schedule], lp.Schedule]] = [partial(one, how=conv_mma, options={})]
    gathered, small = ([_of_elements(s, stage, x) for x in found] for found in (GATHERED_TILES, SMALL_TILES))
    if (counts := _counts_of_parts(s, stage, SPLIT_TILE, 2)) is not None:
        cut, made, _ = followed(s, stage)
        p = require_product(cut, made)
        wide = _is_wide(cut, p)
        if not wide:
            recipes += [partial(one, how=conv_mma, options=x) for x in gathered]
        recipes += [partial(one, how=conv_split, options={"parts": n}) for n in counts]
        recipes += [partial(one, how=conv_channels_last, options={"parts": n}) for n in (1, *counts[-1:])]
        if lp.machine().has("wgmma"):
            recipes += [partial(one, how=conv_channels_last, options={"warpgroups": True})]
        found = _tile_count(s, stage, FEW)
        if not counts and found is not None and found[0] < lp.machine().processors:
            how = conv_mma if wide or channel_of(cut, made, p) is None else conv_channels_last
            recipes += [partial(one, how=how, options=x) for x in small]
    return _cheapest_of(s, stage, recipes)


def _of_elements(s: lp.Schedule, stage: str, tile: dict[str, Any]) -> dict[str, Any]:
    """Options of a `tile` with its depth in elements of what `stage` multiplies."""
    return tile | ({"depth": _fitted(s, stage, tile["depth"])} if "depth" in tile else {})


def _counts_of_parts(s: lp.Schedule, stage: str, tile: tuple[int, int], blocks: int, busy: int = 1) -> list[int] | None:
    """Into how many parts the folded loop of `stage` may be cut, for about so many `blocks` of a processor: none where
    tiles are more than half of those that keep all processors `busy`; None where its sizes are not known."""
    found = _tile_count(s, stage, tile)
    if found is None:
        return None
    (tiles, depth), processors = found, lp.machine().processors
    return part_counts(depth, blocks * processors // max(1, tiles)) if 2 * tiles <= busy * processors else []


def _tile_count(s: lp.Schedule, stage: str, tile: tuple[int, int]) -> tuple[int, int] | None:
    """How many tiles the product `stage` has, and over how many steps it folds; None where its sizes are not known."""
    s, stage, _ = followed(s, stage)
    if (p := product(s, stage)) is None:
        return None
    groups = [x for x in p.free if x not in (*p.left.loops, *p.right.loops)]
    sizes = [iterations(s, x) for x in (p.left.loops, p.right.loops, p.reduced, groups)]
    if None in sizes:
        return None
    rows, columns, depth, batch = (n or 0 for n in sizes)
    return -(-rows // tile[0]) * -(-columns // tile[1]) * batch, depth


def _cheapest_of(s: lp.Schedule, stage: str, recipes: list[Callable[[lp.Schedule], lp.Schedule]]) -> lp.Schedule:
    """The cheapest that `recipes` make of the product `stage` and of what fills its borders up."""
    found = cheapest(s, recipes, part=own_part(s, stage, filled(s, [stage]))) if len(recipes) > 1 else recipes[0](s)
    if found is None:
        raise lp.ScheduleError(f"{stage} is no convolution that these units take in tiles")
    return found


def _with_reader(
    s: lp.Schedule, stage: str, how: Callable[..., lp.Schedule], options: dict[str, Any]
) -> lp.Schedule:  # fmt: skip
    """The product `stage` by `how`, and by threads what reads it alone, where no tile of it is made there."""
    after = reader(s, stage)
    s = how(s, stage, **options)
    if after is None or after not in s.stages or s.reduced(after) or not one_nest(s, after):
        return s
    return elementwise(s, after) if free_loops(s, after) else s


@lp.composite
def conv_wgmma(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] | None = None,
    parts: int | None = None,
    stages: int | None = None,
    stored: tuple[str, ...] = (),
) -> lp.Schedule:
    """As `conv_mma`, on warpgroups: what comes in boxes, weights above all, is copied so, and windows in vectors; with
    the folded loop in `parts`, whose sums are added up by another launch, where there are few tiles.

    Unless a `block` is told, it is refused where parts of tiles are too few for a GPU or steps for a part, or where the
    folded loop does not run along the left operand in whole pieces of 128 bytes.
    """
    s, stage, out = followed(s, stage)
    p = product(s, stage)
    if block is None:
        chosen = None if p is None else _warpgroups(s, p, s.buffer(result_of(s, out)).dtype.bytes)
        if chosen is None:
            raise lp.ScheduleError(f"{stage} is left to warps: warpgroups take many large tiles of many whole steps")
        block, parts, stages = chosen.block, parts or chosen.parts, stages or chosen.stages
    s = as_matmul(s, stage, out)
    within = _made_in_tiles_of(s, s.last.stages, stored)
    options: dict[str, Any] = {"block": block, "stages": stages or AHEAD, "group": 1, "roles": False, "within": within}
    if parts is None or parts == 1:
        return matmul_wgmma(s, stage, **options)
    return matmul_split(s, stage, parts=parts, **options)


def conv_on_warpgroups(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The product `stage` by `conv_wgmma`; where weights lie along a window, as torch's do, they are stored along their
    channels first."""
    p = product(s, stage)
    channel = None if p is None else channel_of(s, stage, p)
    if p is not None and p.left.along == channel and p.right.along in p.reduced and p.right.along != channel:
        return conv_channels_last(s, stage, warpgroups=True)
    return conv_wgmma(s, stage)


@lp.composite
def conv_simt(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] | None = None,
    part: tuple[int, int] | None = None,
    depth: int | None = None,
    stages: int = 3,
    parts: int = 1,
) -> lp.Schedule:
    """The product `stage` of float32 over several loops on ordinary units: `matmul_simt` of `as_matmul`.

    Elements of the matrices are found in the tensors by index arithmetic while their tiles are copied, `stages` less
    one steps ahead. Without a `block`, a tile is the largest that leaves one for each processor. With several `parts`,
    the folded loop is cut in as many, whose sums are added up by another launch: for few tiles of many steps.
    """
    s, stage, out = followed(s, stage)
    p = require_product(s, stage)
    whole = ((n, x) for n in SIMT_DEPTHS for x in p.reduced if (extent(s, x) or n + 1) % n == 0)
    steps, along = next(whole, (SIMT_DEPTH, _innermost(p)[-1]))  # the others are the same in all of a step then
    depth = depth or steps
    s = as_matmul(s, stage, out, across=True, last=along)
    *batch, row, column, _ = s.loops(stage)
    chosen = _simt_tile(*(iterations(s, x) for x in (batch, [row], [column])))
    block, part = block or chosen[0], part or chosen[1]
    sources = s.last.stages
    runs = (p.left.along == along, p.right.along == along)
    packed = [x for x, side in _read_by(s, sources, p) if side.along in p.reduced and side.along != along]
    within = _made_in_tiles_of(s, [x for x in sources if x not in packed])
    how = matmul_simt if parts == 1 else partial(matmul_simt_split, parts=parts)
    s = how(s, stage, block=block, part=part, depth=depth, piece=depth, stages=stages, runs=runs, within=within)
    for x in packed:  # elements next to each other in memory are of different steps
        s = by_element(s, x)
    if parts > 1:
        return s
    s = epilogue(s, stage)
    return elementwise(s, out) if out in s.stages else s  # where it is no store of a tile


def conv_of_floats(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The product `stage` of float32 by `conv_simt`; where there are few tiles, with the folded loop in parts, if that
    is predicted to be faster."""
    recipes: list[Callable[[lp.Schedule], lp.Schedule]] = [partial(conv_simt, stage=stage)]
    block, part = SIMT_SPLIT_TILE
    counts = _counts_of_parts(s, stage, block, SIMT_BLOCKS, busy=SIMT_BLOCKS) or []
    recipes += [partial(conv_simt, stage=stage, block=block, part=part, parts=n) for n in counts[1:]]
    return _cheapest_of(s, stage, recipes)


def _read_by(s: lp.Schedule, sources: Sequence[str], p: Product) -> list[tuple[str, Side]]:
    """The stages that hold an operand's matrix, each with the operand."""
    sides = {side.buffer: side for side in (p.left, p.right)}
    return [(x, sides[t.buffer]) for x in sources for t in s.accesses(x) if t.buffer in sides and not t.write]


def _simt_tile(
    batch: int | None, rows: int | None, columns: int | None
) -> tuple[tuple[int, int], tuple[int, int]]:  # fmt: skip
    """The tile of a block, and the part of it of a thread."""
    if batch is None or rows is None or columns is None:
        return SIMT_TILES[0]
    counts = [batch * -(-rows // m) * -(-columns // n) for (m, n), _ in SIMT_TILES]
    filled = [n * m * count for ((m, n), _), count in zip(SIMT_TILES, counts, strict=True)]
    for tile, count, size in zip(SIMT_TILES, counts, filled, strict=True):
        if count >= lp.machine().processors and size <= LOST * min(filled) and tile[0][1] <= columns:
            return tile
    return SIMT_TILES[-1]


@dataclass(frozen=True)
class _Warpgroups:
    """Tiles for warpgroups: their size, parts of the folded loop, steps under way, and the seconds that is to take."""

    block: tuple[int, int]
    parts: int
    stages: int
    seconds: float


def _warpgroups(s: lp.Schedule, p: Product, made: int) -> _Warpgroups | None:
    """The tiles for warpgroups that take the fewest seconds, for results of so many bytes that are `made`; None where
    warps are the faster ones, or were not measured against."""
    rows, columns, depth = (iterations(s, x, 0) or 0 for x in (p.left.loops, p.right.loops, p.reduced))
    plain = len(p.free) == len({*p.left.loops, *p.right.loops}) and p.left.along in p.reduced
    piece = PIECE // s.buffer(p.left.buffer).dtype.bytes
    if not plain or (extent(s, p.left.along or "") or 0) % piece:
        return None
    steps = depth // piece
    widths = [n for n in WIDTHS if columns % n == 0]
    counts = [n for n in range(1, MOST_PARTS + 1) if steps % n == 0 and steps // n >= STEPS]
    found = [_in_warpgroups(rows, columns, steps, w, n, made if n == 1 else SUM) for w in widths for n in counts]
    return min((x for x in found if x is not None), key=lambda x: x.seconds, default=None)


def _in_warpgroups(
    rows: int, columns: int, steps: int, width: int, parts: int, made: int
) -> _Warpgroups | None:  # fmt: skip
    """Tiles of so many columns in so many parts, of results of so many bytes; None where they are too few.

    A processor gets the pieces of all its blocks from the L2 cache. In a step a block finds the elements of a window,
    multiplies, and meets at a barrier, one after another.
    """
    gpu, high = lp.machine(), ROWS
    blocks = -(-rows // high) * (columns // width) * parts
    if blocks < ENOUGH:
        return None
    piece, results = (high + width) * PIECE, high * (width + COPY_VECTOR) * made + BARRIERS
    most = gpu.shared_per_processor // (AHEAD * piece + results + gpu.shared_reserved)
    resident = min(-(-blocks // gpu.processors), most)
    room = min(gpu.shared_per_block, gpu.shared_per_processor // resident - gpu.shared_reserved)
    stages = min(MOST_STAGES, steps // parts, (room - results) // piece)
    if stages < AHEAD:
        return None
    cache = -(-blocks // gpu.processors) * (steps // parts) * piece / gpu.tiles.cache
    found = high * PIECE / VECTOR * GATHERED / gpu.lanes
    step = gpu.round_latency + high * width * PIECE / HALF / gpu.tiles.wgmma + found  # of more bytes are as many fewer
    turns = -(-blocks // (gpu.processors * resident))
    seconds = max(cache, turns * (steps // parts) * step) / gpu.clock
    if parts > 1:
        seconds += gpu.launch + (2 * parts + 1) * rows * columns * 4 / gpu.l2_bandwidth
    return _Warpgroups((high, width), parts, stages, seconds)


def _tile(rows: int | None, columns: int | None, wide: bool) -> tuple[tuple[int, int], tuple[int, int], int, int]:
    """The tile for a block, its warps, the depth of a step and the steps under way at once."""
    high, across = _at_most(rows), _at_most(columns)
    if not wide:
        return (high, min(across, 64)), (min(2, high // 16), 1 if across < 64 else 2), 32, 1
    if across <= 64:
        return (high, across), (max(1, high // 32), 1 if across < 64 else 2), 64, 3
    if rows is not None and columns is not None and -(-rows // 128) * -(-columns // 128) < lp.machine().processors:
        return (min(high, 64), 128), (min(2, high // 16), 2), 64, 3
    return (high, 128), (2, 2), 32, 4


def _at_most(length: int | None) -> int:
    """The largest side of a tile that `length` fills."""
    return next((n for n in (128, 64, 32) if length is None or n <= length), 16)
