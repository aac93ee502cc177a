"""Nests as they are written by hand, in the form in which schedules find folds and products.

Updates, as `x += e`, become reductions, which start from the number that is stored just before them; memory that each
iteration writes anew becomes its own; loops around several statements are distributed, so that each fold has a nest of
its own; and the loops that a fold is over stand inside those that tell its elements apart, of which the one along
memory is the last. A product over a triangle is computed over the rectangle around it, in memory of its own. Each is
an ordinary step, taken where it is legal.
"""

from __future__ import annotations

import loopir as lp

from .contraction import contraction, separate_operands
from .nest_queries import argument_names, extent, if_legal, is_guarded, one_nest, reads_of, result_of


@lp.composite
def normalized(s: lp.Schedule, *, whole: bool = True) -> lp.Schedule:
    """`s` with its updates as reductions, each in a nest of its own where that is legal, reduced loops innermost.

    A program without updates is left as it is. A product over a triangle computes the `whole` rectangle around it, or
    keeps the test for whether an element is in the triangle, by which tiles that are outside can be left out.
    """
    updates = [x for x in s.stages if s.why("fold_into_reduce", x) is None]
    if updates:
        s = _privatized(s)
    for stage in updates:
        t = s.fold_into_reduce(stage)
        s = if_legal(t, "merge_reduction", stage) if t.reduced(stage) else s
    found = [x for x in updates if s.reduced(x)]
    if not found:
        return s
    for stage in tuple(found):
        t = _split_products(s, stage)
        found += [x for x in t.stages if x not in s.stages]
        s = t
    for stage in found:
        s = _alone(s, stage)
    for stage in found:
        s = _from_identity(_started(_reduced_innermost(s, stage), stage), stage, whole) if one_nest(s, stage) else s
    return s


@lp.composite
def without_idle_stages(s: lp.Schedule) -> lp.Schedule:
    """`s` without the stages that run in no iteration: steps would leave them out on the way, where recipes go on to
    ask for them by name."""
    outermost = dict.fromkeys(x for stage in s.stages for x in s.loops(stage)[:1])
    if not any(is_guarded(s, x) for x in outermost):
        return s
    t = s.simplify()
    return t if t.stages != s.stages else s


@lp.composite
def distributed(s: lp.Schedule) -> lp.Schedule:
    """`s` with the loops around several statements distributed, from the inside, as far as each may be."""
    for stage in s.stages:
        if not one_nest(s, stage):
            s = _alone(s, stage)
    return s


@lp.composite
def rectangular(s: lp.Schedule) -> lp.Schedule:
    """`s` with the loops of its folds that depend on others over the rectangles around them, guarded."""
    for loop in dict.fromkeys(x for stage in s.stages if s.reduced(stage) for x in s.loops(stage)):
        s = if_legal(s, "rectangularize", loop)
    return s


def _split_products(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the sum `stage` in two where its terms are sums of products, each of two elements
    that move along different loops; `s` itself if they are not."""
    if s.why("split_sum", stage) is not None:
        return s
    t = s.split_sum(stage)
    (other,) = t.last.stages
    return t if all(_is_outer_product(t, x) for x in (stage, other)) else s


def _is_outer_product(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds products of two elements, one of which moves along each loop over its results."""
    reads, free = reads_of(s, stage), set(s.loops(stage)) - {*s.reduced(stage)}
    moving = [{x for x in free if not t.invariant(x)} for t in reads]
    return len(reads) == 2 and all(moving) and moving[0].isdisjoint(moving[1])


def _privatized(s: lp.Schedule) -> lp.Schedule:
    """`s` with memory of its own for each iteration of the loops that intermediates do not speak of."""
    given = argument_names(s)
    touched: dict[str, list[str]] = {}
    for stage in s.stages:
        for t in s.accesses(stage):
            touched.setdefault(t.buffer, []).append(stage)
    for buffer, stages in touched.items():
        for loop in s.loops(stages[0]) if buffer not in given else ():
            still = all(t.invariant(loop) for x in stages for t in s.accesses(x) if t.buffer == buffer)
            if not still or s.why("privatize", buffer, loop) is not None:
                break
            s = s.privatize(buffer, loop)
    return s


def _alone(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the loops around `stage` distributed, from the inside, as far as each may be."""
    for _ in s.loops(stage):
        for loop in reversed(s.loops(stage)):
            s = if_legal(s, "distribute", loop)
    return s


def _reduced_innermost(s: lp.Schedule, stage: str) -> lp.Schedule:
    """The nest of `stage` with the loops that it folds over inside the others, if it may be."""
    loops, over = s.loops(stage), s.reduced(stage)
    free = [x for x in loops if x not in over]
    along = sorted(free, key=lambda x: any(t.write and t.contiguous(x) for t in s.accesses(stage)))
    for order in ((*along, *over), (*free, *over)):
        if order == loops or s.why("reorder", *order) is None:
            return s if order == loops else s.reorder(*order)
    return s


def _started(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the number that the nest before that of `stage` stores as what the fold `stage` starts from; `s` itself
    if there is none."""
    free = [x for x in s.loops(stage) if x not in s.reduced(stage)]
    before = s.stages[: s.stages.index(stage)][-1:]
    if not before or _init(s, stage) is not None or not _stores_only(s, before[0], stage, len(free)):
        return s
    t = s
    for first, second in zip(s.loops(before[0]), free, strict=True):
        if t.why("fuse_loops", first, second) is not None:
            return s
        t = t.fuse_loops(first, second)
    return t.merge_reduction(stage) if t.why("merge_reduction", stage) is None else s


def _stores_only(s: lp.Schedule, before: str, stage: str, depth: int) -> bool:
    """Whether `before` stands alone in `depth` loops, reads nothing, and stores to what `stage` does."""
    stored = [t for t in s.accesses(before) if t.write and t.buffer == result_of(s, stage)]
    return len(s.loops(before)) == depth and one_nest(s, before) and len(stored) == len(s.accesses(before)) == 1


def _from_identity(s: lp.Schedule, stage: str, whole: bool) -> lp.Schedule:
    """A product that goes on from what is there as a product of its own, which is added to that when it is done.

    Tiles of it then start from the identity, also where they are larger than the output. It is what one iteration of a
    loop around all folds, which the reduced loop is split into. Loops of a triangle run over the rectangle around it.
    """
    whole_loops = _rectangle(s, stage)
    triangle = whole_loops is not s
    if not triangle and _init(s, stage) is not None:
        return s
    apart = separate_operands(whole_loops, stage)
    c = contraction(apart, stage)
    length = extent(apart, c.reduced) if c is not None else None
    if c is None or length is None or apart.why("split", c.reduced, length) is not None:
        return s
    loops = apart.loops(stage)
    t, (once, part) = apart.split(c.reduced, length).with_loops
    order = (once, *(part if x == c.reduced else x for x in loops))
    if t.why("reorder", *order) is not None:
        return s
    t = t.reorder(*order)
    if t.why("rfactor", stage, once) is not None:
        return s
    t, product = t.rfactor(stage, once).with_stage
    if triangle and t.why("pad", product) is not None:
        return s
    t = t.pad(product) if triangle and whole else t
    t = if_legal(t, "factor_out", product)
    return _added(t, stage, trimmed=triangle and not whole)


def _added(s: lp.Schedule, stage: str, *, trimmed: bool) -> lp.Schedule:
    """`s` with the reduced loop of `stage`, which adds a product to what is there, inside the others; of a triangle,
    these are `trimmed` to it, and the last of them, along memory, is innermost."""
    over = s.reduced(stage)
    free = [x for x in s.loops(stage) if x not in over]
    s = if_legal(s, "reorder", *free, *over)
    if trimmed:
        for loop in free:
            s = if_legal(s, "trim", loop)
        s = if_legal(s, "reorder", *free[:-1], *over, free[-1])
    return s.simplify(drop_unit_loops=True)


def _rectangle(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the loops of `stage` that depend on others over the rectangle around them, rows that begin at the
    diagonal counted from the first column; `s` itself if there are none."""
    for n, loop in enumerate(s.loops(stage)):
        if extent(s, loop) is not None or s.why("rectangularize", loop) is not None:
            continue
        for outer in s.loops(stage)[:n]:
            t = if_legal(s, "rectangularize", loop, skewed=outer)
            if t is not s and _dependent(t, stage, loop) < _dependent(s, stage, loop):
                s = t
                break
        else:
            s = s.rectangularize(loop)
    return s


def _dependent(s: lp.Schedule, stage: str, loop: str) -> int:
    """In how many subscripts of `stage` the loop `loop` stands with others."""
    at = [d for t in s.accesses(stage) for d in t.subscripts]
    return sum(loop in d.variables and len(d.variables) > 1 for d in at)


def _init(s: lp.Schedule, stage: str) -> object:
    """What the reduction `stage` starts from; None if from what is there."""
    body = s.loop(s.loops(stage)[-1]).body
    return next((getattr(x, "init", None) for x in body if getattr(x, "label", "") == stage), None)
