"""Refuse indices that overflow 64 bits: when a program is built, or at a call before anything runs.

Indices are exact, and compiled code computes them in 64 bits. Every subexpression has a bound over the sizes alone
(`loopir.codegen.index_bounds.Bounds`): a constant bound that is too large ends the build; the others are
evaluated, in Python's integers, at each call whose sizes are not small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from loopir.codegen.index_bounds import Bounds, Range, ends
from loopir.errors import LowerError, spelled
from loopir.ir.grammar import (
    Add,
    Alloc,
    Buffer,
    Func,
    Index,
    Int,
    Kernel,
    Load,
    Mul,
    Node,
    Reduce,
    Store,
    TmaBox,
    ValueToIndex,
)
from loopir.ir.magnitude import LIMIT, LINEAR, greatest, limit, range_checked
from loopir.ir.traverse.free_vars import is_affine_visible
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.rebuild import LEAVES, children
from loopir.ir.traverse.walk import statements
from loopir.ir.verify.verify import evaluate


@memoized
def index_bounds(func: Func) -> tuple[Index, ...]:
    """Expressions over the sizes of the lowered `func` that have to be below LIMIT for its indices not to overflow.

    Raises LowerError if an index overflows at all sizes.
    """
    plain, parts, found = Bounds(func.body, longest=_longest), dict[Index, Range](), dict[Index, None]()
    kernels = [s for s in statements(func.body) if isinstance(s, Kernel)]
    whole = dict.fromkeys(x for k in kernels for x in _whole_indices(k))
    for ix, address in whole:
        if is_affine_visible(ix):
            parts |= {part: plain.of(part) for part in _subindices(ix, parts)}
            continue
        read = Bounds(func.body, _Read(ix), _longest)
        ranges = {part: read.of(part) for part in (_operands(ix) if address else _subindices(ix))}
        found |= dict.fromkeys(ends(ranges, read.parts, LIMIT))
    found |= dict.fromkeys(ends(parts, plain.parts, LIMIT))
    least = max((evaluate(b, dict.fromkeys(func.sizes, 0)) for b in found), default=0)
    if least >= LIMIT:  # as bounds only grow with the sizes
        raise LowerError(
            f"an index may come to {spelled(least)}, and compiled code counts in 64 bits; smaller factors and lengths "
            f'keep it there, and "interpret" counts without end'
        )
    return tuple(found)


def small_size(bounds: Collection[Index], sizes: Sequence[str]) -> int:
    """A number such that all `bounds`, which are monotonic, are below LIMIT if no size exceeds it."""
    low, high = -1, 63  # 2^high is too large: a bound is below LIMIT whatever the sizes are, or it is none
    while high - low > 1:
        middle = (low + high) // 2
        fits = all(evaluate(b, dict.fromkeys(sizes, 1 << middle)) < LIMIT for b in bounds)
        low, high = (middle, high) if fits else (low, middle)
    return 1 << low if low >= 0 else -1


def _whole_indices(kernel: Kernel) -> Iterator[tuple[Index, bool]]:
    """Every index in `kernel` that is no part of one, and whether it is an element's place; those that read memory, and
    those that are read there."""
    pending: list[tuple[Node, bool]] = [(kernel, False)]
    while pending:
        n, address = pending.pop()
        if isinstance(n, Index):
            yield n, address
            if not is_affine_visible(n):
                pending += [(part.value, False) for part in _subindices(n) if isinstance(part, ValueToIndex)]
            continue
        if isinstance(n, Load | Store | Reduce | TmaBox):
            pending += [(x, True) for x in n.at]
        if isinstance(n, Alloc):
            pending += [(d, False) for d in n.buffer.shape]
        if type(n) not in LEAVES and not isinstance(n, Buffer):
            placed = n.at if isinstance(n, Load | Store | Reduce | TmaBox) else ()
            pending += [(c, False) for c in children(n) if not any(c is x for x in placed)]


def _subindices(ix: Index, known: Collection[Index] = ()) -> Iterator[Index]:
    """`ix` and the indices it is made of, but for those in memory, and those that are `known`."""
    pending = [ix]
    while pending:
        n = pending.pop()
        if n in known:
            continue
        yield n
        if not isinstance(n, ValueToIndex):
            pending += [c for c in children(n) if isinstance(c, Index)]


def _operands(ix: Index) -> Iterator[Index]:
    """What the place `ix` of an element is made of but for sums and products, which may leave 64 bits and come back:
    that it is in its array is proved, or was tested with its parts."""
    if isinstance(ix, Add | Mul):
        yield from (*_operands(ix.a), *_operands(ix.b))
    elif not isinstance(ix, ValueToIndex):
        for c in children(ix):
            if isinstance(c, Index):
                yield from _subindices(c)


def _longest(extent: Index) -> int:
    """How far a loop counts that is as long as numbers from memory say: to what their types hold.

    It is taken to stop at LINEAR, where their types hold more: to go on from there takes longer than anybody waits.
    """
    up = Bounds((), lambda part: Range(Int(greatest(part)), Int(greatest(part)))).of(extent).up
    return min(LINEAR, up.value) if isinstance(up, Int) else LINEAR


class _Read:
    """Bounds of the numbers from memory in `ix`: by their types, or by their range checks.

    Others are only compared or divided, and may have any value.
    """

    def __init__(self, ix: Index) -> None:
        self.most, self.tested = limit(ix), frozenset(range_checked(ix, exact=True))

    def __call__(self, part: ValueToIndex) -> Range:
        most = self.most if part in self.tested else greatest(part) if part.value.dtype.bits < 64 else 0
        return Range(Int(most), Int(most))
