"""Assumptions at a program point, as polynomials: ends of loops and sizes, and what is >= 0.

`Assumptions` is data, with caches of what was derived from it. `loopir.arith.simplify.Context` makes them from loops
and guards, `loopir.arith.prove` draws conclusions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopir.arith.poly import Monomial, Poly, const_of
from loopir.ir.grammar import Index, Node, Var

Ends = tuple[int | None, int | None]
"""(least, greatest); None where there is no bound known."""

Run = tuple["Assumptions", Mapping[str, float]]
"""What is known outside of loops of constant lengths, and the last iteration of each, inner ones first."""


class Assumptions:
    """`0 <= loop <= top` for each loop, sizes' lower bounds and divisors, polynomials that are >= 0.

    It never changes, but for its memory: the `ends` of terms, `answers` to simplifications, those of single `atoms`,
    sample `points`, and the premises `after` one more loop or guard, so that passes that walk the same nest meet the
    same premises again.
    """

    __slots__ = (
        "after",
        "answers",
        "atoms",
        "before",
        "ends",
        "facts",
        "lows",
        "multiples",
        "points",
        "run",
        "stable",
        "top",
        "tops",
        "useful_facts",
    )  # fmt: skip

    def __init__(
        self,
        tops: tuple[tuple[Var, Poly], ...] = (),
        lows: Mapping[str, int] | None = None,
        multiples: Mapping[str, int] | None = None,
        facts: tuple[Poly, ...] = (),
        stable: frozenset[str] = frozenset(),
        before: Assumptions | None = None,
    ) -> None:
        self.tops = tops
        """The greatest value of each loop around, innermost first."""
        self.top = dict(tops)
        self.lows: Mapping[str, int] = {} if lows is None else lows
        """What a variable is at least, if that is more than 0."""
        self.multiples: Mapping[str, int] = multiples or {}
        """What divides a size."""
        self.facts = facts
        """What is >= 0."""
        self.stable = stable
        """The buffers that nothing writes. What others held when a guard or a loop was entered says nothing of the
        statements inside: one before them may have written there."""
        self.before = before
        """What is known around, to which this adds a loop or some facts."""
        self.points: dict[int, Any] = {}
        """Points at which all this holds, once they have been asked for."""
        self.run: Run | None = None
        """The loops of constant lengths right around, once they have been asked for."""
        self.useful_facts: list[Mapping[Monomial, int]] | None = None
        """The facts that say more than the ends of their terms do, once they have been asked for."""
        self.ends: dict[Monomial, Ends] = {(): (1, 1)}
        self.answers: dict[Node, Any] = {}
        self.atoms: dict[Index, Poly] = {}
        self.after: dict[Any, Any] = {}

    def divides(self, n: int, a: Index) -> bool:
        """Whether the size `a` is known to be a multiple of `n`."""
        return isinstance(a, Var) and self.multiples.get(a.name, 1) % n == 0

    def constant_top(self, v: Var) -> bool:
        """Whether the loop `v` has ends that depend on nothing."""
        return const_of(self.top[v]) is not None
