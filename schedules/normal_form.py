"""A program as it is planned: results as narrow as they are read, and arrays in the order of their readers.

A product in float32 whose readers all round it to 16 bits is stored in 16 bits, which its own launch does; heads that
are merged, `T[x // 128, i, x % 128]`, are stored side by side, so that the reader takes rows. Masks that read no memory
are inlined. All are ordinary steps, taken where they are legal, before any nest is looked at by itself.
"""

from __future__ import annotations

from itertools import count, permutations
from typing import Any

import loopir as lp

from .common.fusion import index_stages_inlined
from .common.nest_queries import readers, written_by
from .common.operands import NARROW, fuse_product_loops, multiplied
from .common.view_loops import are_quotient_and_remainder, over_products
from .cuda.pair_folds import pair_fold
from .plan import Trace, flat

NARROWED = 2
"""Bytes of an element of what is stored in 16 bits."""
MOST_NESTS = 40
"""Nests of a program that are brought into normal form together, at most."""


def normal_form(s: lp.Schedule) -> lp.Schedule:
    """`s`, a program that no step was taken on, with narrow results, and dimensions joined that are read as one.

    Steps are found for a stretch of nests by itself, and once for those that differ in names alone.
    """
    known: dict[str, Trace] = {}
    groups: list[tuple[tuple[str, ...], Trace]] = []
    nests = lp.nests(s.func)
    for first, last in _stretches(s):
        stages = tuple(x for n in nests[first:last] for x in n.stages)
        if not stages:
            continue  # nothing but allocations
        part = lp.Schedule(lp.extract(s.func, stages).func)
        key = lp.text(part.func)
        if key not in known:
            known[key] = flat(_stretch(part).trace)
        if known[key]:
            groups.append((stages, known[key]))
    return s.schedule_nests(*groups) if groups else s


def _stretches(s: lp.Schedule) -> list[tuple[int, int]]:
    """The nests in stretches none of which reads what another one folds, where these are not too long."""
    nests, last = lp.nests(s.func), dict[str, int]()
    for n, nest in enumerate(nests):
        last |= dict.fromkeys(nest.reads, n)
    out, first, until = list[tuple[int, int]](), 0, 0
    for n, nest in enumerate(nests):
        if n > first and (until < n or n - first >= MOST_NESTS):
            out.append((first, n))
            first = n
        if any(s.reduced(x) for x in nest.stages):
            until = max(until, *(last.get(x, 0) for x in nest.writes))
    return [*out, (first, len(nests))]


def _stretch(s: lp.Schedule) -> lp.Schedule:
    s = index_stages_inlined(s)
    for stage in s.stages:
        if s.reduced(stage):
            s = _own_for_pairs(fuse_product_loops(_narrowed(s, stage), stage), stage)
    s = over_products(s)
    touches = {x: s.accesses(x) for x in s.stages}
    for name in dict.fromkeys(t.buffer for every in touches.values() for t in every if "//" in t.text):
        s = _join_dims(s, name)
    return s


def _narrowed(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with the sums of `stage` in 16 bits, if all that read them make the same of each first.

    A single reader that does not fold takes them from registers as it is.
    """
    found, written = readers(s, stage), written_by(s, stage)
    if not found or len(written) != 1 or (len(found) == 1 and not s.reduced(found[0])):
        return s
    (sums,) = written
    if s.buffer(sums).dtype.bytes <= NARROWED:
        return s  # another copy would be the same
    name = next(x for n in count() if (x := f"rounded_{n}" if n else "rounded") not in {*s.buffers, *s.loops()})
    for kind in NARROW:
        if s.why("cache_read", tuple(found), sums, "global", dtype=kind, name=name) is None:
            made = s.cache_read(tuple(found), sums, "global", dtype=kind, name=name)
            factors = multiplied(made, found[0])  # what is made of it first is a matrix of its own in any case
            return s if len(found) == 1 and factors and name not in factors else made
    return s


def _own_for_pairs(s: lp.Schedule, stage: str) -> lp.Schedule:
    """`s` with what `stage` folds of pairs computed for each of its readers, if each of these folds it over the pairs
    of a row or of a column: no matrix of pairs is stored then."""
    found, made = readers(s, stage), s
    if len(found) < 2 or not all(s.reduced(x) for x in found):
        return s
    for x in found[1:]:
        if made.why("clone", stage, x) is not None:
            return s
        made = made.clone(stage, x)
    return made if all(p is not None and p.made for p in (pair_fold(made, x) for x in found)) else s


def _join_dims(s: lp.Schedule, name: str) -> lp.Schedule:
    """`s` with two dimensions of an intermediate array as one, if a reader counts both by one loop."""
    for stage in s.stages:
        for t in s.accesses(stage):
            if t.buffer != name or t.write:
                continue
            at = t.subscripts
            pair = _pair(at)
            if pair is None:
                continue
            outer, inner = pair
            order = [d for d in range(len(at)) if d != outer]
            order.insert(order.index(inner), outer)  # what lies along rows goes on to
            made = s
            if order != sorted(order):
                if s.why("reorder_dims", name, *order) is not None:
                    return s
                made = s.reorder_dims(name, *order)
            first = order.index(outer)
            return s if made.why("fuse_dims", name, first) is not None else made.fuse_dims(name, first)
    return s


def _pair(at: tuple[Any, ...]) -> tuple[int, int] | None:
    """The dimensions of an element that are the quotient and the remainder of one loop."""
    pairs = permutations(range(len(at)), 2)
    return next((x for x in pairs if are_quotient_and_remainder(*(at[d] for d in x))), None)
