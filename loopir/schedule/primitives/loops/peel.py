"""peel: the first or the last iterations of a loop get a loop of their own."""

from __future__ import annotations

from loopir.errors import ParseError, ScheduleError
from loopir.ir.grammar import Body, Func, Index, Int, Loop, Reduce
from loopir.ir.parser.parse import mapping
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, leaf_paths, path_to, replace_loop
from loopir.schedule.core.facts import Facts
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.core.naming import UsedNames
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.loop_kinds import require_outside_lanes, require_still_together
from loopir.schedule.legality.reduction_starts import require_starts_in_parts
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import loop_part

_CUT_ANYWHERE = ("serial", "parallel")
"""Kinds of loops whose parts may have any number of iterations, another in each iteration of those around."""


@primitive
def peel(func: Func, loop: str, *, first: int | str = 0, last: int = 0) -> Func:
    """Give the `first` iterations of `loop`, and the `last` ones, loops of their own: `i_first` and `i_last`.

    The iterations stay in order, so at a number it is always legal. A reduction over the loop starts in the first of
    the loops.
    Where there are not so many iterations, the first ones come first. `first` may be text, of sizes and loops around:
    the loop is cut where it passes that, and not at all where that is below 0. Then the loop has to be serial or
    parallel, as do those that it speaks of, over none of which a fold inside goes that starts outside of them.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            assume(3 <= n)
            for i in range(n):
                B[i] = select(i < 1, A[i], A[i] + A[i - 1])
    call:    peel("i", first=1)
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            assume(3 <= n)
            for i_first in range(1):
                B[i_first]: "B_1" = A[i_first]
            for i in range(n - 1):
                B[i + 1] = A[i + 1] + A[i]
    call:    peel("i", last=2)
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            assume(3 <= n)
            for i in range(n - 2):
                B[i] = select(i < 1, A[i], A[i] + A[i - 1])
            for i_last in range(2):
                B[n + i_last - 2] = A[n + i_last - 2] + A[n + i_last - 3]
    refuses: peel("i")                  # no iterations are to be peeled
    refuses: peel("i", first=-1)        # -1 iterations

    before:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            for k in range(n):
                S[0] = sum(A[k], over=k, init=0.0)
    call:    peel("k", first=1)
    after:
        def total(n: "size", A: "float32[n]", S: "out float32[1]"):
            for k_first in range(min(n, 1)):
                S[0] = sum(A[k_first], over=k_first, init=0.0, label="S_1")
            for k in range(n - 1):
                S[0] = sum(A[k + 1], over=k)

    before:
        def paths(n: "size", d: "inout float32[n]"):
            for k in range(n):
                for i in range(n):
                    d[i] = minimum(d[i], d[k] + 1.0)
    call:    peel("i", first="k")
    after:
        def paths(n: "size", d: "inout float32[n]"):
            for k in range(n):
                for i_first in range(k):
                    d[i_first]: "d_1" = minimum(d[i_first], d[k] + 1.0)
                for i in range(n - k):
                    d[k + i] = minimum(d[k + i], d[k] + 1.0)
    refuses: peel("i", first="i")    # 'i' is no number of iterations
    refuses: peel("k", first="d")    # 'd' is no number of iterations
    refuses: peel("k", first="n")    # all n iterations of 'k' would be peeled

    before:
        def two(A: "float32[2]", B: "out float32[2]"):
            for i in range(2):
                B[i] = A[i]
    refuses: peel("i", first=1, last=1)  # all 2 iterations of 'i'
    """
    target = find_loop(func, loop)
    require_outside_lanes(func, target)
    begun = Int(first) if isinstance(first, int) else _iterations_spelled(func, target, first)
    if last < 0 or (isinstance(begun, Int) and begun.value < 0):
        count = min(last, begun.value) if isinstance(begun, Int) else last
        raise ScheduleError(f"{count} iterations are to be peeled", loop=target.var, suggestion="first=1")
    if begun == Int(0) and not last:
        raise ScheduleError("no iterations are to be peeled", loop=target.var, suggestion="first=1, or last=1")
    require_stable_extent(target)
    if not isinstance(begun, Int):
        _require_cut_alike(func, target, begun)
    facts = Facts.at(func, target)
    if facts.at_least(begun + last - target.extent, 0):
        reason = f"all {text(target.extent)} iterations of {target.var!r} would be peeled"
        raise ScheduleError(reason, loop=target.var, suggestion=f"less than {text(target.extent)} in all")
    require_starts_in_parts(func, target)
    new = replace_loop(func, target.var, lambda _: _peeled(func, facts, target, begun, last))
    require_still_together(func, new, target)
    return new


def _require_cut_alike(func: Func, target: Loop, begun: Index) -> None:
    """Refuse to cut a loop at `begun` iterations where these have to be a constant, have to be the same for all that
    run together, or tell apart what a fold starts from."""
    if target.kind not in _CUT_ANYWHERE:
        reason = f"the parts of {target.var!r}, which is written as {target.kind}, would have no constant length"
        raise ScheduleError(reason, loop=target.var, suggestion="a number, or a loop that is serial or parallel")
    asked = free_vars(begun)
    for x in path_to(func, target)[:-1]:
        if isinstance(x, Loop) and x.var in asked and x.kind not in _CUT_ANYWHERE:
            reason = f"{target.var!r} would be cut where {x.var!r} tells, whose iterations run together"
            raise ScheduleError(reason, loop=target.var, suggestion="sizes, and loops that are serial or parallel")
    for place in leaf_paths((target,)):
        r = place.stmt
        if isinstance(r, Reduce) and r.init is not None and target.var not in r.over and asked & set(r.over):
            reason = f"{r.label} starts outside of {min(asked & set(r.over))!r}, which would tell its elements inside"
            raise ScheduleError(reason, loop=target.var, suggestion=f"decompose_reduction({r.label!r}) first")


def _iterations_spelled(func: Func, target: Loop, first: str) -> Index:
    """The iterations that `first`, text of sizes and of loops around `target`, spells."""
    around = [x.var for x in path_to(func, target)[:-1] if isinstance(x, Loop)]
    try:
        _, (count,) = mapping(f"lambda: ({first},)", [*func.sizes, *around])
    except (ParseError, ValueError):
        there = join_names([*func.sizes, *around])
        raise ScheduleError(f"{first!r} is no number of iterations", loop=target.var,
                            suggestion=f"one made of {there}" if there else "a number") from None  # fmt: skip
    return count


def _peeled(func: Func, facts: Facts, loop: Loop, first: Index, last: int) -> Body:
    taken = UsedNames.of(func)
    n, known = loop.extent, facts.place
    some = first != Int(0)
    first = facts.greater(first, Int(0))
    begun: Index = facts.less(n, first) if some else Int(0)
    middle, end = n - first - last, n - last
    if last and not facts.at_least(n - first, last):
        end = facts.greater(end, begun)
        middle = end - begun
    out: Body = ()
    if some:
        name = taken.name(f"{loop.var}_first")
        out = (loop_part(loop, Int(0), begun, name, known, goes_on=False, copy=taken, begins=True),)
    side = bool(last) if not (some and last) else None
    out = (*out, loop_part(loop, begun, middle, loop.var, known, goes_on=some, begins=side))
    if last:
        name = taken.name(f"{loop.var}_last")
        out = (*out, loop_part(loop, end, n - end, name, known, goes_on=True, copy=taken, begins=False))
    return out
