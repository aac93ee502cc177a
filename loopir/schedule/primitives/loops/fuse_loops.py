"""fuse_loops: two nests, one right after the other, become one that does an iteration of each in turn.

The second nest may lag behind the first one by a shift. The least shift that keeps every dependence is found by
analysis and offered where the shift that was asked for is too small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loopir.analysis.dependence.fusion_shift import least_shifts
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.errors import ScheduleError
from loopir.ir.grammar import Body, Cmp, Cond, Func, Index, Int, Loop, Var, conj, maximum
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, guard_body, nests_declaring, top_level_nests_in
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.core.naming import new_names
from loopir.schedule.legality.effects import require_known_starts, require_stable_extent
from loopir.schedule.legality.loop_kinds import require_loop_kinds
from loopir.schedule.legality.refusal import refusal, refusal_in_loops_of
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.siblings import (
    band,
    extend_allocs_forward,
    join_nests,
    labels,
    lanes_around,
    require_next,
    retiled_body,
    under_one_guard,
)


@primitive
def fuse_loops(
    func: Func,
    first: str,
    second: str,
    *,
    shift: int | tuple[int, ...] = 0,
    tail: Literal["exact", "guard"] = "exact",
    names: tuple[str, ...] | None = None,
) -> Func:
    """Fuse the nests of `first` and `second`, which stand one right after the other, into one. Two guards of one test
    that are around them become one, and memory that is there for the end of the first is for the second, too.

    With a `shift` the second nest lags: its iteration j runs with iteration j + shift of the first one; a tuple
    shifts, and fuses, that many loops of two perfect nests. A negative shift lets the first nest lag. Extents that
    are not known to be equal are refused, or, with tail="guard", the longer one is run with guards. The loops are
    called as the first nest's, or `names`.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i] * 2.0
            for j in range(n):
                C[j] = B[j] + 1.0
    call:    fuse_loops("i", "j")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i] * 2.0
                C[i] = B[i] + 1.0
    refuses: fuse_loops("j", "i")  # it stands before it

    before:
        def stencil(n: "size", A: "float32[n + 1]", B: "out float32[n + 1]", C: "out float32[n]"):
            for i in range(n + 1):
                B[i] = A[i] * 2.0
            for j in range(n):
                C[j] = B[j] + B[j + 1]
    call:    fuse_loops("i", "j", shift=1)
    after:
        def stencil(n: "size", A: "float32[n + 1]", B: "out float32[n + 1]", C: "out float32[n]"):
            for i in range(n + 1):
                B[i] = A[i] * 2.0
                if 1 <= i:
                    C[i - 1] = B[i - 1] + B[i]
    refuses: fuse_loops("i", "j")                # 'i' runs n + 1 times and 'j' n times
    refuses: fuse_loops("i", "j", tail="guard")  # instead: shift=1

    before:
        def reversed(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i] * 2.0
            for j in range(n):
                C[j] = B[n - 1 - j]
    refuses: fuse_loops("i", "j")  # B at (i=1) writes B[1], which C at (j=0) reads later (at n=2)

    before:
        def blur(n: "size", A: "float32[n, n]", B: "out float32[n, n]", C: "inout float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    B[i, j] = A[i, j] * 2.0
            for y in range(n - 1):
                for x in range(n - 2):
                    C[y, x] = B[y, x] + B[y + 1, x + 2]
    call:    fuse_loops("i", "y", shift=(1, 2))
    after:
        def blur(n: "size", A: "float32[n, n]", B: "out float32[n, n]", C: "inout float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    B[i, j] = A[i, j] * 2.0
                    if 1 <= i and 2 <= j:
                        C[i - 1, j - 2] = B[i - 1, j - 2] + B[i, j]
    refuses: fuse_loops("i", "y", shift=(0, 2), tail="guard")  # instead: shift=(1, 2)

    before:
        def guarded(n: "size", m: "size", A: "float32[n]", B: "inout float32[n]", C: "inout float32[n]"):
            if m < 8:
                for i in range(n):
                    B[i] = A[i] * 2.0
            if m < 8:
                for j in range(n):
                    C[j] = B[j] + 1.0
    call:    fuse_loops("i", "j")
    after:
        def guarded(n: "size", m: "size", A: "float32[n]", B: "inout float32[n]", C: "inout float32[n]"):
            if m < 8:
                for i in range(n):
                    B[i] = A[i] * 2.0
                    C[i] = B[i] + 1.0

    before:
        def after(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            with alloc("float32[n]") as T:
                for k in range(n):
                    T[k] = A[k] * 2.0
                for i in range(n):
                    B[i] = T[n - 1 - i]
            for j in range(n):
                C[j] = A[j] + 1.0
    call:    fuse_loops("i", "j")
    after:
        def after(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            with alloc("float32[n]") as T:
                for k in range(n):
                    T[k] = A[k] * 2.0
                for i in range(n):
                    B[i] = T[n - 1 - i]
                    C[i] = A[i] + 1.0
    """
    top_level_nests_in(func, nests_declaring(first, second))  # by names, which all that follows asks for
    func = extend_allocs_forward(under_one_guard(func, first, second), first, second)
    a, b = find_loop(func, first), find_loop(func, second)
    require_next(func, a, b)
    shifts = shift if isinstance(shift, tuple) else (shift,)
    if not shifts:
        raise ScheduleError("no loop is to be fused", loop=a.var, suggestion="a shift for each loop")
    nests = Nests(func, band(a, len(shifts)), band(b, len(shifts)), tail)
    nests.require_alike()
    if names is not None and len(names) != len(shifts):
        raise ScheduleError(
            f"{len(names)} names are given for {len(shifts)} loops", loop=a.var, suggestion=f"{len(shifts)} names"
        )
    freed = [x.var for x in (*nests.first, *nests.second)]
    vars = new_names(func, [x.var for x in nests.first], names, freed)
    new = nests.fused(shifts, vars)
    origin = nests.origin(shifts, vars)
    clash = violated_dependence(func, new, origin, past=nests.labels)
    if clash is not None:
        fused = join_names(f"{x.var} with {y.var}" for x, y in zip(nests.first, nests.second, strict=True))
        reason = f"fusing {fused} runs these two the other way round"
        raise refusal(clash, reason, a.var, nests.suggestion(vars) or f"keep the two nests for {clash.witness.buffer}")
    with refusal_in_loops_of(func, origin):
        require_loop_kinds(new, [*lanes_around(func, a), *vars])
    return new


@dataclass(frozen=True, slots=True)
class Nests:
    """The loops of the two nests, outermost first, and what to do where their extents differ."""

    func: Func
    first: tuple[Loop, ...]
    second: tuple[Loop, ...]
    tail: str

    @property
    def labels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The statements of the two; those of one keep their order."""
        return labels(self.first[-1].body), labels(self.second[-1].body)

    def require_alike(self) -> None:
        """Refuse loops of different kinds, extents that speak of fused loops, and extents that the nests change."""
        for x, y in zip(self.first, self.second, strict=True):
            if x.kind != y.kind:
                reason = f"{x.var!r} is {x.kind} and {y.var!r} is {y.kind}"
                raise ScheduleError(reason, loop=y.var, suggestion="fuse the loops first, then bind or parallelize")
        for nest in (self.first, self.second):
            fused = {x.var for x in nest}
            for x in nest:
                if bad := sorted(free_vars(x.extent) & fused):
                    reason = f"{x.var!r} runs {text(x.extent)} times, which depends on {join_names(bad)}"
                    raise ScheduleError(reason, loop=x.var, suggestion=f"fuse the loops around {x.var!r} alone")
        require_stable_extent(*self.first, *self.second)
        for x, y in zip(self.first, self.second, strict=True):
            require_known_starts(x, y.extent)
            require_known_starts(y, x.extent)

    def fused(self, shifts: tuple[int, ...], names: list[str]) -> Func:
        facts = Facts.at(self.func, self.first[0])
        one: list[Cond] = []
        other: list[Cond] = []
        heads: list[tuple[str, Index, str]] = []
        for x, y, shift, name in zip(self.first, self.second, shifts, names, strict=True):
            early, late = max(-shift, 0), max(shift, 0)
            extent = self._extent(facts, x, y, early, late)
            one += _runs_while(facts, name, early, x.extent, extent)
            other += _runs_while(facts, name, late, y.extent, extent)
            heads.append((name, extent, x.kind))
        mine = _shift_body(self.first, heads, [max(-s, 0) for s in shifts], one, facts)
        theirs = _shift_body(self.second, heads, [max(s, 0) for s in shifts], other, facts)
        body = (*guard_body(mine, one), *guard_body(theirs, other))
        for name, extent, kind in reversed(heads):
            body = (Loop(name, extent, kind, body),)
        return join_nests(self.func, self.first[0], self.second[0], body[0])

    def _extent(self, facts: Facts, x: Loop, y: Loop, early: int, late: int) -> Index:
        """Iterations until both loops have ended; refuses where a guard at the end was not asked for."""
        one, other = x.extent + early, y.extent + late
        if facts.equal(one, other):
            return facts.tidy(one)
        if self.tail == "exact" and not facts.equal(x.extent, y.extent):
            sizes = (x.extent, y.extent)
            assume = (
                "" if any(isinstance(e, Int) for e in sizes) else f", or assume({text(sizes[0])} == {text(sizes[1])})"
            )
            reason = f"{x.var!r} runs {text(sizes[0])} times and {y.var!r} {text(sizes[1])} times"
            raise ScheduleError(reason, loop=x.var, suggestion=f'tail="guard"{assume}')
        return facts.tidy(maximum(one, other))

    def origin(self, shifts: tuple[int, ...], names: list[str]) -> dict[str, Origin]:
        out: dict[str, Origin] = {}
        for nest, sign in ((self.first, -1), (self.second, 1)):
            lags = [max(sign * s, 0) for s in shifts]
            back = {x.var: Var(name) - lag for x, name, lag in zip(nest, names, lags, strict=True)}
            out |= {label: Origin(label, back) for label in labels(nest[-1].body)}
        return out

    def suggestion(self, names: list[str]) -> str | None:
        """The least shift that is legal."""
        pairs = [(x.var, y.var) for x, y in zip(self.first, self.second, strict=True)]
        shifts = least_shifts(self.func, *self.labels, pairs)
        if shifts is None:
            return None
        new, origin = self.fused(shifts, names), self.origin(shifts, names)
        if violated_dependence(self.func, new, origin, past=self.labels) is not None:
            return None
        return f"shift={shifts[0] if len(shifts) == 1 else shifts}"


def _runs_while(facts: Facts, name: str, lag: int, extent: Index, fused: Index) -> list[Cond]:
    """When a loop of `extent` that starts `lag` iterations late runs; what always holds is left out."""
    start: list[Cond] = [Cmp("<=", Int(lag), Var(name))] if lag else []
    ends = facts.at_least(extent + lag - fused, 0)
    return start if ends else [*start, Cmp("<", Var(name), facts.tidy(extent + lag))]


def _shift_body(
    nest: tuple[Loop, ...], heads: list[tuple[str, Index, str]], lags: list[int], guards: list[Cond], facts: Facts
) -> Body:
    """The body of `nest` in the fused loops, each so many iterations late, where `guards` hold."""
    known = facts.place
    for x, (name, extent, _) in zip(nest, heads, strict=True):
        known = known.loop(name, extent, x.body, was=x.var)
    names = [name for name, _, _ in heads]
    position = [Var(name) - lag for name, lag in zip(names, lags, strict=True)]
    return retiled_body(nest, names, position, known.given(conj(*guards)) if guards else known)
