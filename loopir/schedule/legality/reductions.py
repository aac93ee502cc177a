"""What the primitives on reductions share: finding one, its nest in parts, and moving its folds behind its loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from loopir.analysis.dataflow.reaching_writes import accesses_of, is_written_before
from loopir.analysis.dependence.access import Statement, statements_in, statements_of
from loopir.analysis.dependence.depend import Clash, Order, Pair, conflicts
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.arith.simplify import nonnegative, poly
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Cond,
    Const,
    Func,
    If,
    Load,
    Loop,
    Monoid,
    Node,
    Not,
    Op,
    Param,
    Reduce,
    Select,
    Stmt,
    Store,
    Var,
    conj,
    conjuncts,
)
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.reduction_init import reduction_start_loop
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths,
    loops,
    nests_touching,
    rebuild,
    replace,
    replace_stmt,
    rewrite,
    taken_names,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.core.naming import Renaming, new_names, rename_symbols
from loopir.schedule.legality.asked_memory import is_written_on_the_way, unwritten_memory
from loopir.schedule.legality.effects import reads
from loopir.schedule.legality.refusal import refusal


def find_reduce(func: Func, stage: str) -> Fold:
    """The one reduction of `stage`; ScheduleError if there is none, or several."""
    found = [p for p in find_stage(func, stage) if isinstance(p.stmt, Reduce)]
    if not found:
        raise ScheduleError(
            f"stage {stage!r} is no reduction",
            suggestion=join_names(p.stmt.label for p in leaf_paths(func.body) if isinstance(p.stmt, Reduce))
            if any(isinstance(p.stmt, Reduce) for p in leaf_paths(func.body))
            else "leave it: this program has no reduction",
        )
    if len(found) > 1:
        labels = join_names(repr(p.stmt.label) for p in found)
        raise ScheduleError(f"stage {stage!r} is folded by {labels}", suggestion="name one of these")
    return Fold.of(found[0])


def require_folded(fold: Fold, loop: Loop) -> None:
    """Refuse unless `fold` is over `loop`."""
    if loop.var in fold.over:
        return
    over = join_names(fold.over)
    raise ScheduleError(
        f"{fold.reduce.label} does not reduce over {loop.var!r}; it does over {over}",
        loop=loop.var,
        suggestion=f"one of {over}" if fold.over else "a fold over loops",
    )


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction and the part of its nest from `start`, where it starts, inwards."""

    place: StmtPath
    reduce: Reduce
    start: Stmt
    shells: tuple[Loop | Cond, ...]
    """The loops from `start` inwards, and the conditions between them that hold."""
    over: tuple[str, ...]
    """The loops that it is over; of those that make its memory anew, none."""

    @staticmethod
    def of(place: StmtPath) -> Fold:
        reduce = cast(Reduce, place.stmt)
        memory = [n for n, s in enumerate(place.around) if isinstance(s, Alloc) and s.buffer in reduce.buffers]
        inside = place.around[max(memory, default=0) :]
        found = [s for s in inside if isinstance(s, Loop) and s.var in reduce.over]
        start, over = (found or [reduce])[0], {s.var for s in found}
        shells: list[Loop | Cond] = []
        begin = next((n for n, s in enumerate(place.around) if s is start), len(place.around))
        for depth, s in enumerate(place.around[begin:], begin):
            if isinstance(s, Loop):
                shells.append(s)
            elif isinstance(s, If):
                held = place.path[depth + 1] < len(s.then)
                shells += conjuncts(s.cond) if held else (Not(s.cond),)
        return Fold(place, reduce, start, tuple(shells), tuple(v for v in reduce.over if v in over))

    @property
    def outer(self) -> tuple[Loop, ...]:
        """The loops around `start`."""
        mine = {id(s) for s in self.shells}
        return tuple(x for x in self.place.loops if id(x) not in mine)

    def loops(self) -> tuple[Loop, ...]:
        return tuple(s for s in self.shells if isinstance(s, Loop))

    def without(self, gone: Iterable[str]) -> tuple[Loop | Cond, ...]:
        """The shells but the loops in `gone` and the conditions that speak of them."""
        out = set(gone)
        return tuple(s for s in self.shells if (s.var not in out if isinstance(s, Loop) else not free_vars(s) & out))


def nested(shells: Iterable[Loop | Cond], body: Body) -> Body:
    """`body` inside `shells`, loops and conditions, outermost first."""
    for shell in reversed([*shells]):
        if isinstance(shell, Loop):
            body = (replace(shell, body=body),)
        elif conjuncts(shell):
            inner = body[0] if len(body) == 1 else None
            if isinstance(inner, If) and not inner.orelse:
                body = (If(conj(shell, inner.cond), inner.then),)
            else:
                body = (If(shell, body),)
    return body


@memoized
def idempotent(monoid: Monoid) -> bool:
    """Whether to fold a value in once more changes nothing, as of a maximum: an element combined with itself is it."""
    same = {b.name: a for a, b in zip(monoid.left, monoid.right, strict=True)}

    def visit(n: Node) -> Node:
        new: Node = same.get(n.name, n) if isinstance(n, Param) else rebuild(n, visit)
        if isinstance(new, Select) and new.a == new.b:
            return new.a
        return new.args[0] if isinstance(new, Op) and new.fn.idempotent and len({*new.args}) == 1 else new

    return all(visit(v) == a for v, a in zip(monoid.combine, monoid.left, strict=True))


def with_new_loops(func: Func, body: Body, made: Iterable[str] = ()) -> tuple[Body, dict[str, str]]:
    """`body` with its loops under names that are free in `func` and not in `made`, and the new name of each."""
    old = [s.var for s in loops(body)]
    new = dict(zip(old, new_names(func, old, None, made=made), strict=True))
    return tuple(rename_symbols(s, Renaming(loops=new)) for s in body), new


def require_first_start(func: Func, fold: Fold) -> None:
    """Refuse if another reduction starts just before this one, and something of the same: the stores come before it."""
    starts = [s for s in statements_of(func) if s.init]
    mine = next(s for s in starts if s.label == fold.reduce.label)
    for s in starts[: starts.index(mine)]:
        if reduction_start_loop(s.place) is fold.start and s.meets(mine) and not _same_start(s, mine):
            same: Order = [({f"s.{x.var}": 1, f"t.{x.var}": -1}, True) for x in fold.outer]
            pairs = (Pair(func, s, a, mine, b) for a, b in conflicts(s, mine))
            clash = next((c for pair in pairs for c in pair.clashes([same])), None)
            if clash is not None:
                reason = f"the stores of {mine.label} would come before those that {s.label} starts with"
                raise refusal(clash, reason, None, f"decompose_reduction({s.label!r}) first")


def _same_start(s: Statement, t: Statement) -> bool:
    """Whether both start their elements with one number, in whatever order."""
    one, other = (x.place.stmt.init if isinstance(x.place.stmt, Reduce) else None for x in (s, t))
    return one == other and one is not None and len({*one}) == 1 and isinstance(one[0], Const)


def require_delay(func: Func, fold: Fold, shells: tuple[Loop | Cond, ...], loop: str, action: str) -> None:
    """Refuse unless `fold` may start and fold after all of its nest has run; `shells` are then evaluated again."""
    reduce, start = fold.reduce, fold.start
    again: list[Node] = [s.extent if isinstance(s, Loop) else s for s in shells]
    inside = _writes_of_others(start, reduce)
    if stale := sorted(reads([*again, *reduce.at]) & (inside | {b.name for b in reduce.buffers})):
        reason = f"{reduce.label} would ask {join_names(stale)} again after its loops, which write that"
        raise ScheduleError(reason, loop=loop, suggestion="compute what decides in a nest of its own before")
    mine = {b.name for b in reduce.buffers}
    if not mine & (inside | reads([start])) and not reads(reduce.init or ()) & inside:
        return
    clash = _delayed(func, fold)
    if clash is not None:
        raise refusal(
            clash, action, loop, f"keep {reduce.label} as it is, or move the other statement out of its loops"
        )


def require_inside(func: Func, fold: Fold, shells: tuple[Loop | Cond, ...], loop: str) -> None:
    """Refuse if the fold of what iterations of `loop` gave, which stands in `shells` alone, may touch no element, or
    ask memory for it, which nothing may have written where none of the iterations did."""
    asks = (*(s.extent if isinstance(s, Loop) else s for s in shells), *fold.reduce.at)
    asked = unwritten_memory(func, fold.reduce.label, asks, [s for s in fold.shells if s not in shells])
    if asked:
        raise ScheduleError(
            f"{fold.reduce.label} would be folded where it is not now, and ask {join_names(asked)} where to",
            loop=loop, suggestion="loops that surely run, and no guards that speak of them",
        )  # fmt: skip
    total = nested(shells, (replace(fold.reduce, values=fold.reduce.monoid.identity, over=(), init=None),))
    new = replace_stmt(func, fold.start, total)
    left, at = [s for s in fold.shells if s not in shells], fold.reduce.at
    asked = [Load(b, at) for b in fold.reduce.buffers if not is_written_on_the_way(fold.place, fold.start, b, at)]
    unwritten = unwritten_memory(func, fold.reduce.label, asked, left)
    if unwritten := [b for b in unwritten if not _finds_written(new, fold.reduce.label, b)]:
        again = [repr(s.var) for s in left if isinstance(s, Loop) and s.var not in fold.over]  # that only repeat it
        raise ScheduleError(
            f"{fold.reduce.label} would be folded where it is not now, into elements of {join_names(unwritten)} that "
            f"nothing may have written", loop=loop,
            suggestion=f"a loop around {join_names(again)}" if again else f"store to {join_names(unwritten)} first",
        )  # fmt: skip
    found = find_out_of_bounds(new, fold.reduce.label)
    if found is not None:
        raise ScheduleError(
            f"{fold.reduce.label} would be folded where it is not now: {found}", loop=loop,
            suggestion=f"conditions that speak of no reduced loop and keep {found.buffer} inside its shape",
        )  # fmt: skip


def _finds_written(func: Func, label: str, buffer: str) -> bool:
    """Whether one statement is seen to store each element of `buffer` that statement `label` reads, before that."""
    every = statements_in(func, nests_touching(buffer))
    read = accesses_of([s for s in every if s.label == label], {buffer}, write=False)
    write = accesses_of([s for s in every if s.label != label], {buffer}, write=True)
    return bool(read) and all(any(is_written_before(func, r, w, ()) for w in write) for r in read)


def runs_at_each_start(func: Func, loop: Loop) -> bool:
    """Whether `loop` has an iteration for each start of a reduction in it, also if what that is over has none."""
    known = known_at(func, loop).start
    return nonnegative(poly(loop.extent - 1, known), known)


def over_more_loops(func: Func, place: StmtPath) -> Func | None:
    """`func` with the reduction at `place` over those loops, too, that tell neither its elements nor their first values
    apart; None if there are none such.

    They stand inside of loops that it is over, before which it starts once for each of their iterations, with the same
    values: that is one start, as each of them runs.
    """
    s = place.stmt
    if not isinstance(s, Reduce) or s.init is None or not s.over:
        return None
    first = next(n for n, x in enumerate(place.loops) if x.var in s.over)
    told = (*s.at, *s.init, *(c for c, _ in place.conds()), *(x.extent for x in place.loops))
    spoken = frozenset[str]().union(*map(free_vars, told), s.over)
    more = [x.var for x in place.loops[first:] if x.var not in spoken and runs_at_each_start(func, x)]
    return replace_stmt(func, s, replace(s, over=(*s.over, *more))) if more else None


def require_outlived(shells: Iterable[Loop | Cond], over: set[str], loop: str) -> None:
    """Refuse if a loop of `shells`, in which what iterations of `loop` gave is folded, is as long as a loop in `over`
    says, which is over by then."""
    for s in shells:
        if isinstance(s, Loop) and (inner := sorted(free_vars(s.extent) & over)):
            raise ScheduleError(
                f"the extent of {s.var!r} depends on {join_names(inner)}, and the partial results outlive that",
                loop=loop, suggestion=f"a loop of one extent with a guard inside instead of {s.var!r}",
            )  # fmt: skip


def _writes_of_others(start: Stmt, reduce: Reduce) -> set[str]:
    return {b.name for p in leaf_paths((start,)) if p.stmt is not reduce for b in p.stmt.buffers}


def _delayed(func: Func, fold: Fold) -> Clash | None:
    """The dependence that folding after `start` would turn round, of the folds and the init alone."""
    reduce, start = fold.reduce, fold.start
    taken = taken_names(func)
    sinks = tuple(Buffer(f"{reduce.label} value {n}", (), v.dtype, "local") for n, v in enumerate(reduce.values))
    asks = tuple(Store(b.name if b.name not in taken else f"{b.name} ", b, (), v)
                 for b, v in zip(sinks, reduce.values, strict=True))  # fmt: skip
    bare = replace(reduce, values=reduce.monoid.identity)
    late, new = with_new_loops(func, nested(fold.shells, (bare,)))
    before = replace_stmt(func, reduce, (*asks, bare))

    def visit(s: Stmt) -> Body | None:
        if s is start:
            return (*rewrite((s,), lambda x: asks if x is reduce else None), *late)
        return None

    after = replace(func, body=rewrite(func.body, visit))
    clash = violated_dependence(
        before, after, {reduce.label: Origin(reduce.label, {k: Var(v) for k, v in new.items()})}
    )
    if clash is None:
        return None
    told, w = {s.label: reduce.label for s in asks}, clash.witness
    one, other = (told.get(x, x) for x in (w.first_statement, w.second_statement))
    return replace(clash, witness=replace(w, first_statement=one, second_statement=other))
