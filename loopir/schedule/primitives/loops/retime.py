"""retime: run some stages of a loop a few iterations later than the others (software pipelining)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopir.analysis.dataflow.equivalence import same_values
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.analysis.regions.retile import Retiling
from loopir.arith.simplify_func import Known, simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Buffer, Func, Index, Int, Loop, Stmt, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import accessed_buffers, leaf_paths, replace, replace_stmt
from loopir.schedule.core.facts import Facts, known_at
from loopir.schedule.core.find import find_serial, find_stage, join_names
from loopir.schedule.core.naming import UsedNames
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.loop_kinds import require_outside_lanes, require_still_together
from loopir.schedule.legality.reduction_starts import require_starts_in_parts
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.legality.scopes import require_places_apart
from loopir.schedule.primitives.gpu.pipeline import ring_of
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses
from loopir.schedule.transform.siblings import labels
from loopir.schedule.transform.split_range import continued, drop_unused_over


@primitive
def retime(func: Func, loop: str, *late: str, by: int = 1, before: str | None = None) -> Func:
    """Run the stages `late` of each iteration of `loop` `by` iterations later, beside the others of that iteration.

    This is software pipelining: what the others compute is used `by` iterations later, so that both can overlap. A
    prologue loop, i_first, runs the first iterations of the others, and an epilogue loop, i_last, the last ones of the
    stages `late`. These keep their positions in the body, or move to right `before` another stage. Buffers allocated in
    the loop that both use are allocated around the three loops instead; where an iteration would overwrite values that
    an earlier one still needs, the buffer becomes a ring of `by` + 1 slots. A reduction
    over the loop starts in the first of the loops that have it.

    before:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            assume(1 <= n)
            for i in range(n):
                with alloc("float32[8]") as T:
                    for x in range(8):
                        T[x] = A[i, x] * 2.0
                    for y in range(8):
                        B[i, y] = T[y]
    call:    retime("i", "B")
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            assume(1 <= n)
            with alloc("float32[2, 8]") as T:
                for i_first in range(1):
                    for x_1 in range(8):
                        T[i_first, x_1]: "T_1" = A[i_first, x_1] * 2.0
                for i in range(n - 1):
                    for x in range(8):
                        T[(i + 1) % 2, x] = A[i + 1, x] * 2.0
                    for y in range(8):
                        B[i, y] = T[i % 2, y]
                for i_last in range(1):
                    for y_1 in range(8):
                        B[n + i_last - 1, y_1] = T[(n + i_last + 1) % 2, y_1]
    call:    retime("i", "B", before="T")  # then one is enough
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            assume(1 <= n)
            with alloc("float32[8]") as T:
                for i_first in range(1):
                    for x_1 in range(8):
                        T[x_1]: "T_1" = A[i_first, x_1] * 2.0
                for i in range(n - 1):
                    for y in range(8):
                        B[i, y] = T[y]
                    for x in range(8):
                        T[x] = A[i + 1, x] * 2.0
                for i_last in range(1):
                    for y_1 in range(8):
                        B[n + i_last - 1, y_1] = T[y_1]
    refuses: retime("i", "T")  # T at (i=0, x=0) writes T[0], which B at (i=0, y=0) reads later
    refuses: retime("i", "T", "B")  # all stages of 'i' are named to run later
    refuses: retime("i", "B", by=0)  # stages cannot run 0 iterations later
    refuses: retime("i", "B", before="B")  # stage 'B' is not one of the stages of 'i' that stay

    before:
        def g(n: "size", a: "inout float32[n + 1]", b: "out float32[n]"):
            for i in range(n):
                b[i] = a[i] * 2.0
                a[i + 1] = b[i] + 1.0
    refuses: retime("i", "a")  # a at (i=0) writes a[1], which b at (i=1) reads later
    """
    target = find_serial(func, loop)
    if by < 1:
        raise ScheduleError(f"stages cannot run {by} iterations later", loop=target.var, suggestion="by=1")
    require_stable_extent(target)
    require_outside_lanes(func, target)
    if Facts.at(func, target).at_least(by - target.extent, 0):
        reason = f"{target.var!r} has only {text(target.extent)} iterations, and stages would run {by} later"
        raise ScheduleError(reason, loop=target.var, suggestion=f"a smaller by, or a loop of more than {by} iterations")
    require_starts_in_parts(func, target, in_order=False)
    items = _marked(func, target, late)
    order = _ordered(func, target, items, before)
    new = _retimed(func, target, items, order, by)
    require_still_together(func, new, target)
    return new


@dataclass(frozen=True, slots=True)
class _Item:
    """A statement of the body, the allocations around it there, and whether it is to run later."""

    stmt: Stmt
    around: tuple[Alloc, ...]
    late: bool = False

    def uses(self, b: Buffer) -> bool:
        return b.name in accessed_buffers(self.stmt)


def _items(body: Body, around: tuple[Alloc, ...] = ()) -> Iterator[_Item]:
    """The statements of `body`, and of the allocations in it."""
    for s in body:
        if isinstance(s, Alloc):
            yield from _items(s.body, (*around, s))
        else:
            yield _Item(s, around)


def _marked(func: Func, loop: Loop, late: Sequence[str]) -> list[_Item]:
    """The statements of the body, with those of the stages `late` marked."""
    items = list(_items(loop.body))
    chosen: set[int] = set()
    for stage in late:
        wanted = {p.stmt.label for p in find_stage(func, stage)}
        found = [n for n, x in enumerate(items) if not wanted.isdisjoint(labels((x.stmt,)))]
        if not found:
            known = sorted(set[str]().union(*(labels((x.stmt,)) for x in items)))
            reason = f"stage {stage!r} is not in loop {loop.var!r}"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"one of {join_names(known)}")
        chosen.update(found)
    if len(chosen) in (0, len(items)):
        which = "all stages of {} are named to run later" if chosen else "no stage of {} is named to run later"
        raise ScheduleError(which.format(repr(loop.var)), loop=loop.var, suggestion="name some of its stages, not all")
    return [replace(x, late=n in chosen) for n, x in enumerate(items)]


def _ordered(func: Func, loop: Loop, items: Sequence[_Item], before: str | None) -> list[_Item]:
    """The statements as they will stand in the body."""
    if before is None:
        return list(items)
    wanted = {p.stmt.label for p in find_stage(func, before)}
    others = [x for x in items if not x.late]
    at = next((n for n, x in enumerate(others) if not wanted.isdisjoint(labels((x.stmt,)))), None)
    if at is None:
        reason = f"stage {before!r} is not one of the stages of {loop.var!r} that stay"
        raise ScheduleError(reason, loop=loop.var, suggestion="a stage of the loop that is not named to run later")
    return [*others[:at], *(x for x in items if x.late), *others[at:]]


def _retimed(func: Func, loop: Loop, items: Sequence[_Item], order: Sequence[_Item], by: int) -> Func:
    """`func` with the three loops, in which memory that both kinds of stages use has as many places as it needs."""
    allocs = {s.buffer.name: s.buffer for x in items for s in x.around}
    crossing = [b for b in allocs.values() if len({x.late for x in items if x.uses(b)}) == 2]
    rings: dict[str, Buffer] = {}
    while True:
        shared = {b.name: rings.get(b.name, b) for b in crossing}
        place = _Place(func, loop, shared, rings)
        plain = place.holding((replace(loop, body=place.body([place.placed(x) for x in items])),))
        new, origin = _pipelined(place, [place.placed(x) for x in order], by)
        clash = violated_dependence(plain, new, origin)
        if clash is None:
            return new
        b = shared.get(clash.witness.buffer)
        if b is None or b.name in rings or not clash.witness.writes[1]:  # other memory would not help
            if same_values(func, new):  # values that nobody looks at may be others
                return new
            late = join_names(n for x in items if x.late for n in labels((x.stmt,)))
            reason = f"to run {late} {by} iteration{'s' * (by > 1)} later would reverse two dependent accesses"
            raise refusal(clash, reason, loop.var, "other stages, a smaller by, or another before")
        rings[b.name] = ring_of(b, by + 1)
        require_places_apart(rings[b.name], b)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where `loop` stands in `func`, with the memory that is to be allocated around it, some of it in rings."""

    func: Func
    loop: Loop
    shared: Mapping[str, Buffer]
    rings: Mapping[str, Buffer]

    def holding(self, body: Body) -> Func:
        """`func` with `body`, in the shared memory, in place of the loop."""
        for b in reversed([*self.shared.values()]):
            body = (Alloc(b, body),)
        return replace_stmt(self.func, self.loop, body)

    def placed(self, item: _Item) -> _Item:
        """`item` on those places of the rings that are the iteration's."""
        slots = {b.shape[0] for b in self.rings.values()}
        if not slots:
            return item
        slot = Var(self.loop.var) % slots.pop()
        return replace(item, stmt=rebase_accesses(item.stmt, self.rings, lambda at: (slot, *at)))

    def body(self, items: Sequence[_Item], body: Body | None = None) -> Body:
        """What `items` do (`body`, if that is in another form), in the memory that they alone use."""
        own = {s.buffer.name: s.buffer for x in items for s in x.around if s.buffer.name not in self.shared}
        out = tuple(x.stmt for x in items) if body is None else body
        for b in reversed([*own.values()]):
            if any(x.uses(b) for x in items):
                out = (Alloc(b, out),)
        return out


def _pipelined(place: _Place, order: Sequence[_Item], by: int) -> tuple[Func, dict[str, Origin]]:
    """The new nest, and where its statements came from."""
    loop, v, n = place.loop, place.loop.var, place.loop.extent
    facts, taken = Facts.at(place.func, loop), UsedNames.of(place.func)
    early, late = ([x for x in order if x.late == which] for which in (False, True))
    count = facts.less(Int(by), n)  # where there are fewer iterations
    first, last = taken.name(f"{v}_first"), taken.name(f"{v}_last")
    begun, ended = taken.copy(place.body(early)), continued(taken.copy(place.body(late)), v)
    known, end = known_at(place.func, loop), facts.tidy(n - count)
    origin = {
        **dict(_origins(loop, late, (x.stmt for x in late), Var(v))),
        **dict(_origins(loop, early, (x.stmt for x in early), Var(v) + count)),
        **dict(_origins(loop, early, begun, Var(first))),
        **dict(_origins(loop, late, ended, end + Var(last))),
    }
    inside = known.loop(v, end, loop.body)
    coming = Retiling({v: Var(v) + count}, {v: (v,)}, decides=True, parts={v: False})

    def again(s: Stmt) -> Body:
        """`s` of a later iteration of those that the prologue has begun, and what it folds over the loop with them."""
        return drop_unused_over(coming.body(continued((s,), v), inside))

    turn = [s for x in order for s in ((x.stmt,) if x.late else again(x.stmt))]
    parts: Body = (
        _iterations_at(loop, begun, first, count, Var(first), known, begins=True),
        Loop(v, end, "serial", place.body(order, tuple(turn))),
        _iterations_at(loop, ended, last, count, end + Var(last), known, begins=False),
    )
    return place.holding(simplify_body(parts, known, old=[x.stmt for x in late])), origin


def _iterations_at(loop: Loop, body: Body, var: str, extent: Index, at: Index, known: Known, *, begins: bool) -> Loop:
    """The iterations `at` of `loop`, of which there are `extent`, as loop `var`."""
    moved = Retiling({loop.var: at}, {loop.var: (var,)}, decides=True, parts={var: begins})
    done = drop_unused_over(moved.body(body, known.loop(var, extent, body, was=loop.var)))
    return Loop(var, extent, "serial", done)


def _origins(loop: Loop, items: Iterable[_Item], made: Iterable[Stmt], at: Index) -> Iterator[tuple[str, Origin]]:
    """Where the statements `made` of `items` came from: iteration `at` of `loop`."""
    old = leaf_paths(tuple(x.stmt for x in items))
    for p, q in zip(old, leaf_paths(tuple(made)), strict=True):
        inner = {a.var: Var(b.var) for a, b in zip(p.loops, q.loops, strict=True)}
        yield q.stmt.label, Origin(p.stmt.label, {**inner, loop.var: at})
