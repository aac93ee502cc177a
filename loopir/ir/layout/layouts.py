"""Layouts: check that they are injective, and evaluate offsets, strides and spans.

The verifier checks every layout after every step, so answers are memoized. `loopir.ir.layout.layout_map` makes layouts
from maps, and proves them injective for all sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from itertools import permutations
from math import prod
from typing import Any, cast

import numpy as np

from loopir.errors import VerifyError
from loopir.ir.grammar import (
    Add,
    Buffer,
    FloorDiv,
    Fragment,
    Index,
    Int,
    Mapped,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Strided,
    ValueToIndex,
    Var,
    Xor,
    maximum,
    minimum,
)
from loopir.ir.layout.layout_map import index_bounds, is_injective_map
from loopir.ir.traverse.walk import free_vars, nodes, substitute


def reads_only(ix: Node, names: frozenset[str]) -> bool:
    """Whether `ix` reads no variables but `names`, and no memory."""
    return all(n.name in names if isinstance(n, Var) else not isinstance(n, ValueToIndex) for n in nodes(ix))


@lru_cache(maxsize=1024)
def is_injective(b: Buffer) -> bool:
    """Whether the layout of `b` is injective, with no offset below 0.

    Nested strides, each at least the next one times its extent, are so at all sizes, as are maps that can be inverted
    step by step. Other layouts are evaluated at every element, so they need a constant shape of up to 2**20 elements.
    """
    if isinstance(b.layout, Fragment):
        return is_tiled(b.layout, b.shape)
    if isinstance(b.layout, Strided) and any(map(_nested, permutations(zip(b.layout.strides, b.shape, strict=True)))):
        return True
    if isinstance(b.layout, Mapped) and is_injective_map(b.layout, b.shape):
        return True
    shape = [d.value for d in b.shape if isinstance(d, Int)]
    if len(shape) != len(b.shape) or prod(shape) > 1 << 20:
        return False
    env = dict(enumerate(np.indices(shape).reshape(len(shape), prod(shape))))
    cells = np.zeros(prod(shape), np.int64)
    if isinstance(b.layout, Mapped):
        if not reads_only(b.layout.at, frozenset(b.layout.dims)):
            return False
        cells = cells + evaluate(b.layout.at, dict(zip(b.layout.dims, env.values(), strict=True)))
    elif isinstance(b.layout, Strided):
        if not all(isinstance(x, Int) for x in b.layout.strides):
            return False
        cells = cells + sum(env[n] * evaluate(x, {}) for n, x in enumerate(b.layout.strides))
    return _all_distinct(cells)


def _all_distinct(cells: Any) -> bool:
    """Whether the numbers in `cells` differ from one another, and none is below 0."""
    if not len(cells) or cells.min() < 0:
        return not len(cells)
    if (last := int(cells.max())) >= 8 * len(cells):
        return len(np.unique(cells)) == len(cells)
    seen = np.zeros(last + 1, np.bool_)  # which takes a twentieth of the time of looking for different ones
    seen[cells] = True
    return np.count_nonzero(seen) == len(cells)


@lru_cache(maxsize=256)
def fragment_elements(layout: Fragment) -> Any:
    """The element of each register of each lane of a fragment: an array [lanes, registers, dimensions]."""
    lane, register = np.indices((layout.lanes, layout.registers))
    env = {layout.dims[0]: lane, layout.dims[1]: register}
    return np.stack([np.broadcast_to(evaluate(x, env), lane.shape) for x in layout.at], axis=-1)


@lru_cache(maxsize=256)
def register_tile(layout: Fragment) -> tuple[int, ...] | None:
    """The shape of the tile in the registers.

    None unless each element is in one register of one lane, or of all lanes of a group, as `replicas` tells.
    """
    if not all(reads_only(x, frozenset(layout.dims)) for x in layout.at) or layout.lanes < 1 or layout.registers < 1:
        return None
    held = fragment_elements(layout)
    cells = held[:: replicas(layout)].reshape(-1, len(layout.at))
    shape = tuple(int(n) + 1 for n in cells.max(axis=0))
    whole = len(cells) == prod(shape) == len(np.unique(cells, axis=0)) and bool((cells >= 0).all())
    return shape if whole else None


@lru_cache(maxsize=256)
def replicas(layout: Fragment) -> int:
    """How many lanes hold each element in the same register: the largest power of 2 so that lanes whose numbers differ
    below it hold the same; 1 if each element has one lane."""
    held, count = fragment_elements(layout), 1
    while layout.lanes % (2 * count) == 0 and bool((held[:: 2 * count] == held[count :: 2 * count]).all()):
        count *= 2
    return count


def is_tiled(layout: Fragment, shape: tuple[Index, ...]) -> bool:
    """Whether tiles of `layout` divide an array of `shape`."""
    unit = register_tile(layout)
    if unit is None or len(unit) > len(shape):
        return False
    inner = shape[len(shape) - len(unit) :]
    return all(isinstance(d, Int) and d.value % n == 0 for d, n in zip(inner, unit, strict=True))


def offset(b: Buffer, at: tuple[Index, ...]) -> Index:
    """The offset of element `at` of `b`, in elements."""
    match b.layout:
        case Strided(strides):
            total: Index = Int(0)
            for x, s in zip(at, strides, strict=True):
                total = total + x * s
            return total
        case Mapped(dims, where):
            return substitute(where, dict(zip(dims, at, strict=True)))
        case _:
            total = Int(0)
            for x, size in zip(at, b.shape, strict=True):
                total = total * size + x
            return total


def element_span(b: Buffer) -> Index:
    """The size of `b` in memory, in elements, with the gaps of its layout."""
    if isinstance(b.layout, Mapped):
        if not all(isinstance(d, Int) for d in b.shape) or not reads_only(b.layout.at, frozenset(b.layout.dims)):
            return maximum(index_bounds(b.layout.at, dict(zip(b.layout.dims, b.shape, strict=True)))[1] + 1, 0)
        shape = [evaluate(d, {}) for d in b.shape]
        return Int(1 + _greatest(b.layout.at, dict(zip(b.layout.dims, shape, strict=True))) if prod(shape) else 0)
    room: Index = Int(1)
    for d, stride in zip(b.shape, strides_of(b), strict=True):
        room = room + (d - 1) * stride
    for d in b.shape:  # none at all if a dimension is 0
        room = room * minimum(d, 1)
    return maximum(room, 0)


def _greatest(ix: Index, sizes: Mapping[str, int]) -> int:
    """The greatest value of `ix`, which speaks of variables from 0 to less than their sizes alone."""
    terms = _separate_terms(ix, sizes)
    if terms is not None:
        return sum(int(np.max(t)) for t in terms.values())
    env = dict(zip(sizes, np.indices([*sizes.values()], sparse=True), strict=True))  # what is of one is short
    return int(np.max(evaluate(ix, env), initial=-1))


def _separate_terms(ix: Index, sizes: Mapping[str, int]) -> dict[str, Any] | None:
    """What is added up to `ix` by variable, each as its values for all of one; None where two are mixed otherwise.

    What is of no variable is of "".
    """
    spoken = free_vars(ix)
    if len(spoken) <= 1:
        name = next(iter(spoken), "")
        return {name: evaluate(ix, {name: np.arange(sizes[name])} if name else {})}
    match ix:
        case Add(a, b):
            left, right = _separate_terms(a, sizes), _separate_terms(b, sizes)
            if left is None or right is None:
                return None
            return {v: left.get(v, 0) + right.get(v, 0) for v in {**left, **right}}
        case Mul(a, Int(factor)):
            inner = _separate_terms(a, sizes)
            return None if inner is None else {v: t * factor for v, t in inner.items()}
        case _:
            return None


def strides_of(b: Buffer) -> tuple[Index, ...]:
    """The stride of each dimension, in elements: the layout's, or row-major."""
    if isinstance(b.layout, Strided):
        return b.layout.strides
    out: list[Index] = []
    step: Index = Int(1)
    for d in reversed(b.shape):
        out.append(step)
        step = step * d
    return tuple(reversed(out))


def _nested(dims: tuple[tuple[Index, Index], ...]) -> bool:
    """Whether each stride, innermost first, is at least the one before times its extent."""
    below: tuple[Index, ...] = (Int(1),)
    for stride, extent in dims:
        wide = isinstance(stride, Int) and isinstance(below[0], Int) and stride.value >= below[0].value
        if not wide and stride not in below:
            return False
        below = (stride * extent, extent * stride)
    return True


def evaluate(ix: Node, env: Mapping[str, Any]) -> Any:
    """The integer that an index without memory reads is, under `env`; of arrays of integers, an array."""
    kind, node = type(ix), cast(Any, ix)
    if kind is Int:
        return node.value
    if kind is Var:
        return env[node.name]
    of = _OPERATIONS.get(kind)
    if of is None:
        raise VerifyError(f"{kind.__name__} has no value outside a run")
    return of(evaluate(node.a, env), evaluate(node.b, env))


def evaluated(at: Iterable[Node | None], env: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The integers that those of `at` read that are seen; None where a divisor is 0.

    Analysis takes quotients by what is no number for any numbers, and may find an iteration that there is not.
    """
    try:
        return tuple(evaluate(x, env) for x in at if x is not None)
    except ZeroDivisionError:
        return None


def _extreme(of_ints: Callable[..., Any], of_arrays: Callable[..., Any], a: Any, b: Any) -> Any:
    return of_ints(a, b) if isinstance(a, int) and isinstance(b, int) else of_arrays(a, b)


_OPERATORS: Any = operator
_OPERATIONS: Mapping[type[Node], Callable[[Any, Any], Any]] = {
    Add: _OPERATORS.add, Mul: _OPERATORS.mul, FloorDiv: _OPERATORS.floordiv, Mod: _OPERATORS.mod,
    Xor: _OPERATORS.xor, Min: partial(_extreme, min, np.minimum), Max: partial(_extreme, max, np.maximum),
}  # fmt: skip
