"""Intermediates of nests of several statements under one loop: which are the nest's own, and rows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import loopir as lp

from .nest_queries import argument_names


def statements_beside(s: lp.Schedule, stage: str) -> Sequence[str]:
    """The statements in the outermost loop of `stage`."""
    return [x for x in s.stages if s.loops(x)[:1] == s.loops(stage)[:1]]


def own_buffers(s: lp.Schedule, stage: str) -> list[str]:
    """The intermediates that no statement outside the outermost loop of `stage` touches, and more than one iteration of
    the loops inside it."""
    nest = statements_beside(s, stage)
    others = argument_names(s) | {t.buffer for x in s.stages if x not in nest for t in s.accesses(x)}
    others |= {x for inner in s.loop(s.loops(stage)[0]).body for x in _buffers_inside(inner, inside_loop=False)}
    return [x for x in dict.fromkeys(t.buffer for y in nest for t in s.accesses(y)) if x not in others]


def _buffers_inside(part: Any, *, inside_loop: bool) -> Iterator[str]:
    """The buffers that `part` of a nest allocates in its loops, or, where it stands in one, anywhere."""
    if inside_loop and hasattr(part, "buffer") and hasattr(part, "body"):
        yield part.buffer.name
    for x in (*getattr(part, "body", ()), *getattr(part, "then", ()), *getattr(part, "orelse", ())):
        yield from _buffers_inside(x, inside_loop=inside_loop or hasattr(part, "extent"))


def with_own_rows(s: lp.Schedule, stage: str, most_bytes: int) -> lp.Schedule:
    """The nest of `stage` with a row of its intermediates for each iteration of its outermost loop, and no more.

    ScheduleError where it has none, or rows of them take more than `most_bytes` together.
    """
    loop = s.loops(stage)[0]
    dims = {x: _dim_along(s, stage, x, loop) for x in own_buffers(s, stage)}
    rows = [_bytes_without(s, x, d) for x, d in dims.items()]
    if not rows or sum(rows) > most_bytes:
        raise lp.ScheduleError(f"{loop} has no intermediates, or rows of them take more than {most_bytes} bytes")
    for buffer, dim in dims.items():
        s = s.privatize(buffer, loop).fold_storage(buffer, dim, 1)
    return s


def _dim_along(s: lp.Schedule, stage: str, buffer: str, loop: str) -> int:
    """The dimension of `buffer` that all accesses in the nest of `stage` index by `loop`."""
    found = [t.subscripts for x in statements_beside(s, stage) for t in s.accesses(x) if t.buffer == buffer]
    dim = next((d for d in range(len(found[0])) if all(at[d] == loop for at in found)), None)
    if dim is None:
        raise lp.ScheduleError(f"no dimension of {buffer} is indexed by {loop} alone")
    return dim


def _bytes_without(s: lp.Schedule, buffer: str, dim: int) -> int:
    """Bytes of `buffer` at one index of dimension `dim`."""
    b = s.buffer(buffer)
    sizes = [getattr(n, "value", None) for d, n in enumerate(b.shape) if d != dim]
    known = [n for n in sizes if n is not None]
    if len(known) < len(sizes):
        raise lp.ScheduleError(f"the size of {buffer} is not known")
    return prod(known) * b.dtype.bytes
