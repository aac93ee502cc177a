"""Rows whose elements depend on those before, on a CPU: several rows at a time, one after the other in each step.

A filter, a running maximum or a hash of a row waits in each step for the step before, and rows lie so that their steps
are no vectors. The steps of several rows are independent: a core begins as many as the latency of one has room for.
"""

from __future__ import annotations

from collections.abc import Sequence

import loopir as lp

from ..common.nest_queries import extent, free_loops, one_nest, reads_own, written_by
from ..common.row_intermediates import statements_beside
from .threads import parallel_if_legal

LONG_CHAIN = 32
"""Steps of a row from which on a core has no room for those of the next row before they end."""


@lp.composite
def interleaved_chains(s: lp.Schedule, stage: str, *, rows: int | None = None) -> lp.Schedule:
    """The nest of `stage` with so many `rows` at a time in its innermost loop, which carries dependences, unrolled; by
    default as many as are begun in the latency of one operation, and have room in registers for what they hand on.

    A nest whose rows do not depend on those before in that loop, alone or of one fold, is left as it is, as are short
    rows, and few of them.
    """
    nest, loops = statements_beside(s, stage), s.loops(stage)
    free = free_loops(s, stage)
    if not free or len(free) + 1 != len(loops) or any(s.loops(x) != loops for x in nest):
        return s
    row, step = loops[-2:]
    if (extent(s, step) or LONG_CHAIN) < LONG_CHAIN or not _waits(s, stage, nest, step):
        return s
    count = rows or _rows_at_once(s, nest, row)
    if count < 2 or s.why("split", row, count, tail="peel") is not None:
        return s
    t = s.split(row, count, tail="peel")
    outer, inner = t.last.loops[:2]
    order = (*loops[:-2], outer, step, inner)
    if stage not in t.stages or t.why("reorder", *order) is not None:
        return s
    t = t.reorder(*order)
    return parallel_if_legal(t.unroll(inner), stage, t.loops(stage)[0]) if t.why("unroll", inner) is None else s


def _waits(s: lp.Schedule, stage: str, nest: Sequence[str], step: str) -> bool:
    """Whether an iteration of `step` waits for the one before, other than to add to a sum that nothing else reads."""
    if s.loop(step).kind != "serial" or s.why("parallel", step) is None:
        return False
    if any(s.reduced(x) and step not in s.reduced(x) for x in nest):
        return False
    return not one_nest(s, stage) or not s.reduced(stage) or reads_own(s, stage)


def _rows_at_once(s: lp.Schedule, nest: Sequence[str], row: str) -> int:
    """How many rows are taken at a time: a power of two, and no more than each thread has."""
    cpu = lp.local_cpu()
    changed = {b for x in nest for b in written_by(s, x)}
    held = sum(t.buffer in changed and (not t.write or bool(s.reduced(x))) for x in nest for t in s.accesses(x))
    most = min(cpu.latency * cpu.vector_ops, lp.vector_unit()[1] / max(1, held))
    length = extent(s, row)
    most = most if length is None else min(most, length / lp.thread_count())
    return 1 << max(0, int(most).bit_length() - 1)
