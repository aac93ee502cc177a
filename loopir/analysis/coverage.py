"""Which elements of a buffer a statement writes, and whether another nest writes all of them: exactly, by isl.

The sets are over the sizes, the loops that both nests have around them, and the element. What analysis sees only in
part may be too large a set, which is right for what has to be covered and wrong for what covers: `Written.exact` tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from loopir.analysis.access import statements_of
from loopir.analysis.bounds import instance_of
from loopir.analysis.system import SIZE, combine, least_point
from loopir.ir.grammar import Func


@dataclass(frozen=True, slots=True)
class Written:
    """The elements, as points (sizes, outer loops, element)."""

    dims: tuple[str, ...]
    points: isl.Set
    exact: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """An element that is written in one nest and not in the other: at which sizes, in which iteration around."""

    element: tuple[int, ...]
    outer: dict[str, int]
    sizes: dict[str, int]

    def __str__(self) -> str:
        where = {**self.outer, **self.sizes}
        at = f" (at {', '.join(f'{k}={v}' for k, v in where.items())})" if where else ""
        return f"[{', '.join(map(str, self.element))}]{at}"


def missing(func: Func, new: Func, label: str, buffer: str, outer: Sequence[str]) -> Missing | None:
    """An element of `buffer` that `label` writes in `func` and does not in `new`, in one iteration of `outer`.

    None is a proof that there is none.
    """
    old, now = (written(f, label, buffer, outer) for f in (func, new))
    left = old.points.subtract(now.points) if now.exact else old.points
    points = [least_point(s, len(old.dims)) for s in left.get_basic_sets() if not s.is_empty()]
    if not points:
        return None
    point = min(points)
    values = dict(zip(old.dims, point, strict=True))
    sizes = {n: values[f"{SIZE}{n}"] for n in func.sizes}
    return Missing(tuple(point[len(sizes) + len(outer) :]), {v: values[f"s.{v}"] for v in outer}, sizes)


def written(func: Func, label: str, buffer: str, outer: Sequence[str]) -> Written:
    """What `label` writes of `buffer`; for a reduction with an init, where it starts, which it does in any case."""
    found = {s.key: s for s in statements_of(func) if s.label == label}
    s = found.get((label, True)) or found[label, False]
    access = next(a for a in s.accesses if a.write and a.buffer == buffer)
    system, names = instance_of(func, s, access)
    for d, ix in enumerate(access.at):
        at = {"": 0} if ix is None else combine(system.linear(ix, "s", names), {f"e{d}": 1}, -1)
        system.constraints.append((at, True))
    dims = tuple(f"{SIZE}{n}" for n in func.sizes) + tuple(f"s.{v}" for v in outer)
    elements = tuple(f"e{d}" for d in range(len(access.at)))
    rest = [f"s.{v}" for v in s.dims if v not in outer]
    pieces = system.solutions([*dims, *elements, *rest], [])
    keep = len(dims) + len(elements)
    points = isl.Set.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, keep))
    for piece in pieces:
        whole = isl.Set.from_basic_set(piece)
        extra = whole.dim(isl.dim_type.set) - keep
        points = points.union(whole.project_out(isl.dim_type.set, keep, extra))
    exact = system.unsure is None and not s.maybe and not access.maybe and None not in access.at
    return Written((*dims, *elements), points, exact)
