"""Find uses of uninitialized memory, which are undefined behaviour even if the result is not used.

A copy of uninitialized memory is no use; it leaves the copy uninitialized, and is followed.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from loopir.analysis.dataflow.value_flow import Expr, Flow, Site, Unanalyzable, UnwrittenValue
from loopir.analysis.presburger.solver import isl, number
from loopir.errors import pairs
from loopir.ir.grammar import Cond, Load, Reduce, Store
from loopir.ir.traverse.walk import guarded_loads, is_affine_visible

ROUNDS = 40
"""How many copies of copies are followed."""


@dataclass(frozen=True)
class UndefinedUse:
    """The `instances` of `site` that use an element of `load`'s buffer which nothing has written."""

    site: Site
    load: Load
    instances: isl.Set

    @property
    def sizes(self) -> isl.Set:
        """The sizes at which there are any."""
        return self.instances.params()

    def described(self, flow: Flow) -> str:
        """The first instance at the least sizes, in words."""
        touched = flow.element(self.site, self.load.buffer, self.load.at).intersect_domain(self.instances)
        least = least_sizes(self.sizes)
        for n, value in enumerate(least.values()):
            touched = touched.fix_val(isl.dim_type.param, n, number(value))
        point = touched.domain().lexmin().intersect(touched.domain())
        element = touched.intersect_domain(point).range().sample_point()
        rank, dims = len(self.load.at), touched.dim(isl.dim_type.out)
        at = [str(element.get_coordinate_val(isl.dim_type.set, n)) for n in range(dims - rank, dims)]
        where = f" (at {pairs(least)})" if least else ""
        return f"{self.site.label} uses {self.load.buffer.name}[{', '.join(at)}], which nothing has written{where}"


def least_sizes(params: isl.Set) -> dict[str, int]:
    """The least of the sizes in `params`, a set that is not empty, in the order in which they are declared."""
    count = params.dim(isl.dim_type.param)
    names = [str(params.get_dim_name(isl.dim_type.param, n)).removeprefix("n_") for n in range(count)]
    as_set = params.from_params().move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
    point = as_set.lexmin().sample_point()
    return {v: point.get_coordinate_val(isl.dim_type.set, n).to_python() for n, v in enumerate(names)}


def undefined_uses(flow: Flow) -> list[UndefinedUse]:
    """Every use in `flow` of memory that nothing has written."""
    unwritten = _unwritten_copies(flow)
    found = (
        UndefinedUse(site, load, _unwritten(flow, site, load, unwritten).intersect(_instances_where(flow, site, conds)))
        for site in flow.sites.values()
        for load, conds in _uses(site)
    )
    return [x for x in found if not x.instances.is_empty()]


def _uses(site: Site) -> Iterator[tuple[Load, Sequence[Cond]]]:
    """What an instance of `site` loads and does more with than to copy it, and the conditions of Selects around."""
    assert site.statement is not None
    stmt = site.statement.place.stmt
    if isinstance(stmt, Store):
        yield from () if isinstance(stmt.value, Load) else guarded_loads(stmt.value)
    elif site.statement.init:
        yield from (x for v in stmt.init or () for x in guarded_loads(v))
    else:
        yield from (x for v in stmt.values for x in guarded_loads(v))
        if stmt.init is None:
            yield from ((Load(b, stmt.at), ()) for b in stmt.buffers)


def _instances_where(flow: Flow, site: Site, conds: Sequence[Cond]) -> isl.Set:
    """The instances in which all of `conds` hold; those that come from memory may."""
    return reduce(isl.Set.intersect, (flow.where(site, c) for c in conds if is_affine_visible(c)), site.domain)


def _unwritten_copies(flow: Flow) -> dict[str, isl.Set]:
    """Of each statement that copies, by the name of its site, the instances that copy what nothing has written."""
    copies = {s.name: (s, x) for s in flow.sites.values() if (x := _copied(s)) is not None}
    found: dict[str, isl.Set] = {}
    for _ in range(ROUNDS):
        grown = {n: _unwritten(flow, s, load, found) for n, (s, load) in copies.items()}
        if all(new.is_subset(found[n]) if n in found else new.is_empty() for n, new in grown.items()):
            return found
        found = {n: x.coalesce() for n, x in grown.items() if not x.is_empty()}
    raise Unanalyzable("how far what nothing has written is copied follows no affine rule")


def _copied(site: Site) -> Load | None:
    stmt = site.statement.place.stmt if site.statement is not None else None
    assert isinstance(stmt, Store | Reduce)
    return stmt.value if isinstance(stmt, Store) and isinstance(stmt.value, Load) else None


def _unwritten(flow: Flow, site: Site, load: Load, copies: Mapping[str, isl.Set]) -> isl.Set:
    """The instances of `site` in which nothing has written what `load` reads, or what that is a copy of."""
    found = site.domain.subtract(site.domain)
    for term, back in flow.pieces(site, load):
        if isinstance(term, UnwrittenValue):
            found = found.union(back.domain())
        elif isinstance(term, Expr) and isinstance(term.node, Load) and term.site.name in copies:
            found = found.union(back.intersect_range(copies[term.site.name]).domain())
    return found
