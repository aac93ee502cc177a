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
from loopir.tensor.tensor import Tensor

__all__ = ["scatter_add", "scatter_reduce"]


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
