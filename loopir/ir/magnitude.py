"""Overflow limits of 64-bit index arithmetic, and which numbers read from memory have to be range-checked for it.

Indices are exact; compiled code computes them in 64 bits, which is the same unless a subexpression overflows. For loops
and sizes the host checks that before it runs anything; numbers read from memory are checked by the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopir.ir.index import Add, FloorDiv, Index, Int, Max, Min, Mod, Mul, ValueToIndex, Xor
from loopir.ir.traverse.free_vars import is_affine_visible
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.rebuild import children

MARGIN = 1 << 34
"""What a comparison may take from both of its sides."""
LIMIT = (1 << 63) - MARGIN
"""No part of an index is this large, or larger, where compiled code computes it."""
LINEAR = 1 << 40
"""Numbers from memory below this are safe to multiply by constants below 2^20, and to add."""


@memoized
def limit(ix: Index) -> int:
    """The bound on the magnitude of numbers from memory in `ix` below which `ix` cannot overflow."""
    return LINEAR if _linear(ix) else 1 << 62 // max(2, _degree(ix))


def range_checked(ix: Index, *, exact: bool = False) -> Iterator[ValueToIndex]:
    """The numbers from memory in the arithmetic of `ix` whose magnitude may exceed `limit(ix)`.

    An unsigned number too large for int64 counts as the largest int64, which compares in the same way; that is right
    for a subscript or a bound. With `exact` it is not, and such numbers are checked even where they are only used
    whole.
    """
    return _range_checked(ix, limit(ix), computed=False, squared=False, exact=exact)


def compared(a: Index, b: Index) -> Iterator[tuple[ValueToIndex, int]]:
    """The numbers from memory to check in a comparison of `a` and `b`, each with its bound."""
    if is_unsigned(a) and is_unsigned(b):
        return
    exact = not (is_affine_visible(a) or is_affine_visible(b))
    for side in (a, b):
        if not is_affine_visible(side):
            yield from ((part, limit(side)) for part in range_checked(side, exact=exact))


def _range_checked(ix: Index, most: int, *, computed: bool, squared: bool, exact: bool) -> Iterator[ValueToIndex]:
    """Those that are `computed` with: added, multiplied, or divided and computed with then.

    Of fewer than 64 bits only those are tested that are multiplied with other numbers from memory (`squared`).
    """
    match ix:
        case ValueToIndex(value):
            used = computed or (exact and is_unsigned(ix))
            if (used and value.dtype.bits == 64) or (squared and greatest(ix) > most):
                yield ix
        case Add(a, b) | Mul(a, b):
            both = squared or (isinstance(ix, Mul) and not (is_affine_visible(a) or is_affine_visible(b)))
            for side in (a, b):
                yield from _range_checked(side, most, computed=True, squared=both, exact=exact)
        case Min(a, b) | Max(a, b) | Xor(a, b):
            for side in (a, b):
                each = exact or isinstance(ix, Xor)
                yield from _range_checked(side, most, computed=computed, squared=squared, exact=each)
        case FloorDiv(a, b) | Mod(a, b):
            whole, alone = computed and isinstance(ix, FloorDiv), is_unsigned(a) and is_affine_visible(b)
            yield from _range_checked(a, most, computed=whole, squared=squared, exact=not alone)
            yield from _range_checked(b, most, computed=whole, squared=squared, exact=True)
        case _:
            pass


def is_unsigned(ix: Index) -> bool:
    """Whether `ix` is a uint64 read from memory."""
    return isinstance(ix, ValueToIndex) and ix.value.dtype.kind == "uint" and ix.value.dtype.bits == 64


def greatest(ix: ValueToIndex) -> int:
    """A bound on the magnitude of `ix`, by its type."""
    t = ix.value.dtype
    return 1 << (t.bits - (t.kind == "int"))


def _degree(ix: Index) -> int:
    """How many numbers from memory `ix` multiplies."""
    if isinstance(ix, ValueToIndex):
        return 1
    found = [_degree(x) for x in children(ix) if isinstance(x, Index)]
    return sum(found) if isinstance(ix, Mul) else max(found, default=0)


def _linear(ix: Index) -> bool:
    """Whether only small constants multiply what `ix` takes from memory."""
    if isinstance(ix, ValueToIndex) or is_affine_visible(ix):
        return True
    if isinstance(ix, Mul) and not any(isinstance(k, Int) and abs(k.value) < 1 << 20 for k in (ix.a, ix.b)):
        return False
    return all(_linear(x) for x in children(ix) if isinstance(x, Index))
