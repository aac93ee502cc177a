"""Fusion by inlining: stages that cost little are computed where they are read, and never stored."""

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
