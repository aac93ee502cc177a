"""Labels of statements, and whether there are cache hints; memoized per nest, as a step changes few nests."""

from __future__ import annotations

from loopir.ir.grammar import Func, Prefetch, Reduce, Stmt, Store
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.queries import statements_unknown
from loopir.ir.traverse.walk import nests


@memoized
def labels_in(s: Stmt) -> frozenset[str]:
    """The labels of the statements in `s`."""
    unknown, known = statements_unknown(s, labels_in)
    return frozenset([x.label for x in unknown if isinstance(x, Store | Reduce)]).union(*known)


def labels_of(func: Func) -> set[str]:
    """The labels of the statements of `func`."""
    return set[str]().union(*(labels_in(s) for s in nests(func.body)))


@memoized
def has_cache_hint(s: Stmt) -> bool:
    """Whether `s` contains a Prefetch."""
    unknown, known = statements_unknown(s, has_cache_hint)
    return any(known) or any(type(x) is Prefetch for x in unknown)
