"""Measure an expression as text: how many nodes it has without sharing, and how deep its parentheses nest.

Nodes are shared in memory and not in text: `x = x * x`, 20 times, makes 20 nodes and 2^20 words. Code that builds
expressions checks this first, at a cost that is linear in the new nodes.
"""

from __future__ import annotations

from typing import Any

from loopir.ir.grammar import Add, Buffer, Node, Op
from loopir.ir.traverse.memo import cache_of
from loopir.ir.traverse.rebuild import LEAVES, children

Measure = tuple[int, int]
"""Nodes when written out, and levels of parentheses. A sum of many terms has none, as it is read from the left."""

_SUMS = frozenset({"add", "sub"})


def written_size(node: Node) -> int:
    """How many nodes `node` has when nothing is shared."""
    return measured(node)[0]


def nesting(node: Node) -> int:
    """How deep parentheses nest when `node` is written out."""
    return measured(node)[1]


def measured(node: Node) -> Measure:
    """Both measures, memoized for every node under `node`."""
    found = _known(node)
    if found is not None:
        return found
    pending = [node]
    while pending:
        n = pending[-1]
        if _known(n) is not None:
            pending.pop()
            continue
        parts = [c for c in children(n) if type(c) is not Buffer]
        missing = [c for c in parts if _known(c) is None]
        if missing:
            pending += missing
            continue
        sizes = [measured(c) for c in parts]
        depths = [d + (k > 0 or not _on_the_left(n, c)) for k, (c, (_, d)) in enumerate(zip(parts, sizes, strict=True))]
        cache_of(n)[measured] = (1 + sum(size for size, _ in sizes), max(depths, default=0))
        pending.pop()
    found = _known(node)
    assert found is not None
    return found


def _known(n: Node) -> Measure | None:
    if type(n) in LEAVES:
        return 1, 0
    kept: dict[object, Any] | None = getattr(n, "_kept", None)
    return None if kept is None else kept.get(measured)


def _on_the_left(n: Node, first: Node) -> bool:
    """Whether `first`, the first part of `n`, is written without parentheses: a sum of which `n` is a longer one."""
    if isinstance(n, Add):
        return isinstance(first, Add)
    return isinstance(n, Op) and isinstance(first, Op) and {n.fn.name, first.fn.name} <= _SUMS
