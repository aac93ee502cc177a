"""A product, folds of its rows, and a product of what is made of both: found by structure, and put in one loop.

Attention is of this kind, with whatever is done to the scores in between. Nothing as long as a row of scores is kept:
the second product and the folds that need another fold's end run along with it, corrected as it goes on. Rows and keys
are the loops of the first product; what all terms of the second product share, as the sum of the powers, is multiplied
with its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import loopir as lp

from .contraction import Contraction, contraction, operands_read
from .nest_queries import if_legal, legal, reads_of, result_of
from .operands import NARROW, computed

Tail = Literal["exact", "guard"]
"""Of splits whose parts are whole, or are cut by guards."""


@dataclass(frozen=True)
class Chain:
    """The two products, what is made of each score before the first fold, that fold, what needs its end, and what is
    made of the second product or of folds; and the products `beside` the first one, among what comes before the fold,
    where scores are made of several."""

    first: Contraction
    before: tuple[str, ...]
    fold: str
    after: tuple[str, ...]
    second: Contraction
    last: tuple[str, ...]
    beside: tuple[Contraction, ...] = ()

    @property
    def products(self) -> tuple[Contraction, ...]:
        """All of them, in order."""
        return (self.first, *self.beside, self.second)


def chain(s: lp.Schedule) -> Chain | None:
    """The stages of `s` as a chain of products, each in a nest of its own over the same rows; None if they are not."""
    products = _products(s)
    if len(products) < 2 or s.stages[0] != products[0].stage:
        return None
    first, *beside, second = products
    n = s.stages.index(second.stage)
    ends = _ends(s, s.stages[1:n])
    between, last = [x for x in s.stages[1:n] if x not in ends], (*ends, *s.stages[n + 1 :])
    own = {x.stage for x in beside}
    folds = [x for x in between if s.reduced(x) and x not in own]
    if not folds or any(map(s.reduced, last)) or any(len(s.reduced(x)) != 1 for x in folds):
        return None
    pairs = [*(s.loops(x)[-2:] for x in between if x not in own), (second.row, second.reduced)]
    pairs += [(x.row, x.column) for x in beside]
    if not _are_alike(s, (first.row, first.column), pairs):
        return None
    m = between.index(folds[0])
    if not own <= {*between[:m]}:
        return None
    return Chain(first, tuple(between[:m]), folds[0], tuple(between[m + 1 :]), second, tuple(last), tuple(beside))


def _are_alike(s: lp.Schedule, loops: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> bool:
    """Whether each of `others` has the lengths of `loops`."""
    sizes = [s.loop(x).extent for x in loops]
    return all([s.loop(x).extent for x in other] == sizes for other in others)


def _with_operands(s: lp.Schedule) -> lp.Schedule | None:
    """`s` with what its last fold multiplies stored; parts of columns are read as they lie."""
    stage = next((x for x in reversed(s.stages) if s.reduced(x)), None)
    return None if stage is None else computed(s, stage, stored_views=False)


def _ends(s: lp.Schedule, stages: Sequence[str]) -> list[str]:
    """Those of `stages` whose results nothing reads."""
    read = {t.buffer for x in s.stages for t in s.accesses(x) if not t.write}
    return [x for x in stages if not any(t.buffer in read for t in s.accesses(x) if t.write)]


def factored(s: lp.Schedule) -> tuple[lp.Schedule, Chain] | None:
    """`s` with what all terms of its second product share multiplied with its result, and its chain; None if it has no
    chain."""
    s = _with_powers(s)
    found = _products(s)
    if _makes_powers(s, found) and (t := _with_operands(s)) is not None:
        s, found = t, _products(t)
    if len(found) < 2:
        return None
    s = if_legal(s, "factor_out", found[-1].stage)
    c = chain(s)
    return None if c is None else (s, c)


def _makes_powers(s: lp.Schedule, found: Sequence[Contraction]) -> bool:
    """Whether the last sum of `s` may be a product that makes its left operand itself: one that is not `found`."""
    sums = [x for x in s.stages if s.reduced(x)]
    return len(found) == 1 or (len(found) > 1 and sums[-1] != found[-1].stage)


def require_chain(s: lp.Schedule) -> tuple[lp.Schedule, Chain]:
    """As `factored`; ScheduleError if `s` has no chain."""
    found = factored(s)
    if found is None:
        raise lp.ScheduleError("there are no two products with folds of the first one's rows between them")
    return found


def backwards_if_legal(schedule: Callable[..., lp.Schedule], *args: Any) -> lp.Schedule:
    """What `schedule` makes of `args` with loops that run backwards; forwards where that is refused, as where a loop
    begins with a block that is not known to be there."""
    try:
        return schedule(*args, backwards=True)
    except lp.ScheduleError:
        return schedule(*args, backwards=False)


def float_of_16_bits(s: lp.Schedule, c: Chain) -> str:
    """The type of what both products of `c` read; ScheduleError unless it is one float of 16 bits."""
    read = {t.dtype.name for x in c.products for t in operands_read(s, x.stage)}
    if read not in ({"bfloat16"}, {"float16"}):
        raise lp.ScheduleError(f"the products are of {' and '.join(sorted(read))}, and not both of one 16-bit float")
    return read.pop()


def _products(s: lp.Schedule) -> list[Contraction]:
    found = (contraction(s, x, of_one_buffer=True, in_parts=True, gathered=True) for x in s.stages)
    return [c for c in found if c is not None]


def _with_powers(s: lp.Schedule) -> lp.Schedule:
    """`s` with a stage for what its last sum, if it is of float32, computes of several buffers and multiplies with
    elements of another one."""
    stage = next((x for x in reversed(s.stages) if s.reduced(x)), None)
    if stage is None:
        return s
    over, reads = s.reduced(stage), reads_of(s, stage)
    column = next((x for x in reversed(s.loops(stage)) if x not in over and _stores_along(s, stage, x)), None)
    left = [t for t in reads if column is not None and t.invariant(column)]
    if len(over) != 1 or len(left) < 2 or len(reads) != len(left) + 1:
        return s
    moving = _moving(s, stage, left)
    float32 = {t.dtype.name for t in reads} == {"float32"}
    names = tuple(dict.fromkeys(t.buffer for t in left))
    return if_legal(s, "reindex", stage, names, *moving) if float32 and over[0] in moving else s


def _moving(s: lp.Schedule, stage: str, touches: Sequence[Any]) -> list[str]:
    """The loops of `stage` along which one of `touches` goes on to another element."""
    return [x for x in s.loops(stage) if not all(t.invariant(x) for t in touches)]


def _stores_along(s: lp.Schedule, stage: str, loop: str) -> bool:
    return all(t.contiguous(loop) for t in s.accesses(stage) if t.write)


def with_own_sums(s: lp.Schedule) -> lp.Schedule:
    """`s` with the results of its second product in memory of its own, if it has two and these are an argument."""
    s = _with_powers(s)
    found = _products(s)
    if len(found) != 2:
        return s
    (made,) = (t.buffer for t in s.accesses(found[1].stage) if t.write)
    return s.cache_write(found[1].stage, "global") if any(a.buffer.name == made for a in s.func.args) else s


def with_shared_powers(s: lp.Schedule, c: Chain) -> tuple[lp.Schedule, Chain]:
    """`s` with folds that read what another stage between the products computes, where they would compute it, too."""
    for fold in (x for x in c.after if s.reduced(x)):
        for stage in (x for x in c.after if not s.reduced(x)):
            s = if_legal(s, "compute_once", stage, fold)
    return s, chain(s) or c


def with_scores(s: lp.Schedule, c: Chain) -> tuple[lp.Schedule, Chain]:
    """`s` with a stage for what its folds make of each element of the first product, if there is none."""
    if len(c.before) > len(c.beside):
        return s, c
    s, scores = _with_scores_of(s, c)
    for stage in c.after:
        s = if_legal(s, "compute_once", scores, stage)
    return s, chain(s) or c


def with_narrow_scores(s: lp.Schedule, c: Chain) -> tuple[lp.Schedule, Chain]:
    """`s` with a stage for what its folds make of each element of the first product in 16 bits, if they round it so
    first, and there is none: it is rounded once for all of them."""
    if len(c.before) > len(c.beside):
        return s, c
    for kind in NARROW:
        t = legal(s, _scores_of, c, kind)
        if t is not None:
            return t, chain(t) or c
    return s, c


def _scores_of(s: lp.Schedule, c: Chain, kind: str) -> lp.Schedule:
    s, scores = _with_scores_of(s, c, dtype=kind)
    for stage in c.after:
        s = if_legal(s, "compute_once", scores, stage)
    return s


def _with_scores_of(s: lp.Schedule, c: Chain, dtype: str | None = None) -> tuple[lp.Schedule, str]:
    """`s` with a stage for what its fold makes of an element of each product before it, and that stage."""
    made = tuple(result_of(s, x.stage) for x in (c.first, *c.beside))
    if len(made) == 1:
        return s.reindex(c.fold, made[0], dtype=dtype).with_stage
    return s.reindex(c.fold, made, *s.loops(c.fold), dtype=dtype).with_stage


def blocked(
    s: lp.Schedule,
    c: Chain,
    rows: int,
    keys: int,
    axis: str | None = None,
    *,
    backwards: bool = False,
    tails: tuple[Tail, Tail] = ("exact", "exact"),
) -> tuple[lp.Schedule, str, str]:
    """All stages in one loop over blocks of `rows`, bound to `axis` of the grid, if one is given, and in it one over
    blocks of `keys`; and these two loops. `tails` are those of the splits by rows and by keys.

    Blocks that a mask leaves out are left out. Where there are some, or the last block is no whole one, loops run
    `backwards`, if so told: the longest rows first, and of each row the block first that the mask of causal scores or
    the end of the keys cuts in two, so that no later block need be asked for it."""
    s, block = rows_in_blocks(s, c, rows, tails[0])
    outers: list[str] = []
    for stage in (c.fold, *c.after, c.second.stage):
        s, (outer, _) = s.split(s.loops(stage)[-1], keys, tail=tails[1]).with_loops
        outers.append(outer)
        inside = s.loops(stage)[s.loops(stage).index(block) + 1 :]
        s = s.reorder(outer, *(x for x in inside if x != outer))
    bound = s if axis is None else s.bind(block, axis)
    whole = _in_one_loop(bound, c, outers[0])
    masked = whole.why("trim", outers[0]) is None
    if not (backwards and (masked or tails[1] == "guard")):
        return if_legal(whole, "trim", outers[0]), block, outers[0]
    for loop in (block, *outers):
        s = s.reverse(loop)
    bound = s if axis is None else s.bind(block, axis)
    return if_legal(_in_one_loop(bound, c, outers[0]), "trim", outers[0]), block, outers[0]


def rows_in_blocks(s: lp.Schedule, c: Chain, rows: int, tail: Tail) -> tuple[lp.Schedule, str]:
    """All stages in one loop over blocks of `rows`, and that loop."""
    product, last = c.second.stage, s.stages[-1]
    beside = [x for x in c.last if s.loops(x)[:-1] == s.loops(product)[:-2]]  # in the nest of the product
    own = product if beside or not c.last else last
    s, (block, _) = s.split(s.loops(own)[-3 if own == product else -2], rows, tail=tail).with_loops
    for stage in reversed(c.after):  # what the product alone reads, so that its nest is beside those after it
        s = if_legal(s, "compute_at", stage, block)
    for stage in [x for x in c.last if own == product and block not in s.loops(x)]:
        if s.why("reverse_compute_at", stage, block) is None:
            s = s.reverse_compute_at(stage, block)
        else:  # it reads folds alone
            s, block = _merged_into(s, stage, own, block, rows, tail)
    for stage in reversed([x for x in s.stages if block not in s.loops(x)]):
        if stage in c.last:  # which nothing here reads
            s, block = _merged_into(s, stage, own, block, rows, tail)
        else:
            s = s.compute_at(stage, block)
    for stage in beside:
        for loop in reversed(s.loops(stage)[s.loops(stage).index(block) + 1 :]):
            s = s.distribute(loop, own)
    return s, block


def _merged_into(s: lp.Schedule, stage: str, own: str, block: str, rows: int, tail: Tail) -> tuple[lp.Schedule, str]:
    """`stage`, whose nest stands beside that of `own`, in the blocks of that; and the loop over these."""
    depth = s.loops(own).index(block)
    s, _ = s.split(s.loops(stage)[depth], rows, tail=tail).with_loops
    s = s.merge(*(s.loops(x)[0] for x in sorted((stage, own), key=s.stages.index)))
    return s, s.loops(own)[depth]


def _in_one_loop(s: lp.Schedule, c: Chain, outer: str) -> lp.Schedule:
    """The second product, and what needs the end of the fold, in the loop `outer` over its blocks."""
    s = s.simplify(drop_unit_loops=True).rolling_update((*c.after, c.second.stage), outer)
    beside = [x.stage for x in c.beside]  # products first, one right after the other
    for stage in reversed((c.first.stage, *beside, *(x for x in c.before if x not in beside))):
        s = s.compute_at(stage, outer)
    return s
