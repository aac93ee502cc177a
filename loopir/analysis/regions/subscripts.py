"""Subscripts of accesses: the loops that they name, their digits, and the multiples of loops that they add up.

They say how an array is viewed: `x[i // 64, i % 64]` reads a matrix as one row, `x[i * 64 + j]` a row as a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from loopir.arith.poly import constant_part, expand_index
from loopir.ir.grammar import Add, Buffer, FloorDiv, Index, Int, Mod, Node, Var
from loopir.ir.instr.match_nest import linear_coefficients
from loopir.ir.printer import text
from loopir.ir.traverse.rebuild import children, nodes
from loopir.ir.traverse.walk import free_vars


class Digit(NamedTuple):
    """A digit of a loop in mixed radix: `loop // weight % base`, or `loop // weight` where `base` is None."""

    loop: str
    weight: int = 1
    base: int | None = None

    @property
    def is_quotient(self) -> bool:
        """Whether it is `loop // weight`, of the highest digit."""
        return self.weight > 1 and self.base is None


class Subscript(str):
    """The index of one dimension of an access as text, which answers questions about its loops."""

    expr: Index

    def __new__(cls, index: Index) -> Subscript:
        made = super().__new__(cls, text(index))
        made.expr = index
        return made

    @property
    def variables(self) -> frozenset[str]:
        """The loops and sizes in the subscript."""
        return free_vars(self.expr)

    @property
    def divides(self) -> bool:
        """Whether a quotient or a remainder is taken."""
        return any(isinstance(n, FloorDiv | Mod) for n in nodes(self.expr))

    @property
    def digit(self) -> Digit | None:
        """The digit that the subscript is, such as `i // 2 % 3`; `i` alone is one of weight 1. None if it is none."""
        return digit(self.expr)

    @property
    def digits(self) -> tuple[Digit, ...]:
        """All digits in the subscript, such as `i // 4` and `i % 4` in `i // 4 + i % 4 * 8`."""
        return tuple(digits(self.expr))

    @property
    def multiples(self) -> Mapping[str, int]:
        """By variable its factor, such as 32 and 1 in `i * 32 + j + 5`; none where the subscript is not linear."""
        found = linear_coefficients(self.expr, dict.fromkeys(self.variables))
        return {} if found is None else found[0]

    @property
    def constant(self) -> int:
        """The number added: 5 in `i * 32 + j + 5`."""
        return constant_part(self.expr)[1]

    @property
    def without_constant(self) -> Index:
        """What `constant` is added to."""
        return constant_part(self.expr)[0]


def digit(ix: Index) -> Digit | None:
    """The digit of one variable that `ix` is, a remainder that is spelled `i - i // 4 * 4`, too; None if it is none."""
    if isinstance(ix, Add):
        return _spelled_remainder(ix)
    base = weight = None
    if isinstance(ix, Mod) and isinstance(ix.b, Int):
        ix, base = ix.a, ix.b.value
    if isinstance(ix, FloorDiv) and isinstance(ix.b, Int):
        ix, weight = ix.a, ix.b.value
    return Digit(ix.name, weight or 1, base) if isinstance(ix, Var) else None


def _spelled_remainder(ix: Add) -> Digit | None:
    """The digit that `ix` is as a quotient less a multiple of the next higher one."""
    terms = expand_index(ix)
    if sorted(terms.values())[1:] != [1] or any(len(m) != 1 for m in terms):
        return None
    (below,), (above,) = sorted(terms, key=lambda m: -terms[m])
    base, low, high = -terms[above,], digit(below), digit(above)
    if low is None or high is None or (low.loop, low.base, high.base) != (high.loop, None, None) or base < 1:
        return None
    return Digit(low.loop, low.weight, base) if high.weight == low.weight * base else None


def digits(n: Node) -> Iterator[Digit]:
    """The digits in `n`, none inside another."""
    found = digit(n) if isinstance(n, Index) else None
    if found is not None:
        yield found
    else:
        for x in children(n):
            if not isinstance(x, Buffer):
                yield from digits(x)
