"""The values of a graph while it is read: tensors, arrays that are known, sequences of either, and nothing.

A known array has NumPy's type, or is of Python objects where it holds sizes: integers, and indices made from symbols.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from loopir.arith.simplify import simplify, simplify_cond
from loopir.errors import ModelError
from loopir.ir import dtypes
from loopir.ir.dtypes import Array
from loopir.ir.grammar import FALSE, TRUE, Int
from loopir.tensor.core import Source, as_expr
from loopir.tensor.creation import full
from loopir.tensor.functions import stack
from loopir.tensor.index import CondExpr, IndexExpr, context, shown
from loopir.tensor.tensor import Tensor

Value: TypeAlias = "Tensor | Array | list[Any] | None"
MAX_FOLDED_ELEMENTS = 1024
"""Elements of the largest array that is worked out while a model is read, where that is not asked for."""


def is_symbolic(x: Any) -> bool:
    """Whether `x` is an array of sizes, some of them known only at the call."""
    return isinstance(x, np.ndarray) and x.dtype == object


def sizes_array(sizes: Iterable[Any]) -> Array:
    """The sizes as an array: int64 where all are numbers."""
    listed = [
        shown(simplify(s.ix, context(s.symbols)), s.symbols) if isinstance(s, IndexExpr) else int(s) for s in sizes
    ]
    if all(isinstance(s, int) for s in listed):
        return np.array(listed, np.int64)
    return objects(listed, (len(listed),))


def objects(items: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """An array of Python objects, which NumPy does not look into."""
    made = np.empty(len(items), object)
    for n, x in enumerate(items):
        made[n] = x
    return made.reshape(shape)


def simplified_array(x: Array) -> Array:
    """`x`, simplified; of objects that are all integers an array of int64, of truth values one of bools."""
    if x.dtype != object:
        return x
    items = [shown(simplify(s.ix, context(s.symbols)), s.symbols) if isinstance(s, IndexExpr) else s for s in x.flat]
    if all(isinstance(s, bool | np.bool_) for s in items):
        return np.array(items, np.bool_).reshape(x.shape)
    if all(isinstance(s, int | np.integer) for s in items):
        return np.array(items, np.int64).reshape(x.shape)
    return objects(items, x.shape)


def decided(x: Any) -> bool:
    """Whether the comparison of sizes `x` holds, for all sizes or for none; ModelError where that depends on them."""
    if not isinstance(x, CondExpr):
        return bool(x)
    found = simplify_cond(x.cond, context(x.symbols))
    if found not in (TRUE, FALSE):
        raise ModelError(
            f"the model decides by a size that is known only at the call; give the sizes "
            f"{', '.join(x.symbols)} to from_onnx, as {next(iter(x.symbols), 'n')}=1"
        )
    return found == TRUE


def constant(x: Array, store: Callable[[Array], Tensor]) -> Tensor:
    """A known array as an expression: a number, a tensor of one number, sizes; or what `store` makes of the others."""
    if is_symbolic(x):
        if x.ndim == 0:
            return as_expr(Tensor, x.item(), dtypes.int64)
        made = stack([as_expr(Tensor, s if isinstance(s, IndexExpr) else int(s), dtypes.int64) for s in x.flat])
        return made.reshape(x.shape)
    t = dtypes.dtype(x.dtype)
    if x.ndim == 0:
        return as_expr(Tensor, x, None)
    if x.size == 0:
        return full(x.shape, 0, t)
    first = x.reshape(-1)[:1]
    if x.tobytes() == first.tobytes() * x.size:
        return full(x.shape, as_expr(Tensor, first.reshape(()), None), t)
    return store(x)


def placeholders(x: Tensor) -> Iterator[Source]:
    """The placeholders that `x` is made from."""
    stack_, seen = list(x.deps), set[int]()
    while stack_:
        source = stack_.pop()
        if source.order not in seen:
            seen.add(source.order)
            stack_ += source.deps
            if source.is_placeholder:
                yield source


def as_size(x: Any) -> Any:
    """A number or index as what shapes are made of."""
    if isinstance(x, IndexExpr):
        return shown(simplify(x.ix, context(x.symbols)), x.symbols)
    return int(x)


def is_one(x: Any) -> bool:
    return isinstance(x, int) and x == 1


__all__ = [
    "MAX_FOLDED_ELEMENTS", "Array", "Int", "Value", "as_size", "constant", "decided", "is_one", "is_symbolic",
    "objects", "placeholders", "simplified_array", "sizes_array",
]  # fmt: skip
