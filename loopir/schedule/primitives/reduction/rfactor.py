"""rfactor: each iteration of a reduced loop folds on its own, and what they give is folded afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopir.analysis.dependence.reordering import Origin
from loopir.arith.upper_bound import max_trip_count
from loopir.errors import ScheduleError
from loopir.ir.grammar import BLOCK_AXES, Alloc, Body, Buffer, Cond, Func, Index, Load, Loop, Reduce, Stmt, Store, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    free_vars,
    fresh_name,
    leaf_paths_of,
    nodes,
    replace,
    replace_stmt,
    rewrite,
    taken_names,
)
from loopir.schedule.core.find import find_serial, join_names
from loopir.schedule.legality.reductions import (
    Fold,
    find_reduce,
    nested,
    require_delay,
    require_folded,
    require_inside,
    require_outlived,
    runs_at_each_start,
    with_new_loops,
)
from loopir.schedule.legality.widening import require_apart_at_once
from loopir.schedule.primitives.loops.distribute import distribute
from loopir.schedule.primitives.reduction.privatize_reduction import privatize_reduction
from loopir.schedule.schedule import primitive


@primitive
def rfactor(func: Func, stage: str, loop: str) -> Func:
    """Fold each iteration of `loop`, over which `stage` reduces, into an element of its own; then fold these.

    The partial results are the stage `stage_rf`; `stage` folds them in a nest that follows, over a copy of `loop`.
    It is legal for every monoid, as these are associative and commutative; floats are rounded in another order. The
    iterations of `loop` then are independent: reorder it outwards, and parallel, bind or vectorize it.

    Where memory chooses the element, as in a histogram, each iteration of `loop` folds into a whole result of its own,
    as by `privatize_reduction` and `distribute`.

    before:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            for k_o in range((n + 3) // 4):
                for k_i in range(4):
                    if k_o * 4 + k_i < n:
                        S[0] = sum(A[k_o * 4 + k_i], over=(k_o, k_i), init=7.0)
    call:    rfactor("S", "k_i")
    after:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            with alloc("float32[4]") as S_rf:
                for k_o in range((n + 3) // 4):
                    for k_i in range(4):
                        if k_o * 4 + k_i < n:
                            S_rf[k_i] = sum(A[k_o * 4 + k_i], over=k_o, init=0.0)
                for k_i_1 in range(4):
                    S[0] = sum(S_rf[k_i_1], over=k_i_1, init=7.0)
    call:    rfactor("S", "k_o")
    after:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            with alloc("float32[(n + 3) // 4]") as S_rf:
                for k_o in range((n + 3) // 4):
                    for k_i in range(4):
                        if k_o * 4 + k_i < n:
                            S_rf[k_o] = sum(A[k_o * 4 + k_i], over=k_i, init=0.0)
                for k_o_1 in range((n + 3) // 4):
                    S[0] = sum(S_rf[k_o_1], over=k_o_1, init=7.0)
    refuses: rfactor("S", "i")  # there is no loop 'i'

    before:
        def f(n: "size", A: "float32[n, 8]", S: "inout float32[n]", B: "out float32[n]"):
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k)
                    B[i] = S[i]
    refuses: rfactor("S", "k")  # S at (i=0, k=0) writes S[0], which B at (i=0, k=0) reads later (at n=1)
    refuses: rfactor("S", "i")  # S does not reduce over 'i'; it does over k
    refuses: rfactor("B", "k")  # stage 'B' is no reduction

    before:
        def histogram(n: "size", ix: "int32[n * 64]", H: "inout int32[16]"):
            for i in range(n):
                for j in range(64):
                    H[ix[i * 64 + j]] += 1
    call:    rfactor("H", "i")
    after:
        def histogram(n: "size", ix: "int32[n * 64]", H: "inout int32[16]"):
            with alloc("int32[n, 16]") as H_rf:
                for i in range(n):
                    for ax0 in range(16):
                        H_rf[i, ax0]: "H_rf_init" = 0
                    for j in range(64):
                        H_rf[i, ix[i * 64 + j]] += 1
                for i_1 in range(n):
                    for ax0_1 in range(16):
                        H[ax0_1] += H_rf[i_1, ax0_1]
    """
    fold = find_reduce(func, stage)
    target = find_serial(func, loop)
    if target.var not in fold.over and any(isinstance(n, Load) for x in fold.reduce.at for n in nodes(x)):
        return _scattered(func, fold, target)
    require_folded(fold, target)
    parts = _Parts.of(func, fold, target)
    require_delay(func, fold, parts.again, target.var, f"{fold.reduce.label} would be folded after its loops")
    if fold.reduce.init is None:
        require_inside(func, fold, parts.again, target.var)
    new = replace_stmt(func, fold.start, parts.nest())  # every loop and guard stands where one like it stood
    if fold.reduce.init is None:
        label = fold.reduce.label
        again = [x.var for x in parts.again if isinstance(x, Loop)]
        made = next(p for p in leaf_paths_of(new) if p.stmt.label == label).loops[-len(again) :]
        came = {label: Origin(label, {v: Var(x.var) for v, x in zip(again, made, strict=True)})}
        require_apart_at_once(func, new, label, came, f"{label} would be folded, where it is not now,")
    return new


def _scattered(func: Func, fold: Fold, loop: Loop) -> Func:
    """`func` with whole results of their own for the iterations of `loop`, and a nest that folds these afterwards."""
    name = fresh_name(f"{fold.reduce.buffers[0].name}_rf", taken_names(func))
    made = privatize_reduction(func, fold.reduce.label, loop.var, "global", name=name)
    return distribute(made, loop.var, name)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The nest of `fold` cut in two at `loop`; `rest` are the other loops, over which the partial results fold.

    `again` is what both halves have around them, `loop` first. A loop that is not reduced over, but tells neither
    elements nor their first values apart, folds into them all the same, and is in `rest`; unless nothing starts where
    it does not run.
    """

    func: Func
    fold: Fold
    loop: Loop
    rest: tuple[str, ...]
    again: tuple[Loop | Cond, ...]

    @staticmethod
    def of(func: Func, fold: Fold, loop: Loop) -> _Parts:
        over, shells = set(fold.over) - {loop.var}, fold.without(set(fold.over) - {loop.var})
        needed = _needed_again(func, fold, loop, shells)
        again = [s for s in shells if not isinstance(s, Loop) or s.var in needed]
        require_outlived(again, over, loop.var)
        outer = {s.var for s in again if isinstance(s, Loop)}
        if inner := sorted(free_vars(loop.extent) & outer):
            reason = (
                f"the extent of {loop.var!r} depends on {join_names(inner)}, which the fold afterwards runs inside it"
            )
            raise ScheduleError(reason, loop=loop.var, suggestion=f"reorder {join_names(inner)} outside the nest")
        again.remove(loop)
        left = [s for s in fold.loops() if s.var not in outer | {loop.var}]
        if atomic := [s.var for s in left if s.kind in ("parallel", *BLOCK_AXES)]:
            reason = f"iterations of {join_names(atomic)} run at once, and folds into partial results are not atomic"
            raise ScheduleError(
                reason, loop=loop.var, suggestion=f"rfactor over one of {join_names(atomic)}, while serial"
            )
        return _Parts(func, fold, loop, tuple(s.var for s in left), (loop, *again))

    def nest(self) -> Stmt:
        """The partial results, in memory of their own, and the fold of them."""
        reduce, taken = self.fold.reduce, taken_names(self.func)
        shape = tuple(self.size(s) for s in self.again if isinstance(s, Loop))
        at = tuple(Var(s.var) for s in self.again if isinstance(s, Loop))
        memory: list[Buffer] = []
        for b in reduce.buffers:
            memory.append(Buffer(fresh_name(f"{b.name}_rf", taken), shape, b.dtype))
            taken.add(memory[-1].name)
        partial = self.partial(tuple(memory), at)
        first = rewrite((self.fold.start,), lambda s: partial if s is reduce else None)
        loads = tuple(Load(b, at) for b in memory)
        total = replace(reduce, values=loads, over=(self.loop.var,))
        second, _ = with_new_loops(self.func, nested(self.again, (total,)), [b.name for b in memory])
        body: Body = (*first, *second)
        for b in reversed(memory):
            body = (Alloc(b, body),)
        return body[0]

    def size(self, loop: Loop) -> Index:
        """The most iterations that `loop` has, which the memory has room for."""
        around = {x.var: x.extent for x in (*self.fold.outer, *self.fold.loops()) if x is not loop}
        size = max_trip_count(loop, around)
        if size is None:
            raise ScheduleError(
                f"{loop.var!r} runs {text(loop.extent)} times, and how much memory that needs at most is not known",
                loop=self.loop.var, suggestion=f'split("{loop.var}", 32) and take the inner loop',
            )  # fmt: skip
        return size

    def partial(self, memory: tuple[Buffer, ...], at: tuple[Index, ...]) -> Body:
        reduce = self.fold.reduce
        if self.rest:
            identity = reduce.monoid.identity
            return (Reduce(memory[0].name, memory, at, reduce.monoid, reduce.values, self.rest, identity),)
        return tuple(Store(b.name, b, at, v) for b, v in zip(memory, reduce.values, strict=True))


def _needed_again(func: Func, fold: Fold, loop: Loop, shells: Sequence[Loop | Cond]) -> set[str]:
    """The loops among `shells` that both halves need: `loop`, those that elements, their first values and guards
    depend on, and those without which a reduction would start where it does not run."""
    starts = fold.reduce.init is not None
    dependent = (*fold.reduce.at, *(fold.reduce.init or ()), *(s for s in shells if not isinstance(s, Loop)))
    needed = {v for n in dependent for v in free_vars(n)}
    for s in reversed(shells):
        if isinstance(s, Loop) and (s.var in needed or s is loop or (starts and not runs_at_each_start(func, s))):
            needed |= {s.var} | free_vars(s.extent)
    return needed
