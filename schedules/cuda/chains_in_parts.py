"""A chain of products of few rows and many columns, the columns in parts: as many blocks as there are parts, and a
second kernel that folds what these give.

The nest is that of `..common.product_chains`, with so few rows that blocks of them alone leave most of a GPU without
work, as in decoding: one query of each head, and a long cache of keys. Each part folds its columns by itself, with its
own extremes (`use_partials`); the last folds correct its results to the extremes of all. Batches that share the right
operands, as heads that read the same keys do, are rows of one product, so that these are read once.
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
    iterations,
    readers,
    reads_of,
    result_of,
)
from ..common.product_chains import Chain, factored, require_chain, with_scores
from ..plan import flat
from .chain_by_threads import chain_by_threads
from .cheapest import cheapest
from .product_chains_mma import product_chain_mma
from .recipe_table import lowered

FEW_ROWS, FEW_BLOCKS = 16, 4
"""Rows of a tile of a warp, and tiles of a block: a chain of no more rows has parts where there is little else."""
KEYS_AT_ONCE = 64
"""Of a block, that a warp takes at once."""
LEAST_BLOCKS, MOST_COLUMNS, USUAL_PART = 4, 512, 256
"""Blocks of keys of a part, at least; keys of a part, at most, and where their number, or that of batches, is not
known."""
PROCESSOR_BLOCKS = 6
"""Blocks for each processor, about."""
FOLDING = 8
"""Threads that fold the partial results of an element together, at most; and how many of these each has at least."""


@lp.composite
def chain_in_parts(
    s: lp.Schedule, *, part: int | None = None, keys: int = KEYS_AT_ONCE, by_threads: bool = False
) -> lp.Schedule:
    """`s`, a chain of products with few rows, in two kernels: blocks fold `part` columns each, and a second one folds
    what these give. Blocks are a warp, which multiplies floats of 16 bits on tensor cores, `keys` columns at a time; or
    work `by_threads`, each of which has a vector of a row."""
    s, c = factored(s) or require_chain(s.simplify(drop_unit_loops=True))  # of one row, others become rows
    if c.beside:
        raise lp.ScheduleError("scores of several products have no parts", suggestion="product_chain")
    if not _has_few_rows(s, c):
        raise lp.ScheduleError("the rows of the chain are not few", suggestion="product_chain")
    part = part or _columns_of_part(s, c, keys)
    if (count := extent(s, c.first.column)) is not None and count <= part:
        raise lp.ScheduleError(f"{count} columns are no two parts of {part}")
    s, parts = _with_partials(s, c, part)
    first = lp.Schedule(lp.extract(s.func, parts).func)
    rest = tuple(x for x in s.stages if x not in parts)
    whole = lp.Schedule(lp.extract(s.func, rest).func)
    made = _batches_as_rows(first)
    made = chain_by_threads(made) if by_threads else product_chain_mma(made, warps=_warps(made), keys=keys)
    steps = [flat(y.steps_since(x) or ()) for x, y in ((first, made), (whole, _last_folds(whole)))]
    return s.schedule_nests((parts, steps[0]), (rest, steps[1]))


def _has_few_rows(s: lp.Schedule, c: Chain) -> bool:
    """Whether there are few of them, or they are few blocks, and a GPU has more processors than all batches have."""
    rows, batch = extent(s, c.first.row), iterations(s, c.first.batch)
    blocks = rows is not None and rows <= FEW_BLOCKS * FEW_ROWS and batch is not None
    return rows is not None and (rows <= FEW_ROWS or (blocks and (batch or 0) < lp.machine().processors))


def _warps(s: lp.Schedule) -> int:
    """Of a block: one for each tile of rows."""
    found = factored(s)
    rows = None if found is None else extent(found[0], found[1].first.row)
    return min(FEW_BLOCKS, -(-(rows or 1) // FEW_ROWS))


def _columns_of_part(s: lp.Schedule, c: Chain, keys: int) -> int:
    """The columns of a part: whole blocks of `keys`, and so few that every processor has its blocks, and there are two
    parts."""
    count, batch = extent(s, c.first.column), iterations(s, c.first.batch)
    if count is None or batch is None:
        return USUAL_PART
    shared = prod(size for _, size in _quotients(s, c.first.stage, c.first.right.buffer))
    parts = max(2, PROCESSOR_BLOCKS * lp.machine().processors * shared // batch)
    blocks = min(max(LEAST_BLOCKS, -(-count // (parts * keys))), MOST_COLUMNS // keys, max(1, count // (2 * keys)))
    whole = next((n for n in range(blocks, blocks // 2, -1) if count % (n * keys) == 0), blocks)
    return whole * keys


def _with_partials(s: lp.Schedule, c: Chain, part: int) -> tuple[lp.Schedule, tuple[str, ...]]:
    """`s` with what it folds over the columns of the first product folded in parts first, each by itself; and the
    stages that make the partial results."""
    if (count := extent(s, c.first.column)) is None or count % part:
        s, c = with_scores(s, c)  # which can be what changes nothing after the last column
    for x in c.after:  # made again for each part
        s = s if s.reduced(x) else s.compute_inline(x)
    for x in s.stages[s.stages.index(c.second.stage) + 1 :]:
        for loop in reversed([y for y in s.loops(x) if y in s.loops(c.second.stage)]):
            s = s.distribute(loop, c.second.stage)
    s, parts = _folds_in_parts(s, c, part)
    stored = list[str]()
    for x in parts:  # partial results stay in registers until they are stored for the last folds
        s, copy = _with_partials_stored(s, x, parts)
        stored.append(copy)
    return s, (c.first.stage, *c.before, *parts, *stored)


def _folds_in_parts(s: lp.Schedule, c: Chain, part: int) -> tuple[lp.Schedule, list[str]]:
    """`s` with all stages over columns in parts of these, what folds them by partial results that read one another's;
    and the stages that make these."""
    folds, parts = (c.fold, *(x for x in c.after if x in s.stages), c.second.stage), list[str]()
    for x in (c.first.stage, *c.before, *folds):
        s, (outer, _) = s.split(s.loops(x)[-2 if x == c.first.stage else -1], part).with_loops
        s = s.reorder(outer, *(y for y in s.loops(x) if y != outer))
        if x in folds:
            s = s.rfactor(x, outer)
            parts += s.last.stages
    for x in folds[1:]:
        s = s.use_partials(x, c.fold)
        for y in [y for y in s.last.stages if y not in folds]:  # 0 in place of the extreme of nothing
            s = s.compute_inline(y)
    return s, parts


def _with_partials_stored(s: lp.Schedule, stage: str, parts: Sequence[str]) -> tuple[lp.Schedule, str]:
    """`s` with a copy of what `stage` of `parts` makes for all others that read it."""
    (made,) = (t for t in s.accesses(stage) if t.write)
    first, *more = (x for x in readers(s, stage) if x not in parts)
    over = s.reduced(first)
    s, copy = s.reindex(first, made.buffer, *over, *(x for x in s.loops(first) if x not in over)).with_stage
    for x in more:
        s = s.compute_once(copy, x)
    return s, copy


def _quotients(s: lp.Schedule, stage: str, buffer: str) -> list[tuple[str, int]]:
    """The loops by whose quotients `stage` finds elements of `buffer`, each with the divisor."""
    found = [d.digit for t in reads_of(s, stage) if t.buffer == buffer for d in t.subscripts]
    return [(x.loop, x.weight) for x in found if x is not None and x.is_quotient]


def _batches_as_rows(s: lp.Schedule) -> lp.Schedule:
    """`s` with batches of its first product that share their right operand as a loop of their own, in all stages."""
    first = s.stages[0]
    shared = {x for t in s.accesses(first) if not t.write for x in _quotients(s, first, t.buffer)}
    if len(shared) != 1:
        return s
    ((loop, size),) = shared
    for x in dict.fromkeys(counting_same(s, first, loop).values()):
        s = s.split(x, size, tail="exact")
    return s.simplify(drop_unit_loops=True)


def _last_folds(s: lp.Schedule) -> lp.Schedule:
    """The folds of partial results, and what is made of them, in one kernel: a block for each row of the results, a
    thread for each of their columns, or several where there are many parts."""
    *others, last = s.stages
    for x in others:
        over = s.reduced(x)
        s = s.reorder(*(y for y in s.loops(x) if y not in over), *over) if over else s
    sizes = _free_sizes(s, last)
    along = [x for x in others if _free_sizes(s, x) == sizes]
    nests = list(dict.fromkeys(s.loops(x)[0] for x in along))
    s = s.merge(*nests) if len(nests) > 1 else s
    *rows, column = s.loops(along[0])[: len(sizes)]
    s, row = fused(s, rows)
    s = s.reverse_compute_at(last, column)
    for x in reversed([x for x in others if x not in along]):
        s = s.compute_at(x, column)
    s = s.bind(row, "blockIdx.x").bind(column, "threadIdx.x").simplify(drop_unit_loops=True)
    return _by_rows_of_threads(s)


def _free_sizes(s: lp.Schedule, stage: str) -> list[str]:
    """Of the loops that `stage` is not folded over."""
    return [lp.text(s.loop(x).extent) for x in s.loops(stage) if x not in s.reduced(stage)]


def _by_rows_of_threads(s: lp.Schedule) -> lp.Schedule:
    """What each thread makes in its registers, and folds of many parts by several threads."""
    results = argument_names(s)
    for x in s.stages:
        made = result_of(s, x)
        s = s if made in results else s.set_scope(made, "local")
        for over in s.reduced(x):
            count = extent(s, over)
            threads = FOLDING if count is None else min(FOLDING, count // FOLDING)
            if threads > 1:
                s, (_, inner) = s.split(over, threads).with_loops
                s = s.bind(inner, "threadIdx.y")
            elif count is not None:
                s = if_legal(s, "unroll", over)
    return s


def chain_of_few_rows(s: lp.Schedule) -> lp.Schedule:
    """`chain_in_parts` of `s` on tensor cores or by threads, whichever is predicted to be faster; by threads, if they
    can, where columns are no whole blocks: copies of tiles under guards are waited for one by one."""
    found = factored(s)
    count = None if found is None else extent(found[0], found[1].first.column)
    guarded = found is not None and (count is None or count % KEYS_AT_ONCE != 0)
    if guarded and (made := lowered(s, chain_in_parts, by_threads=True)) is not None:
        return made
    made = cheapest(s, [chain_in_parts, partial(chain_in_parts, by_threads=True)])
    if made is None:
        raise lp.ScheduleError("the stages are no chain of products of few rows that has parts")
    return made
