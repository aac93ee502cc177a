"""Stages that are put together of parts, such as a concatenation, on a CPU: a loop for each part, which tests nothing.

A chain of selects says for each element of which part it is. It changes where a part ends, which is known; loops are
cut there (index set splitting), as vectors would otherwise load from all parts and choose.
"""

from __future__ import annotations

import loopir as lp

MOST_PARTS = 64
"""Parts, from more of which on their code is not worth its making."""
CHAIN = 2
"""Selects that a stage has at least for its loops to be cut at each of them: one alone is a border, cut elsewhere."""


@lp.composite
def cut_in_pieces(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with a loop of `stage` cut wherever its selects change, if several do; else `s` itself."""
    loops = s.loops(stage)
    if s.reduced(stage) or not loops or _selects(s, loops[-1]) < CHAIN:
        return s
    for depth, loop in enumerate(loops):
        t, count, pending = s, 1, [loop]
        while pending and count <= MOST_PARTS:
            part = pending.pop()
            if t.why("partition", part) is None:
                before = _selects(t, part)
                t = t.partition(part)
                edges = [t.loops(x)[depth] for x in t.last.stages]
                pending += [x for x in edges if _selects(t, x) < before]  # one that decides none has no end of edges
                count += len(edges)
        if CHAIN < count <= MOST_PARTS:
            return t
    return s


def _selects(s: lp.Schedule, loop: str) -> int:
    """How many selects there are in `loop`."""
    return lp.text(s.loop(loop)).count("select(")
