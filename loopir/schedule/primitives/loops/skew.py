"""skew: the iterations of an inner loop move further with each iteration of a loop around it."""

from __future__ import annotations

from loopir.analysis.regions.retile import Retiling
from loopir.errors import ScheduleError
from loopir.ir.grammar import Cmp, Func, If, Index, Loop, Reduce, Stmt, Var, conj
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, loops, replace_loop, statements
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, find_serial
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.loop_kinds import require_outside_lanes, require_still_together
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import drop_unused_over


@primitive
def skew(func: Func, outer: str, inner: str, factor: int = 1) -> Func:
    """Start `inner` later by `factor` with each iteration of `outer`: what was iteration j is j + factor * i.

    The iterations stay in order, so it is always legal; what it makes legal is to reorder the two loops, where a
    dependence went from one iteration of `outer` back to a lower `inner`. The loop gets as long as all positions
    need, with a guard; partition takes the guard away again. With a negative `factor` it starts earlier each time.

    before:
        def f(n: "size", m: "size", a: "inout float32[m + 2]"):
            for t in range(n):
                for j in range(m):
                    a[j + 1] = a[j] + a[j + 2]
    call:    skew("t", "j")
    after:
        def f(n: "size", m: "size", a: "inout float32[m + 2]"):
            for t in range(n):
                for j in range(m + n - 1):
                    if t <= j and j < m + t:
                        a[j - t + 1] = a[j - t] + a[j - t + 2]
    call:    skew("t", "j", -2)
    after:
        def f(n: "size", m: "size", a: "inout float32[m + 2]"):
            for t in range(n):
                for j in range(m + n * 2 - 2):
                    if n * 2 - t * 2 - 2 <= j and j < m + n * 2 - t * 2 - 2:
                        a[j - n * 2 + t * 2 + 3] = a[j - n * 2 + t * 2 + 2] + a[j - n * 2 + t * 2 + 4]
    refuses: skew("t", "j", 0)  # a factor of 0
    refuses: skew("j", "t")     # 't' does not stand inside 'j'

    before:
        def column_sums(A: "float32[8, 8]", S: "out float32[8]"):
            for i in range(8):
                for j in range(8):
                    S[j] = sum(A[i, j], over=i, init=0.0)
    refuses: skew("i", "j")  # S starts before 'i', at elements that 'j' gives
    """
    a, b = find_loop(func, outer), find_serial(func, inner)
    if factor == 0:
        raise ScheduleError("a factor of 0 leaves the loop as it is", loop=b.var, suggestion="a factor of 1")
    if not any(x is b for x in loops(a.body)):
        around = any(x is a for x in loops(b.body))
        hint = f'skew("{b.var}", "{a.var}")' if around else "two loops, one inside the other"
        raise ScheduleError(f"{b.var!r} does not stand inside {a.var!r}", loop=b.var, suggestion=hint)
    if a.var in free_vars(b.extent):
        reason = f"{b.var!r} runs {text(b.extent)} times, which depends on {a.var!r}"
        raise ScheduleError(reason, loop=b.var, suggestion="skew a loop of constant length")
    require_outside_lanes(func, b)
    require_stable_extent(a, b)
    _require_starts_inside(a, b)
    new = replace_loop(func, b.var, lambda _: _skewed(Facts.at(func, b), a, b, factor))
    require_still_together(func, new, b)
    return new


def _skewed(facts: Facts, outer: Loop, inner: Loop, factor: int) -> Stmt:
    later = facts.tidy(delay(outer, factor))
    at, size = Var(inner.var), facts.tidy(inner.extent + (outer.extent - 1) * abs(factor))
    guard = conj(Cmp("<=", later, at), Cmp("<", at, facts.tidy(inner.extent + later)))
    known = facts.place.loop(inner.var, size, inner.body).given(guard)
    body = drop_unused_over(Retiling({inner.var: at - later}, {}).body(inner.body, known))
    return Loop(inner.var, size, inner.kind, (If(guard, body),))


def delay(outer: Loop, factor: int) -> Index:
    """How much later the inner loop starts in an iteration of `outer`."""
    return Var(outer.var) * factor if factor > 0 else (outer.extent - 1 - Var(outer.var)) * -factor


def _require_starts_inside(outer: Loop, inner: Loop) -> None:
    """Refuse a reduction that starts before `outer` at an element for each iteration of `inner`, which would move."""
    for s in statements(inner.body):
        if isinstance(s, Reduce) and s.init is not None and outer.var in s.over and inner.var not in s.over:
            reason = f"{s.label} starts before {outer.var!r}, at elements that {inner.var!r} gives"
            raise ScheduleError(reason, loop=inner.var, suggestion=f'decompose_reduction("{s.label}") first')
