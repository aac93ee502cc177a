"""wavefront: skew a nest so that the iterations of one diagonal are independent, and run diagonal after diagonal."""

from __future__ import annotations

from loopir.analysis.dependence.reordering import distances, permutation_invariant
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Loop, Var
from loopir.schedule.core.find import find_serial
from loopir.schedule.legality.loop_kinds import require_independent
from loopir.schedule.legality.refusal import refusal_inside
from loopir.schedule.primitives.loops.reorder import in_order
from loopir.schedule.primitives.loops.skew import delay, skew
from loopir.schedule.schedule import primitive

STEEPEST = 4


@primitive
def wavefront(func: Func, outer: str, inner: str, factor: int | None = None) -> Func:
    """Skew `inner` by `factor` and put it outside `outer`, whose iterations are independent then.

    Legal where the two loops are nested perfectly and every dependence goes forward once it is skewed. Without a
    `factor` it is the least of 1 to 4 that does it. Afterwards `outer` can be parallel, vectorized or bound, and
    partition takes its guard away.

    before:
        def f(n: "size", m: "size", a: "inout float32[n + 1, m + 1]"):
            for i in range(n):
                for j in range(m):
                    a[i + 1, j + 1] = a[i, j + 1] + a[i + 1, j]
    call:    wavefront("i", "j")
    after:
        def f(n: "size", m: "size", a: "inout float32[n + 1, m + 1]"):
            for j in range(m + n - 1):
                for i in range(n):
                    if i <= j and j < m + i:
                        a[i + 1, j - i + 1] = a[i, j - i + 1] + a[i + 1, j - i]

    before:
        def g(n: "size", a: "inout float32[n + 2, n + 2]"):
            for i in range(n):
                for j in range(n):
                    a[i + 1, j] = a[i, j + 2] + a[i + 1, j + 1]
    refuses: wavefront("i", "j", 1)  # skewed by 1, the order j and i runs these two the other way round

    before:
        def total(n: "size", A: "float32[n, n]", S: "inout float32[1]"):
            for i in range(n):
                for j in range(n):
                    S[0] = S[0] * A[i, j]
    refuses: wavefront("i", "j")  # no factor up to 4 makes the iterations of 'i' independent
    """
    find_serial(func, outer)
    if factor is not None:
        return _front(func, outer, inner, factor)
    refused: ScheduleError | None = None
    for steeper in range(1, STEEPEST + 1):
        try:
            return _front(func, outer, inner, steeper)
        except ScheduleError as error:
            if error.witness is None:
                raise
            refused = error
    assert refused is not None
    reason = (
        f"no factor up to {STEEPEST} makes the iterations of {outer!r} independent; with {STEEPEST}, {refused.reason}"
    )
    raise ScheduleError(reason, loop=outer, witness=refused.witness, suggestion="loops with a shorter dependence")


def _ahead(func: Func, outer: Loop, inner: Loop, factor: int) -> bool:
    """Whether of two dependent instances in different iterations the later one is seen to be on a later front."""
    found = distances(func, outer, (outer.var, inner.var))
    if found is None:
        return permutation_invariant(func, outer, [outer.var, inner.var], folds_commute=False)
    fronts = ((by, factor * by[0] + by[1]) for by in found - {(0, 0)})
    return all(front > 0 if by > (0, 0) else front < 0 for by, front in fronts)


def _front(func: Func, outer: str, inner: str, factor: int) -> Func:
    a, b = find_serial(func, outer), find_serial(func, inner)
    try:
        new = skew(func, a.var, b.var, factor)
        free = _ahead(func, a, b, factor)
        with refusal_inside(func, {b.var: (Var(b.var) - delay(a, factor),)}):
            new = in_order(new, [b.var, a.var], free=free)
            if not free:
                require_independent(new, a.var, "parallel")
    except ScheduleError as error:
        error.reason = f"skewed by {factor}, {error.reason}"
        raise
    return new
