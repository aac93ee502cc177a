"""What a reduction without a start touches where it is done for all elements that its loops and guards give.

Guards that speak of what it is over are left aside there, and loops that it is over may have no iterations: then there
are elements that nothing touched before, which may be out of bounds, another's, or of an iteration that runs at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopir.analysis.bounds import outside
from loopir.analysis.depend import carried
from loopir.analysis.moved import Origin
from loopir.analysis.simplify import Context, nonnegative, poly
from loopir.errors import ScheduleError
from loopir.ir.grammar import THREAD_AXES, Func, If, Int, Loop, Reduce, Stmt, conjuncts
from loopir.ir.walk import Place, places_of, replace, variables
from loopir.schedule.promises import IN_ORDER
from loopir.schedule.refusal import refusal, side_told, told_as

INSTEAD = "conditions that speak of no reduced loop"


def touches_more(place: Place, around: Iterable[Stmt], known: Context) -> bool:
    """Whether the reduction at `place`, inside `around`, may leave elements alone which its other loops give."""
    s = place.stmt
    assert isinstance(s, Reduce)
    over = frozenset(s.over)
    for x in around:
        if isinstance(x, Loop) and x.var in over:
            if not (x.extent.value > 0 if isinstance(x.extent, Int) else nonnegative(poly(x.extent - 1, known), known)):
                return True
        elif isinstance(x, If) and not all(variables(t).isdisjoint(over) for t in conjuncts(x.cond)):
            return True
    return False


def require_inside_shapes(func: Func, new: Func, label: str, came: Origin, what: str) -> None:
    """Refuse if statement `label` of `new` may touch what is no element."""
    found = outside(new, label)
    if found is not None:
        found = replace(found, iteration=side_told(func, came, label, found.iteration, found.sizes)[1])
        reason = f"{what} where it is not touched now: {found}"
        raise ScheduleError(reason, suggestion=f"{INSTEAD} and keep {found.buffer} inside its shape")


def require_apart_at_once(func: Func, new: Func, label: str, came: Origin, what: str) -> None:
    """Refuse if iterations that run at once, around statement `label` of `new`, touch one element there."""
    place = next((p for p in places_of(new) if p.stmt.label == label), None)
    for x in place.loops if place is not None else ():
        if x.kind not in IN_ORDER:
            clash = carried(new, x.var, together=x.kind in THREAD_AXES)
            if clash is not None:
                with told_as(func, came):
                    raise refusal(clash, f"{what} in iterations of {x.var!r} that run at once", x.var, INSTEAD)
