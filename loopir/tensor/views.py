"""Views: indexing, slicing, transposition, reshaping. They rename indices and move nothing."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Self

import numpy as np

from loopir.arith.simplify import simplify
from loopir.errors import ExprError
from loopir.ir.grammar import Index, Int, ceildiv, maximum, minimum
from loopir.ir.printer import text
from loopir.tensor.core import Expr, as_index, at_broadcast, broadcast, stage_reduction
from loopir.tensor.index import IndexExpr, context, dimension, same


class Views(Expr):
    """The methods of a tensor that give views of it."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Self:
        """NumPy's basic indexing: indices, slices with steps, None, Ellipsis; and integer tensors, which gather.

        Integer tensors broadcast together; their dimensions stand where they do, or in front if they stand apart.
        A gathered index below 0 is counted from the end; one that is outside then, where NumPy raises IndexError, is
        clamped to the dimension, so that no gather is tested when it runs. Where the dimension is 0 a call raises
        IndexError if it gathers anything. Indices made from loop variables are taken as they are: what is not proved
        to be inside is tested when the nest runs.
        """
        return self._indexed(key, from_end=True)

    def from_start(self, key: Any) -> Self:
        """What `self[key]` is where no gathered index is below 0: those that are, are clamped, too."""
        return self._indexed(key, from_end=False)

    def _indexed(self, key: Any, *, from_end: bool) -> Self:
        keys = self._expanded(key if isinstance(key, tuple) else (key,))
        gathered = [self._gatherer(k) for k in keys if isinstance(k, Expr)]
        together = broadcast("indices", gathered)
        place = _place_of(keys)
        shape: list[Index] = list(together) if place == 0 else []
        where = 0
        parts: list[Any] = []
        left = iter(gathered)
        d = 0
        for n, k in enumerate(keys):
            if n == place and n > 0:
                where = len(shape)
                shape += together
            if k is None:
                shape.append(Int(1))
                continue
            size = self.dims[d]
            d += 1
            if isinstance(k, slice):
                start, step, length = self._sliced(k, size, d - 1)
                parts.append((len(shape), start, step))
                shape.append(length)
            elif isinstance(k, Expr):
                parts.append((next(left), size))
            else:
                parts.append(self._fixed(k, size, d - 1))

        def at(ix: tuple[Index, ...]) -> Any:
            return self.at(_indices(parts, ix, together, ix[where : where + len(together)], from_end=from_end))

        return self.like(tuple(shape), self.dtype, at, *gathered)

    def _expanded(self, keys: tuple[Any, ...]) -> list[Any]:
        """`keys` with Ellipsis and missing dimensions spelt as full slices."""
        used = sum(1 for k in keys if k is not None and not isinstance(k, EllipsisType))
        if len(keys) - used - sum(1 for k in keys if k is None) > 1:
            raise ExprError(f"{self.described()} is indexed with several Ellipses; there is one Ellipsis at most")
        if used > self.ndim:
            raise ExprError(f"{self.described()} has {self.ndim} dimensions, and is indexed by {used}")
        full = [slice(None)] * (self.ndim - used)
        where = next((n for n, k in enumerate(keys) if isinstance(k, EllipsisType)), None)
        if where is None:
            return [*keys, *full]
        return [*keys[:where], *full, *keys[where + 1 :]]

    def _gatherer(self, k: Expr) -> Any:
        if not k.dtype.is_integer:
            mask = "; lp.where(mask, a, b) takes a mask" if k.dtype.kind == "bool" else ""
            raise TypeError(f"{self.described()} is indexed by {k.described()}; an index is an integer{mask}")
        return stage_reduction(k)

    def _fixed(self, k: Any, size: Index, d: int) -> Index:
        if isinstance(k, IndexExpr):
            return k.ix
        k = k.__index__() if isinstance(k, np.integer) else k
        if not isinstance(k, int) or isinstance(k, bool):
            raise TypeError(
                f"{self.described()} is indexed by {k!r}; use an integer, a slice, None or an integer tensor"
            )
        if isinstance(size, Int) and not -size.value <= k < size.value:
            raise ExprError(f"index {k} is out of bounds for dimension {d} of {self.described()}")
        return Int(k) if k >= 0 else size + k

    def _sliced(self, k: slice, size: Index, d: int) -> tuple[Index, int, Index]:
        """(start, step, length) of a slice of a dimension, clamped as in Python.

        What begins past the dimension's end has no element, as what ends before its beginning: so that each end is
        clamped on its own side alone, and slices of one length have it in one form.
        """
        step = 1 if k.step is None else k.step
        if not isinstance(step, int) or step == 0:
            raise ExprError(f"dimension {d} of {self.described()} is sliced with step {k.step!r}; a step is not 0")
        low, high = (Int(0), size) if step > 0 else (Int(-1), size - 1)
        known = context(self.symbols)

        def end(x: Any, clamp: Callable[[Index, Index], Index], limit: Index) -> Index:
            if x is None:
                return limit
            if isinstance(x, Expr):
                raise TypeError(
                    f"dimension {d} of {self.described()} is sliced to {x.described()}, an element: where a slice ends "
                    "is known before, a number or a size; lp.take gathers"
                )
            ix = x.ix if isinstance(x, IndexExpr) else dimension(x, "slice")[0] if x >= 0 else size + x
            return simplify(clamp(ix, limit), known)

        first, last = ((maximum, low), (minimum, high)) if step > 0 else ((minimum, high), (maximum, low))
        start, stop = end(k.start, *first), end(k.stop, *last)
        length = ceildiv(stop - start, step) if step > 0 else ceildiv(start - stop, -step)
        return start, step, simplify(maximum(length, Int(0)), known)

    def transpose(self, *axes: Any) -> Self:
        """The dimensions in the order `axes`, as numbers or in one tuple; reversed if none are given."""
        given = bool(axes)
        axes = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        order = tuple(a + self.ndim if isinstance(a, int) and a < 0 else a for a in axes)
        order = tuple(reversed(range(self.ndim))) if not given else order
        if not all(isinstance(a, int) for a in order) or sorted(order) != list(range(self.ndim)):
            raise ExprError(f"transpose of {self.described()} by {axes}; the axes are each dimension once")
        back = tuple(order.index(d) for d in range(self.ndim))
        shape = tuple(self.dims[d] for d in order)
        return self.like(shape, self.dtype, lambda at: self.at(tuple(at[n] for n in back)))

    @property
    def T(self) -> Self:
        """The dimensions in reverse."""
        return self.transpose()

    def reshape(self, *shape: Any) -> Self:
        """The elements in row-major order under another shape; one size may be -1."""
        given: Sequence[Any] = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        known = context(self.symbols)
        total: Index = Int(1)
        for d in self.dims:
            total = total * d
        dims = [None if isinstance(d, int) and d == -1 else dimension(d, "reshape")[0] for d in given]
        rest: Index = Int(1)
        for d in dims:
            rest = rest if d is None else rest * d
        if dims.count(None) > 1:
            raise ExprError(f"reshape of {self.described()} to {tuple(given)}: one size at most is -1")
        if None in dims and rest == Int(0):
            raise ExprError(
                f"reshape of {self.described()} to {tuple(given)}: beside a size of 0, -1 could be any size"
            )
        new = tuple(simplify(total // rest, known) if d is None else d for d in dims)
        product: Index = Int(1)
        for d in new:
            product = product * d
        if not same(simplify(product, known), simplify(total, known), self.symbols):
            raise ExprError(f"reshape of {self.described()} to ({', '.join(map(text, new))}): the sizes differ")
        return self.like(new, self.dtype, lambda at: self.at(_unravel(_ravel(at, new), self.dims)))

    def broadcast_to(self, shape: Sequence[Any]) -> Self:
        """This tensor repeated along new dimensions and those of size 1."""
        dims = tuple(dimension(d, "broadcast_to")[0] for d in shape)
        skip = len(dims) - self.ndim
        fits = skip >= 0 and all(d == Int(1) or same(d, dims[skip + n], self.symbols) for n, d in enumerate(self.dims))
        if not fits:
            raise ExprError(f"{self.described()} does not broadcast to ({', '.join(map(text, dims))})")

        def at(ix: tuple[Index, ...]) -> Any:
            return self.at(tuple(Int(0) if d == Int(1) else ix[skip + n] for n, d in enumerate(self.dims)))

        return self.like(dims, self.dtype, at)


def _place_of(keys: Sequence[Any]) -> int:
    """The key where the dimensions of gathers go: the first of them and the integers, 0 if a slice parts these."""
    if not any(isinstance(k, Expr) for k in keys):
        return -1
    found = [n for n, k in enumerate(keys) if k is not None and not isinstance(k, slice)]
    return found[0] if found[-1] - found[0] + 1 == len(found) else 0


def _indices(
    parts: Sequence[Any],
    at: tuple[Index, ...],
    together: tuple[Index, ...],
    here: tuple[Index, ...],
    *,
    from_end: bool,
) -> tuple[Index, ...]:
    """The indices into the tensor for the indices `at` into its view, `here` into its gathers, broadcast `together`."""
    out: list[Index] = []
    for part in parts:
        if isinstance(part, Index):
            out.append(part)
        elif isinstance(part[0], Expr):
            e, size = part
            element = at_broadcast(e, together, here)
            out.append(as_index(e.like((), e.dtype, lambda _, v=element: v), size, from_end=from_end))
        else:
            d, start, step = part
            out.append(start + at[d] * step)
    return tuple(out)


def _ravel(at: tuple[Index, ...], shape: tuple[Index, ...]) -> Index:
    total: Index = Int(0)
    for x, size in zip(at, shape, strict=True):
        total = total * size + x
    return total


def _unravel(flat: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
    out: list[Index] = []
    if Int(0) in shape:
        return (Int(0),) * len(shape)
    for n, size in enumerate(reversed(shape)):
        last = n == len(shape) - 1
        out.append(flat if last else flat % size)
        flat = flat // size
    return tuple(reversed(out))
