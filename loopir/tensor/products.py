"""Sums of products by Einstein's convention, two operands at a time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DTypeLike, bool_, float32
from loopir.ir.grammar import Index, Int
from loopir.tensor import reductions as red
from loopir.tensor.core import as_expr, cast, common_type, elementwise, stage_reduction
from loopir.tensor.index import same
from loopir.tensor.shapes import diagonal
from loopir.tensor.tensor import Tensor

__all__ = ["einsum", "outer", "trace"]

_Factor = tuple[Tensor, str]
"""An operand and the labels of its dimensions."""
MOST_ORDERED = 5
"""Operands of which all 180 orders are tried; six have 2,700."""
_SPARE = "".join(map(chr, range(0x391, 0x3A9)))
"""Names of the dimensions that an Ellipsis stands for: capital Greek letters, which no subscript is."""


def einsum(subscripts: str, *operands: Tensor, accum_dtype: DTypeLike | None = None) -> Tensor:
    """The sum of products that NumPy's `einsum` means by `subscripts`, such as "ij,jk->ik" or "...ij,...jk->...ik".

    Operands are multiplied two at a time, in the order of the fewest multiplications where the sizes are known, else
    from left to right, and what no other one names is summed at once. Narrow floats accumulate in float32, or in
    `accum_dtype`; unless that is given, each product of two is rounded, as torch's are.
    """
    if not isinstance(subscripts, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError('einsum takes its subscripts first, as lp.einsum("ij,jk->ik", a, b)')
    what = f"einsum({subscripts!r})"
    tensors: list[Tensor] = [stage_reduction(as_expr(Tensor, x, None)) for x in operands]
    terms, result = _subscript_labels(what, subscripts, tensors)
    sizes = _sizes(what, terms, tensors)
    t = common_type(tensors)
    work = dtypes.dtype(accum_dtype) if accum_dtype is not None else float32 if t.is_narrow else t
    left: list[_Factor] = [*zip(tensors, terms, strict=True)]
    made, term = left[0]
    if len(left) == 1:
        labels = "".join(dict.fromkeys(term))
        return cast(_summed(_broadcast_dims(cast(made, work), term, labels, sizes), labels, result, sizes), t)
    for a, b in _contraction_order(terms, result, sizes):
        (x, one), (y, other) = left[a], left[b]
        rest = [factor for n, factor in enumerate(left) if n not in (a, b)]
        kept = _kept_labels(one, other, [term for _, term in rest], result)
        order = kept + "".join(c for c in dict.fromkeys(one + other) if c not in kept)
        x, y = red.stored_factors(x, y)  # in their own type, which may be narrow, and converted as they are read
        x = _broadcast_dims(cast(x, work), one, order, sizes)
        y = _broadcast_dims(cast(y, work), other, order, sizes)
        made = _summed(elementwise(Tensor, "and_" if work == bool_ else "mul", x, y, to=work), order, kept, sizes)
        made = cast(made, t) if t.is_narrow and accum_dtype is None else made
        left = [(made, kept), *rest]
    return cast(made, t)


def _kept_labels(one: str, other: str, rest: Sequence[str], result: str) -> str:
    """The labels of a product of two operands that the others or the result name: all others are summed."""
    later = {*result, *"".join(rest)}
    return "".join(c for c in (dict.fromkeys(one + other) if rest else result) if c in later)


def _contraction_order(terms: Sequence[str], result: str, sizes: Mapping[str, Index]) -> list[tuple[int, int]]:
    """Which two operands are multiplied, one pair after the other, the product being the first operand from then on:
    by the fewest multiplications, of few operands of known sizes, else from left to right."""
    lengths = {c: size.value for c, size in sizes.items() if isinstance(size, Int)}
    if len(terms) > MOST_ORDERED or len(lengths) < len(sizes):
        return [(0, 1)] * (len(terms) - 1)
    return _cheapest_order(tuple(terms), result, lengths)[1]


def _cheapest_order(terms: Sequence[str], result: str, lengths: Mapping[str, int]) -> tuple[int, list[tuple[int, int]]]:
    """The least number of multiplications, and the pairs that take it, the first in order where several do."""
    if len(terms) < 2:
        return 0, []
    found: list[tuple[int, list[tuple[int, int]]]] = []
    for a, b in combinations(range(len(terms)), 2):
        rest = [term for n, term in enumerate(terms) if n not in (a, b)]
        kept = _kept_labels(terms[a], terms[b], rest, result)
        cost, pairs = _cheapest_order([kept, *rest], result, lengths)
        found.append((cost + prod(lengths[c] for c in {*terms[a], *terms[b]}), [(a, b), *pairs]))
    return min(found, key=lambda x: x[0])


def _subscript_labels(what: str, subscripts: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """The labels of each operand, and of the result; those of an Ellipsis are of _SPARE."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    given = inputs.split(",")
    if len(given) != len(tensors) or not tensors:
        raise ExprError(f"{what} names {len(given)} operands, and {len(tensors)} are given")
    terms = [_expanded(what, term, x.ndim, x) for term, x in zip(given, tensors, strict=True)]
    spare = "".join(sorted({c for t in terms for c in t if c in _SPARE}))
    if not arrow:
        once = [c for c in sorted({*"".join(terms)}) if "".join(terms).count(c) == 1 and c not in _SPARE]
        return terms, spare + "".join(once)
    result = output.replace("...", spare)
    for c in result:
        if c not in "".join(terms) or result.count(c) > 1:
            raise ExprError(f"{what}: {c!r} of the result is named once, and in an operand")
    if spare and "..." not in output:
        raise ExprError(f"{what}: the result has no '...', which operands have")
    return terms, result


def _expanded(what: str, term: str, rank: int, x: Tensor) -> str:
    head, dots, tail = term.partition("...")
    letters = head + tail
    if not all(c.isascii() and c.isalpha() for c in letters):
        raise ExprError(f"{what}: {term!r} is no list of letters; an operand has one for each dimension")
    if len(letters) != rank if not dots else len(letters) > rank:
        raise ExprError(f"{what}: {term!r} names {len(letters)} dimensions of {x.described()}, which has {rank}")
    return head + (_SPARE[len(_SPARE) - (rank - len(letters)) :] if dots else "") + tail


def _sizes(what: str, terms: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Index]:
    """The size of each label; those of size 1 are repeated, as NumPy does."""
    sizes: dict[str, Index] = {}
    symbols = {k: s for x in tensors for k, s in x.symbols.items()}
    for term, x in zip(terms, tensors, strict=True):
        for c, size in zip(term, x.dims, strict=True):
            known = sizes.get(c, Int(1))
            if known != Int(1) and size != Int(1) and not same(known, size, symbols):
                listed = " and ".join(x.described() for x in tensors)
                raise ExprError(f"{what} of {listed}: {c!r} has two sizes")
            sizes[c] = size if known == Int(1) else known
    return sizes


def _broadcast_dims(x: Tensor, term: str, order: str, sizes: dict[str, Index]) -> Tensor:
    """`x`, whose dimensions are `term`, over the dimensions `order`: 1 where it has none, diagonals where one twice."""
    shape = tuple(sizes[c] if c in term else Int(1) for c in order)

    def at(ix: tuple[Index, ...]) -> Any:
        where = dict(zip(order, ix, strict=True))
        return x.at(tuple(Int(0) if d == Int(1) else where[c] for c, d in zip(term, x.dims, strict=True)))

    return x if term == order and x.dims == shape else x.like(shape, x.dtype, at)


def _summed(x: Tensor, labels: str, kept: str, sizes: dict[str, Index]) -> Tensor:
    """`x`, whose dimensions are `labels`, summed over all but `kept`, in the order of these."""
    over = tuple(d for d, c in enumerate(labels) if c not in kept)
    if over:
        fold = "any" if x.dtype == bool_ else "sum"
        x = red.fold(Tensor, fold, x, over, False, x.dtype, "einsum")
    left = "".join(c for c in labels if c in kept)
    return x if left == kept else x.transpose(tuple(left.index(c) for c in kept))


def outer(a: Any, b: Any) -> Tensor:
    """The product of each element of `a` with each of `b`, both flat: rows for `a`, columns for `b`."""
    rows, columns = (as_expr(Tensor, x, None).reshape(-1) for x in (a, b))
    return rows[:, None] * columns[None, :]


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of the diagonal `offset` of two dimensions of `x`; see `diagonal`."""
    return diagonal(x, offset, axis1, axis2).sum(axis=-1)
