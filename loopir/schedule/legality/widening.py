"""Check a reduction without a start whose iteration domain is widened.

Guards that speak of what it is over are left aside there, and loops that it is over may have no iterations: then there
are elements that nothing touched before, which may be out of bounds, another's, or of an iteration that runs at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopir.analysis.dependence.depend import loop_carried
from loopir.analysis.dependence.reordering import Origins
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.arith.simplify import Context, nonnegative, poly
from loopir.errors import ScheduleError
from loopir.ir.grammar import THREAD_AXES, Func, If, Int, Loop, Reduce, Stmt, conjuncts
from loopir.ir.traverse.walk import StmtPath, free_vars, leaf_paths_of, replace
from loopir.schedule.legality.loop_kinds import IN_ORDER
from loopir.schedule.legality.refusal import refusal, refusal_in_loops_of, side_in_loops_of

INSTEAD = "conditions that speak of no reduced loop"


def may_touch_more(place: StmtPath, around: Iterable[Stmt], known: Context) -> bool:
    """Whether the reduction at `place`, inside `around`, may leave elements alone which its other loops give."""
    s = place.stmt
    assert isinstance(s, Reduce)
    over = frozenset(s.over)
    for x in around:
        if isinstance(x, Loop) and x.var in over:
            if not (x.extent.value > 0 if isinstance(x.extent, Int) else nonnegative(poly(x.extent - 1, known), known)):
                return True
        elif isinstance(x, If) and not all(free_vars(t).isdisjoint(over) for t in conjuncts(x.cond)):
            return True
    return False


def require_inside_shapes(func: Func, new: Func, label: str, came: Origins, what: str) -> None:
    """Refuse if statement `label` of `new` may touch what is no element."""
    found = find_out_of_bounds(new, label)
    if found is not None:
        found = replace(found, iteration=side_in_loops_of(func, came, label, found.iteration, found.sizes)[1])
        reason = f"{what} where it is not touched now: {found}"
        raise ScheduleError(reason, suggestion=f"{INSTEAD} and keep {found.buffer} inside its shape")


def require_apart_at_once(func: Func, new: Func, label: str, came: Origins, what: str) -> None:
    """Refuse if iterations that run at once, around statement `label` of `new`, touch one element there."""
    place = next((p for p in leaf_paths_of(new) if p.stmt.label == label), None)
    for x in place.loops if place is not None else ():
        if x.kind not in IN_ORDER:
            clash = loop_carried(new, x.var, together=x.kind in THREAD_AXES)
            if clash is not None:
                with refusal_in_loops_of(func, came):
                    raise refusal(clash, f"{what} in iterations of {x.var!r} that run at once", x.var, INSTEAD)
