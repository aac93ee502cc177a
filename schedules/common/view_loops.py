"""Views as loops: stages run over what they read in the order in which it was made, however it is seen.

Loops that a stage reads as one, `x[i * 64 + j]`, become one; a loop that is read by quotient and remainder,
`x[i // 64, i % 64]`, becomes two. Either way a reshaped, merged or split array costs what the plain one does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any

import loopir as lp

from .contraction import contraction
from .nest_queries import argument_names, divisions_in_values, extent, fused, if_legal, reads_of, reads_own


@lp.composite
def split_views(s: lp.Schedule) -> lp.Schedule:
    """`s` with loops that a stage reads by quotient and remainder split there, and in the order of what it reads.

    So a stage that merges heads, `y[i, k] = x[k // 64, i, k % 64]`, runs over heads, rows and columns, as the stage
    does that made `x`, and stores where it did. Stages that fold, and loops that nothing divides, are left as they are.
    """
    for stage in s.stages:
        if stage in s.stages and not s.reduced(stage):
            s = split_view(s, stage)
    return s


@lp.composite
def split_rows(s: lp.Schedule) -> lp.Schedule:
    """`s` with loops of folds split by whose quotient and remainder they find an element, and so the dimension of what
    they store; then with views split. So a batch that rows are counted together with, as heads of queries that share
    one of keys are, is a batch again, as it is to the stages that fold those rows."""
    given = argument_names(s)
    for stage in (x for x in s.stages if s.reduced(x) and sum(t.write for t in s.accesses(x)) == 1):
        for digit in [d.digit for t in reads_of(s, stage) for d in t.subscripts if d.digit is not None]:
            made = next(t for t in s.accesses(stage) if t.write)
            dims = [n for n, d in enumerate(made.subscripts) if d == digit.loop]
            if not digit.is_quotient or not dims or made.buffer in given or digit.loop not in s.loops(stage):
                continue
            split = if_legal(s, "split", digit.loop, digit.weight, tail="exact")
            s = s if split is s else if_legal(split, "split_dim", made.buffer, dims[0], digit.weight)
    return split_views(s)


def split_groups(s: lp.Schedule, stage: str, buffers: Collection[str]) -> lp.Schedule:
    """`s` with loops of `stage` split by whose quotient it finds elements of `buffers`: into groups, and in a group."""
    for t in [x for x in s.accesses(stage) if not x.write and x.buffer in buffers]:
        for d in t.subscripts:
            if d.digit is not None and d.digit.is_quotient and d.digit.loop in s.loops(stage):
                s = if_legal(s, "split", d.digit.loop, d.digit.weight, tail="exact")
    return s


@lp.composite
def join_views(s: lp.Schedule) -> lp.Schedule:
    """`s` with loops as one that a stage reads as one only, and without unit dimensions that are added.

    Stages that fold are left as they are, and so are programs in which none does: their loops are fused in any case.
    """
    if not any(s.reduced(x) for x in s.stages):
        return s
    for stage in s.stages:
        while stage in s.stages and not s.reduced(stage) and (pair := _neighbours_read_as_one(s, stage)) is not None:
            s = s.fuse(*pair)
    return s


@lp.composite
def fuse_contiguous(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with neighbouring loops of `stage` as one, where all that it touches goes on from one to the next: elements
    lie as far apart across the end of the inner loop as along it. Of a fold, the loops that it is over alone; of a
    scan, not one that carries a dependence with one that carries none. Where the values speak of the loops, as a mask
    of a triangle does, each lane would divide to find them: rows of a vector or more stay rows then."""

    def may_be_one(outer: str, inner: str) -> bool:
        over = s.reduced(stage)
        if s.loop(outer).kind != "serial" or (over and not {outer, inner} <= {*over}):
            return False
        carried = {s.why("parallel", x) is not None for x in (outer, inner)} if reads_own(s, stage) else ()
        return len(carried) < 2

    while (pair := contiguous_pair(s, stage, may_be_one)) is not None:
        t, long = s.fuse(*pair), (extent(s, pair[1]) or 0) >= lp.vector_unit()[0]
        if long and divisions_in_values(t, stage) > divisions_in_values(s, stage):
            break
        s = t
    return s


@lp.composite
def fuse_viewed_dims(s: lp.Schedule, stage: str, stored: bool = False) -> lp.Schedule:
    """`s` with dimensions of intermediates as one that `stage` finds by quotient and remainder of one loop: rows of a
    batch become rows of a matrix, and no element moves. With `stored`, of what it writes, and not of what it reads."""
    given = argument_names(s)
    for t in s.accesses(stage):
        dims = () if t.write is not stored or t.buffer in given else t.subscripts
        pairs = [n for n, pair in enumerate(pairwise(dims)) if are_quotient_and_remainder(*pair)]
        for n in reversed(pairs):
            s = if_legal(s, "fuse_dims", t.buffer, n)
    return s


def are_quotient_and_remainder(first: Any, second: Any) -> bool:
    """Whether two subscripts are the quotient and the remainder of one loop by one number."""
    quotient, rest = first.digit, second.digit
    return quotient is not None and quotient.base is None and rest == (quotient.loop, 1, quotient.weight)


def contiguous_pair(s: lp.Schedule, stage: str, may_be_one: Callable[[str, str], bool]) -> tuple[str, str] | None:
    """Two neighbouring loops of `stage` that may be one, if all that it touches goes on from one to the next; None if
    there are no such."""
    touches = s.accesses(stage)
    for pair in pairwise(s.loops(stage)):
        if may_be_one(*pair) and all(_goes_on(s, t, *pair) for t in touches) and s.why("fuse", *pair) is None:
            return pair
    return None


def _neighbours_read_as_one(s: lp.Schedule, stage: str) -> tuple[str, str] | None:
    """Two neighbouring loops of `stage` that it reads a buffer by as one, and all others by as one or one after the
    other, or of which the outer one runs once and finds nothing."""
    reads = [(t, t.subscripts) for t in s.accesses(stage) if not t.write]
    for outer, inner in pairwise(s.loops(stage)):
        named = [(t, [d for d in dims if {outer, inner} & d.variables]) for t, dims in reads]
        named = [(t, dims) for t, dims in named if dims]
        added = extent(s, outer) == 1 and not any(outer in d.variables for _, dims in named for d in dims)
        found = [all(_as_one(s, d, outer, inner) for d in dims) for _, dims in named]
        as_one = any(found) and all(x or _goes_on(s, t, outer, inner) for x, (t, _) in zip(found, named, strict=True))
        if (added or as_one) and s.why("fuse", outer, inner) is None:
            return outer, inner
    return None


def _goes_on(s: lp.Schedule, touch: Any, outer: str, inner: str) -> bool:
    """Whether the elements of `touch` lie as far apart across the end of `inner` as along it."""
    size = extent(s, inner)
    across, along = (getattr(touch.strides.get(x), "value", None) for x in (outer, inner))
    return size is not None and across is not None and along is not None and bool(across == size * along)


def _as_one(s: lp.Schedule, index: Any, outer: str, inner: str) -> bool:
    """Whether `index` holds `outer` and `inner` as one loop, whatever is added to it."""
    factors, size = index.multiples, extent(s, inner)
    return size is not None and inner in factors and factors.get(outer) == size * factors[inner]


def is_viewed(s: lp.Schedule, touch: Any) -> bool:
    """Whether a read finds its element by quotients and remainders of loops, or by two loops as one: what is read has
    another shape than the loops."""
    dims = touch.subscripts
    loops = list(touch.strides)
    pairs = [(a, b) for a in loops for b in loops if a != b]
    return any(d.divides or any(_as_one(s, d, a, b) for a, b in pairs) for d in dims)


def with_views_split(s: lp.Schedule, schedule: Callable[[lp.Schedule], lp.Schedule | None]) -> lp.Schedule | None:
    """What `schedule` makes of `s`; if it does not take that, of `s` with its views split, where it has any, at last of
    rows, too."""
    made, last = schedule(s), s
    for split in (split_views, split_rows):
        if made is None and (x := split(s)).func is not last.func:
            made, last = schedule(x), x
    return made


def split_view(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with all loops of `stage` split of which one of its reads finds its element by digits, in its order.

    Digits are quotients and remainders that make up the loop: `x[i // 6, i // 2 % 3, i % 2]` has three of `i`.
    """
    for t in s.accesses(stage):
        found = [] if t.write else [d.digit for d in t.subscripts]
        digits = [d for d in found if d is not None and d.loop in s.loops(stage)]
        if len(digits) < len(found):
            continue
        made, names = s, dict[tuple[str, int], str]()
        for loop in dict.fromkeys(loop for loop, _, _ in digits):
            weights = _weights(s, loop, [(weight, most) for x, weight, most in digits if x == loop])
            rest = loop
            for weight in weights[:-1]:
                if made.why("split", rest, weight, tail="exact") is not None:
                    break
                made, (names[loop, weight], rest) = made.split(rest, weight, tail="exact").with_loops
                names[loop, 1] = rest
        order = [names.get((loop, weight), loop) for loop, weight, _ in digits]
        loops = made.loops(stage)
        if names and sorted(order) == sorted(loops) and (tuple(order) == loops or made.why("reorder", *order) is None):
            return made if tuple(order) == loops else made.reorder(*order)
    return s


def _weights(s: lp.Schedule, loop: str, digits: Sequence[tuple[int, int | None]]) -> list[int]:
    """The weights of `digits`, the highest first, if these are all digits of `loop`, each once; else those of one."""
    size, weights = extent(s, loop), sorted((weight for weight, _ in digits), reverse=True)
    if size is None or weights[-1] != 1 or len({*weights}) < len(weights):
        return [1]
    above = {weight: n for n, weight in zip([size, *weights], weights, strict=False)}
    exact = all(above[w] % w == 0 and most in (None, above[w] // w) for w, most in digits)
    return weights if exact and all(most or w == weights[0] for w, most in digits) else [1]


@lp.composite
def over_folds(s: lp.Schedule) -> lp.Schedule:
    """`s` with stages that read what a fold made, and fold nothing, over the loops of what they read, where they find
    it by quotients and remainders: in the order in which the fold went."""
    folded = {t.buffer for x in s.stages if s.reduced(x) for t in s.accesses(x) if t.write}
    for stage in (x for x in s.stages if not s.reduced(x)):
        if any(t.buffer in folded and any(d.divides for d in t.subscripts) for t in reads_of(s, stage)):
            s = split_view(s, stage)
    return s


@lp.composite
def over_products(s: lp.Schedule) -> lp.Schedule:
    """`s` with stages that read what a product made, and fold nothing, over the rows and columns of that.

    So a product whose result is seen in another shape is stored from where it is made, as a plain one is.
    """
    for stage in (x for x in s.stages if not s.reduced(x)):
        for t in [t for t in s.accesses(stage) if not t.write and _made_by_product(s, t.buffer)]:
            s = split_view(s, stage) if any(d.divides for d in t.subscripts) else join_view(s, stage, t.buffer)
    return s


def _made_by_product(s: lp.Schedule, buffer: str) -> bool:
    makers = [x for x in s.stages if any(t.write and t.buffer == buffer for t in s.accesses(x))]
    return len(makers) == 1 and contraction(s, makers[0], of_one_buffer=True) is not None


def join_view(s: lp.Schedule, stage: str, buffer: str) -> lp.Schedule:
    """`s` with `stage` over the dimensions of `buffer`, which it reads once, by a loop each, in their order.

    Loops that count one dimension together, `x[i * 32 + j, k]`, become one. It is as it was where another loop is left,
    or a dimension is counted otherwise.
    """
    read = [t for t in s.accesses(stage) if t.buffer == buffer and not t.write]
    at = read[0].subscripts if len(read) == 1 else ()
    counted = [_counting_loops(s, d) for d in at]
    groups = [x for x in counted if x is not None]
    order = [loop for x in groups for loop in x]
    if len(groups) != len(at) or len(order) == len(groups) or sorted(order) != sorted(s.loops(stage)):
        return s
    if order[-1] != s.loops(stage)[-1]:  # what it writes would not go on along its innermost loop
        return s
    if tuple(order) != s.loops(stage):
        if s.why("reorder", *order) is not None:
            return s
        s = s.reorder(*order)
    for x in groups:
        s, _ = fused(s, x)
    return s


def _counting_loops(s: lp.Schedule, index: Any) -> list[str] | None:
    """The loops of which `index` is the number, each a digit, the first one first; None if it is no such number."""
    if index.constant or not index.multiples:
        return None
    terms = sorted(((factor, loop) for loop, factor in index.multiples.items()), reverse=True)
    weight = 1
    for factor, loop in reversed(terms):
        if factor != weight or loop not in s.loops() or (size := extent(s, loop)) is None:
            return [loop] if index == loop and loop in s.loops() else None
        weight *= size
    return [loop for _, loop in terms]
