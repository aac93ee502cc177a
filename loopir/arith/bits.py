"""Express xor of indices by divisions and remainders by powers of two, for integer sets.

A swizzle permutes chunks of a row by the bits of the row's number, `chunk ^ row % 8`. If one side is known to have few
bits, the exclusive or is expressed bit by bit, exactly and without a case for each value.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopir.ir.grammar import Add, FloorDiv, Index, Int, Max, Min, Mod, Mul, Var, Xor

MOST_BITS = 6
NONE: Mapping[str, int] = {}


def xor_by_divisions(ix: Xor, ends: Mapping[str, int] = NONE) -> Index | None:
    """`ix` without `^`; None if neither side is seen to be in 0 .. 2**MOST_BITS - 1.

    `ends` are the greatest values of variables that are never negative.
    """
    sides = ((ix.a, ix.b), (ix.b, ix.a))
    sized = [(most.bit_length(), a, b) for a, b in sides if (most := greatest_value(b, ends)) is not None]
    bits, a, b = min(sized, key=lambda s: s[0], default=(MOST_BITS + 1, ix.a, ix.b))
    if bits > MOST_BITS:
        return None
    total = a // (1 << bits) * (1 << bits)
    for n in range(bits):
        total = total + (a // (1 << n) + b // (1 << n)) % 2 * (1 << n)
    return total


def greatest_value(ix: Index, ends: Mapping[str, int] = NONE) -> int | None:
    """A value that `ix`, which is never negative, does not exceed, for what it is made of; None if that tells none."""
    match ix:
        case Int(value):
            return value if value >= 0 else None
        case Var(name):
            return ends.get(name)
        case Mod(_, Int(c)):
            return c - 1
        case FloorDiv(a, Int(c)):
            most = greatest_value(a, ends)
            return None if most is None else most // c
        case Add(a, b) | Mul(a, b) | Xor(a, b) | Min(a, b) | Max(a, b):
            x, y = greatest_value(a, ends), greatest_value(b, ends)
            if x is None or y is None:
                return None
            if isinstance(ix, Add):
                return x + y
            if isinstance(ix, Mul):
                return x * y
            return (1 << max(x, y).bit_length()) - 1 if isinstance(ix, Xor) else max(x, y)
        case _:
            return None
