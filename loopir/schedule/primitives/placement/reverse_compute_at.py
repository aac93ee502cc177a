"""reverse_compute_at: a stage is computed inside a loop of what it reads, as soon as an iteration has finished that."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from loopir.analysis.dependence.access import guarded_loads, is_affine_visible
from loopir.analysis.dependence.reordering import Asks, violated_dependence
from loopir.analysis.regions.footprint import written_by
from loopir.arith.poly import constant_part
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Load, Reduce
from loopir.ir.traverse.walk import free_vars, leaf_paths, loaded_buffers
from loopir.schedule.core.facts import known_in
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.legality.effects import allocates
from loopir.schedule.legality.reductions import over_more_loops
from loopir.schedule.legality.refusal import refusal, refusal_in_loops_of
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.placement import (
    Move,
    MovedNest,
    find_move,
    keep_loop_kinds,
    move_nest,
    require_each_once,
    require_repeatable,
    require_sole_writer,
    starts_inside,
)
from loopir.schedule.transform.restriction import Restriction
from loopir.schedule.transform.shrink_alloc import iteration_footprint, shrink_where_possible
from loopir.schedule.transform.sliding import in_order, nest_carries, sliding_lag, touched_in_one_iteration
from loopir.schedule.transform.split_range import drop_unused_over


@primitive
def reverse_compute_at(func: Func, stage: str, loop: str) -> Func:
    """Compute `stage` at the end of `loop`, which computes what it reads: in each iteration what that has finished.

    Each element is computed once, in the iteration that completes what it is computed from. Where a buffer is then
    used in the loop alone, it becomes the iteration's own, and no larger than that takes.

    before:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n]"):
            with alloc("float32[n]") as S:
                for i in range(n):
                    for k in range(8):
                        S[i] = sum(A[i, k], over=k, init=0.0)
                for j in range(n):
                    B[j] = maximum(S[j], 0.0)
    call:    reverse_compute_at("B", "i")
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n]"):
            for i in range(n):
                with alloc("float32[1]") as S:
                    for k in range(8):
                        S[0] = sum(A[i, k], over=k, init=0.0)
                    for j in range(1):
                        B[i + j] = maximum(S[j], 0.0)
    refuses: reverse_compute_at("B", "k")  # more than one iteration of 'k' would compute B at (j=0)
    refuses: reverse_compute_at("S", "j")  # S runs before 'j'

    before:
        def g(n: "size", A: "float32[n]", T: "out float32[n]", B: "out float32[n]"):
            for i in range(n):
                T[i] = A[i] * 2.0
            for j in range(n):
                B[j] = T[j] + T[n - 1 - j]
    refuses: reverse_compute_at("B", "i")  # T at (i=1) writes T[1], which B at (j=0) reads later (at n=2)
    """
    return placed(func, stage, loop, settle=True)


def placed(func: Func, stage: str, loop: str, *, settle: bool) -> Func:
    """`reverse_compute_at`; unless `settle`, buffers stay where they are."""
    move = find_move(func, stage, loop)
    if move.earlier:
        raise move.refuse(f"{move.stmt.label} runs before {move.loop.var!r}", "a loop that computes what it reads")
    require_sole_writer(move)
    refused: dict[Load, ScheduleError] = {}
    anchors = _anchors(move)
    for anchor in furthest_first(anchors):
        try:
            return _compute_at_anchor(move, anchor, settle)
        except ScheduleError as error:
            refused[anchor] = error
    wider = over_more_loops(func, move.place)
    if wider is not None:
        with suppress(ScheduleError):
            return placed(wider, stage, loop, settle=settle)
    raise refused[anchors[0]]


def _anchors(move: Move) -> list[Load]:
    """What the stage reads of what the loop writes: one of these elements tells the iteration to compute in."""
    made = {b.name for p in leaf_paths(move.loop.body) for b in written_by(p.stmt)}
    found = [n for n, _ in guarded_loads(move.stmt) if n.buffer.name in made and all(map(is_affine_visible, n.at))]
    if not found:
        reason = f"{move.stmt.label} reads nothing that {move.loop.var!r} writes"
        raise move.refuse(reason, "a loop that computes what it reads")
    return [*{(n.buffer.name, n.at): n for n in found}.values()]


def furthest_first(anchors: Sequence[Load]) -> list[Load]:
    """The anchors, those with greater subscripts first: of a neighbourhood, the last to be written mostly."""
    start = [constant_part(x) for x in anchors[0].at]

    def key(load: Load) -> list[int]:
        ahead = zip(map(constant_part, load.at), start, strict=False)
        return [c - k if x == y else 0 for (x, c), (y, k) in ahead]

    return sorted(anchors, key=key, reverse=True)


def _compute_at_anchor(move: Move, anchor: Load, settle: bool) -> Func:
    """The stage computed in the iteration that writes the element `anchor`."""
    func, b = move.func, anchor.buffer
    known = known_in(func, move.loop)
    box = iteration_footprint(func, move.loop, b, {b.name}, write=True, known=known)
    assert box is not None
    restriction = Restriction.to(box, anchor.at, move.own_loops, move.over, known)
    _require_whole_folds(move, restriction)
    require_repeatable(move, restriction.ranges)
    nest = drop_unused_over(restriction.apply(move.tree))
    after = move_nest(move, nest, restriction.origin(), first=False)
    _require_elements_apart(move, after)
    behind = sliding_lag(move, restriction)
    if behind is None:
        require_each_once(move, after)
    ordered = behind is not None and in_order(move, behind)
    if not ordered:
        _require_order(move, after)
    new = after.func
    for names in _groups(move) if settle else ():
        if behind is None or not nest_carries(move, behind, names):
            own = behind is not None and ordered and touched_in_one_iteration(move, behind, names)
            where = after.loop if new is after.func else find_loop(new, move.loop.var)
            new = shrink_where_possible(new, names, where, apart=own)
    with refusal_in_loops_of(func, after.origin):
        return keep_loop_kinds(move, new)


def _require_order(move: Move, after: MovedNest) -> None:
    private = allocates((move.tree,))
    asks: Asks = lambda buffer, one, other: buffer not in private  # noqa: E731
    clash = violated_dependence(move.func, after.gap, after.origin, asks=asks, moving=move.labels)
    if clash is not None:
        reason = f"in {move.loop.var!r}, these two would run the other way round"
        raise refusal(clash, reason, move.loop.var, f"keep {move.stmt.label} where it is, or an outer loop")


def _groups(move: Move) -> list[set[str]]:
    """The buffers that the stage reads of what the loop writes: those that one reduction fills, together."""
    read = loaded_buffers(move.stmt)
    groups: list[set[str]] = []
    for p in leaf_paths(move.loop.body):
        names = {b.name for b in written_by(p.stmt)}
        if names & read:
            met = [g for g in groups if g & names]
            groups = [*(g for g in groups if not g & names), names.union(*met)]
    return groups


def _require_whole_folds(move: Move, restriction: Restriction) -> None:
    """Refuse if only a part would be there of what a reduction folds that starts over in each iteration."""
    if not starts_inside(move):
        return
    for c in restriction.undecided():
        if cut := sorted(free_vars(c) & set(move.over)):
            reason = (
                f"an iteration of {move.loop.var!r} has not all that {move.stmt.label} folds over {join_names(cut)}"
            )
            raise move.refuse(reason, "an outer loop")


def _require_elements_apart(move: Move, after: MovedNest) -> None:
    """Refuse if a loop that the stage folds over, from a start, would now tell the element that it folds into."""
    for p in leaf_paths(after.loop.body) if isinstance(move.stmt, Reduce) else ():
        if p.stmt.label == move.stmt.label and isinstance(p.stmt, Reduce):
            at = set[str]().union(*map(free_vars, p.stmt.at))
            if told := sorted(at & set(p.stmt.over)):
                reason = f"in {move.loop.var!r}, where {p.stmt.label} folds to would depend on {join_names(told)}"
                reason += ", which it folds over"
                raise move.refuse(reason, f"keep {p.stmt.label} where it is")
