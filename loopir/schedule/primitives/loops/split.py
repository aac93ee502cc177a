"""split: one loop becomes two, an outer one over tiles and an inner one over the iterations of a tile.

What happens where the factor does not divide the extent is the caller's choice: one function below for each tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from loopir.analysis.dataflow.reaching_writes import is_written_before
from loopir.analysis.regions.retile import Retiling
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    TRUE,
    Body,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    Int,
    Loop,
    Reduce,
    Stmt,
    Var,
    ceildiv,
    maximum,
    minimum,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths, loops, path_to, replace_loop, stored_buffers
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_serial
from loopir.schedule.core.naming import UsedNames, new_names
from loopir.schedule.legality.effects import allocates, reads, require_stable_extent, writes
from loopir.schedule.legality.loop_kinds import require_loop_kinds, require_still_together
from loopir.schedule.legality.overrun import require_harmless_overrun
from loopir.schedule.legality.reduction_starts import require_starts_in_parts
from loopir.schedule.legality.reductions import idempotent
from loopir.schedule.legality.refusal import refusal, refusal_inside
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.caches import CacheSite, accesses_of, clash_in
from loopir.schedule.transform.split_range import continued, loop_part

Tail = Literal["guard", "exact", "shift_inwards", "round_up", "peel"]


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a tail needs to know: the loop, the factor, and the names of the two loops it becomes."""

    func: Func
    facts: Facts
    loop: Loop
    factor: int
    outer: str
    inner: str

    @property
    def position(self) -> Index:
        return Var(self.outer) * self.factor + Var(self.inner)

    @property
    def over(self) -> dict[str, tuple[str, ...]]:
        """What a reduction over the loop is over now."""
        return {self.loop.var: (self.outer, self.inner)}

    def once(self, *, whole: bool) -> tuple[Index, Cond]:
        """How many tiles run each iteration once, and what holds in them: nothing where `whole` tiles do.

        Else the test is needed: as `factor` does not divide the extent, the last tile goes on after the end.
        """
        extent = self.facts.tidy(self.loop.extent)
        if whole:
            return self.facts.tidy(extent // self.factor), TRUE
        return self.facts.tidy(ceildiv(extent, self.factor)), Cmp("<", self.position, extent)

    def came(self, tail: Tail) -> Index:
        """The index of the old loop, as an expression of the two new ones."""
        if tail != "shift_inwards":
            return self.position
        return minimum(Var(self.outer) * self.factor, self.loop.extent - self.factor) + Var(self.inner)

    def nest(self, tiles: Index, position: Index, *, guard: Cond = TRUE, decides: bool = False) -> Stmt:
        """The two loops around the body at `position`, where `guard` holds: all iterations of the loop, in order.

        `decides`: not all of them.
        """
        var, inside = self.loop.var, self.loop.body
        known = self.facts.place.loop(self.outer, tiles, inside, was=var)
        known = known.loop(self.inner, Int(self.factor), inside, was=var).given(guard)
        body = Retiling({var: position}, self.over, decides and tiles != Int(0), parts={self.outer: True}).body(
            inside, known
        )
        return self.loops(tiles, body if guard == TRUE else (If(guard, body),))

    def loops(self, tiles: Index, body: Body) -> Stmt:
        """The two loops around `body`."""
        return Loop(self.outer, tiles, "serial", (Loop(self.inner, Int(self.factor), "serial", body),))

    def refuse(self, reason: str, suggestion: str) -> ScheduleError:
        return ScheduleError(reason, loop=self.loop.var, suggestion=suggestion)


@primitive
def split(func: Func, loop: str, factor: int, *, tail: Tail = "guard", names: tuple[str, str] | None = None) -> Func:
    """Split `loop` into an outer loop over tiles and an inner one of `factor` iterations; `names` are theirs.

    Where `factor` does not divide the extent, `tail` says what to do: "guard" tests in every iteration; "exact"
    refuses; "peel" runs what is left in a loop of its own; "shift_inwards" moves the last tile back, so that it
    repeats some iterations; "round_up" runs on, where that touches nothing that matters.

    before:
        def f(A: "float32[8]", B: "out float32[8]"):
            for i in range(8):
                B[i] = A[i]
    call:    split("i", 4)
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for i_o in range(2):
                for i_i in range(4):
                    B[i_o * 4 + i_i] = A[i_o * 4 + i_i]
    call:    split("i", 3)
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for i_o in range(3):
                for i_i in range(3):
                    if i_o * 3 + i_i < 8:
                        B[i_o * 3 + i_i] = A[i_o * 3 + i_i]
    call:    split("i", 3, tail="peel")
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for i_o in range(2):
                for i_i in range(3):
                    B[i_o * 3 + i_i] = A[i_o * 3 + i_i]
            for i_t in range(2):
                B[i_t + 6] = A[i_t + 6]
    call:    split("i", 3, tail="shift_inwards", names=("io", "ii"))
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for io in range(3):
                for ii in range(3):
                    B[min(io * 3, 5) + ii] = A[min(io * 3, 5) + ii]
    refuses: split("i", 3, tail="exact")     # 3 does not divide 8
    refuses: split("i", 3, tail="round_up")  # would reach A[i]
    refuses: split("i", 0)                   # a tile of 0 iterations
    refuses: split("j", 4)                   # there is no loop 'j'

    before:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            for k in range(n):
                S[0] = sum(A[k], over=k, init=0.0)
    call:    split("k", 4)
    after:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            for k_o in range((n + 3) // 4):
                for k_i in range(4):
                    if k_o * 4 + k_i < n:
                        S[0] = sum(A[k_o * 4 + k_i], over=(k_o, k_i), init=0.0)
    call:    split("k", 4, tail="peel")
    after:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            for k_o in range(n // 4):
                for k_i in range(4):
                    S[0] = sum(A[k_o * 4 + k_i], over=(k_o, k_i), init=0.0)
            for k_t in range(n % 4):
                S[0] = sum(A[n // 4 * 4 + k_t], over=k_t)
    refuses: split("k", 4, tail="shift_inwards")  # n may be less than 4

    before:
        def padded(A: "float32[8]", B: "out float32[7]"):
            with alloc("float32[8]") as T:
                for i in range(7):
                    T[i] = A[i] + 1.0
                for j in range(7):
                    B[j] = T[j]
    call:    split("i", 4, tail="round_up")
    after:
        def padded(A: "float32[8]", B: "out float32[7]"):
            with alloc("float32[8]") as T:
                for i_o in range(2):
                    for i_i in range(4):
                        T[i_o * 4 + i_i] = A[i_o * 4 + i_i] + 1.0
                for j in range(7):
                    B[j] = T[j]
    refuses: split("j", 4, tail="round_up")  # would read T[j], which nothing need have written there
    """
    return split_loop(func, find_serial(func, loop), factor, tail, names)[0]


def split_loop(
    func: Func, target: Loop, factor: int, tail: Tail, names: tuple[str, str] | None = None
) -> tuple[Func, Tiling]:
    """`split` itself, for steps that are made of it, too: the Func, not yet verified, and what became of the loop."""
    if factor < 1:
        raise ScheduleError(
            f"a tile of {factor} iterations; the factor has to be at least 1",
            loop=target.var,
            suggestion="a factor of 1 or more",
        )
    require_stable_extent(target)
    hints = (f"{target.var}_o", f"{target.var}_i")
    facts = Facts.at(func, target)
    tiling = Tiling(func, facts, target, factor, *new_names(func, hints, names, freed=(target.var,)))
    make = _full_tiles if facts.divides(factor, target.extent) else TAILS[tail]
    new = replace_loop(func, target.var, lambda _: make(tiling))
    if make is _round_up:
        with refusal_inside(func, {target.var: (tiling.position,)}):
            require_loop_kinds(new, [x.var for x in loops(new.body)])
    elif make is _peel:
        require_still_together(func, new, target)
    return new, tiling


def _full_tiles(t: Tiling) -> Stmt:
    return t.nest(t.once(whole=True)[0], t.position)


def _guard(t: Tiling) -> Stmt:
    tiles, inside = t.once(whole=False)
    return t.nest(tiles, t.position, guard=inside)


def _exact(t: Tiling) -> Stmt:
    extent = t.loop.extent
    does_not = "does not divide" if isinstance(extent, Int) else "is not known to divide"
    assume = "" if isinstance(extent, Int) else f", or assume({text(extent)} % {t.factor} == 0)"
    raise t.refuse(f"{t.factor} {does_not} {text(extent)}", f'tail="guard" or tail="peel"{assume}')


def _peel(t: Tiling) -> Body:
    var, extent = t.loop.var, t.loop.extent
    if not t.facts.at_least(extent, 0):
        extent = maximum(extent, 0)  # -1 iterations are none, and leave nothing over
    no_tile = t.facts.at_least(t.factor - 1 - extent, 0)
    if not no_tile:  # else the rest is all there is, and starts all that it folds
        require_starts_in_parts(t.func, t.loop)
    taken = UsedNames.of(t.func)
    taken.names |= {t.outer, t.inner}
    start = extent // t.factor * t.factor
    tiles = replace(t, loop=replace(t.loop, body=continued(t.loop.body, var))) if no_tile else t
    whole = tiles.nest(t.facts.tidy(extent // t.factor), t.position, decides=True)
    rest = taken.name(f"{var}_t")
    left = extent % t.factor
    last = loop_part(t.loop, start, left, rest, t.facts.place, goes_on=not no_tile, copy=taken, begins=False)
    return whole, last


def _shift_inwards(t: Tiling) -> Stmt:
    extent = t.loop.extent
    if not t.facts.at_least(extent, t.factor):
        reason = f"{text(extent)} may be less than {t.factor}, and then the last tile would start below 0"
        raise t.refuse(reason, f'tail="guard", or assume({text(extent)} >= {t.factor})')
    _require_repeatable(t)
    return t.nest(t.facts.tidy(ceildiv(extent, t.factor)), t.facts.tidy(t.came("shift_inwards")))


def _require_repeatable(t: Tiling) -> None:
    """Refuse unless running the last iterations once more changes nothing: what one has read is not written later."""
    inside = {loop.var for loop in loops(t.loop.body)}
    for place in leaf_paths(t.loop.body):
        s = place.stmt
        if not isinstance(s, Reduce) or (s.init is not None and set(s.over) <= inside):
            continue
        if not _folds_again(s, t.loop):
            reason = f"the last tile repeats iterations of {t.loop.var!r}, and {s.label} would fold them in twice"
            raise t.refuse(reason, 'tail="guard" or tail="peel"')
    site = CacheSite(t.func, (), path_to(t.func, t.loop)[:-1], (t.loop,), t.facts.place)
    outer = [x.var for x in (*site.around, t.loop) if isinstance(x, Loop)]
    for name in sorted(reads(t.loop.body) & writes(t.loop.body) - allocates(t.loop.body)):
        done = accesses_of(site, name)
        written, read = ([x for x in done if x[1].write == w] for w in (True, False))
        old = [x for x in read if not any(is_written_before(t.func, x, w, outer) for w in written)]
        clash = clash_in(site, old, written)
        if clash is not None:
            reason = f"the last tile repeats iterations of {t.loop.var!r}, which read elements of {name}"
            raise refusal(clash, f"{reason} before they are written", t.loop.var, 'tail="guard" or tail="peel"')


def _folds_again(s: Reduce, loop: Loop) -> bool:
    """Whether `s` may fold in once more what it has: it changes nothing, and nobody else in the loop touches that."""
    mine, others = stored_buffers(s), (p.stmt for p in leaf_paths(loop.body) if p.stmt is not s)
    alone = mine.isdisjoint(reads(loop.body)) and all(mine.isdisjoint(stored_buffers(x)) for x in others)
    return alone and idempotent(s.monoid)


def _round_up(t: Tiling) -> Stmt:
    tiles = t.facts.tidy(ceildiv(t.loop.extent, t.factor))
    require_harmless_overrun(t.func, t.loop, tiles * t.factor)
    return t.nest(tiles, t.position)


TAILS: dict[Tail, Callable[[Tiling], Stmt | Body]] = {
    "guard": _guard,
    "exact": _exact,
    "shift_inwards": _shift_inwards,
    "round_up": _round_up,
    "peel": _peel,
}
