"""pipeline: what an iteration of a loop copies is copied some iterations ahead, into one of several buffers in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.dependence.depend import Clash, Order, Pair
from loopir.analysis.presburger.infeasible import Constraint
from loopir.analysis.regions.retile import Retiling
from loopir.arith.simplify import simplify
from loopir.arith.simplify_func import Known, simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    THREAD_AXES,
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    Fragment,
    Func,
    If,
    Index,
    Int,
    Loop,
    Mapped,
    Reduce,
    Stmt,
    Strided,
    Var,
    ceildiv,
)
from loopir.ir.layout.layouts import element_span
from loopir.ir.traverse.walk import (
    fresh_name,
    leaf_paths,
    path_to,
    path_within,
    replace,
    replace_stmt,
    rewrite,
    statements,
    substitute,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_serial, join_names
from loopir.schedule.core.naming import UsedNames
from loopir.schedule.legality.effects import reads, require_stable_extent, writes
from loopir.schedule.legality.loop_kinds import require_outside_lanes
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.legality.scopes import require_places_apart
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses

SLOT_ALIGNMENT = 128


@primitive
def pipeline(func: Func, loop: str, *, stages: int, ahead: int | None = None, among: str | None = None) -> Func:
    """Let `loop` run ahead with its copies: those for iteration i are made in iteration i - `ahead`.

    The copies are the statements at the start of the body that fill memory which each iteration has anew. That memory
    gets `stages` buffers, which the iterations use in turn, and is allocated around the loop; a loop before it makes
    the first `ahead` copies. Unless told, `ahead` is `stages` - 1. One less leaves what reads a buffer an iteration
    more to be done with it: products that go on by themselves are then waited for an iteration later. The rest of the
    body must write nothing that the copies read, unless it has by then.

    The copies stand before the rest. `among` is a loop of the rest, right in the body, in whose iterations they are
    made part by part instead: memory is then busy all the while, and not at the start alone.

    before:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            for i in range(n):
                with alloc("float32[8]", scope="shared") as T:
                    for x in range(8):
                        T[x] = A[i, x]
                    for y in range(8):
                        B[i, y] = T[y]
    call:    pipeline("i", stages=3)
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            with alloc("float32[3, 8]", scope="shared") as T:
                for i_ahead in range(2):
                    if i_ahead < n:
                        for x_1 in range(8):
                            T[i_ahead, x_1]: "T_1" = A[i_ahead, x_1]
                for i in range(n):
                    if i + 2 < n:
                        for x in range(8):
                            T[(i + 2) % 3, x] = A[i + 2, x]
                    for y in range(8):
                        B[i, y] = T[i % 3, y]
    call:    pipeline("i", stages=2, among="y")
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            with alloc("float32[2, 8]", scope="shared") as T:
                for i_ahead in range(1):
                    if i_ahead < n:
                        for x_1 in range(8):
                            T[i_ahead, x_1]: "T_1" = A[i_ahead, x_1]
                for i in range(n):
                    for y in range(8):
                        B[i, y] = T[i % 2, y]
                        if i + 1 < n:
                            T[(i + 1) % 2, y] = A[i + 1, y]
    refuses: pipeline("i", stages=3, among="x")  # 'x' is no loop of constant length right in the rest of 'i'
    call:    pipeline("i", stages=3, ahead=1)
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            with alloc("float32[3, 8]", scope="shared") as T:
                for i_ahead in range(1):
                    if i_ahead < n:
                        for x_1 in range(8):
                            T[i_ahead, x_1]: "T_1" = A[i_ahead, x_1]
                for i in range(n):
                    if i + 1 < n:
                        for x in range(8):
                            T[(i + 1) % 3, x] = A[i + 1, x]
                    for y in range(8):
                        B[i, y] = T[i % 3, y]
    refuses: pipeline("i", stages=1)  # 1 stage runs nothing ahead
    refuses: pipeline("i", stages=3, ahead=3)  # 3 stages have room for 1 to 2 iterations ahead
    refuses: pipeline("x", stages=2)  # nothing at the start of 'x' fills memory that each iteration has anew

    before:
        def g(A: "inout float32[9, 8]"):
            for i in range(8):
                with alloc("float32[8]", scope="shared") as T:
                    for x in range(8):
                        T[x] = A[i, x]
                    for y in range(8):
                        A[i + 1, y] = T[7 - y]
    refuses: pipeline("i", stages=2)  # A at (i=0, y=0) writes A[1, 0], which T at (i=1, x=0) reads later
    refuses: pipeline("i", stages=3, among="y")  # A at (i=0, y=0) writes A[1, 0], which T at (i=1, x=0) reads later
    call:    pipeline("i", stages=2, among="y")  # each row is there when it is copied
    after:
        def g(A: "inout float32[9, 8]"):
            with alloc("float32[2, 8]", scope="shared") as T:
                for i_ahead in range(1):
                    for x_1 in range(8):
                        T[i_ahead, x_1]: "T_1" = A[i_ahead, x_1]
                for i in range(8):
                    for y in range(8):
                        A[i + 1, y] = T[i % 2, -y + 7]
                        if i + 1 < 8:
                            T[(i + 1) % 2, y] = A[i + 1, y]
    """
    target = find_serial(func, loop)
    if stages < 2:
        raise ScheduleError(
            f"{stages} stage runs nothing ahead; there are to be 2 or more", loop=loop, suggestion="stages=2"
        )
    require_stable_extent(target)
    require_outside_lanes(func, target)
    parts = parts_of(target)
    if not parts.copies:
        reason = f"nothing at the start of {target.var!r} fills memory that each iteration has anew"
        raise ScheduleError(reason, loop=target.var, suggestion=f"cache_read at {target.var!r} first")
    ahead = stages - 1 if ahead is None else ahead
    if not 1 <= ahead < stages:
        raise ScheduleError(
            f"{stages} stages have room for 1 to {stages - 1} iterations ahead, not {ahead}",
            loop=loop,
            suggestion=f"ahead={stages - 1}",
        )
    parts.require_ahead(func, ahead, among)
    taken = UsedNames.of(func)
    var = taken.name(f"{target.var}_ahead")
    rings = {b.name: ring_of(b, stages) for b in parts.buffers}
    for b in parts.buffers:
        require_places_apart(rings[b.name], b)

    def at(body: Body, i: Index, slot: Index, known: Known) -> Body:
        """`body` of iteration `i`, on the buffers of ring slot `slot`, simplified by what is `known` there."""
        ring = simplify(slot, known.here)
        parts = {var: True} if i == Var(var) else {target.var: False}
        moved = Retiling({target.var: i}, {}, decides=True, parts=parts).body(body, known) if i != own else body
        return tuple(rebase_accesses(s, rings, lambda old: (ring, *old)) for s in moved)

    own, outside = Var(target.var), known_at(func, target)
    inside = outside.loop(target.var, target.extent, target.body)
    begun, later = Cmp("<", Var(var), target.extent), own + ahead
    guard = Cmp("<", later, target.extent)
    copy = taken.copy(parts.copies)
    first = at(copy, Var(var), Var(var), outside.loop(var, Int(ahead), copy).given(begun))
    prologue = Loop(var, Int(ahead), "serial", (If(begun, first),))
    coming = at(parts.copies, later, later % stages, inside.given(guard))
    now = at(parts.rest, own, own % stages, inside)
    turn = (If(guard, coming), *now) if among is None else _spread_copies(now, coming, guard, among, target)
    body: Body = (prologue, replace(target, body=turn))
    done = (*first, *coming, *now) if among is None else first
    body = simplify_body(body, outside, old=(*target.body, *done))
    for b in reversed(parts.buffers):
        body = (Alloc(rings[b.name], body),)
    return replace_stmt(func, target, body)


def _spread_copies(rest: Body, copies: Body, guard: Cond, among: str, loop: Loop) -> Body:
    """`rest`, with the copies in the iterations of its loop `among`: of each nest as many of its own as come to one.

    The buffers of this turn and of the coming one are different ones, and no copy reads what another writes. Threads
    that the loop is bound to copy what they would have copied before it.
    """
    inner = next((s for s in statements(rest) if isinstance(s, Loop) and s.var == among), None)
    around = path_within(rest, inner)[:-1] if inner is not None else ()
    threads = {s.kind: s for s in around if isinstance(s, Loop) and s.kind in THREAD_AXES}
    if (
        inner is None
        or not isinstance(inner.extent, Int)
        or inner.extent.value < 1
        or len(threads) < sum(not isinstance(s, Alloc) for s in around)
    ):
        raise ScheduleError(
            f"{among!r} is no loop of constant length right in the rest of {loop.var!r}",
            loop=among,
            suggestion="a loop after the copies that holds no copy, or none",
        )
    parts = tuple(_by_threads(_copy_part(c, among, inner.extent.value), threads) for c in copies)
    spread = replace(inner, body=(*inner.body, If(guard, parts)))
    return rewrite(rest, lambda s: spread if s is inner else None)


def _by_threads(copy: Stmt, threads: Mapping[str, Loop]) -> Stmt:
    """`copy` inside the loops `threads`, by axis: each of their iterations makes that part which is its thread's."""
    left = dict(threads)

    def visit(s: Stmt) -> Body | None:
        own = left.pop(s.kind, None) if isinstance(s, Loop) else None
        if own is None or not isinstance(s, Loop):
            return None
        if own.extent != s.extent:
            raise ScheduleError(
                f"{s.var!r} and {own.var!r} are bound to {s.kind}, and are not of one length",
                loop=s.var,
                suggestion="split both to one length, and bind these",
            )
        return rewrite(tuple(substitute(x, {s.var: Var(own.var)}) for x in s.body), visit)

    (made,) = rewrite((copy,), visit)
    for own in left.values():  # once for all of its threads
        made = If(Cmp("==", Var(own.var), Int(0)), (made,))
    return made


def _copy_part(copy: Stmt, among: str, turns: int) -> Stmt:
    """What is made of `copy` in an iteration of `among`, which has `turns` of them; all of it in one, if need be."""
    count = turns_of(copy, turns)
    if count is None or not isinstance(copy, Loop):
        return If(Cmp("==", Var(among), Int(0)), (copy,))
    own = Var(among) * count + Var(copy.var) if count != 1 else Var(among)
    body: Body = (If(Cmp("<", own, copy.extent), tuple(substitute(s, {copy.var: own}) for s in copy.body)),)
    return replace(copy, extent=Int(count), body=body) if count != 1 else body[0]


def turns_of(copy: Stmt, turns: int) -> int | None:
    """How many iterations of `copy` are made in one of `turns`; None if all of it is made in the first."""
    folds = any(isinstance(s, Reduce) for s in statements((copy,)))
    if folds or not isinstance(copy, Loop) or copy.kind != "serial" or not isinstance(copy.extent, Int):
        return None
    return -(-copy.extent.value // turns)


PLAIN = ("global", "local")
"""Memory that nothing copies to by itself: what an iteration writes there is in order with the copies of others."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The body of a loop: the buffers that its copies fill, the copies, and the rest."""

    loop: Loop
    buffers: tuple[Buffer, ...]
    copies: Body
    rest: Body

    def require_ahead(self, func: Func, ahead: int | None = None, among: str | None = None) -> None:
        """Refuse if the copies may not run before the rest of earlier iterations: of the last `ahead`, or of all."""
        v = self.loop.var
        if clash := self.overwritten(func, ahead, among):
            reason = f"the copies read {clash.witness.buffer}, which the rest of {v!r} writes"
            raise refusal(clash, reason, v, "a copy of what earlier iterations do not write, or fewer iterations ahead")
        own = (b.name for b in self.buffers if ahead is None or b.scope not in PLAIN)
        if again := sorted(writes(self.rest) & {*own}):
            raise ScheduleError(
                f"the rest of {v!r} writes {join_names(again)}, which the copies fill",
                loop=v,
                suggestion=f"cache_read of what writes {again[0]}, in memory of its own",
            )
        for s in (x for c in self.copies for x in statements((c,)) if isinstance(x, Reduce)):
            if v in s.over:
                raise ScheduleError(
                    f"{s.label} folds over {v!r}, so its iterations cannot be filled ahead",
                    loop=v,
                    suggestion=f"a loop that {s.label} does not fold over",
                )

    def overwritten(self, func: Func, ahead: int | None, among: str | None) -> Clash | None:
        """An element that the rest of an iteration writes, and the copies of one of the next `ahead` read.

        Those of the last of these are made in that iteration, `among` what the rest does.
        """
        v = self.loop.var
        outer = [s.var for s in path_to(func, self.loop)[:-1] if isinstance(s, Loop)]

        def orders(s: Statement, t: Statement) -> list[Order]:
            rows: Order = [({f"s.{x}": 1, f"t.{x}": -1}, True) for x in outer if x in s.dims and x in t.dims]
            if v in s.dims:
                rows.append(({f"t.{v}": 1, f"s.{v}": -1, "": -1}, False))
            if ahead is not None:  # what starts a fold over `v` is done before all iterations, as it were in -1
                now = {f"s.{v}": 1, "": ahead} if v in s.dims else {"": ahead - 1}
                late = None if among is None or v not in s.dims else self.behind(s, t, among)
                if late is not None:
                    last: Constraint = ({f"t.{v}": -1, **now}, True)
                    sooner: Constraint = ({f"t.{v}": -1, **now, "": ahead - 1}, False)
                    return [[*rows, sooner], *([*rows, last, row] for row in late)]
                rows.append(({f"t.{v}": -1, **now}, False))
            return [rows]

        here, there = ({p.stmt.label for p in leaf_paths(part)} for part in (self.rest, self.copies))
        names, every = reads(self.copies) & writes(self.rest), statements_of(func)
        writing = [(s, a) for s in every if s.label in here for a in s.accesses if a.write and a.buffer in names]
        reading = [(s, a) for s in every if s.label in there for a in s.accesses if not a.write and a.buffer in names]
        for (s, a), (t, b) in product(writing, reading):
            if a.buffer != b.buffer or v not in t.dims:  # a copy that folds over `v` is refused for that
                continue
            if (found := next(Pair(func, s, a, t, b).clashes(orders(s, t)), None)) is not None:
                return found
        return None

    def behind(self, s: Statement, t: Statement, among: str) -> list[Constraint] | None:
        """What holds where `s`, of the rest, is done after the copy `t` that is made `among` it in its iteration.

        None where that does not follow from the loop `among` and the first of the copy's own alone.
        """
        within = [x for x in s.place.loops if x in self.rest]
        copy = next(c for c in self.copies if any(x is t.place.stmt for x in statements((c,))))
        spread = next((x for x in self.rest if isinstance(x, Loop) and x.var == among), None)
        if spread is None or not isinstance(spread.extent, Int) or not within:
            return None
        if within[0] is not spread:
            return [({"": 0}, False)] if self.rest.index(within[0]) > self.rest.index(spread) else []
        count = turns_of(copy, spread.extent.value)
        if count is None:
            return [({f"s.{among}": 1, "": -1}, False)]
        assert isinstance(copy, Loop)
        return [({f"s.{among}": count, f"t.{copy.var}": -1, "": -1}, False)] if copy.var in t.dims else None


def parts_of(loop: Loop) -> _Parts:
    """The copies at the start of `loop`, through the allocations that stand one inside the other there."""
    own: dict[str, Buffer] = {}
    copies: list[Stmt] = []
    kept: list[Alloc] = []
    body = loop.body
    while body:
        s = body[0]
        if isinstance(s, Alloc) and len(body) == 1:
            own[s.buffer.name] = s.buffer
            kept.append(s)
            body = s.body
        elif (filled := writes((s,))) and filled <= own.keys() and not isinstance(s, Alloc) and _is_copy(s, own):
            copies.append(s)
            body = body[1:]
        else:
            break
    filled = writes(tuple(copies))
    for a in reversed([a for a in kept if a.buffer.name not in filled]):
        body = (Alloc(a.buffer, body),)
    return _Parts(loop, tuple(b for b in own.values() if b.name in filled), tuple(copies), body)


def _is_copy(s: Stmt, own: dict[str, Buffer]) -> bool:
    """Whether `s` fills memory from elsewhere, and folds nothing into it: it is no accumulator of the loop's work."""
    folds = any(isinstance(x, Reduce) and x.init is None for x in statements((s,)))
    return not folds and not reads((s,)) & own.keys()


def ring_of(b: Buffer, stages: int) -> Buffer:
    """`b`, `stages` times, each at a multiple of `ALIGNMENT` bytes if it has a layout."""
    layout = b.layout
    line = SLOT_ALIGNMENT // b.dtype.bytes
    room = ceildiv(element_span(b), line) * line if layout is not None else Int(0)
    match layout:
        case Strided(strides):
            layout = Strided((room, *strides))
        case Mapped(dims, at):
            slot = fresh_name("slot", set(dims))
            layout = Mapped((slot, *dims), Var(slot) * room + at)
        case Fragment() | None:
            pass
    return replace(b, shape=(Int(stages), *b.shape), layout=layout)
