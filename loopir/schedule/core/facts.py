"""What is known where a loop stands, and rewriting it there: the sizes, the loops around it, the guards that hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lcm

from loopir.arith.poly import constant_poly, expand_index, poly_add
from loopir.arith.prove import least as lowest, nonnegative
from loopir.arith.rules import divisible
from loopir.arith.sample_points import cheapest_kinds, refuted_by_sample
from loopir.arith.simplify import Context, poly, simplify, sum_of_variables
from loopir.arith.simplify_func import Known, known_at as known_at, simplify_body
from loopir.ir.grammar import Body, FloorDiv, Func, Index, Int, Loop, Max, Min, Stmt, maximum, minimum
from loopir.ir.traverse.walk import nodes, replace_stmt


@dataclass(frozen=True, slots=True)
class Facts:
    """Questions on indices, answered yes only where it is proved for all sizes that the Func assumes."""

    place: Known
    target: Stmt

    @staticmethod
    def at(func: Func, target: Stmt) -> Facts:
        """What may be used to rewrite `target` where it stands in `func`."""
        return Facts(known_at(func, target), target)

    @property
    def known(self) -> Context:
        return self.place.within((self.target,))

    def divides(self, factor: int, extent: Index) -> bool:
        if isinstance(extent, Int):
            return extent.value % factor == 0
        return divisible(poly(extent, self.known), factor, self.known)

    def at_least(self, extent: Index, least: int) -> bool:
        if isinstance(extent, Int):
            return extent.value >= least
        above, known = poly_add(expand_index(extent), constant_poly(-least)), self.known
        low = lowest(above, known)
        if low is not None and low >= 0:
            return True
        if refuted_by_sample(above, known, cheapest_kinds(above, known)):
            return False
        scale = lcm(*(n.b.value for n in nodes(extent) if isinstance(n, FloorDiv) and isinstance(n.b, Int)))
        asked = (poly_add(poly(extent * k, known), constant_poly(-least * k)) for k in sorted({1, scale}))
        return any(nonnegative(p, known) for p in asked)  # c * (x // c) is nearly x

    def equal(self, a: Index, b: Index) -> bool:
        return self.tidy(a - b) == Int(0) or (self.at_least(a - b, 0) and self.at_least(b - a, 0))

    def less(self, a: Index, b: Index, *, one: bool = True, other: bool = True) -> Index:
        """The minimum of `a` and `b`: one of them where that is proved; `one` and `other` say which to try."""
        if one and self.at_least(b - a, 0):
            return self.tidy(a)
        tried = other and self.at_least(a - b, 0)
        return self.tidy(b) if tried else self._open(minimum(self.tidy(a), self.tidy(b)))

    def greater(self, a: Index, b: Index, *, one: bool = True, other: bool = True) -> Index:
        """The maximum of `a` and `b`: one of them where that is proved; `one` and `other` say which to try."""
        if one and self.at_least(a - b, 0):
            return self.tidy(a)
        tried = other and self.at_least(b - a, 0)
        return self.tidy(b) if tried else self._open(maximum(self.tidy(a), self.tidy(b)))

    def _open(self, ix: Index) -> Index:
        """An extreme that is not decided, and need not be looked at again."""
        if isinstance(ix, Min | Max):
            self.known.atoms.setdefault(ix, {(ix,): 1})
        return ix

    def constant(self, ix: Index) -> bool:
        """Whether `ix` is one number."""
        return isinstance(self.tidy(ix), Int)

    def tidy(self, ix: Index) -> Index:
        summed = sum_of_variables(ix)
        return simplify(ix, self.known) if summed is None else summed


def rewrite_loop(func: Func, loop: Loop, make: Callable[[], Stmt | Body]) -> Func:
    """`func` with `loop` replaced by what `make` gives, its indices and guards simplified where they stand."""
    made = make()
    tidied = simplify_body(made if isinstance(made, tuple) else (made,), known_at(func, loop))
    return replace_stmt(func, loop, tidied)


def known_in(func: Func, loop: Loop) -> Known:
    """What is known inside `loop`."""
    return known_at(func, loop).loop(loop.var, loop.extent, loop.body)
