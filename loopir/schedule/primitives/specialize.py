"""specialize: a second version of a loop for when a condition holds, where the condition simplifies it."""

from __future__ import annotations

from dataclasses import replace

from loopir.analysis.access import sees
from loopir.analysis.simplify import simplify_cond
from loopir.analysis.simplify_func import simplify_body
from loopir.errors import ParseError, ScheduleError
from loopir.ir.grammar import FALSE, TRUE, Body, Cond, Func, If, Loop, Reduce
from loopir.ir.parse import condition
from loopir.ir.text import text
from loopir.ir.walk import bodies, loops, names, places, rewrite, variables
from loopir.schedule.facts import known_at
from loopir.schedule.find import find_loop, listing
from loopir.schedule.naming import fresh_copy
from loopir.schedule.promises import require_outside_lanes
from loopir.schedule.schedule import primitive


@primitive
def specialize(func: Func, loop: str, when: str) -> Func:
    """Make a version of `loop` for where `when` holds, and keep the loop as it is for where it does not.

    `when` is a condition on sizes and on the loops around, as text. The version keeps the names and is simplified by
    what `when` says, so that it can be scheduled further; the names of the other get numbers.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range((n + 3) // 4):
                for j in range(4):
                    if i * 4 + j < n:
                        B[i * 4 + j] = A[i * 4 + j]
    call:    specialize("i", "n % 4 == 0")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            if n % 4 == 0:
                for i in range(n // 4):
                    for j in range(4):
                        B[i * 4 + j] = A[i * 4 + j]
            else:
                for i_1 in range((n + 3) // 4):
                    for j_1 in range(4):
                        if i_1 * 4 + j_1 < n:
                            B[i_1 * 4 + j_1] = A[i_1 * 4 + j_1]
    refuses: specialize("i", "m > 4")   # is no condition on n
    refuses: specialize("j", "j == 0")  # speaks of 'j', which stands inside
    refuses: specialize("i", "n >= 0")  # always holds
    """
    target = find_loop(func, loop)
    require_outside_lanes(func, target)
    around = _around(func, target)
    cond = _condition(func, when, target, around)
    _require_whole_reductions(target)
    known = known_at(func, target)
    decided = simplify_cond(cond, known.here)
    if decided in (TRUE, FALSE):
        always = "always holds" if decided == TRUE else "never holds"
        raise ScheduleError(f"{text(cond)} {always} where {target.var!r} stands", loop=target.var,
                            suggestion="leave the loop as it is")  # fmt: skip
    version = simplify_body((target,), known.given(cond))
    made = If(cond, version, fresh_copy(func, (target,), names(func)))
    return replace(func, body=rewrite(func.body, lambda s: made if s is target else None))


def _around(func: Func, target: Loop) -> tuple[str, ...]:
    """The loops around `target`."""

    def path(body: Body) -> tuple[str, ...] | None:
        for s in body:
            if s is target:
                return ()
            own = (s.var,) if isinstance(s, Loop) else ()
            for inner in bodies(s):
                if (rest := path(inner)) is not None:
                    return (*own, *rest)
        return None

    return path(func.body) or ()


def _condition(func: Func, when: str, target: Loop, around: tuple[str, ...]) -> Cond:
    """`when`, which may speak of sizes and of the loops around `target`."""
    inside = [x.var for x in loops((target,))]
    try:
        cond = condition(when, [*func.sizes, *(x.var for x in loops(func.body))])
    except ParseError:
        cond = None
    if cond is None or not sees(cond):
        there = listing([*func.sizes, *around])
        raise ScheduleError(f"{when!r} is no condition on {there}", loop=target.var,
                            suggestion="comparisons, as in \"n % 4 == 0 and n > 8\"")  # fmt: skip
    if bad := [v for v in inside if v in variables(cond)]:
        raise ScheduleError(f"{when!r} speaks of {listing(map(repr, bad))}, which stands inside", loop=target.var,
                            suggestion="a condition on sizes and on loops around the loop")  # fmt: skip
    if bad := sorted(variables(cond) - {*func.sizes, *around}):
        raise ScheduleError(f"{when!r} speaks of {listing(map(repr, bad))}, which does not stand around "
                            f"{target.var!r}", loop=target.var)  # fmt: skip
    return cond


def _require_whole_reductions(target: Loop) -> None:
    """Refuse if a reduction that starts outside `target` goes on in it: two versions would start it twice."""
    inside = {x.var for x in loops((target,))}
    for place in places((target,)):
        s = place.stmt
        if isinstance(s, Reduce) and s.init is not None and not set(s.over) <= inside:
            outside = listing(v for v in s.over if v not in inside)
            raise ScheduleError(f"{s.label} folds over {outside}, too, which stands around {target.var!r}",
                                loop=target.var, suggestion=f"specialize {outside}")  # fmt: skip
