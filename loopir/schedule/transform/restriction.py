"""Running a part of a nest: its loops restricted so that the indices of its statement stay inside a box.

Each dimension of the box restricts the loop that its index moves with most; what that leaves open is guarded. The
iterations that are left run in the order that they had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from loopir.analysis.regions.footprint import Footprint, end, poly_variables, proved
from loopir.analysis.regions.retile import Retiling
from loopir.arith.poly import Poly, constant_part, constant_poly, poly_add, poly_scale, to_index
from loopir.arith.rules import fold
from loopir.arith.simplify import Context, divide, poly, simplify_cond
from loopir.arith.simplify_func import Known
from loopir.ir.grammar import TRUE, Body, Cmp, Cond, Index, Int, Loop, Stmt, Var, record
from loopir.ir.traverse.walk import free_vars, guard_body, replace, rewrite


@record
class Range:
    """A loop now runs over `count` values from `start` on; `conds`, in its old variable, keep what sticks out away."""

    start: Index
    count: Index
    conds: tuple[Cond, ...]


@dataclass(slots=True)
class Restriction:
    """The loops of a nest, restricted so that an index of its statement in each dimension is inside a box."""

    known: Known
    own: tuple[Loop, ...]
    over: frozenset[str]
    ranges: dict[str, Range]
    conds: list[Cond]
    contexts: dict[bool, Context] = field(default_factory=dict[bool, Context])
    """What is known inside the loops: of all, or without those that are folded over."""

    @staticmethod
    def to(
        box: Footprint, at: Sequence[Index], own: tuple[Loop, ...], over: Iterable[str], known: Known
    ) -> Restriction:
        """`own` are the loops around the statement, outer ones first, all of them where `known` holds."""
        out = Restriction(known, own, frozenset(over), {}, [])
        for d, ix in enumerate(at):
            out._dimension(ix, box.base[d], box.extent[d], box.size[d])
        return out

    def _dimension(self, ix: Index, base: Index, extent: Index, size: Index) -> None:
        ctx = self.known.here
        if not isinstance(extent, Int) and (isinstance(size, Int) or not _is_readable(extent)):
            extent = size
        stem, ahead = constant_part(ix)
        if isinstance(extent, Int) and (alone := self._alone(stem)) is not None:
            self._restrict(alone, poly_add(poly(base, ctx), constant_poly(-ahead)), constant_poly(extent.value))
            return
        inside = self._context()
        own = {x.var for x in self.own}
        p = poly(ix, self._context(over=False))
        first, last = poly(base, ctx), poly(base + extent - 1, ctx)
        box = first, last

        def within() -> list[Cond]:
            return [Cmp("<=", to_index(box[0]), ix), Cmp("<=", ix, to_index(box[1]))]

        v, q = self._pick(p)
        if v is None:
            self.conds += within()
            return
        rest = poly_add(p, {(Var(v.var),): q}, -1)
        low: Poly | None = rest
        high: Poly | None = rest
        if poly_variables(rest) & own:
            inner = [(v, top) for v, top in inside.tops if v.name in own]
            low, high = (end(rest, inner, inside, least=x) for x in (True, False))
        if low is None or high is None or (poly_variables(low) | poly_variables(high)) & own:
            self.conds += within()
            return
        if q < 0:
            first, last, low, high, q = (
                poly_scale(last, -1),
                poly_scale(first, -1),
                poly_scale(high, -1),
                poly_scale(low, -1),
                -q,
            )
        by = constant_poly(q)
        start, stop = poly_add(first, high, -1), poly_add(last, low, -1)
        if q == 1:
            start, stop = fold(start, ctx), fold(stop, ctx)
        else:
            start, stop = divide(poly_add(start, constant_poly(q - 1)), by, ctx), divide(stop, by, ctx)
        count = poly_add(poly_add(stop, start, -1), constant_poly(1))
        spread = poly_add(high, low, -1)
        if not _is_readable(to_index(count)):
            count = poly_add(
                divide(poly_add(poly_add(poly(extent, ctx), spread), constant_poly(-1)), by, ctx), constant_poly(1)
            )
        if spread or q != 1:
            self.conds += within()
        self._restrict(v, start, count)

    def _alone(self, ix: Index) -> Loop | None:
        """The loop that an index is, which is not restricted yet, and not folded over."""
        if type(ix) is not Var or ix.name in self.over or ix.name in self.ranges:
            return None
        return next((x for x in self.own if x.var == ix.name), None)

    def _restrict(self, v: Loop, start: Poly, count: Poly) -> None:
        ctx = self.known.here
        extent = poly(v.extent, ctx)
        after = poly_add(poly_add(start, count), extent, -1)
        covers = proved(poly_scale(start, -1), ctx) and not free_vars(v.extent) & {x.var for x in self.own}
        if covers and proved(after, ctx):
            return  # all of it
        conds: list[Cond] = []
        if not proved(start, ctx):
            conds.append(Cmp("<=", Int(0), Var(v.var)))
        if free_vars(v.extent) & {x.var for x in self.own} or not proved(poly_scale(after, -1), ctx):
            conds.append(Cmp("<", Var(v.var), v.extent))
        self.ranges[v.var] = Range(to_index(start), to_index(count), tuple(conds))

    def _pick(self, p: Poly) -> tuple[Loop | None, int]:
        """The loop that an index moves with most, and its coefficient: not restricted yet, and not folded over."""
        best: tuple[Loop | None, int] = None, 0
        for x in self.own:
            v = (Var(x.var),)
            c = p.get(v, 0)
            if abs(c) <= abs(best[1]) or x.var in self.over or x.var in self.ranges:
                continue
            if all(m == v or x.var not in poly_variables({m: 1}) for m in p):
                best = x, c
        return best

    def _context(self, *, over: bool = True) -> Context:
        """Inside the loops of the nest; without those that are folded over, which may have no iterations."""
        if over not in self.contexts:
            known = self.known.here
            for x in self.own:
                if over or x.var not in self.over:
                    known = known.loop(x.var, x.extent)
            self.contexts[over] = known
        return self.contexts[over]

    def undecided(self) -> list[Cond]:
        """The conditions that keep an index inside the box, but for those that hold anyway."""
        if not self.conds:
            return self.conds
        contexts = [self._context(over=x) for x in (False, True)]
        simple = ((c, simplify_cond(c, contexts[bool(free_vars(c) & self.over)])) for c in self.conds)
        moves = self.ranges.keys()  # which the position is put in for, and only then simplified
        self.conds = [c if free_vars(c) & moves else new for c, new in simple if new != TRUE]
        return self.conds

    def origin(self) -> dict[str, Index]:
        """The old loops as indices over the new ones."""
        return {v: r.start + Var(v) for v, r in self.ranges.items()}

    def apply(self, tree: Stmt) -> Body:
        """The nest with its loops restricted and guarded, its indices and guards simplified where they stand now."""
        pending = {v: list(r.conds) for v, r in self.ranges.items()}
        outside: list[Cond] = []
        names = [x.var for x in self.own]
        for c in self.undecided():
            last = max((names.index(v) for v in free_vars(c) if v in names), default=-1)
            (pending.setdefault(names[last], []) if last >= 0 else outside).append(c)

        def visit(s: Stmt) -> Stmt | Body | None:
            if not isinstance(s, Loop) or s.var not in pending:
                return None
            body = guard_body(rewrite(s.body, visit), pending[s.var])
            r = self.ranges.get(s.var)
            return replace(s, body=body) if r is None else Loop(s.var, r.count, "serial", body)

        body = guard_body(rewrite((tree,), visit), outside)
        return Retiling(self.origin(), {}, decides=True).body(body, self.known)


def _is_readable(ix: Index) -> bool:
    """Whether an index is a sum of products of variables, which reads well as an extent."""
    return all(isinstance(a, Var) for m in poly(ix, Context()) for a in m)
