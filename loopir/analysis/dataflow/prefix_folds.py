"""Prefix folds: find the values that a value is the fold of, through copies, partial results and running folds.

A running fold is a chain of instances of one statement, each continuing another; the values folded in are the
transitive closure of that. Relations cannot express that a value is folded in twice, so it is checked separately.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from loopir.analysis.dataflow.value_flow import (
    Expr,
    Flow,
    FoldedValue,
    InputValue,
    Site,
    Term,
    Unanalyzable,
    UnwrittenValue,
)
from loopir.analysis.presburger.solver import isl
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Load, Monoid, Op, Select, Store, Value
from loopir.ir.ops import MONOIDS
from loopir.ir.traverse.walk import loaded_buffers, stored_buffers

Part: TypeAlias = "tuple[Site, tuple[Value, ...], isl.Map]"
"""Values that are folded in where they stand, with, for each reader, the instances that count; no values are memory
that nothing has written."""


def running_monoid(term: Term) -> Monoid | None:
    """The monoid by which `term`, a value that is stored, goes on from what its own statement stored."""
    if not isinstance(term, Expr) or term.site.statement is None or not isinstance(term.node, Op):
        return None
    s = term.site.statement.place.stmt
    goes_on = isinstance(s, Store) and s.value == term.node and bool(stored_buffers(s) & loaded_buffers(term.node))
    return next(_monoids(term.node), None) if goes_on else None


def _monoids(op: Op) -> Iterator[Monoid]:
    """Of one component, those that combine as `op` does."""
    for name in ("sum", "prod", "min", "max", "any", "all"):
        types: tuple[DType, ...] = (op.dtype,)
        combine = MONOIDS[name](types).combine[0]
        if isinstance(combine, Op) and combine.fn == op.fn:
            yield MONOIDS[name](types)


def addends(flow: Flow, term: Term, monoid: Monoid) -> list[Part]:
    """What `term` is the fold of by `monoid`."""
    if isinstance(term, FoldedValue):
        out = _Sum(flow, monoid, None, None)
        out.reach(term, term.readers.identity())
    else:
        assert isinstance(term, Expr)
        out = _Sum(flow, monoid, term.site, term.node)
        out.walk(term.site, term.node, term.site.domain.identity())
    found = [x for x in out.closed() if not x[2].is_empty()]
    if any(not values for _, values, _ in found):
        raise Unanalyzable("what is folded in has not been written")
    return counted_once(found)


def counted_once(parts: list[Part]) -> list[Part]:
    """`parts`, if none of them counts what another one counts, too."""
    for (s, _, m), (t, _, k) in combinations(parts, 2):
        if s.name == t.name and not m.intersect(k).is_empty():
            raise Unanalyzable(f"{s.label} is folded in more than once")
    return parts


def folds_disjoint(seen: isl.Map, counted: isl.Map) -> bool:
    """Whether a reader meets each fold behind the partial results by one of these alone."""
    through = seen.range_map().apply_range(counted)  # [reader -> partial] -> fold
    return bool(seen.domain_map().range_product(through).is_injective())


@dataclass(eq=False)
class _Sum:
    """What the values of one statement are folds of, by instance; `again` are those that it goes on from."""

    flow: Flow
    monoid: Monoid
    site: Site | None
    node: Value | None
    around: tuple[str, ...] = ()
    parts: list[Part] = field(default_factory=list[Part])
    again: list[isl.Map] = field(default_factory=list[isl.Map])

    def walk(self, site: Site, node: Value, rel: isl.Map) -> None:
        """Gather what `node` is the fold of, in the instances of `site` that `rel` leads to."""
        rel = rel.intersect_range(site.domain)
        if rel.is_empty():
            return
        match node:
            case Select(cond, a, b):
                held = self.flow.where(site, cond)
                self.walk(site, a, rel.intersect_range(held))
                self.walk(site, b, rel.subtract_range(held))
            case Op(f, xs) if f == self.combine:
                for x in xs:
                    self.walk(site, x, rel)
            case Load():
                for term, back in self.flow.pieces(site, node):
                    if isinstance(term, InputValue | UnwrittenValue):  # no value at all where nothing has been written
                        values = (node,) if isinstance(term, InputValue) else ()
                        self.parts.append((site, values, rel.intersect_range(back.domain())))
                    else:
                        self.reach(term, rel.apply_range(back))
            case _ if node != self.monoid.identity[0]:
                self.parts.append((site, (node,), rel))
            case _:
                pass

    @property
    def combine(self) -> object:
        made = self.monoid.combine[0]
        return made.fn if isinstance(made, Op) else None

    def reach(self, term: Term, rel: isl.Map) -> None:
        """Gather what a value that was stored is the fold of."""
        if rel.is_empty():
            return
        match term:
            case Expr(site, node) if self.site is not None and site.name == self.site.name and node == self.node:
                self.again.append(rel)
            case Expr(site, node):
                if site.name in self.around:
                    raise Unanalyzable(f"{site.label} goes on from itself by way of another statement")
                names = (*self.around, *(() if self.site is None else (self.site.name,)))
                inner = _Sum(self.flow, self.monoid, site, node, names)
                inner.walk(site, node, site.domain.identity())
                self.take(rel, inner.closed())
            case FoldedValue(monoid=monoid) if monoid == self.monoid:
                for base, back in term.base:
                    if isinstance(base, UnwrittenValue):
                        self.parts.append((term.parts[0][0], (), rel.apply_range(back)))
                    else:
                        self.reach(base, rel.apply_range(back))
                for site, stmt, seen in term.parts:
                    inner = _Sum(self.flow, self.monoid, None, None, self.around)
                    inner.walk(site, stmt.values[term.component], site.domain.identity())
                    whole = rel.apply_range(seen)
                    if not folds_disjoint(rel, seen):
                        raise Unanalyzable(f"{site.label} folds a partial result more than once")
                    self.take(whole, inner.closed())
            case _:
                raise Unanalyzable(f"what is folded in is not a {self.monoid.name}")

    def take(self, rel: isl.Map, parts: list[Part]) -> None:
        for site, values, m in parts:
            if values and not folds_disjoint(rel, m):
                raise Unanalyzable(f"{site.label} is folded in more than once")
            self.parts.append((site, values, rel.apply_range(m)))

    def closed(self) -> list[Part]:
        """The parts, also those of all instances behind each."""
        if not self.again:
            return self.parts
        step = self.again[0]
        for more in self.again[1:]:
            if not step.intersect(more).is_empty():
                raise Unanalyzable("a value goes on twice from another one")
            step = step.union(more)
        if not step.is_single_valued():
            raise Unanalyzable("a value goes on from several others")
        closure, exact = step.transitive_closure()
        if not exact:
            raise Unanalyzable("how far a running fold goes back follows no affine rule")
        assert self.site is not None
        star = closure.union(self.site.domain.identity())
        behind: list[Part] = []
        for site, values, m in self.parts:
            if values and not folds_disjoint(star, m):
                raise Unanalyzable(f"{site.label} is folded in more than once")
            behind.append((site, values, star.apply_range(m)))
        return behind
