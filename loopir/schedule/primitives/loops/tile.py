"""tile: split several loops of a nest and put the tiles' loops outside.

It is a split for each loop and a reorder, and where that is plainly legal it is done as one rewrite with one question:
splitting never changes the order, so what matters is that no two instances that depend on one another are in different
iterations of the loops that change places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopir.analysis.dependence.reordering import permutation_invariant
from loopir.analysis.regions.retile import Retiling
from loopir.arith.simplify_func import Known, known_at
from loopir.errors import ScheduleError
from loopir.ir.grammar import TRUE, Cond, Func, If, Index, Int, Loop, conj
from loopir.ir.traverse.walk import (
    free_vars,
    loaded_buffers,
    path_to,
    replace,
    replace_loop,
    take_name,
    taken_names as names_of,
)
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, find_serial
from loopir.schedule.legality.refusal import refusal_inside
from loopir.schedule.primitives.loops.reorder import Band, in_order, nested, rearranged, require_bounds
from loopir.schedule.primitives.loops.split import Tail, Tiling, split_loop
from loopir.schedule.schedule import primitive


@primitive
def tile(func: Func, *loops_and_factors: str | int, tail: Tail = "guard") -> Func:
    """Split each loop by its factor and reorder: the loops over tiles, then the loops inside a tile.

    The loops come first, then as many factors: `tile("i", "j", 32, 64)`. The same as split for each and reorder.

    before:
        def f(A: "float32[8, 8]", B: "out float32[8, 8]"):
            for i in range(8):
                for j in range(8):
                    B[i, j] = A[j, i]
    call:    tile("i", "j", 4, 2)
    after:
        def f(A: "float32[8, 8]", B: "out float32[8, 8]"):
            for i_o in range(2):
                for j_o in range(4):
                    for i_i in range(4):
                        for j_i in range(2):
                            B[i_o * 4 + i_i, j_o * 2 + j_i] = A[j_o * 2 + j_i, i_o * 4 + i_i]
    refuses: tile("i", "j", 4)             # 2 loops and 1 factors
    refuses: tile("i", "j", 3, 2, tail="exact")  # 3 does not divide 8
    """
    half = len(loops_and_factors) // 2
    names = [x for x in loops_and_factors if isinstance(x, str)]
    factors = [x for x in loops_and_factors if isinstance(x, int)]
    if not half or (*names, *factors) != loops_and_factors or len(names) != len(factors):
        raise ScheduleError(
            f"{len(names)} loops and {len(factors)} factors are given; a tile takes the loops, then a factor for each",
            suggestion='tile("i", "j", 32, 32)',
        )
    targets = [find_loop(func, n).var for n in names]
    return _tile_band(func, targets, factors, tail) or step_by_step(func, targets, factors, tail)


def step_by_step(func: Func, targets: Sequence[str], factors: Sequence[int], tail: Tail) -> Func:
    """A split for each loop, and the new order: what `tile` means, and the refusals that it gives."""
    made: list[Tiling] = []
    new = func
    for name, factor in zip(targets, factors, strict=True):
        new, tiling = split_loop(new, find_serial(new, name), factor, tail)
        made.append(tiling)
    with refusal_inside(func, {t.loop.var: (t.came(tail),) for t in made}):
        return in_order(new, [*(t.outer for t in made), *(t.inner for t in made)])


def _tile_band(func: Func, targets: Sequence[str], factors: Sequence[int], tail: Tail) -> Func | None:
    """The same in one go; None where that is not plainly legal, or does something else than move serial loops."""
    if tail not in ("guard", "exact") or min(factors) < 1 or len({*targets}) < len(targets):
        return None
    try:
        band = Band.of([find_serial(func, v) for v in targets])
    except ScheduleError:
        return None
    if any(x.kind != "serial" or loaded_buffers(x.extent) for x in band.loops) or _in_lanes(func, band.loops[0]):
        return None
    if not permutation_invariant(func, band.loops[0], [x.var for x in band.loops], onward=True):
        return None
    pairs = _named(func, targets)
    if pairs.keys() & {name for pair in pairs.values() for name in pair}:
        return None
    by_name = dict(zip(targets, factors, strict=True))
    return Strips(func, pairs, by_name, tail == "exact", known_at(func, band.loops[0])).nest(band)


def _in_lanes(func: Func, loop: Loop) -> bool:
    """Whether there are lanes around `loop`, whose promise has to be proved again where loops move in them."""
    return any(isinstance(x, Loop) and x.kind == "vectorize" for x in path_to(func, loop))


def _named(func: Func, targets: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The two names of each loop, as one split after the other finds them."""
    taken, found = names_of(func), dict[str, tuple[str, str]]()
    for v in targets:
        taken.discard(v)
        outer = take_name(f"{v}_o", taken)
        inner = take_name(f"{v}_i", taken)
        found[v] = outer, inner
    return found


@dataclass(slots=True)
class Strips:
    """A band of loops on its way to be tiled, from outside to inside."""

    func: Func
    names: Mapping[str, tuple[str, str]]
    factors: Mapping[str, int]
    exact: bool
    known: Known
    relabelling: Retiling = field(default_factory=lambda: Retiling({}, {}))
    loops: list[Loop] = field(default_factory=list[Loop])
    guards: list[Cond] = field(default_factory=list[Cond])
    met: set[str] = field(default_factory=set[str])
    """What the extents and guards so far speak of."""

    def nest(self, band: Band) -> Func | None:
        """`func` with the band tiled; None where that has to be refused."""
        around = 0
        outside = self.known
        for s in band.steps:
            around = len(self.guards)
            if isinstance(s, If):
                self.under(self.relabelling.guard(s, self.known))
            elif s.var not in self.names:
                self.inside(s, [(s.var, self.extent(s))])
            elif not self.tiled(s, outside if self.met.isdisjoint(free_vars(s.extent)) else self.known):
                return None
            self.met |= free_vars(s.cond if isinstance(s, If) else s.extent)
        body = self.relabelling.body(band.body, self.known)
        guards, innermost = self.guards[:around], self.guards[around:]
        if innermost:
            body = (If(conj(*innermost), body),)
        outer, inner = zip(*self.names.values(), strict=True)
        order = rearranged(self.loops, [*outer, *inner])
        try:
            require_bounds(order)
        except ScheduleError:
            return None
        return replace_loop(self.func, band.loops[0].var, lambda _: nested(order, guards, body))

    def extent(self, s: Loop) -> Index:
        return self.relabelling.index(s.extent, lambda: self.known.within(s.body))

    def inside(self, s: Loop, loops: Sequence[tuple[str, Index]]) -> None:
        """Go on inside what `s` becomes."""
        for var, extent in loops:
            self.known = self.known.loop(var, extent, s.body, was=s.var)
            self.loops.append(Loop(var, extent, "serial", ()))

    def under(self, guard: Cond) -> None:
        """Go on where `guard` holds."""
        if guard != TRUE:
            self.known = self.known.given(guard)
            self.guards.append(guard)

    def tiled(self, s: Loop, known: Known) -> bool:
        """Go on inside the tiles of `s`, of whose extent `known` tells; False if they have to be whole, and are not."""
        factor, pair = self.factors[s.var], self.names[s.var]
        t = Tiling(self.func, Facts(known, s), replace(s, extent=self.extent(s)), factor, *pair)
        whole = t.facts.divides(factor, t.loop.extent)
        tiles, guard = t.once(whole=whole)
        self.inside(s, [(t.outer, tiles), (t.inner, Int(factor))])
        self.under(guard)
        self.relabelling.became(s.var, t.position, pair)
        return whole or not self.exact
