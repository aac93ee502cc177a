"""Group accesses that differ only by constants, to test all of a group for dependence at once.

The nine reads of a 3x3 mean are one read of `A[i + u, j + v]`, with u and v below 3 as extra dimensions of the
statement. If that read conflicts with no write, none of the nine does; if it may, they are tested one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from loopir.analysis.dependence.access import Access, Statement
from loopir.arith.poly import Poly, expand_index, poly_add, to_index
from loopir.ir.grammar import Index, Var

Clear = Callable[[Statement, Access, Statement, Access], bool]
"""Whether accesses of two statements cannot clash: these may be bundles, and the statements wider than they were."""
Asks = Callable[[Access, Access], bool]
"""Which accesses matter, asked of one of each bundle."""


def has_write(a: Access, b: Access) -> bool:
    """Whether one of two accesses is a write."""
    return a.write or b.write


def unresolved_pairs(
    s: Statement, t: Statement, clear: Clear, asks: Asks = has_write
) -> Iterator[tuple[Access, Access]]:
    """Pairs of accesses of `s` and of `t` to one buffer, from groups that may conflict."""
    for first, second in access_groups(s, t, asks):
        if len(first) * len(second) == 1 or not clear(*_any_access(s, first, "s"), *_any_access(t, second, "t")):
            yield from product(first, second)


def access_groups(
    s: Statement, t: Statement, asks: Asks = has_write
) -> list[tuple[Sequence[Access], Sequence[Access]]]:
    """Pairs of groups of `s` and of `t` that access one buffer, writes first, without repetition."""
    pairs = [
        (first, second)
        for name, ours in s.alike.items()
        if name in t.alike
        for first, second in product(ours, t.alike[name])
        if asks(first[0], second[0])
    ]
    if len(pairs) < 2:
        return pairs
    pairs.sort(key=lambda p: (not p[0][0].write, p[1][0].write))  # what a lockstep may break most easily comes first
    sides = {id(side): side for pair in pairs for side in pair}
    numbers: dict[object, int] = {}
    number = {  # a group stands in many pairs: what it accesses is compared with others once
        n: numbers.setdefault(tuple([(a.buffer, a.at, a.conds, a.maybe) for a in side]), len(numbers))
        for n, side in sides.items()
    }
    unique: dict[tuple[int, int], tuple[Sequence[Access], Sequence[Access]]] = {}
    for pair in pairs:
        unique.setdefault((number[id(pair[0])], number[id(pair[1])]), pair)
    return [*unique.values()]


def _moving(x: Index) -> Poly:
    """`x` without its constant."""
    return {m: c for m, c in expand_index(x).items() if m}


def _any_access(s: Statement, accesses: Sequence[Access], side: str) -> tuple[Statement, Access]:
    """An access that is any of `accesses`, and the statement that does it."""
    (a, *rest) = accesses
    if not rest:
        return s, a
    beside: dict[str, int] = {}
    at = list(a.at)
    for d, x in enumerate(a.at):
        ends = [expand_index(b.at[d]).get((), 0) for b in accesses if b.at[d] is not None]  # type: ignore[arg-type]
        if x is not None and (reach := max(ends) - min(ends)):
            beside[name := f"{side}+{d}"] = reach + 1
            at[d] = to_index(poly_add(_moving(x), {(Var(name),): 1, (): min(ends)} if min(ends) else {(Var(name),): 1}))
    return s.widened(beside), Access(a.buffer, tuple(at), a.write, a.conds, a.private, a.fold, a.maybe, a.atomic)
