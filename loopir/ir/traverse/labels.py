"""Labels of statements, and whether there are cache hints; memoized per nest, as a step changes few nests."""

from __future__ import annotations

from loopir.ir.grammar import Func, Prefetch, Reduce, Stmt, Store
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import nests, statements


@memoized
def labels_in(s: Stmt) -> frozenset[str]:
    """The labels of the statements in `s`."""
    return frozenset([x.label for x in statements((s,)) if isinstance(x, Store | Reduce)])


def labels_of(func: Func) -> set[str]:
    """The labels of the statements of `func`."""
    return set[str]().union(*(labels_in(s) for s in nests(func.body)))


@memoized
def has_cache_hint(s: Stmt) -> bool:
    """Whether `s` contains a Prefetch."""
    return any(type(x) is Prefetch for x in statements((s,)))
