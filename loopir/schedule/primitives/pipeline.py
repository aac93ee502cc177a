"""pipeline: what an iteration of a loop copies is copied some iterations ahead, into one of several buffers in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopir.analysis.simplify_func import simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Cmp,
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
from loopir.ir.layouts import span
from loopir.ir.walk import fresh, rewrite, statements, substitute
from loopir.schedule.confine import reindexed
from loopir.schedule.effects import reads, require_stable_extent, writes
from loopir.schedule.facts import known_at
from loopir.schedule.find import find_serial, listing
from loopir.schedule.naming import Taken
from loopir.schedule.promises import require_outside_lanes
from loopir.schedule.schedule import primitive

ALIGNMENT = 128


@primitive
def pipeline(func: Func, loop: str, *, stages: int) -> Func:
    """Let `loop` run ahead with its copies: those for iteration i are made in iteration i - (stages - 1).

    The copies are the statements at the start of the body that fill memory which each iteration has anew. That memory
    gets `stages` buffers, which the iterations use in turn, and is allocated around the loop; a loop before it makes
    the first `stages` - 1 copies. The rest of the body must write nothing that the copies read.

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
    refuses: pipeline("i", stages=1)  # 1 stage runs nothing ahead
    refuses: pipeline("x", stages=2)  # nothing at the start of 'x' fills memory that each iteration has anew

    before:
        def g(A: "inout float32[9, 8]"):
            for i in range(8):
                with alloc("float32[8]", scope="shared") as T:
                    for x in range(8):
                        T[x] = A[i, x]
                    for y in range(8):
                        A[i + 1, y] = T[7 - y]
    refuses: pipeline("i", stages=2)  # the copies read A, which the rest of 'i' writes
    """
    target = find_serial(func, loop)
    if stages < 2:
        raise ScheduleError(f"{stages} stage runs nothing ahead; there are to be 2 or more", loop=loop)
    require_stable_extent(target)
    require_outside_lanes(func, target)
    parts = _parts(target)
    if not parts.copies:
        reason = f"nothing at the start of {target.var!r} fills memory that each iteration has anew"
        raise ScheduleError(reason, loop=target.var, suggestion=f"cache_read at {target.var!r} first")
    parts.require_ahead()
    ahead = stages - 1
    taken = Taken.of(func)
    var = taken.name(f"{target.var}_ahead")
    rings = {b.name: _ring(b, stages) for b in parts.buffers}

    def at(body: Body, i: Index, slot: Index) -> Body:
        """`body` in iteration `i`, on the buffers of `slot`."""
        moved = body if i == Var(target.var) else tuple(substitute(s, {target.var: i}) for s in body)
        return tuple(reindexed(s, rings, lambda old: (slot, *old)) for s in moved)

    first = at(taken.copy(parts.copies), Var(var), Var(var))
    prologue = Loop(var, Int(ahead), "serial", (If(Cmp("<", Var(var), target.extent), first),))
    later = Var(target.var) + ahead
    coming = at(parts.copies, later, later % stages)
    now = at(parts.rest, Var(target.var), Var(target.var) % stages)
    body: Body = (prologue, replace(target, body=(If(Cmp("<", later, target.extent), coming), *now)))
    body = simplify_body(body, known_at(func, target))
    for b in reversed(parts.buffers):
        body = (Alloc(rings[b.name], body),)
    return replace(func, body=rewrite(func.body, lambda s: body if s is target else None))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The body of a loop: the buffers that its copies fill, the copies, and the rest."""

    loop: Loop
    buffers: tuple[Buffer, ...]
    copies: Body
    rest: Body

    def require_ahead(self) -> None:
        """Refuse if the copies may not run before the rest of earlier iterations."""
        v = self.loop.var
        if changed := sorted(reads(self.copies) & writes(self.rest)):
            raise ScheduleError(
                f"the copies read {listing(changed)}, which the rest of {v!r} writes",
                loop=v, suggestion="a copy of what is not written in the loop",
            )  # fmt: skip
        if again := sorted(writes(self.rest) & {b.name for b in self.buffers}):
            raise ScheduleError(f"the rest of {v!r} writes {listing(again)}, which the copies fill", loop=v)
        for s in (x for c in self.copies for x in statements((c,)) if isinstance(x, Reduce)):
            if v in s.over:
                raise ScheduleError(f"{s.label} folds over {v!r}, so its iterations cannot be filled ahead", loop=v)


def _parts(loop: Loop) -> _Parts:
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
    """Whether `s` fills memory that outlives its own loops: no fragment, no accumulator of the loop's work."""
    return all(own[name].scope != "fragment" for name in writes((s,))) and not reads((s,)) & own.keys()


def _ring(b: Buffer, stages: int) -> Buffer:
    """`b`, `stages` times, each at a multiple of `ALIGNMENT` bytes if it has a layout."""
    layout = b.layout
    line = ALIGNMENT // b.dtype.bytes
    room = ceildiv(span(b), line) * line if layout is not None else Int(0)
    match layout:
        case Strided(strides):
            layout = Strided((room, *strides))
        case Mapped(dims, at):
            slot = fresh("slot", set(dims))
            layout = Mapped((slot, *dims), Var(slot) * room + at)
        case Fragment() | None:
            pass
    return replace(b, shape=(Int(stages), *b.shape), layout=layout)
