"""Dead stores: writes whose value is never used, so that dependences of their own reads need not be kept.

A value is dead if the element is written again before anybody reads it, or is never read. A rewrite that keeps every
other dependence leaves dead values dead and all others as they were: what is live reads what it read, in the order of
the new program by induction, and a dead store still comes before and after the same other writes and reads of its
element. So a pair of a write and of a read by a dead store need not be kept, where that store cannot fail whatever it
reads: it reads an array of the caller's, in which every element is there from the start, at places that do not come
from memory, and computes with floats or not at all. Nor need two writes, if both are dead: whatever is read later is
written after both, or was read before. Nor a write and a dead store after it that reads the element and writes it: a
live reader of the one comes before the other, and stays there.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loopir.analysis.dataflow.value_flow import Flow, Site, Unanalyzable
from loopir.analysis.dependence.access import Access, Statement
from loopir.analysis.dependence.depend import Order, Pair
from loopir.analysis.presburger.solver import ALGEBRA, isl, question
from loopir.errors import Undecided
from loopir.ir.grammar import Func, Load, Store, Value, ValueToIndex, Var
from loopir.ir.traverse.walk import nodes


@dataclass
class DeadStores:
    """What is known of dead stores of `func`, worked out when it is asked for."""

    func: Func
    flow: Flow | None = None
    unseen: bool = False
    dead: dict[tuple[str, bool], isl.Set] = field(default_factory=dict["tuple[str, bool]", "isl.Set"])

    def cover(self, pair: Pair, orders: Sequence[Order]) -> bool:
        """Whether, for a read, what reads, and for two writes, either is a dead store whenever they are in `orders`."""
        sides = self._sides(pair)
        if not sides or self.unseen:
            return False
        try:
            with question(times=ALGEBRA):
                return all(self._within(pair, side, order) for side in sides for order in orders)
        except Unanalyzable:
            self.unseen = True
            return False
        except Undecided:
            return False

    def _sides(self, pair: Pair) -> str:
        """Which of the two have to be dead, s and t; none where that is not enough."""
        both = (("s", pair.s, pair.a), ("t", pair.t, pair.b))
        if pair.a.write and pair.b.write:
            return "st" if all(_plain(s) for _, s, _ in both) else ""
        return "".join(side for side, s, a in both if not a.write and not a.fold and self._harmless(s, a))

    def _harmless(self, s: Statement, a: Access) -> bool:
        """Whether `s` stores a value, whatever `a` finds."""
        stmt = s.place.stmt
        given = any(x.buffer.name == a.buffer and x.access != "out" for x in self.func.args)
        if not given or not _plain(s) or not isinstance(stmt, Store):
            return False
        parts = [*nodes(stmt)]
        values = [n for n in nodes(stmt.value) if isinstance(n, Value)]
        plain = isinstance(stmt.value, Load) or all(v.dtype.is_float for v in values)
        return plain and not any(isinstance(n, ValueToIndex) for n in parts)

    def _within(self, pair: Pair, side: str, order: Order) -> bool:
        s = pair.s if side == "s" else pair.t
        dead = self._dead(s)
        sizes = len(self.func.sizes)
        for points in pair.base.solutions(pair.dims(), order):
            found = isl.Set.from_basic_set(points)
            if side == "t":
                found = found.project_out(isl.dim_type.set, sizes, len(pair.s.dims))
            kept = sizes + len(s.dims)
            found = found.project_out(isl.dim_type.set, kept, found.dim(isl.dim_type.set) - kept)
            if not found.is_subset(dead):
                return False
        return True

    def _dead(self, s: Statement) -> isl.Set:
        """The instances of the store `s` that are dead, over the sizes and its loops."""
        if s.key not in self.dead:
            if self.flow is None:
                self.flow = Flow(self.func, "F")
            site = self.flow.sites[s.key]
            dead = site.domain
            for used in _used(self.flow, site, s):
                dead = dead.subtract(used)
            count = dead.dim(isl.dim_type.param)
            dead = dead.reset_tuple_id()
            self.dead[s.key] = dead.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
        return self.dead[s.key]


KINDS = ("serial", "unroll")
"""Loops of which the order of the iterations is that of the text."""


def _plain(s: Statement) -> bool:
    """Whether `s` is a store that analysis sees all instances of, one after the other."""
    return isinstance(s.place.stmt, Store) and not s.maybe and all(x.kind in KINDS for x in s.loops)


def _used(flow: Flow, site: Site, s: Statement) -> list[isl.Set]:
    """The instances of the store `s` whose value is read, by each reader of its buffer, or found in the end."""
    stmt = s.place.stmt
    assert isinstance(stmt, Store)
    b = stmt.buffer
    readers = [
        (x, a.at)
        for x in flow.sites.values()
        if x.statement is not None
        for a in x.statement.accesses
        if a.buffer == b.name and not a.write
    ]
    if any(x.buffer.name == b.name for x in flow.func.args):
        end = flow.output(b)
        readers.append((end.site, tuple(map(Var, end.site.loops))))
    writes, out = flow.writes(b.name), list[isl.Set]()
    for reader, at in readers:
        places = [x for x in at if x is not None]
        if len(places) < len(at):
            raise Unanalyzable(f"where {reader.label} reads {b.name} comes from memory")
        sources, _ = flow.last_writes(reader, flow.element(reader, b, places), writes)
        out += [source.range() for (writer, _, _), source in sources if writer is site]
    return out
