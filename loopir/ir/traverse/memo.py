"""Per-node memoization: rewrites share unchanged nodes, and so their cached answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

from loopir.ir.index import Node

N = TypeVar("N", bound=Node)
T = TypeVar("T")


_keep = cast("Callable[[Node, dict[object, Any]], None]", vars(Node)["_kept"].__set__)


def cache_of(node: Node) -> dict[object, Any]:
    """The cache of answers about `node`, which lives as long as the node."""
    found: dict[object, Any] | None = getattr(node, "_kept", None)
    if found is None:
        found = {}
        _keep(node, found)
    return found


def memoized(fn: Callable[[N], T]) -> Callable[[N], T]:
    """Memoize `fn`, a function of the node alone, per node."""

    @wraps(fn)
    def answer(node: N) -> T:
        known: dict[object, Any] | None = getattr(node, "_kept", None)  # an exception costs more than most answers
        if known is None:
            known = {}
            _keep(node, known)
        elif fn in known:
            return known[fn]
        found = known[fn] = fn(node)
        return found

    return answer


def seed_memo(fn: Callable[[N], T], node: N, answer: T) -> None:
    """Store `answer` as the result of the `memoized` function `fn` at `node`, where it was found by other means."""
    cache_of(node).setdefault(fn.__wrapped__, answer)  # type: ignore[attr-defined]


def peek_memo(fn: Callable[[N], T], node: N) -> T | None:
    """The stored result of the `memoized` function `fn` at `node`; None if there is none."""
    found: dict[object, Any] | None = getattr(node, "_kept", None)
    return None if found is None else found.get(fn.__wrapped__)  # type: ignore[attr-defined]


class cached(cached_property[T]):
    """A `cached_property` without its lock, which costs as much as most of these computations."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        answer = instance.__dict__[self.attrname] = self.func(instance)
        return answer
