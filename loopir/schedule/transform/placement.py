"""Moving the nest of a stage: where it stands, restricting its loops to a region, and giving its memory to a loop.

The primitives that place stages (`compute_at`, `reverse_compute_at` ...) are made of these. A stage is one statement;
what moves with it is its nest: the outermost statement around it that is not around the loop it moves to. A nest that
is restricted runs a part of its iterations in the order it had, so nothing is asked of the store but that the region
holds what is needed of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loopir.analysis.dataflow.coverage import Values, find_duplicate, find_missing, first_statement, is_covered
from loopir.analysis.dependence.access import Statement, statements_in
from loopir.analysis.dependence.depend import Clash, Pair, before, conflicts, instance_times, loop_carried
from loopir.analysis.dependence.reordering import Origin
from loopir.analysis.regions.footprint import written_by
from loopir.arith.poly import expand_index, poly_add, to_index
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    AXES,
    BLOCK_AXES,
    TRUE,
    Alloc,
    Body,
    Buffer,
    FloorDiv,
    Func,
    If,
    Index,
    InstrRegion,
    Int,
    Loop,
    Mod,
    Reduce,
    Stmt,
    Store,
    Var,
)
from loopir.ir.traverse.labels import labels_in
from loopir.ir.traverse.memo import cached
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    bodies,
    free_vars,
    leaf_paths,
    leaf_paths_in,
    loops,
    map_body,
    nests,
    nests_touching,
    path_to,
    path_within,
    rebuild_path,
    replace,
    replace_block,
    stored_buffers,
)
from loopir.schedule.core.find import find_loop, find_stage, find_statement, join_names
from loopir.schedule.legality.effects import allocates, reads
from loopir.schedule.legality.loop_kinds import require_loop_kinds, require_outside_lanes
from loopir.schedule.legality.refusal import refusal


@dataclass(frozen=True, slots=True)
class Move:
    """A stage whose nest `tree` moves into `loop`; both stand, in some depth, in the statement list `level`.

    `target` is the statement of that list around `loop`, and `shared` are the statements around the list.
    """

    func: Func
    place: StmtPath
    tree: Stmt
    loop: Loop
    target: Stmt
    level: Body
    shared: tuple[Stmt, ...]

    @property
    def stmt(self) -> Store | Reduce:
        return self.place.stmt

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return written_by(self.stmt)

    @property
    def names(self) -> set[str]:
        return {b.name for b in self.buffers}

    @property
    def labels(self) -> set[str]:
        """The statements that move."""
        return {p.stmt.label for p in leaf_paths((self.tree,))}

    @property
    def passed(self) -> Body:
        """What the nest changes places with or may: it, the nest of the loop, and what stands between."""
        ends = position(self.level, self.tree), position(self.level, self.target)
        return self.level[min(ends) : max(ends) + 1]

    @property
    def own_loops(self) -> tuple[Loop, ...]:
        """The loops of the nest around the stage, outer ones first."""
        inside = {x.var for x in loops((self.tree,))}
        return tuple(x for x in self.place.loops if x.var in inside)

    @property
    def shared_loops(self) -> tuple[str, ...]:
        return tuple(s.var for s in self.shared if isinstance(s, Loop))

    @property
    def path(self) -> tuple[str, ...]:
        """The loops from the list that both stand in to the one it moves to."""
        around = path_within((self.target,), self.loop)
        return tuple(s.var for s in around if isinstance(s, Loop))

    @property
    def over(self) -> tuple[str, ...]:
        return self.stmt.over if isinstance(self.stmt, Reduce) else ()

    @property
    def earlier(self) -> bool:
        """Whether the nest runs before the loop it moves to."""
        return position(self.level, self.tree) < position(self.level, self.target)

    def refuse(self, reason: str, suggestion: str) -> ScheduleError:
        return ScheduleError(reason, loop=self.loop.var, suggestion=suggestion)


def position(body: Body, stmt: Stmt) -> int:
    return next(n for n, s in enumerate(body) if s is stmt)


def find_move(func: Func, stage: str, loop: str) -> Move:
    """`stage` and `loop`, looked up; ScheduleError if the stage is not one statement beside the loop's nest."""
    place, target = find_statement(func, stage, loop), find_loop(func, loop)
    mine, other = (*place.around, place.stmt), path_to(func, target)
    if any(isinstance(s, InstrRegion) for s in (*mine, *other)):
        raise ScheduleError(
            "what one instruction does stays together", loop=loop, suggestion="place it, then tensorize"
        )
    if any(s is target for s in mine):
        raise ScheduleError(
            f"{place.stmt.label} stands inside {target.var!r} already",
            loop=loop,
            suggestion="a loop that it does not stand in; reorder, distribute or compute_root move it out of its own",
        )
    depth = next(n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a is not b)
    shared = mine[:depth]
    lists: tuple[Body, ...] = tuple(bodies(shared[-1])) if shared else (func.body,)
    level = next((b for b in lists if any(s is mine[depth] for s in b) and any(s is other[depth] for s in b)), None)
    if level is None:
        raise ScheduleError(
            f"{place.stmt.label} and {target.var!r} stand on two sides of a condition",
            loop=loop,
            suggestion="specialize or peel the loop around the condition first",
        )
    return Move(func, place, mine[depth], target, other[depth], level, shared)


def open_allocs(func: Func, stage: str, loop: str) -> Func:
    """`func` with memory that other nests use, too, allocated around all of its list: so the stage alone can move."""
    place, target = find_stage(func, stage)[0], find_loop(func, loop)
    mine, other = (*place.around, place.stmt), path_to(func, target)
    depth = next((n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a is not b), None)
    alloc = None if depth is None else mine[depth]
    if depth is None or not isinstance(alloc, Alloc) or len(alloc.body) == 1:
        return func
    if (
        depth
        and isinstance(guard := mine[depth - 1], If)
        and any(s is alloc for s in guard.then) != any(s is other[depth] for s in guard.then)
    ):
        return func  # on two sides of a condition, which the step is refused for

    def spread(body: Body) -> Body:
        n = next((n for n, s in enumerate(body) if s is alloc), None)
        return map_body(body, inner) if n is None else (replace(alloc, body=(*body[:n], *alloc.body, *body[n + 1 :])),)

    def inner(s: Stmt) -> Stmt:
        if isinstance(s, If):
            return replace(s, then=spread(s.then), orelse=spread(s.orelse))
        return replace(s, body=spread(s.body)) if isinstance(s, Loop | Alloc) else s

    return open_allocs(replace(func, body=spread(func.body)), stage, loop)


def require_sole_writer(move: Move) -> None:
    """Refuse if another statement writes what the stage does, or if its nest does anything else that is seen."""
    for name in sorted(move.names):
        near = leaf_paths_in(move.func, nests_touching(name))
        writers = [p.stmt.label for p in near if any(b.name == name for b in written_by(p.stmt))]
        if len(writers) > 1:
            reason = f"{name} is written by {join_names(writers)}; a stage that is moved is one statement"
            raise move.refuse(reason, "fuse_loops joins nests of several statements")
    own = allocates((move.tree,)) | move.names
    for p in leaf_paths((move.tree,)):
        for b in written_by(p.stmt):
            if b.name not in own:
                reason = f"{p.stmt.label}, in the nest of {move.stmt.label}, writes {b.name}, and would move with it"
                raise move.refuse(reason, f"distribute the loops that {move.stmt.label} and {p.stmt.label} share")


def require_value(move: Move) -> None:
    """Refuse unless what the stage stores is a function of the element, or of it and what is folded into there."""
    label, names = move.stmt.label, move.names
    if isinstance(move.stmt, Reduce):
        require_folds_inside(move)
    if names & reads([move.stmt]):
        reason = f"{label} is computed from {join_names(sorted(names))} itself"
        raise move.refuse(reason, f"fuse_loops joins its nest with another one, or keep {label} where it is")


def require_folds_inside(move: Move) -> None:
    """Refuse if the stage starts outside the loops that are around both it and the loop it moves to."""
    starts = isinstance(move.stmt, Reduce) and move.stmt.init is not None
    if starts and (outside := [v for v in move.over if v in move.shared_loops]):
        reason = f"{move.stmt.label} folds over {join_names(outside)}, which is around {move.loop.var!r}, too"
        raise move.refuse(reason, "a loop beside all the loops that it folds over")


def other_readers(move: Move) -> set[str]:
    """The statements outside of the loop that read what the stage writes."""
    names, mine, way = move.names, move.labels, {*move.shared_loops, *move.path}

    def inside(s: Statement) -> bool:
        return s.place.is_in(move.loop) and not (s.init and not s.gone.isdisjoint(way))

    near = (s for s in statements_in(move.func, nests_touching(*names)) if s.label not in mine and not inside(s))
    others = (s for s in near if s.uses(names))
    return {s.label for s in others if any(a.buffer in names and not a.write for a in s.accesses)}


def read_later(move: Move) -> Clash | None:
    """A read of what the stage wrote in an earlier iteration of the loops around both: it is not made anew for each."""
    alloc = {s.buffer.name: n for n, s in enumerate(move.place.around) if isinstance(s, Alloc)}
    since = min((alloc.get(name, -1) for name in move.names), default=-1)
    inside = [s.var for s in move.shared[since + 1 :] if isinstance(s, Loop)]
    if not inside:
        return None
    every = statements_in(move.func, nests_touching(*move.names))
    for maker in (s for s in every if s.label == move.stmt.label):
        end = maker.when.index(inside[-1]) + 1
        start = maker.when[:end]
        earlier = before(instance_times(start, "s"), instance_times(start, "t"))
        for reader in (s for s in every if s.label != maker.label and s.when[:end] == start):
            for a, b in conflicts(maker, reader) if not reader.touches.isdisjoint(move.names) else ():
                read = a.write and not b.write and a.buffer in move.names
                if read and (found := next(Pair(move.func, maker, a, reader, b).clashes(earlier), None)):
                    return found
    return None


def may_turn(move: Move, own: bool) -> bool:
    """Whether two dependent instances may come to run the other way round, by what is written and used alone.

    One of the two is the nest's that moves, and the other stands in what that passes: all others keep their order. The
    memory that lives in the nest is each iteration's own; so is what the stage writes, unless `own` is asked, too.
    """
    shared = accessed_buffers(move.tree) - allocates((move.tree,)) - move.names
    return own or any(not shared.isdisjoint(stored_buffers(s)) for s in move.passed)


def require_repeatable(move: Move, ranges: Iterable[str]) -> None:
    """Refuse if the nest carries values from one iteration of a loop to another, where not all may run any more."""
    if len([*leaf_paths((move.tree,))]) > 1:
        for v in ranges:
            if (clash := loop_carried(move.func, v)) is not None:
                reason = f"{v!r} would run in part, and its iterations depend on one another"
                raise refusal(clash, reason, v, f"keep {move.stmt.label} where it is")


# ---------------------------------------------------------------- the nest in its new place


@dataclass(frozen=True)
class MovedNest:
    """The nest of a stage, restricted, in the loop: `func` is the whole."""

    move: Move
    loop: Loop
    """The loop, with the nest in it."""
    target: Body
    """What is around the loop."""
    origin: dict[str, Origin]

    @cached
    def func(self) -> Func:
        return _levelled(self.move, self.target, ())

    def having(self, loop: Loop, opened: Sequence[Alloc]) -> Func:
        """The same with `loop` in place of the loop, which has memory of its own, and without that around it."""
        target = rebuild_path(path_within((self.move.target,), self.move.loop), (loop,))
        return _levelled(self.move, target, (), opened)

    @cached
    def gap(self) -> Func:
        """The same with the place that the nest left still there, empty: other statements keep their positions."""
        return _levelled(self.move, self.target, (If(TRUE, ()),))


def move_nest(move: Move, nest: Body, origin: dict[str, Index], *, first: bool) -> MovedNest:
    """`nest` put at the start, or else the end, of the loop's body, and gone from where it was."""
    loop = move.loop
    body = (*nest, *loop.body) if first else (*loop.body, *nest)
    after = replace(loop, body=body)
    came = {p.stmt.label: Origin(p.stmt.label, origin) for p in leaf_paths((move.tree,))}

    return MovedNest(move, after, rebuild_path(path_within((move.target,), loop), (after,)), came)


def _levelled(move: Move, target: Body, left: Body, opened: Sequence[Alloc] = ()) -> Func:
    """The Func with `target` for what is around the loop, and `left` for the nest, and without what is
    `open_allocs`."""
    made: Body = ()
    for s in move.level:
        made += left if s is move.tree else target if s is move.target else (s,)
    return replace_block(move.func, move.shared, move.level, made, opened=opened)


INDEPENDENT = ("parallel", *BLOCK_AXES)
"""Kinds of loops that promise that their iterations are independent, and nothing else."""


def keep_loop_kinds(move: Move, new: Func) -> Func:
    """`new`, if the loops that now hold the stage, and those of its nest, keep what their kinds promise.

    In an iteration of the loops around both, no other instances run than before. So those of which nothing is asked but
    that iterations are independent keep it.
    """
    around = (*move.shared, *path_within((move.target,), move.loop), *loops((move.tree,)))
    proved = {x.var for x in move.shared if isinstance(x, Loop) and x.kind in INDEPENDENT}
    if all(x.kind == "serial" or x.var in proved for x in around if isinstance(x, Loop)):
        return new
    nest = next((s for s in nests(new.body) if move.stmt.label in labels_in(s)), None)
    if nest is not None:  # else no iteration of it runs
        _require_distinct_axes(move, nest)
        _require_kinds(move, nest, new, proved)
    return new


def _require_kinds(move: Move, nest: Stmt, new: Func, proved: set[str]) -> None:
    """Refuse unless the loops of `nest` of `new`, in which the stage is now, keep what their kinds promise, but for the
    serial ones and those `proved`."""
    place = next(p for p in leaf_paths((nest,)) if p.stmt.label == move.stmt.label)
    moved = {x.var for x in loops((move.tree,))}
    for x in loops((nest,)):
        if x.var in moved and x.kind != "serial":
            require_outside_lanes(new, x)
    proved = proved.union(x.var for x in loops((nest,)) if x.kind == "serial")
    require_loop_kinds(new, [v for v in dict.fromkeys([*(x.var for x in place.loops), *moved]) if v not in proved])


def _require_distinct_axes(move: Move, nest: Stmt) -> None:
    """Refuse where two loops around a statement of `nest` are bound to one axis of threads or blocks."""
    for p in leaf_paths((nest,)):
        axes = [x.kind for x in p.loops if x.kind in AXES]
        if twice := next((k for k in axes if axes.count(k) > 1), None):
            reason = f"the nest of {move.stmt.label} is bound to {twice}, and so is a loop around {move.loop.var!r}"
            raise move.refuse(reason, "bind its loops after it has moved")


def starts_inside(move: Move) -> bool:
    """Whether the stage is a reduction that starts in its own nest, and not outside of loops around both."""
    starts = isinstance(move.stmt, Reduce) and move.stmt.init is not None
    return starts and not any(v in move.shared_loops for v in move.over)


def _invert_splits(came: Mapping[str, Index], dims: Sequence[str]) -> dict[str, Index]:
    """Where an instance is, by the old loops that tell it: of `8 * p + i + v`, p is `v // 8`, and i the rest of it."""
    at: dict[str, Index] = _in_fused_loops(came, dims)
    for v, ix in came.items():
        p = dict(expand_index(ix))
        alone = [m[0].name for m in p if len(m) == 1 and isinstance(m[0], Var) and m[0].name in dims]
        new = sorted((-p.pop((Var(u),)), u) for u in alone if u not in came and u not in at)
        if not new or p.pop((Var(v),), 0) != 1:
            continue
        at[v] = to_index(poly_add({(Var(v),): 1}, p, -1))
        for c, u in new:
            at[u], at[v] = (at[v] // -c, at[v] % -c) if c < 0 else (at[v] * -1, Int(0))
    return at


def _in_fused_loops(came: Mapping[str, Index], dims: Sequence[str]) -> dict[str, Index]:
    """Where an instance is, if the old loops v and w were `x // m + v` and `x % m + w`: x is v * m + w."""
    found: dict[str, Index] = {}
    rests = {
        (y.a, y.b): w for w, ix in came.items() if (y := _quotient_offset(ix, w)) is not None and isinstance(y, Mod)
    }
    for v, ix in came.items():
        x = _quotient_offset(ix, v)
        w = rests.get((x.a, x.b)) if isinstance(x, FloorDiv) else None
        if w is not None and isinstance(x, FloorDiv) and isinstance(x.a, Var) and x.a.name in dims:
            found |= {x.a.name: Var(v) * x.b + Var(w), v: Int(0), w: Int(0)}
    return found


def _quotient_offset(ix: Index, v: str) -> Index | None:
    """What is added to the loop `v` in `ix`, if that is one division or remainder."""
    p = dict(expand_index(ix))
    alone = p.pop((Var(v),), 0) == 1 and [*p.values()] == [1]
    (m,) = p if alone else ((),)
    return m[0] if len(m) == 1 and isinstance(m[0], FloorDiv | Mod) else None


def runs_every_instance(move: Move, after: MovedNest, *, starts: bool) -> bool:
    """Whether every instance of the stage, or of its start, is seen to run in the new place."""
    label, over = move.stmt.label, move.over if starts else ()
    came = {x.var: after.origin[label].loops.get(x.var, Var(x.var)) for x in move.own_loops if x.var not in over}
    s, t = (first_statement(f, label, starts=starts) for f in (move.func, after.gap))
    if s is None or t is None:
        return False
    at = _invert_splits(came, t.dims)
    guarded = {v: x for v in t.dims if v not in at and isinstance(x := t.equal.get(Var(v)), Var) and x.name in s.dims}
    return is_covered(move.func, s, t, at | guarded, came)


def _require_outside_its_folds(move: Move, now: Statement, at: Sequence[Index]) -> None:
    """Refuse if the statement `now`, the start of a fold maybe, is placed `at` iterations of loops not around it."""
    folded = sorted({v for ix in at for v in free_vars(ix)}.difference(now.dims, move.func.sizes))
    if folded:
        label = move.stmt.label
        reason = f"in {move.loop.var!r}, where {label} starts would depend on {join_names(folded)}"
        raise move.refuse(f"{reason}, which it folds over", f"keep {label} where it is")


def require_each_once(move: Move, after: MovedNest, instead: str = "an outer loop") -> None:
    """Refuse unless every instance of the stage runs in exactly one iteration, and a reduction starts as it did."""
    label = move.stmt.label
    begins = isinstance(move.stmt, Reduce) and move.stmt.init is not None
    for starts in (False,) if not begins else (True,) if starts_inside(move) else (False, True):
        own = [x.var for x in move.own_loops if x.var not in move.over or not starts]
        old: list[Index] = [Var(v) for v in own]
        came = {v: after.origin[label].loops.get(v, Var(v)) for v in own}
        now = [*came.values()]
        s, t = (first_statement(f, label, starts=starts) for f in (move.func, after.gap))
        sure = runs_every_instance(move, after, starts=starts)
        if t is not None:
            _require_outside_its_folds(move, t, now)
        lost = None if sure else find_missing(Values(move.func, s, old), Values(after.gap, t, now), move.shared_loops)
        if lost is not None:
            at = ", ".join(f"{v}={x}" for v, x in zip(own, lost.values, strict=True))
            reason = f"no iteration of {move.loop.var!r} would compute {label} at ({at}){lost.at}"
            raise move.refuse(reason, f"keep {label} where it is")
        again = (
            find_duplicate(after.gap, t, now, move.shared_loops, move.path) if starts == starts_inside(move) else None
        )
        if again is not None:
            at = ", ".join(f"{v}={x}" for v, x in zip(own, again.values, strict=True))
            reason = f"more than one iteration of {move.loop.var!r} would compute {label} at ({at}){again.at}"
            raise move.refuse(reason, instead)
