"""Interleaved stores: several statements that store, lane by lane, the elements of short records, as one vector.

Each of them alone leaves gaps between its lanes, so that it is a store for each lane. Together they fill memory: the
vectors are shuffled into one, which is stored at once (LLVM's vectorizer calls these interleaved accesses, and so did
Nuzman, Rosen and Zaks, "Auto-vectorization of interleaved data for SIMD", PLDI 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from loopir.codegen.llvm.index import taken_apart
from loopir.codegen.llvm.values import MAX_SHUFFLE_DISTANCE, Values
from loopir.ir.grammar import Body, Load, Store
from loopir.ir.traverse.walk import nodes


def interleaved_stores(body: Body, values: Values) -> Sequence[Store]:
    """The first statements of `body` that one store replaces, in the order of their elements; none if there are none.

    None but the first reads the array: what it read would be there already.
    """
    first = body[0] if body else None
    if not isinstance(first, Store) or values.lanes is None or values.mask is not None:
        return ()
    count = values.stride(values.place(first.buffer, first.at[0])) or 0
    group = [s for s in body[:count] if isinstance(s, Store) and s.buffer == first.buffer]
    if not 2 <= count <= MAX_SHUFFLE_DISTANCE or len(group) < count or any(map(_reads_its_array, group[1:])):
        return ()
    places = [taken_apart(s.at[0]) for s in group]
    group.sort(key=lambda s: taken_apart(s.at[0])[1])
    least = min(number for _, number in places)
    same = len({frozenset(terms) for terms, _ in places}) == 1
    return group if same and {number - least for _, number in places} == set(range(count)) else ()


def _reads_its_array(s: Store) -> bool:
    return any(isinstance(n, Load) and n.buffer == s.buffer for n in nodes(s))


def store_interleaved(group: Sequence[Store], values: Values) -> None:
    """Store what `group` stores, whose statements are in the order of their elements."""
    assert values.lanes is not None
    count, width, b = len(group), values.lanes.width, values.b
    parts = [values.spread(values.raw_of(s.buffer, s.value)) for s in group]
    whole = b.shuffled(reduce(b.joined, parts), [n % count * width + n // count for n in range(count * width)])
    buffer = group[0].buffer
    b.store(whole, values.address(buffer, group[0].at[0]), buffer.dtype.bytes)
    values.written(buffer.name)
