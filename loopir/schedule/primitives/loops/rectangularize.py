"""rectangularize: a loop whose length depends on loops around it runs as often as it may at most, under a guard."""

from __future__ import annotations

from loopir.analysis.regions.retile import Retiling
from loopir.arith.simplify import simplify_cond
from loopir.arith.upper_bound import upper_bound
from loopir.errors import ScheduleError
from loopir.ir.grammar import TRUE, Cmp, Func, If, Index, Int, Loop, Reduce, Var, conj, conjuncts
from loopir.ir.layout.layouts import reads_only
from loopir.ir.printer import text
from loopir.ir.traverse.walk import guard_body, path_to, replace, replace_loop, statements
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, find_serial
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.loop_kinds import require_outside_lanes, require_still_together
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import drop_unused_over


@primitive
def rectangularize(func: Func, loop: str, *, skewed: str | None = None) -> Func:
    """Run `loop` as often as it runs at most, whatever the loops around it, and skip by a guard what is too much.

    A triangle becomes the rectangle around it: its loops can then change places, and pad takes the guard away where
    the other half may be computed, too. If it is `skewed` by a loop around it, iteration j becomes j + i: rows that
    begin at the diagonal are counted from the first column.

    before:
        def f(n: "size", A: "float32[n, 8]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(i + 1):
                    for k in range(8):
                        C[i, j] = sum(A[i, k] * A[j, k], over=k, init=0.0)
    call:    rectangularize("j")
    after:
        def f(n: "size", A: "float32[n, 8]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    if j < i + 1:
                        for k in range(8):
                            C[i, j] = sum(A[i, k] * A[j, k], over=k, init=0.0)
    refuses: rectangularize("i")  # 'i' runs n times in any case

    before:
        def upper(n: "size", A: "float32[n]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n - i):
                    C[i, i + j] = A[i] * A[i + j]
    call:    rectangularize("j", skewed="i")
    after:
        def upper(n: "size", A: "float32[n]", C: "out float32[n, n]"):
            for i in range(n):
                for j in range(n):
                    if i <= j:
                        C[i, j] = A[i] * A[j]

    before:
        def g(n: "size", count: "int32[n]", A: "float32[n, n]", B: "out float32[n, n]"):
            for i in range(n):
                for j in range(count[i]):
                    B[i, j] = A[i, j]
    refuses: rectangularize("j")  # how often 'j' runs at most is not known
    """
    target = find_serial(func, loop)
    around = {s.var: s.extent for s in path_to(func, target)[:-1] if isinstance(s, Loop)}
    facts, end = Facts.at(func, target), target.extent
    if skewed is not None:
        outer = find_loop(func, skewed).var
        if outer not in around:
            raise ScheduleError(f"{target.var!r} does not stand inside {outer!r}", loop=target.var,
                                suggestion="a loop around it")  # fmt: skip
        _require_starts_inside(target, outer)
        end = facts.tidy(end + Var(outer))
    most = upper_bound(end, around)
    if most is None or not reads_only(most, frozenset(func.sizes)):
        raise ScheduleError(f"how often {target.var!r} runs at most is not known: {text(target.extent)} times",
                            loop=target.var, suggestion=f"keep {target.var!r} as it is")  # fmt: skip
    most = facts.tidy(most)
    most = Int(max(most.value, 0)) if isinstance(most, Int) else most
    if most == target.extent:
        raise ScheduleError(f"{target.var!r} runs {text(most)} times in any case", loop=target.var,
                            suggestion=f"keep {target.var!r} as it is")  # fmt: skip
    require_outside_lanes(func, target)
    require_stable_extent(target)
    new = replace_loop(func, target.var, lambda s: _guard_iterations(facts, s, most, end, skewed))
    require_still_together(func, new, target)
    return new


def _guard_iterations(facts: Facts, s: Loop, most: Index, end: Index, skewed: str | None) -> Loop:
    """`s` as a loop of `most` iterations, of which those before `end` run; with `skewed`, from there on."""
    at = Var(s.var)
    if skewed is None:
        return replace(s, extent=most, body=(If(Cmp("<", at, end), s.body),))
    guard = conj(Cmp("<=", Var(skewed), at), Cmp("<", at, end))
    known = facts.place.loop(s.var, most, s.body).given(guard)
    body = drop_unused_over(Retiling({s.var: at - Var(skewed)}, {}).body(s.body, known))
    inside = facts.place.loop(s.var, most, s.body)  # a fold may start where loops around have no iteration
    tests = tuple(c for c in conjuncts(guard) if any(simplify_cond(c, k) != TRUE for k in (inside.here, inside.start)))
    return replace(s, extent=most, body=guard_body(body, tests))


def _require_starts_inside(inner: Loop, outer: str) -> None:
    """Refuse a reduction that starts before the loop `outer` at an element for each iteration of `inner`."""
    for s in statements(inner.body):
        if isinstance(s, Reduce) and s.init is not None and outer in s.over and inner.var not in s.over:
            reason = f"{s.label} starts before {outer!r}, at elements that {inner.var!r} gives"
            raise ScheduleError(reason, loop=inner.var, suggestion=f'decompose_reduction("{s.label}") first')
