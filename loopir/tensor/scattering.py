"""Scattering: a copy, into whose elements the updates are folded that are for them, in any order."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.grammar import Buffer, Cmp, Int, ValueToIndex, Var, conj
from loopir.ir.ops import MONOIDS
from loopir.tensor import functions as f
from loopir.tensor.core import Source, Updates, as_expr, default_names, next_order, stage_reduction, staged, unique
from loopir.tensor.creation import arange
from loopir.tensor.index import reduce_axis
from loopir.tensor.tensor import Tensor, compute

__all__ = ["put_along_axis", "scatter_add", "scatter_reduce"]


MONOID_NAMES = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}
"""Our names of monoids, by torch's."""


def scatter_reduce(x: Any, axis: int, index: Tensor, source: Any, reduce: str) -> Tensor:
    """`x` with elements of `source` folded in by "sum", "prod", "amax" or "amin", where `index` says along `axis`.

    As torch's: source[i, j] goes to x[index[i, j], j] for axis 0. `index` has the dimensions of `source`; in the others
    it may be shorter than `x`. Indices outside of `x` go nowhere.
    """
    e, new = (stage_reduction(as_expr(Tensor, v, None)) for v in (x, source))
    if reduce not in MONOID_NAMES:
        raise ExprError(f"scatter_reduce by {reduce!r}; it is one of {', '.join(MONOID_NAMES)}")
    if not index.dtype.is_integer or not (e.ndim == index.ndim == new.ndim) or not e.ndim:
        raise ExprError(
            f"scatter of {new.described()} at {index.described()} to {e.described()}: an index is an integer for each "
            "element, and all have the same number of dimensions"
        )
    d = f.axis_of("scatter", axis, e, e.ndim)
    work = _folded_type(e.dtype)
    start, values, places = f.cast(e, work), f.cast(new, work), stage_reduction(as_expr(Tensor, index, None))
    loops = tuple((unique(v), n) for v, n in zip(default_names(e.ndim), e.dims, strict=True))
    over = tuple((unique(v), n) for v, n in zip(default_names(e.ndim), places.dims, strict=True))
    at, ix = (tuple(Var(v) for v, _ in x) for x in (loops, over))
    there = ValueToIndex(places.at(ix))
    inside = [Cmp("<=", Int(0), there), Cmp("<", there, e.dims[d])]
    inside += [Cmp("<", ix[n], e.dims[n]) for n in range(e.ndim) if n != d and e.dims[n] != places.dims[n]]
    to = tuple(there if n == d else x for n, x in enumerate(ix))
    b = Buffer(unique("scattered"), e.dims, work)
    source = Source(
        "scattered", (b,), next_order(), {**e.symbols, **places.symbols, **new.symbols}, loops, (start.at(at),),
        deps=tuple(dict.fromkeys((*e.deps, *places.deps, *new.deps))),
        updates=Updates(over, conj(*inside), to, MONOIDS[MONOID_NAMES[reduce]]((work,)), values.at(ix)),
    )  # fmt: skip
    return f.cast(staged(Tensor, source)[0], e.dtype)


def _folded_type(t: dtypes.DType) -> dtypes.DType:
    """The type in which elements are folded: words that GPUs update at one go."""
    if t.bytes >= 4:
        return t
    return dtypes.float32 if t.is_float else dtypes.int32


def scatter_add(x: Any, axis: int, index: Tensor, source: Any) -> Tensor:
    """`x` with elements of `source` added where `index` says along `axis`, as torch's; see `scatter_reduce`."""
    return scatter_reduce(x, axis, index, source, "sum")


def put_along_axis(x: Any, index: Tensor, values: Any, axis: int = -1) -> Tensor:
    """`x` with `values` at `index` along `axis`, each row by its own; the last of several for one element.

    A new tensor, where NumPy's writes to the array. In the other dimensions `index` may be shorter than `x`, and
    `values` are of its shape, or broadcast to it. Each element looks through the indices of its row.
    """
    e, places = (stage_reduction(as_expr(Tensor, v, None)) for v in (x, index))
    if not places.dtype.is_integer or places.ndim != e.ndim or not e.ndim:
        raise ExprError(
            f"put_along_axis at {places.described()} of {e.described()}: an index is an integer for each element, of "
            "as many dimensions"
        )
    d = f.axis_of("put_along_axis", axis, e, e.ndim)
    new = f.broadcast_to(f.cast(values, e.dtype), places.shape)
    if places.dtype.kind == "int":
        places = f.where(places < 0, places + e.shape[d], places)
    k = reduce_axis(places.shape[d], name="k")

    def last(*ix: Any) -> Tensor:
        """The last place in the row of an element whose index it is, -1 if there is none."""
        hit = places[tuple(k if n == d else i for n, i in enumerate(ix))] == f.cast(ix[d], "int64")
        for n, i in enumerate(ix):
            if n != d and places.dims[n] != e.dims[n]:
                hit = f.where(i < places.shape[n], hit, False)
        return f.max(f.where(hit, f.cast(k, "int64"), -1), axis=k)

    which = compute(e.shape, last, name="last")
    at = [which if n == d else arange(size).reshape([size if k == n else 1 for k in range(e.ndim)])
          for n, size in enumerate(e.shape)]  # fmt: skip
    return f.where(which < 0, e, new.from_start(tuple(at)))
