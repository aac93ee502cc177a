"""Match the folds of two programs: relations between the values that are folded in, for each reader."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from functools import reduce

from loopir.analysis.dataflow.constants import known_constants
from loopir.analysis.dataflow.prefix_folds import Part
from loopir.analysis.dataflow.value_flow import Flow, NotEqual, Unanalyzable
from loopir.analysis.presburger.solver import isl
from loopir.ir.grammar import Monoid


def any_of(found: list[tuple[isl.Map, isl.Map | None]], *, left: bool) -> isl.Map | None:
    """The pairs by way of any of several terms, each reached by a relation from the reader on the `left`, or right."""
    through = [back.apply_range(m) if left else m.apply_range(back.reverse()) for back, m in found if m is not None]
    return reduce(isl.Map.union, through) if through and len(through) == len(found) else None


def require_one_to_one(
    label: str, pairs: isl.Map,
    left: list[Part], right: list[Part], chosen: list[isl.Map],
) -> None:  # fmt: skip
    """Refuse unless `chosen` gives each fold of a pair exactly one of the other program's, and misses none."""
    mine = _union([pairs.domain_map().apply_range(m) for _, _, m in left])
    theirs = _union([pairs.range_map().apply_range(m) for _, _, m in right])
    both = _union(chosen)
    for one, other, between in ((mine, theirs, both), (theirs, mine, both.reverse())):
        to = one.range_map().apply_range(between).intersect(one.domain_map().apply_range(other))
        if not to.is_single_valued():
            raise Unanalyzable(f"which fold of {label} is which: their values do not tell them apart")
        if not one.wrap().is_subset(to.domain()):
            raise NotEqual(f"{label} does not fold the same values")


def same_parts(one: list[Part], other: list[Part]) -> bool:
    """Whether both are the same folds, for the same readers."""
    return len(one) == len(other) and all(
        s.name == t.name and v == w and m.is_equal(k) for (s, v, m), (t, w, k) in zip(one, other, strict=True)
    )


def telling(flow: Flow, monoid: Monoid, parts: list[Part]) -> list[Part]:
    """`parts` without the instances that fold in the identity, as padding does."""
    out: list[Part] = []
    for site, values, seen in parts:
        idle = site.domain
        for value, none in zip(values, monoid.identity, strict=True):
            same = [at for c, at in known_constants(flow, site, value) if c == none]
            idle = idle.intersect(reduce(isl.Set.union, same)) if same else idle.subtract(idle)
        out.append((site, values, seen.subtract_range(idle)))
    return [x for x in out if not x[2].is_empty()]


def _union(maps: list[isl.Map]) -> isl.UnionMap:
    return reduce(isl.UnionMap.union, [isl.UnionMap.from_map(m) for m in maps])
