"""Arrays between convolutions with their channels last in memory, as tensor cores take them.

A convolution folds channels at each place of a window. Where an image's channels lie next to each other, its tiles are
copied in whole vectors, asynchronously, and so is what it gives if the next one reads that; where the places of a row
do, elements are gathered one by one, or a copy is stored first. So an array between convolutions has its channels last,
with what pads, adds or pools it on the way. Arguments and results stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import loopir as lp

from ..common.nest_queries import argument_names, extent, result_of
from ..common.products import product, several
from .conv import channel_of

LEAST_DIMS = 3
"""Dimensions of an array of channels, at least: a sample, a place, a channel."""

Touches = Mapping[str, Sequence[Any]]
"""What each stage touches of arrays between stages."""


def channels_last(s: lp.Schedule) -> lp.Schedule:
    """`s`, a program whose nests are as they are written, with channels last in what it keeps between convolutions; `s`
    itself where nothing is of that kind."""
    dims = _channel_dims(s)
    made = s
    for name, at in dims.items():
        order = [*(n for n in range(len(s.buffer(name).shape)) if n != at), at]
        if made.why("reorder_dims", name, *order) is None:
            made = made.reorder_dims(name, *order)
    return made if made is s else _loops_in_order(made, dims)


def _channel_dims(s: lp.Schedule) -> dict[str, int]:
    """For each array that is to have its channels last, and does not have them there, which dimension counts them:
    images that convolutions fold, and what is made of these, or they of, in the same channels. None if no product is
    among those that make these: what is made of arguments for one convolution alone is its recipe's concern."""
    given, known = argument_names(s), dict[str, tuple[dict[str, int], set[str]]]()
    found, sums = dict[str, int](), set[str]()
    for nest in lp.nests(s.func):
        if any(s.reduced(x) for x in nest.stages):
            part = lp.extract(s.func, nest.stages)
            text = lp.text(part.func)
            images, results = known[text] = known.get(text) or _folded_channels(lp.Schedule(part.func))
            found |= {part.original[x]: n for x, n in images.items() if part.original[x] not in given}
            sums |= {part.original[x] for x in results}
    if not found:
        return {}
    touches = {x: [t for t in s.accesses(x) if t.buffer not in given and len(t.subscripts) >= LEAST_DIMS]
               for x in s.stages}  # fmt: skip
    pending = [*found]
    while pending:
        more = _in_same_channels(s, touches, pending.pop(), found)
        found |= more
        pending += more
    if sums.isdisjoint(found):
        return {}
    return {x: n for x, n in found.items() if n != len(s.buffer(x).shape) - 1}


def _folded_channels(s: lp.Schedule) -> tuple[dict[str, int], set[str]]:
    """The operands of convolutions in `s`, each with the dimension that counts the channels they fold, and what
    products over several loops write."""
    found, sums = dict[str, int](), set[str]()
    for stage in s.stages:
        p = product(s, stage) if s.reduced(stage) and several(s, stage) else None
        if p is None:
            continue
        channel = channel_of(s, stage, p)
        sums.add(result_of(s, stage))
        for t in s.accesses(stage):
            counted = [n for n, d in enumerate(t.subscripts) if channel in d.variables]
            found |= {t.buffer: counted[0]} if counted and len(t.subscripts) >= LEAST_DIMS else {}
    return found, sums


def _in_same_channels(s: lp.Schedule, touches: Touches, name: str, known: Mapping[str, int]) -> dict[str, int]:
    """The arrays that are not `known` of which some stage counts a dimension by the loop that counts the channels of
    `name`, each with that dimension."""
    found = dict[str, int]()
    for every in touches.values():
        for loop in {x for t in every if t.buffer == name for x in t.subscripts[known[name]].variables}:
            for t in every if extent(s, loop) != 1 else ():
                counted = [n for n, d in enumerate(t.subscripts) if d.variables == {loop}]
                if t.buffer not in known and len(counted) == 1:
                    found[t.buffer] = counted[0]
    return found


def _loops_in_order(s: lp.Schedule, dims: Mapping[str, int]) -> lp.Schedule:
    """`s` with the loops of stages that write arrays of `dims` in the order of these."""
    for stage in s.stages:
        written = next((t for t in s.accesses(stage) if t.write and t.buffer in dims), None)
        if written is None:
            continue
        loops, over = s.loops(stage), s.reduced(stage)
        place = {x: n for n, d in enumerate(written.subscripts) for x in d.variables}
        order = (*sorted((x for x in loops if x not in over), key=lambda x: place.get(x, -1)), *over)
        if order != loops and s.why("reorder", *order) is None:
            s = s.reorder(*order)
    return s
