"""Why loops of a program scheduled for a CPU run neither on threads nor by vectors: which dependence forbids it.

A nest without a loop on threads is asked about its outermost loop, a stage without vectors about its innermost one.
What is legal and not taken is said, too: the loop is short, or no recipe saw a gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import loopir as lp

from ..common.nest_queries import extent, is_serial
from .split_reduction import lanes_of


@dataclass(frozen=True)
class SerialLoop:
    """A loop around `stage` that stayed serial where it might have been `kind`, and why."""

    stage: str
    loop: str
    kind: Literal["parallel", "vectorize"]
    reason: str

    def __str__(self) -> str:
        return f"{self.stage}: loop {self.loop!r} is not {_WORD[self.kind]}: {self.reason}"


_WORD = {"parallel": "parallel", "vectorize": "vector"}


def serial_loops(s: lp.Schedule) -> tuple[SerialLoop, ...]:
    """Of each nest of `s` without a parallel loop its outermost one, of each stage without vectors its innermost."""
    found = dict[tuple[str, str], SerialLoop]()
    for nest in lp.nests(s.func):
        parallel = any(s.loop(x).kind == "parallel" for stage in nest.stages for x in s.loops(stage))
        for stage in nest.stages:
            loops = s.loops(stage)
            if loops and not parallel and is_serial(s, loops[0]):
                found.setdefault((loops[0], "parallel"), _on_threads(s, stage, loops[0]))
            if loops and is_serial(s, loops[-1]) and not any(s.loop(x).kind == "vectorize" for x in loops):
                found.setdefault((loops[-1], "vectorize"), _by_vectors(s, stage, loops[-1]))
    return tuple(found.values())


def _on_threads(s: lp.Schedule, stage: str, loop: str) -> SerialLoop:
    refused = s.why("parallel", loop)
    return SerialLoop(stage, loop, "parallel", _refusal_text(refused) if refused is not None else _not_taken(s, loop))


def _by_vectors(s: lp.Schedule, stage: str, loop: str) -> SerialLoop:
    """As is true of the loop itself; of a long one, of its part of as many iterations as a vector has lanes."""
    length, lanes = extent(s, loop), lanes_of(s, stage)
    lane = loop
    if (length is None or length > lanes) and s.why("split", loop, lanes) is None:
        s, (_, lane, *_) = s.split(loop, lanes).with_loops
    refused = s.why("vectorize", lane)
    reason = _not_taken(s, loop, length) if refused is None else _refusal_text(refused).replace(repr(lane), repr(loop))
    return SerialLoop(stage, loop, "vectorize", reason)


def _not_taken(s: lp.Schedule, loop: str, length: int | None = None) -> str:
    length = extent(s, loop) if length is None and loop in s.loops() else length
    times = "" if length is None else f" of {length} iteration{'s' * (length != 1)}"
    return f"it may be, but no recipe gains by a loop{times} here"


def _refusal_text(refused: Exception) -> str:
    """What a refusal says, and its witness, without the call that it is of and what to do instead."""
    first, *others = str(refused).splitlines()
    said = first.partition("): ")[2] or first
    witness = [x.strip() for x in others[:1] if not x.strip().startswith("instead")]
    return ": ".join((said, *witness))
