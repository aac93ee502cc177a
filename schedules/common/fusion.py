"""Fusion by inlining: stages that cost little are computed where they are read, or where what they read is stored."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import prod

import loopir as lp

from .nest_queries import if_legal, reader, readers, reads_of, written_by
from .operands import is_view
from .view_loops import split_view


@lp.composite
def inlined(s: lp.Schedule, *, most: int = 1) -> lp.Schedule:
    """`s` with each stage inlined that can be, where that computes no element more than `most` times.

    A stage that is an output, a reduction, or read more often than that stays, and so does a number in a register.
    """
    for stage in s.stages:
        if stage not in s.stages or is_number_in_register(s, stage):
            continue  # or a step showed that it never runs
        if s.why("compute_inline", stage) is None and _times(s, stage) <= most:
            s = s.compute_inline(stage)
    return s


@lp.composite
def epilogue(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the stages after `stage`, each the only reader of the one before, folded into the store of its result.

    As many as can be: those that take the elements one by one, where a store in their own order is left, in whatever
    shape they see them.
    """
    while stage in s.stages:  # a step may show that it never runs
        after = reader(s, stage)
        if after is None or written_by(s, stage).intersection(t.buffer for t in reads_of(s, stage)):
            return s
        made = if_legal(split_view(s, after), "reverse_compute_inline", after)
        looks = after in made.stages and len(made.loops(after)) > len(s.loops(stage))
        if stage in made.stages or looks:  # for its element, among all, in a loop of its own
            return s
        s, stage = made, after
    return s


def index_stages_inlined(s: lp.Schedule) -> lp.Schedule:
    """`s` with each stage of bools or integers inlined that reads no memory, as a mask of rows and columns, if it can
    be: what reads it is then seen to depend on indices, and not on what memory holds."""
    for stage in s.stages if len(s.stages) > 1 else ():
        if stage not in s.stages or s.reduced(stage):
            continue
        if all(t.write and t.dtype.kind != "float" for t in s.accesses(stage)):
            s = if_legal(s, "compute_inline", stage)
    return s


def views_inlined(s: lp.Schedule) -> lp.Schedule:
    """`s` with each stage inlined that only moves elements which its readers only move on: they are moved once."""
    for stage in s.stages if len(s.stages) > 1 else ():
        if stage in s.stages and is_view(s, stage):
            found = readers(s, stage)
            if found and all(is_view(s, x) for x in found):
                s = if_legal(s, "compute_inline", stage)
    return s


def is_number_in_register(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` stores single numbers alone, of which each iteration has its own in registers."""
    written = [s.buffer(x) for x in written_by(s, stage)]
    return all(b.scope == "local" and not b.shape for b in written)


def _times(s: lp.Schedule, stage: str) -> float:
    """How often an element of `stage` is read by the stages that read it, at most; infinity if that is not known."""
    return max((_ratio(s, x, stage) for x in readers(s, stage)), default=0.0)


def _ratio(s: lp.Schedule, other: str, stage: str) -> float:
    """How many instances of `other` there are for one of `stage`; infinity if that is not known.

    Formulas are asked for only where loops alone do not tell: making the first one takes a second.
    """
    loops, own = _extents(s, other), _extents(s, stage)
    if loops is not None and loops == own:
        return 1.0
    if loops is not None and own is not None:
        longer, shorter = Counter(loops) - Counter(own), Counter(own) - Counter(loops)
        left = [*longer.elements(), *shorter.elements()]
        if all(x.isdigit() and x != "0" for x in left):
            return prod(map(int, longer.elements())) / prod(map(int, shorter.elements()))
        if not any("*" in x or "//" in x for x in left):  # sums of sizes have no number for a ratio
            return float("inf")
    counts = s.cost.by_statement
    ratio = (counts[other] / counts[stage]).simplify() if counts.get(stage, 0) != 0 and other in counts else None
    return float(ratio) if ratio is not None and ratio.is_number else float("inf")


def _extents(s: lp.Schedule, stage: str) -> list[str] | None:
    """How long the loops around `stage` are, in order of length; None if a guard stands among them."""
    loops = [s.loop(x) for x in s.loops(stage)]
    nested = all(inner in outer.body for outer, inner in pairwise(loops))
    whole = bool(loops) and nested and all(getattr(x, "label", "") for x in loops[-1].body)  # statements alone
    return sorted(lp.text(x.extent) for x in loops) if whole else None
