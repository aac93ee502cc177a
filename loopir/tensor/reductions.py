"""Reductions: over a `reduce_axis` inside `compute`, or over integer axes of a whole tensor."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DType, DTypeLike, bool_, float32
from loopir.ir.grammar import Cast, Const, Index, IndexToValue, Int, Load, Monoid, Op, Param, Value, Var
from loopir.ir.ops import MONOIDS
from loopir.ir.traverse.walk import nodes
from loopir.tensor.core import (
    Expr,
    Reduction,
    as_expr,
    as_stage,
    at_broadcast,
    broadcast,
    cast,
    cast_value,
    default_names,
    elementwise,
    make_stage,
    stage_reduction,
    store,
    unstored,
)
from loopir.tensor.index import ReduceAxis, same, unique

Axis = Any
"""A reduce_axis, an integer, several of either, or None for all dimensions."""


def sum_type(t: DType) -> DType:
    """The type that NumPy sums `t` in; narrow floats are summed in float32."""
    if t == bool_ or (t.kind == "int" and t.bits < 64):
        return dtypes.int64
    if t.kind == "uint" and t.bits < 64:
        return dtypes.uint64
    return float32 if t.is_narrow else t


def fold(
    cls: type[Expr], name: str, x: Any, axis: Axis, keepdims: bool, accum: DType, name_as: str, *, said_as: str = ""
) -> Any:
    """Fold `x`, converted to `accum`, by the monoid `name` over `axis`, into a stage `name_as`; messages are about
    `said_as`, where it is not that."""
    e = stage_reduction(as_expr(cls, x, None))
    if said_as and not _symbolic(axis):
        resolve_axes(axis, e.ndim, said_as, e)
    monoid = MONOIDS[name]((accum,))
    return _reduce(cls, monoid, (cast(e, accum),), axis, keepdims, name_as)[0]


def _symbolic(axis: Axis) -> bool:
    return isinstance(axis, ReduceAxis) or (
        isinstance(axis, tuple | list) and bool(axis) and isinstance(axis[0], ReduceAxis)
    )


MANY_LOADS = 4
"""Loads of an element, from more of which on it is not worth to be computed for each of its readers."""


def is_costly(value: Value) -> bool:
    """Whether `value` calls a function of real numbers, or loads many elements: a normalization, a concatenation."""
    found = list(nodes(value))
    loads = sum(isinstance(n, Load) for n in found)
    return loads > MANY_LOADS or any(isinstance(n, Op) and n.fn.ulp > 0 for n in found)


def stored_if_costly(e: Expr) -> Any:
    """`e`, stored first if an element of it is costly: for what is read many times, as by a product.

    Whatever else reads `e` reads what is stored then.
    """
    e = stage_reduction(e)
    costly = is_costly(e.at(tuple(Var(unique("i")) for _ in e.dims)))
    return as_stage(e, "t") if costly and not store(e) else e


def stored_factors(a: Expr, b: Expr) -> tuple[Any, Any]:
    """The factors of a product, each stored first if an element of it is costly; so, too, what both are made of, as of
    `X @ X.T`: each of its elements is read in rows and in columns, and what brings operands near takes arrays."""
    x, y = stored_if_costly(a), stored_if_costly(b)
    here = {id(e) for e in unstored(y)}
    shared = [e for e in unstored(x) if id(e) in here and e.parts]
    small = all(isinstance(d, Int) and d.value < SMALL for e in (x, y) for d in e.dims[-2:])
    if shared and not small and _is_made(shared[0].element):
        store(shared[0])
    return x, y


SMALL = 16
"""Rows and columns of matrices whose elements are made again for each product that they are in."""


def _is_made(value: Value) -> bool:
    """Whether `value` is made of memory, and more than an element of it, wherever that is found, converted perhaps."""
    while isinstance(value, Cast):
        value = value.value
    return not isinstance(value, Load) and any(isinstance(n, Load) for n in nodes(value))


def _reduce_elements(
    cls: type[Expr], monoid: Monoid, parts: Sequence[Expr], axes: tuple[Any, ...]
) -> tuple[Any, ...]:  # fmt: skip
    """The reduction of elements over `axes` that the caller indexes with, by `monoid`."""
    r = Reduction(monoid, tuple(p.at(()) for p in parts), axes)
    deps = [d for p in parts for d in p.deps]
    symbols = {k: s for e in (*parts, *axes) for k, s in e.symbols.items()}
    value: Callable[[Any], Value] = lambda _: r.values[0]  # noqa: E731
    return tuple(cls((), p.type, value, deps, symbols, reduction=(r, n)) for n, p in enumerate(monoid.left))


def _reduce(
    cls: type[Expr], monoid: Monoid, parts: Sequence[Expr], axis: Axis, keepdims: bool, name: str
) -> tuple[Any, ...]:
    if not isinstance(keepdims, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name} with keepdims={keepdims!r}; it is True or False")
    if _symbolic(axis):
        if any(p.ndim for p in parts) or keepdims:
            raise ExprError(
                f"{name} over a reduce_axis takes an element, such as A[i, k]; {parts[0].described()} is given"
            )
        return _reduce_elements(cls, monoid, parts, tuple(axis) if isinstance(axis, tuple | list) else (axis,))
    shape = parts[0].dims
    over = resolve_axes(axis, len(shape), name, parts[0])
    loops = tuple((unique(v), d) for v, d in zip(default_names(len(shape)), shape, strict=True))
    reduced = tuple(ReduceAxis(loops[d][0], shape[d], parts[0].symbols) for d in over)
    at = tuple(Var(v) for v, _ in loops)
    values = tuple(p.at(at) for p in parts)
    deps = [d for p in parts for d in p.deps]
    kept = tuple(loop for d, loop in enumerate(loops) if d not in over)
    symbols = {k: s for p in parts for k, s in p.symbols.items()}
    made = make_stage(cls, name, kept, values, deps, symbols, monoid, reduced)
    return tuple(_keep_dims(t, over, len(shape)) for t in made) if keepdims else made


def resolve_axes(axis: Axis, rank: int, name: str, e: Expr) -> tuple[int, ...]:
    """`axis` of `e`, as dimensions from 0 on, in order; ExprError, about `name`, for what is none."""
    given = range(rank) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    out: list[int] = []
    for a in given:
        if not isinstance(a, int) or not -rank <= a < rank:
            known = f", or a dimension from {-rank} to {rank - 1}" if rank else ""
            two = f"; of two tensors lp.{name}imum is" if isinstance(a, Expr) and name in ("max", "min") else ""
            raise ExprError(f"{name} over axis {a!r} of {e.described()}; an axis is a reduce_axis{known}{two}")
        out.append(a % rank)
    if len(set(out)) != len(out):
        raise ExprError(f"{name} over axes {tuple(given)}: an axis is named twice")
    return tuple(sorted(out))


def _keep_dims(t: Any, over: tuple[int, ...], rank: int) -> Any:
    return t[tuple(None if d in over else slice(None) for d in range(rank))]


def arg_extreme(cls: type[Expr], name: str, x: Any, axis: Axis, keepdims: bool) -> Any:
    """The index of the first extreme element, int64; NaN counts as the extreme."""
    e = stage_reduction(as_expr(cls, x, None))
    if e.dtype == bool_:
        e = cast(e, dtypes.uint8)
    if _symbolic(axis):
        axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
        if len(axes) != 1:
            raise ExprError(f"{name} takes one reduce_axis, and {len(axes)} are given")
        at = _index_type(axes[0].extent)
        where = e.like((), at, lambda _: IndexToValue(axes[0].ix, at))
        return _position(_reduce(cls, MONOIDS[name]((e.dtype, at)), (e, where), axis, keepdims, name)[1])
    if axis is None:
        flat = arg_extreme(cls, name, e.reshape(-1), 0, False)
        return flat[(None,) * e.ndim] if keepdims else flat
    if isinstance(axis, tuple | list):
        raise ExprError(f"{name} takes one axis, or None for the flat tensor; {axis!r} is given")
    (d,) = resolve_axes(axis, e.ndim, name, e)
    kind = _index_type(e.dims[d])
    where = e.like(e.dims, kind, lambda at: IndexToValue(at[d], kind))
    return _position(_reduce(cls, MONOIDS[name]((e.dtype, kind)), (e, where), d, keepdims, name)[1])


def _index_type(extent: Index) -> DType:
    """The type that positions of an axis are compared in: that of 32 bits where all of them are known to fit."""
    return dtypes.int32 if isinstance(extent, Int) and dtypes.int32.holds(extent.value) else dtypes.int64


def _position(found: Any) -> Any:
    return found if found.dtype == dtypes.int64 else cast(found, dtypes.int64)


def make_monoid(name: str, identity: Sequence[float], combine: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A reduction over several values by a monoid of one's own; see `lp.monoid`."""

    def reduce(cls: type[Expr], values: Sequence[Any], axis: Axis, keepdims: bool) -> tuple[Any, ...]:
        parts = [stage_reduction(as_expr(cls, v, None)) for v in values]
        if len(parts) != len(identity):
            raise ExprError(f"monoid {name} folds {len(identity)} values, and {len(parts)} are given")
        shape = broadcast(name, parts)
        parts = [p if p.dims == shape else _broadcast_to(p, shape) for p in parts]
        return _reduce(cls, built(cls, [p.dtype for p in parts]), parts, axis, keepdims, name)

    def built(cls: type[Expr], types: Sequence[DType]) -> Monoid:
        left = tuple(Param(f"a{n}", t) for n, t in enumerate(types))
        right = tuple(Param(f"b{n}", t) for n, t in enumerate(types))
        sides = [tuple(cls((), p.type, lambda _, p=p: p, (), {}) for p in side) for side in (left, right)]
        combined = combine(*sides)
        results = combined if isinstance(combined, tuple) else (combined,)
        if any(r is None for r in results):
            raise ExprError(f"monoid {name}: combine gives None; it ends with return, of the combined values")
        if len(results) != len(types):
            raise ExprError(f"monoid {name} combines {len(types)} components to {len(results)}")
        folded = tuple(cast_value(as_expr(cls, r, t).at(()), t) for r, t in zip(results, types, strict=True))
        units = tuple(Const(x, t) for x, t in zip(identity, types, strict=True))
        return Monoid(name, left, right, folded, units)

    return reduce


def _broadcast_to(e: Expr, shape: tuple[Index, ...]) -> Any:
    return e.like(shape, e.dtype, lambda at: at_broadcast(e, shape, at))


def product(a: Expr, b: Expr, accum: DTypeLike | None) -> Any:
    """The matrix product, as NumPy's matmul: 2-D, stacks of matrices with broadcasting, and vectors."""
    cls = type(a)
    if not a.ndim or not b.ndim:
        raise ExprError(
            f"matmul of {a.described()} and {b.described()}: both need a dimension at least; * multiplies by a number"
        )
    x, y = stored_factors(a, b)
    t = dtypes.promote(x.dtype, y.dtype)
    rows, columns = x.ndim > 1, y.ndim > 1
    x = x if rows else x[None, :]
    y = y if columns else y[:, None]
    if not same(x.dims[-1], y.dims[-2], {**x.symbols, **y.symbols}):
        raise ExprError(f"matmul of {a.described()} and {b.described()}: the inner sizes differ")
    left, right = x[..., :, :, None], y[..., None, :, :]
    kind = dtypes.dtype(accum) if accum is not None else (float32 if t.is_narrow else t)
    multiplied = elementwise(cls, "and_" if t == bool_ else "mul", cast(left, kind), cast(right, kind), to=kind)
    name = "or" if t == bool_ else "sum"
    total = _reduce(cls, MONOIDS["any" if name == "or" else "sum"]((kind,)), (multiplied,), -2, False, "matmul")[0]
    out = total
    if not rows:
        out = out[..., 0, :]
    if not columns:
        out = out[..., 0]
    return cast(out, t)
