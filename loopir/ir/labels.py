"""The labels of statements, known nest by nest: a step that makes one asks which there are, and changes few nests."""

from __future__ import annotations

from loopir.ir.grammar import Func, Reduce, Stmt, Store
from loopir.ir.kept import kept
from loopir.ir.walk import nests, statements


@kept
def labelled(s: Stmt) -> frozenset[str]:
    """The labels of the statements in `s`."""
    return frozenset([x.label for x in statements((s,)) if isinstance(x, Store | Reduce)])


def labels_of(func: Func) -> set[str]:
    """The labels of the statements of `func`."""
    return set[str]().union(*(labelled(s) for s in nests(func.body)))
