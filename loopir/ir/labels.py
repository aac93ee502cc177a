"""The labels of statements, and where hints stand, known nest by nest: each step asks, and changes few nests."""

from __future__ import annotations

from loopir.ir.grammar import Func, Prefetch, Reduce, Stmt, Store
from loopir.ir.kept import kept
from loopir.ir.walk import nests, statements


@kept
def labelled(s: Stmt) -> frozenset[str]:
    """The labels of the statements in `s`."""
    return frozenset([x.label for x in statements((s,)) if isinstance(x, Store | Reduce)])


def labels_of(func: Func) -> set[str]:
    """The labels of the statements of `func`."""
    return set[str]().union(*(labelled(s) for s in nests(func.body)))


@kept
def hinted(s: Stmt) -> bool:
    """Whether a hint to a cache stands anywhere in `s`."""
    return any(type(x) is Prefetch for x in statements((s,)))
