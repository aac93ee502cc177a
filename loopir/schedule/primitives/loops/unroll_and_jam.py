"""unroll_and_jam: several iterations of an outer loop at once in each iteration of the loops inside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from loopir.analysis.dataflow.equivalence import same_values
from loopir.analysis.dependence.access import is_affine_visible
from loopir.analysis.dependence.reordering import Origin, permutation_invariant, violated_dependence
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Cond, Func, If, Loop, Not, Reduce, Stmt, Store, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    free_vars,
    guard_body,
    loops as nest_loops,
    replace,
    replace_loop,
    replace_over,
    substitute,
)
from loopir.schedule.core.find import find_loop, find_serial, join_names
from loopir.schedule.core.naming import UsedNames, new_names
from loopir.schedule.legality.asked_memory import require_extent_there
from loopir.schedule.legality.effects import reads, require_stable_extent, writes
from loopir.schedule.legality.loop_kinds import require_loop_kinds
from loopir.schedule.legality.refusal import refusal, refusal_inside
from loopir.schedule.primitives.loops.split import split_loop
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.expand_alloc import expand_accesses, expand_buffer
from loopir.schedule.transform.siblings import labels, lanes_around


@primitive
def unroll_and_jam(func: Func, loop: str, factor: int, *, tail: Literal["peel", "guard", "exact"] = "peel") -> Func:
    """Split `loop` by `factor`, and run the iterations of a tile together in the innermost statements, unrolled.

    What is read in all of them is read once, and their folds overlap. Memory that an iteration allocates gets an
    element for each. Where `factor` does not divide the extent, `tail` says what to do, as in split.

    before:
        def f(n: "size", A: "float32[n, n]", B: "float32[n]", C: "inout float32[n]"):
            assume(n % 2 == 0)
            for i in range(n):
                for k in range(n):
                    C[i] = sum(A[i, k] * B[k], over=k)
    call:    unroll_and_jam("i", 2)
    after:
        def f(n: "size", A: "float32[n, n]", B: "float32[n]", C: "inout float32[n]"):
            assume(n % 2 == 0)
            for i_o in range(n // 2):
                for k in range(n):
                    for i_i in unroll(2):
                        C[i_o * 2 + i_i] = sum(A[i_o * 2 + i_i, k] * B[k], over=k)
    refuses: unroll_and_jam("k_1", 2)  # there is no loop

    before:
        def sweep(n: "size", a: "inout float32[n + 1, n + 1]"):
            for i in range(n):
                for j in range(n):
                    a[i + 1, j] = a[i, j + 1] + 1.0
    refuses: unroll_and_jam("i", 2)  # jamming 'i' runs these two the other way round

    before:
        def triangle(A: "float32[8, 8]", B: "inout float32[8, 8]"):
            for i in range(8):
                for j in range(i + 1):
                    B[i, j] = A[i, j]
    refuses: unroll_and_jam("i", 2)  # 'j' runs i_o * 2 + i_i + 1 times
    """
    target = find_serial(func, loop)
    outer, inner = new_names(func, (f"{target.var}_o", f"{target.var}_i"), None, freed=(target.var,))
    tiled, tiling = split_loop(func, target, factor, tail, (outer, inner))
    with refusal_inside(func, {target.var: (tiling.came(tail),)}):
        free = straight(target.body) or permutation_invariant(func, target, [target.var])
        return _jammed(tiled, find_loop(tiled, inner), target, free=free)


def straight(body: Body) -> bool:
    """Whether no loop stands in `body`, and its statements one after the other: they are unrolled as they stand."""
    while len(body) == 1 and isinstance(s := body[0], If) and not s.orelse:
        body = s.then
    return all(isinstance(s, Store | Reduce) for s in body)


def _jammed(func: Func, tile: Loop, target: Loop, *, free: bool) -> Func:
    """`func` with the loop `tile` over a tile of `target` inside all that stands in it.

    `free`: no iteration of `target` depends on another one.
    """
    require_stable_extent(*nest_loops((tile,)))
    jam = Jam(func, tile, UsedNames.of(func))
    new = replace_loop(func, tile.var, lambda s: jam.sunk(s.body, (), ()))
    clash = None if free else violated_dependence(func, new, jam.origin)
    if clash is not None and not same_values(func, new):  # values that nobody looks at may be others
        reason = f"jamming {target.var!r} runs these two the other way round"
        raise refusal(
            clash, reason, target.var, f"a loop that carries no dependence on {clash.witness.buffer} backwards"
        )
    inside = [x.var for x in nest_loops(tile.body)]
    require_loop_kinds(new, [*lanes_around(func, tile), *inside])
    return new


@dataclass(slots=True)
class Jam:
    """The loop over a tile on its way down to the statements, where it is unrolled: one loop for each run of them."""

    func: Func
    loop: Loop
    taken: UsedNames
    origin: dict[str, Origin] = field(default_factory=dict[str, Origin])
    first: bool = True
    """Whether no run of statements has the loop's name yet."""

    def sunk(self, body: Body, guards: tuple[Cond, ...], left: tuple[If, ...]) -> Body:
        """`body` with the loop inside; `guards` are what is asked there of those around that depend on it, `left`."""
        out: list[Stmt] = []
        together: list[Stmt] = []
        for s in body:
            if not isinstance(s, Loop | Alloc | If):
                together.append(s)
                continue
            out += self.unrolled(together, guards)
            together = []
            out += self.inside(s, guards, left)
        return (*out, *self.unrolled(together, guards))

    def inside(self, s: Loop | Alloc | If, guards: tuple[Cond, ...], left: tuple[If, ...]) -> Body:
        v = self.loop.var
        if isinstance(s, Loop):
            if v in free_vars(s.extent):
                reason = f"{s.var!r} runs {text(s.extent)} times, which depends on the iteration that is jammed"
                raise ScheduleError(
                    reason, loop=s.var, suggestion="a nest whose inner loops are as long in every iteration"
                )
            if left:
                require_extent_there(self.func, s, (self.loop, *left))
            return (replace(s, body=self.sunk(s.body, guards, left)),)
        if isinstance(s, Alloc):
            b = expand_buffer(self.func, self.loop, s, f"every iteration has its own {s.buffer.name}")
            return (Alloc(b, self.sunk(tuple(expand_accesses(x, v, [b]) for x in s.body), guards, left)),)
        if changed := sorted(reads([s.cond]) & writes(self.loop.body)):
            reason = f"a guard in it is read from {join_names(changed)}, which the loop writes"
            raise ScheduleError(reason, loop=v, suggestion="keep its iterations apart")
        if v not in free_vars(s.cond) and not guards and is_affine_visible(s.cond):
            return (If(s.cond, self.sunk(s.then, (), ()), self.sunk(s.orelse, (), ())),)
        left = (*left, s)
        return (*self.sunk(s.then, (*guards, s.cond), left), *self.sunk(s.orelse, (*guards, Not(s.cond)), left))

    def unrolled(self, body: list[Stmt], guards: tuple[Cond, ...]) -> Body:
        if not body:
            return ()
        v = self.loop.var if self.first else self.taken.name(self.loop.var)
        self.first = False
        self.origin |= {label: Origin(label, {self.loop.var: Var(v)}) for label in labels(tuple(body))}
        inner = guard_body(tuple(body), guards)
        moved = tuple(substitute(s, {self.loop.var: Var(v)}) for s in inner)
        return (Loop(v, self.loop.extent, "unroll", replace_over(moved, {self.loop.var: (v,)})),)
