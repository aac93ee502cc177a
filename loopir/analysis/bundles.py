"""Accesses of one statement that differ by constants alone, taken together: what clears all of them is asked once.

The nine reads of a 3x3 mean are one read of `A[i + u, j + v]`, with u and v below 3 as further dimensions of the
statement. Where that read meets a write nowhere, none of the nine does; where it may, they are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from loopir.analysis.access import Access, Statement
from loopir.analysis.affine import Poly, plain, plus, to_index
from loopir.ir.grammar import Add, Index, Int, Var

Clear = Callable[[Statement, Access, Statement, Access], bool]
"""Whether accesses of two statements cannot clash: these may be bundles, and the statements wider than they were."""


def unclear(
    s: Statement, t: Statement, pairs: Iterable[tuple[Access, Access]], clear: Clear
) -> Iterator[tuple[Access, Access]]:
    """Those of `pairs`, accesses of `s` and of `t`, whose bundles are not clear of one another."""
    pairs = [*pairs]
    if len(pairs) < 2:
        yield from pairs
        return
    met: dict[tuple[object, object], list[tuple[Access, Access]]] = {}
    kinds = {id(x): _kind(x) for pair in pairs for x in pair}
    for a, b in pairs:
        met.setdefault((kinds[id(a)], kinds[id(b)]), []).append((a, b))
    for several in met.values():
        if len(several) > 1:
            first, second = (list({id(x): x for x in side}.values()) for side in zip(*several, strict=True))
            if clear(*_whole(s, first, "s"), *_whole(t, second, "t")):
                continue
        yield from several


def _kind(a: Access) -> object:
    """What all in a bundle have in common: everything but a constant at the end of their subscripts."""
    shape = tuple([x.a if isinstance(x, Add) and isinstance(x.b, Int) else x for x in a.at])
    return a.buffer, a.write, shape, a.conds, a.private, a.fold, a.maybe, a.atomic


def _moving(x: Index) -> Poly:
    """`x` without its constant."""
    return {m: c for m, c in plain(x).items() if m}


def _whole(s: Statement, accesses: Sequence[Access], side: str) -> tuple[Statement, Access]:
    """An access that is any of `accesses`, and the statement that does it."""
    (a, *rest) = accesses
    if not rest:
        return s, a
    beside: dict[str, int] = {}
    at = list(a.at)
    for d, x in enumerate(a.at):
        ends = [plain(b.at[d]).get((), 0) for b in accesses if b.at[d] is not None]  # type: ignore[arg-type]
        if x is not None and (reach := max(ends) - min(ends)):
            beside[name := f"{side}+{d}"] = reach + 1
            at[d] = to_index(plus(_moving(x), {(Var(name),): 1, (): min(ends)} if min(ends) else {(Var(name),): 1}))
    return s.widened(beside), Access(a.buffer, tuple(at), a.write, a.conds, a.private, a.fold, a.maybe, a.atomic)
