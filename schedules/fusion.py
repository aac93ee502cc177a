"""Fusion by inlining: stages that cost little are computed where they are read, or where what they read is stored."""

from __future__ import annotations

import loopir as lp


@lp.composite
def inlined(s: lp.Schedule, *, most: int = 1) -> lp.Schedule:
    """`s` with each stage inlined that can be, where that computes no element more than `most` times.

    A stage that is an output, a reduction, or read more often than that stays.
    """
    for stage in s.stages:
        if stage not in s.stages:
            continue  # a step showed that it never runs
        if _times(s, stage) <= most and s.why("compute_inline", stage) is None:
            s = s.compute_inline(stage)
    return s


@lp.composite
def epilogue(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the stages after `stage`, each the only reader of the one before, folded into the store of its result.

    As many as can be: those that take the elements one by one, where a store in their own order is left.
    """
    while True:
        written = {t.buffer for t in s.accesses(stage) if t.write}
        readers = [x for x in s.stages if any(t.buffer in written and not t.write for t in s.accesses(x))]
        if len(readers) != 1 or readers[0] == stage or s.why("reverse_compute_inline", readers[0]) is not None:
            return s
        s, stage = s.reverse_compute_inline(readers[0]), readers[0]


def _times(s: lp.Schedule, stage: str) -> float:
    """How often an element of `stage` is read by the stages that read it, at most; infinity if that is not known."""
    counts = s.cost.by_statement
    own = counts.get(stage, 0)
    written = {t.buffer for t in s.accesses(stage) if t.write}
    times = 0.0
    for other in s.stages:
        if any(t.buffer in written and not t.write for t in s.accesses(other)):
            ratio = (counts[other] / own).simplify() if own != 0 and other in counts else None
            times = max(times, float(ratio)) if ratio is not None and ratio.is_number else float("inf")
    return times
